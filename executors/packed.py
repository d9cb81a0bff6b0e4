"""The Python environment of a run in one file, which each node unpacks on its own disk: `environment: packed`.

A walker opens thousands of small files before its first step. A file system that thousands of walkers share serves
one large file to each node far better.
"""

from __future__ import annotations

import hashlib
import io
import os
import shlex
import sys
import sysconfig
import tarfile
from collections.abc import Collection, Iterator
from pathlib import Path

import steersman
from steersman.system.files import locked

OF_SYSTEM = ("/usr", "/usr/local")  # a Python there is on each node's own disk already
LIBPYTHON = "libpython"  # apart: the other libraries must not come before those of the site
FILE = "STEERSMAN_ENVIRONMENT"  # the variable of a block that names the file

# Several blocks may begin on one node at once.
UNPACK = f"""\
HERE=${{TMPDIR:-/tmp}}/steersman-$(id -u)-$(basename "${FILE}" .tar)
(flock 9; [ -e "$HERE.whole" ] || {{ mkdir -p "$HERE" && tar -xf "${FILE}" -C "$HERE" && touch "$HERE.whole"; }}) \
  9> "$HERE.lock"
case "${FILE}" in *-sent.tar) rm -f "${FILE}";; esac
if [ -e "$HERE.whole" ]; then
  export PATH=$HERE/bin:$PATH LD_LIBRARY_PATH=$HERE/{LIBPYTHON}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}
else
  echo "steersman: $(uname -n) uses the shared environment, for it cannot unpack ${FILE} to $HERE" >&2
fi"""


def named(file: Path, broadcast: str) -> str:
    """Shell lines of a block that name the file for UNPACK: on the node's own disk where the scheduler copies it there.

    Args:
        broadcast: a scheduler's BROADCAST.
    """
    lines = f"export {FILE}={shlex.quote(str(file))}"
    if not broadcast:
        return lines
    copy = f'FILE=${FILE} COPY="${{TMPDIR:-/tmp}}/$(id -u)-{file.stem}-sent.tar"'
    return f'{lines}\n{copy}; {broadcast} && export {FILE}="$COPY"'


def pack(folder: Path) -> Path:
    """Write this process's environment to a file in a folder, if the file is not there yet.

    It holds the environment, the Python that the environment was made with unless that is the system's, and Steersman
    where it is installed from a checkout. Programs of bin/ find the Python beside them, wherever the file is unpacked.

    Returns: a tar file named after its content.
    """
    members = dict(_members())
    stats = {name: path.lstat() for name, path in members.items()}
    content = "".join(f"{name} {stat.st_size} {stat.st_mtime_ns}\n" for name, stat in stats.items())
    file = folder / f"environment-{hashlib.sha256(content.encode()).hexdigest()[:16]}.tar"
    with locked(file.with_suffix(".lock")):
        if not file.exists():
            partial = file.with_suffix(".partial")
            with tarfile.open(partial, "w") as tar:
                for name, path in members.items():
                    _add(tar, name, path)
            partial.replace(file)
    return file


def _members() -> Iterator[tuple[str, Path]]:
    """Names in the file, and what each is on this disk; of two of one name the later counts."""
    prefix, base = Path(sys.prefix), Path(sys.base_prefix)
    library = Path(sysconfig.get_path("stdlib")).relative_to(base)
    if prefix == base or str(base) in OF_SYSTEM:
        yield from _tree(prefix, Path(), ("pkgs", "envs"))
    else:  # its Python takes the place of the links to it
        yield from _tree(base / library, library, ("site-packages", "test"))
        for file in sorted(base.glob("lib/*.so*")):
            yield f"{LIBPYTHON if file.name.startswith('libpython') else 'lib'}/{file.name}", file
        yield from (each for each in _tree(prefix, Path()) if each[0] != "pyvenv.cfg")
    package = Path(steersman.__file__).parent
    if not package.is_relative_to(prefix):
        yield from _tree(package, library / "site-packages" / "steersman", follow=True)


def _tree(root: Path, name: Path, without: Collection[str] = (), *, follow: bool = False) -> Iterator[tuple[str, Path]]:
    """The files and links under a folder, without some of those folders that lie in it itself."""
    for folder, folders, files in os.walk(root, followlinks=follow):
        here = Path(folder)
        folders[:] = sorted(each for each in folders if here != root or each not in without)
        links = [] if follow else [each for each in folders if (here / each).is_symlink()]
        for each in (*links, *sorted(files)):
            if not each.endswith(".a"):  # static libraries, large and not needed to run
                yield str(name / here.relative_to(root) / each), here / each


def _add(tar: tarfile.TarFile, name: str, path: Path) -> None:
    """Links within the environment stay links; others become what they lead to, and scripts ask PATH for Python."""
    if path.is_symlink() and (os.path.isabs(os.readlink(path)) or not path.exists()):
        path = path.resolve()
    if not path.exists():
        return
    entry = tar.gettarinfo(path, name)
    if not entry.isreg():
        tar.addfile(entry)
        return
    with path.open("rb") as file:
        first = file.readline() if Path(name).parent.name == "bin" and entry.size < 2**20 else b""
        if first.startswith(f"#!{sys.prefix}/bin/python".encode()):
            script = b"#!/usr/bin/env python3\n" + file.read()
            entry.size = len(script)
            tar.addfile(entry, io.BytesIO(script))
        else:
            file.seek(0)
            tar.addfile(entry, file)
