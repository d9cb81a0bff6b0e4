"""Programs of Debian that are not installed: unpacked into a folder, from where they run."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

# They look for their libraries and those of their MPI where these would be installed.
START = """#!/bin/sh
export LD_LIBRARY_PATH={libraries} OPAL_PREFIX={mpi}
export OMPI_MCA_ess_singleton_isolated=1 OMPI_MCA_pml=ob1 OMPI_MCA_btl=self
exec {root}/usr/bin/{name} "$@"
"""
UNUSED = "gfortran", "libgfortran-", "mpi-default"  # to build with


def program(name: str, package: str, folder: Path) -> str:
    """The path of a program that is installed, or of Debian's package and what it needs, unpacked into a folder."""
    if installed := shutil.which(name):
        return installed
    if shutil.which("apt-get") is None:
        pytest.skip(f"{package} is left out: there is no {name}, nor apt-get to fetch Debian's")
    asked = ["apt-get", "--simulate", "install", "--no-install-recommends", package]
    told = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    packages = [line.split()[1] for line in told.splitlines() if line.startswith("Inst ")]
    needed = [each for each in packages if not each.startswith(UNUSED)]
    done = subprocess.run(["apt-get", "-qq", "download", *needed], cwd=folder, capture_output=True, check=False)
    if not needed or done.returncode:
        pytest.skip(f"{package} is left out: Debian's packages cannot be had: {done.stderr.decode()[-200:]}")
    root = folder / "root"
    for file in folder.glob("*.deb"):
        subprocess.run(["dpkg", "-x", file, root], check=True)
        file.unlink()
    libraries = {str(file.parent) for file in (root / "usr" / "lib").rglob("*.so*")}
    mpi = root / "usr" if any(root.rglob("libopen-pal*")) else "/usr"  # it may be installed
    start = folder / name
    start.write_text(START.format(libraries=":".join(sorted(libraries)), mpi=mpi, root=root, name=name))
    start.chmod(0o755)
    return str(start)
