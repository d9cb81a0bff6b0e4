"""Words of others, as of a workflow file or a run that was sent -> what a terminal shows of them, and does not obey."""

from __future__ import annotations

import sys


def shown(text: str) -> str:
    """Write out what a terminal would obey instead of show, as `\\x1b` of an escape sequence; lines and tabs stay."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in "\n\t" else _escaped(each) for each in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


def remark(text: object) -> None:
    """Print a line to standard error."""
    print(shown(str(text)), file=sys.stderr)
