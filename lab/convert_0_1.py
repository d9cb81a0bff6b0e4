"""A run of Steersman 0.1 -> a copy that today's Steersman reads, and resumes.

python -m lab.convert_0_1 runs/old-0001 runs/new-0001
"""

from __future__ import annotations

import json
import shutil
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from steersman.journal import file, manifest, run_directory
from steersman.journal.records import End, Prepared, Record, Run, Trained, checked
from steersman.journal.run_directory import RunDirectory, sha256
from steersman.store import SEGMENT

CRC = b',"crc":"'  # before the checksum at the end of a line


def convert(old: Path, new: Path) -> RunDirectory:
    """Copy a run and convert the copy. Raises: FileExistsError. BadRecord: a line fits no kind of record of today."""
    directory = RunDirectory(Path(shutil.copytree(old, new)))
    story = list(_story(directory))
    file.rewrite(directory.journal, story)
    for described in directory.frames.path.rglob("zarr.json"):
        described.write_text(json.dumps(_renamed(json.loads(described.read_text()))))
    if story and isinstance(story[-1], End):
        manifest.seal(directory)
    return directory


def _story(directory: RunDirectory) -> Iterator[Record]:
    """Its records, with the SHA-256 of files, which 0.1 did not write down."""
    for line in directory.journal.read_bytes().splitlines():
        if line.startswith(b'{"v":1,') and (record := _decoded(line)):
            if isinstance(record, Run):
                yield replace(record, files=run_directory.digests(directory))
                if directory.prepared.exists():
                    yield Prepared(t=record.t, sha256=sha256(directory.prepared))
            elif isinstance(record, Trained) and (folder := directory.model(record.model)).is_dir():
                yield replace(record, files={each.name: sha256(each) for each in sorted(folder.iterdir())})
            else:
                yield record


def _decoded(line: bytes) -> Record | None:
    """None of a line that is not whole."""
    content, _, crc = line.rpartition(CRC)
    if f"{zlib.crc32(content):08x}" != crc[:8].decode(errors="replace"):
        return None
    fields: dict[str, Any] = json.loads(content + b"}")
    del fields["v"]
    kind = {"told": "tell"}.get(kind := fields.pop("kind"), kind)
    if kind == "frames":
        fields.pop("simulated", None)  # of all its segments then, of the one that runs now
    elif kind == "damaged":
        fields.setdefault("reason", "")
    return checked(kind, {key: value for key, value in fields.items() if value is not None})


def _renamed(described: Any) -> Any:
    """The description of an array, or of a group with those of its arrays: what rows of segments are along."""
    if not isinstance(described, dict):
        return described
    if described.get("dimension_names", [""])[:1] == ["segment"]:
        return described | {"dimension_names": [SEGMENT, *described["dimension_names"][1:]]}
    return {name: _renamed(value) for name, value in described.items()}


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
