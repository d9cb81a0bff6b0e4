"""Where things lie in a run directory; everything that reads or writes one asks here."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import getpass
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec
import yaml

from steersman.journal.calls import TASKS
from steersman.journal.errors import BadDirectory, no_room, run_damaged
from steersman.journal.file import Cursor, follow
from steersman.store import Frames, make_root
from steersman.system import plain
from steersman.system import reading as reading_of
from steersman.system.errors import EngineError
from steersman.system.files import replace_file

PACKAGES = ("steersman", "parsl", "torch", "zarr", "redis", "openmm", "numpy", "scikit-learn")
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # for all nodes; what follows may be wrong on one of them only
UNKNOWN = dict.fromkeys(("user", "host", "python", "platform", "processors", "git_commit")) | {"packages": {}}
BIASES = "biases"
KNOWN = "known"  # group of the labels that were there before the run
LEARNED = {  # folders of what is learned
    "models": "weights (safetensors) and cards of the models, by version",
    BIASES: "versions of the bias, of a run whose simulations a model pushes",
}
OWNERS = ("bus", "prepared.pkl", ".lock", ".remote", "parsl")  # which nobody else need read
OTHER = "give another --run-dir"
EXISTS = f"this run directory exists; look with `steersman status`, go on with `steersman resume`, or {OTHER}"
NO_ROOM = (*FULL, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.EIO)


class RunDirectory:
    """A run's files by name.

    Args:
        path: the directory, e.g. runs/fold-0007.
    Attributes:
        report: the page to open first; it works offline.
        figures: those that may stand in a paper.
        frames: frames of each walker in `w0`, `w1`, ..., or of several in `m0`, `m1`, ...; any program that reads Zarr
            opens them, at any moment.
        topology: atoms of the frames, for viewers and exports; of molecules.
        scores: scores of each frame, by the model's version.
        labels: answers of the label function, by the session that got them.
        journal: every event: typed records, numbered and chained by checksums. It alone says what happened.
        decisions: every choice of a start with its reason, and the frames that were passed over.
        log: what the driver did, warnings of libraries, tracebacks.
        errors: `w0.12.txt` has cause and stderr of segment 12 of walker 0, if it failed; `w3.stdout` and `w3.stderr`
            what walker 3 printed, and where a segmentation fault killed it; `steer.txt`, `training-0003.txt` and
            `scoring-0003.txt` the traceback of a stage that failed.
        settings_file: parameters, seed and site.
        site_file: the site, of a run that was resumed on another one.
        environment_file: versions of packages, host, user and commit.
        workflow: the exact workflow file.
        modules: modules that the workflow file imports from its folder.
        prepared: what `prepare` returned.
        analysis: what `steersman analyse` found, which the report shows.
        manifest: SHA-256 of the files when the run ended, for `verify` and `sha256sum -c`; without shards, `bus/` and
            Parsl's logs.
        crate: what was run, by whom, on which machine, with which outcome, as an RO-Crate.
        bus: how to reach the bus during the run, readable by the owner alone (mode 0700). The bus only transports
            messages, and may be lost at any time.
        parsl: Parsl's logs.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self.settings_file = self.path / "run.yaml"
        self.site_file = self.path / "site.yaml"  # of a run that was resumed on another site
        self.environment_file = self.path / "environment.json"
        self.workflow = self.path / "workflow.py"
        self.modules = self.path / "workflow"  # that the workflow file imports from its folder
        self.ready = self.path / "aside" / "ready"  # files of a correction, until they are in their places
        self.prepared = self.path / "prepared.pkl"
        self.topology = self.path / "topology.pdb"
        self.journal = self.path / "journal.jsonl"
        self.decisions = self.path / "decisions.jsonl"
        self.frames = Frames(self.path / "frames.zarr")
        self.scores = self.path / "scores.zarr"
        self.labels = self.path / "labels.zarr"
        self.errors = self.path / "errors"
        self.parsl = self.path / "parsl"
        self.bus = self.path / "bus"
        self.figures = self.path / "figures"
        self.report = self.path / "report.html"
        self.analysis = self.path / "analysis"
        self.log = self.path / "driver.log"
        self.manifest = self.path / "manifest.sha256"
        self.crate = self.path / "ro-crate-metadata.json"
        self.unborn = self.path / ".unborn"  # is there until the journal is

    def model(self, version: int) -> Path:
        """Of a version, see LEARNED."""
        return self.path / "models" / f"{version:04d}"

    def task(self, call: str) -> Path:
        """The folder of a call of a task: its result, and what it printed."""
        return self.path / TASKS / call

    def answer(self, label: int) -> Path:
        """Where a worker leaves a label for the driver, which moves it to `labels`."""
        return self.path / "answers" / f"{label:06d}.npz"

    def traceback(self, stage: str, version: int | None = None) -> Path:
        """Cause and traceback of a stage that failed; a training and a scoring are of a model's version."""
        return self.errors / (f"{stage}.txt" if version is None else f"{stage}-{version:04d}.txt")

    def checkpoints(self, version: int) -> Path:
        """Checkpoints of a training that is under way, or was when its worker died."""
        return self.path / "checkpoints" / f"{version:04d}"

    def read(self, file: Path, most: int = reading_of.MOST) -> bytes:
        """A file of the run, which may be a stranger's. Raises: see `system.reading`."""
        return reading_of.read(file, self.path, most)

    def settings(self) -> dict[str, Any]:
        """What the run is. Raises: BadDirectory: it cannot be read, or is not what the run wrote."""
        return self._settings(self.settings_file)

    def site(self) -> dict[str, Any]:
        """The site that it is on: that of its beginning, or of the last `resume --site`. Raises: as `settings`."""
        if self.site_file.exists():
            return self._settings(self.site_file)
        kept: dict[str, Any] = self.settings()["site"]
        return kept

    def environment(self) -> dict[str, Any]:
        """What the run was made with, see `environment`; None of what is not known any more."""
        file = self.environment_file
        return UNKNOWN | (dict(json.loads(self.read(file))) if file.exists() else {})

    def card(self, version: int) -> dict[str, Any] | None:
        """The card of a model; None before it is saved whole."""
        try:
            loaded: dict[str, Any] = json.loads(self.read(self.model(version) / "card.json"))
        except FileNotFoundError:
            return None
        return loaded

    def cards(self) -> list[dict[str, Any]]:
        """Model cards in order of version."""
        return [json.loads(self.read(path)) for path in sorted(self.path.glob("models/*/card.json"))]

    def _settings(self, file: Path) -> _Settings:
        try:
            loaded = deepcopy(_parsed(self.read(file, 2 * plain.MOST_BYTES).decode()))
        except OSError as error:
            raise BadDirectory(str(file), f"cannot be read: {error.strerror}") from None
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise BadDirectory(str(file), f"this is not YAML: {error}") from None
        if not isinstance(loaded, dict):
            raise BadDirectory(str(file), "it has no `key: value` lines; see `steersman verify`")
        if odd := [key for key in ("params", "site") if not isinstance(loaded.get(key, {}), dict)]:
            raise BadDirectory(str(file), f"{odd[0]!r} has no `key: value` lines; see `steersman verify`")
        return _Settings(file, loaded)


