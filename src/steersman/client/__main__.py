"""Say where the client's files lie: gcc heat.c $(python -m steersman.client --cflags --sources) -o heat."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m steersman.client", description=__doc__)
    here, c, fortran = (str(HERE / name) for name in ("", "steersman.c", "steersman.f90"))
    for option, word, meaning in (
        ("cflags", f"-I{here}", "where steersman.h is"),
        ("sources", c, "the C file to compile with a program"),
        ("fflags", fortran, "the module to compile before a program in Fortran, beside --sources"),
        ("cmake", here, "for cmake -Dsteersman_DIR=..."),
    ):
        parser.add_argument(f"--{option}", dest="words", action="append_const", const=word, help=meaning)
    words = parser.parse_args(arguments).words
    if not words:
        parser.error("say what you want to know")
    print(shlex.join(words))


if __name__ == "__main__":
    main(sys.argv[1:])
