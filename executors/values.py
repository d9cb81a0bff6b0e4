"""Values of a site file: unknown keys are refused, and so is what would not stay one word, or one line, of a script."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def matching(pattern: str, cure: str) -> AfterValidator:
    """What a value must match as a whole, and what to write if it does not."""

    def checked(value: str) -> str:
        if not re.fullmatch(pattern, value, re.ASCII):
            raise ValueError(f"{value!r} cannot go into a script; {cure}")
        return value

    return AfterValidator(checked)


# A word of a scheduler's directive, which no shell reads.
Word = Annotated[
    str,
    matching(
        r"([\w.,:@%+=/&|!*()\[\]~^<>][\w.,:@%+=/&|!*()\[\]~^<>-]*)?",
        "write one word, without spaces, quotes, $, # and \\, and no dash at its beginning",
    ),
]
# A word that a shell reads, too.
ShellWord = Annotated[str, matching(r"[\w.,:@%+=/][\w.,:@%+=/-]*", "write one word of letters, digits and .,:@%+=/-_")]
# Words that a user writes for a shell or a scheduler, quotes and variables included.
Line = Annotated[str, matching(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029]*", "write one line")]