@functools.lru_cache(8)
def _parsed(text: str) -> Any:
    """A report asks for its settings a dozen times."""
    return plain.parse(text, dumped=True)


class _Settings(dict[str, Any]):
    """What a run is, by key. Raises: BadDirectory: a key is missing."""

    def __init__(self, file: Path, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self._file = file

    def __missing__(self, key: str) -> Any:
        raise BadDirectory(str(self._file), f"it has no {key!r}; see `steersman verify`")


def check_path(path: Path) -> None:
    """Raises: BadDirectory: the path has a character that the scripts of Parsl and schedulers do not bear."""
    if strange := "".join(sorted(set(re.findall(r"[^\w@+=:,./~-]", str(path.absolute()))))):
        raise BadDirectory(
            str(path.absolute()), f"scripts that start workers cannot bear {strange!r} in a path; choose another folder"
        )


def create(root: Path, name: str, explicit: Path | None = None) -> RunDirectory:
    """As `creating`, and leave it."""
    with creating(root, name, explicit) as directory:
        return directory


@contextlib.contextmanager
def creating(root: Path, name: str, explicit: Path | None = None) -> Iterator[RunDirectory]:
    """Make a new run directory: root/<name>-<number>, or the explicit path. No other run begins in it meanwhile.

    One that is empty, or whose run was killed before it began, is made anew.

    Raises: BadDirectory: it exists, or cannot be written, or has a path that cannot be used.
    """
    directory = RunDirectory(_made(root, name, explicit))
    with directory.unborn.open("a") as birth:
        try:
            fcntl.flock(birth, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadDirectory(str(directory.path), f"another run begins here at this moment; {OTHER}") from None
        except OSError:  # a file system without locks
            pass
        if directory.journal.exists():
            raise BadDirectory(str(directory.path), EXISTS)
        shutil.rmtree(directory.modules, ignore_errors=True)
        for folder in (directory.errors, directory.bus, directory.figures):
            folder.mkdir(exist_ok=True)
        make_root(directory.frames.path)
        yield directory


def _made(root: Path, name: str, explicit: Path | None) -> Path:
    path = explicit or _next(root, name)
    check_path(path)
    try:
        path.mkdir(parents=True)
    except FileExistsError:
        if explicit is None:  # of another run that began at the same moment
            return _made(root, name, None)
        if not _unborn(path) and not (path.is_dir() and not any(path.iterdir())):
            there = EXISTS if path.is_dir() else f"there is a file in its place; {OTHER}"
            raise BadDirectory(str(path), there) from None
    except OSError as error:
        raise BadDirectory(str(path), f"cannot be made: {error.strerror}; choose a writable --run-dir") from None
    return path


def _unborn(path: Path) -> bool:
    """Whether a run was killed here before it began."""
    directory = RunDirectory(path)
    return directory.unborn.is_file() and not directory.journal.exists()


@contextlib.contextmanager
def needing_room(path: Path) -> Iterator[None]:
    """Raises: EngineError: the disk is full, read-only, or the like, in place of the system's error; or the
    directory is not there any more."""
    try:
        yield
    except Exception as error:
        if not path.exists():
            raise EngineError(
                f"{path} was removed or moved while it was driven; all its processes have ended. If it was moved, "
                "continue it with `steersman resume` and its new path"
            ) from None
        if not isinstance(error, OSError) or error.errno not in NO_ROOM:
            raise
        raise no_room(path, error.strerror or str(error)) from None


@contextlib.contextmanager
def reading(directory: RunDirectory) -> Iterator[None]:
    """Raises: DamagedFile: in place of what a file that cannot be read or decoded makes its reader raise. A TypeError,
    say, is a mistake of ours or of a caller, and passes."""
    try:
        yield
    except (EngineError, PermissionError):
        raise
    except (OSError, MemoryError, json.JSONDecodeError, UnicodeDecodeError, msgspec.MsgspecError) as error:
        raise run_damaged(directory.path, f"{type(error).__name__}: {error!s:.200}") from None
    except Exception as error:
        if not _has_flaws(directory):  # a mistake of a caller's, or of ours
            raise
        raise run_damaged(directory.path, f"{type(error).__name__}: {error!s:.200}") from None


def _has_flaws(directory: RunDirectory) -> bool:
    """Whether the journal has lines that are set aside, without which whatever is read may not fit together."""
    place = Cursor()
    with contextlib.suppress(Exception):
        deque(follow(directory.journal, place), maxlen=0)
    return bool(place.flaws)


def runs_in(folder: Path) -> list[RunDirectory]:
    """The runs of a folder, by name."""
    return [RunDirectory(file.parent) for file in sorted(folder.glob("*/journal.jsonl"))]


def is_text(path: Path) -> bool:
    """Whether a path can stand in a page, in JSON or in a report."""
    return not any("\ud800" <= each <= "\udfff" for each in str(path.absolute()))


def open_run(path: Path) -> RunDirectory:
    """The directory of a run that was started.

    Raises: BadDirectory: there is no run here, this user may not read it, or its path is no text.
    """
    if not is_text(path):
        raise BadDirectory(str(path), "its path holds bytes that are no UTF-8; rename that folder")
    check_readable(path)
    if _unborn(path):
        raise BadDirectory(str(path), "its run was ended before it began; start it again with this --run-dir")
    if not (path / "journal.jsonl").is_file():
        known = runs_in(Path("runs"))
        newest = max(known, key=lambda run: run.journal.stat().st_mtime, default=None)
        here = f"; the newest here is {newest.path}" if newest else ""
        what = "this is not a run directory (it has no journal.jsonl)" if path.exists() else "there is no such folder"
        raise BadDirectory(str(path), f"{what}{here}")
    return RunDirectory(path)


def check_readable(path: Path, besides: Collection[str] = OWNERS, *, deep: bool = False) -> None:
    """What this user may not read would look missing, or damaged.

    Args:
        besides: names in the run directory that do not matter.
        deep: look below its folders, too.
    Raises: BadDirectory: this user may not read all of the run.
    """
    closed = [] if os.access(path, os.R_OK | os.X_OK) or not path.is_dir() else [str(path)]
    for folder, folders, files in os.walk(path):
        if folder == str(path):
            folders[:], files = ([name for name in names if name not in besides] for names in (folders, files))
        for names, wanted in ((folders, os.R_OK | os.X_OK), (files, os.R_OK)):
            here = (os.path.join(folder, name) for name in names)
            closed += [each for each in here if not os.access(each, wanted) and os.path.exists(each)]
        if not deep:
            break
    if closed:
        more = f" and {len(closed) - 1} more" if closed[1:] else ""
        what = f"you have no permission to read {os.path.relpath(closed[0], path.parent)}{more}"
        raise BadDirectory(str(path), f"{what}; ask the owner of the run for it")


def write_settings(directory: RunDirectory, settings: Mapping[str, Any], source: Path) -> None:
    """Write what the run is: resolved settings, the exact workflow file, the environment."""
    replace_file(directory.settings_file, yaml.safe_dump(dict(settings), sort_keys=False))
    replace_file(directory.workflow, source.read_bytes())
    replace_file(directory.environment_file, json.dumps(environment(), indent=1))


def digests(directory: RunDirectory) -> dict[str, str]:
    """SHA-256 of what was written once, at the beginning, by its name in the directory."""
    files = [directory.settings_file, directory.workflow, directory.environment_file]
    files += sorted(file for file in directory.modules.rglob("*") if file.is_file() and not file.is_symlink())
    kept = (file for file in files if file.exists() and file.name != "__pycache__")
    return {str(file.relative_to(directory.path)): sha256(file) for file in kept}


def sha256(file: Path, folder: Path | None = None) -> str:
    """Of a file of a run. Raises: see `system.reading.opened`, of its folder, or another."""
    with reading_of.opened(file, folder or file.parent) as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def environment() -> dict[str, Any]:
    """Versions and host, without secrets."""
    versions: dict[str, str | None] = {}
    for name in PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = None
    return {
        "python": sys.version.split()[0],
        "packages": versions,
        "host": platform.node(),
        "platform": platform.platform(),
        "processors": os.cpu_count(),
        "user": user(),
        "git_commit": _git_commit(),
    }


def user() -> str:
    """Whose process this is: a name, or a number where that has no name, as in some containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _git_commit() -> str | None:
    """Of our checkout, `-dirty` where files of it were changed; an environment within another's checkout has none."""
    file = Path(__file__).resolve()
    ours, head = (
        ["ls-files", "--error-unmatch", str(file)],
        ["describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
    )
    try:
        for words in (ours, head):
            command = ["git", "-C", str(file.parent), *words]
            said = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
    return said


def _next(root: Path, name: str) -> Path:
    numbers = [int(path.name.rpartition("-")[2]) for path in root.glob(f"{name}-[0-9][0-9][0-9][0-9]")]
    return root / f"{name}-{max(numbers, default=0) + 1:04d}"
