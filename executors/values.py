"""Values of a site file: unknown keys are refused, and so is what would not stay one word, or one line, of a script."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict

UNITS = {"s": 1, "m": 60, "h": 3600}


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


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


def seconds(text: str) -> float:
    """Of 90, 90s, 30m, 2h, 02:00:00 or 1-12:00:00, as schedulers write a day and twelve hours. Raises: ValueError."""
    if match := re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{0,9})?)([smh]?)", text, re.ASCII):
        return float(match[1]) * UNITS[match[2] or "s"]
    if match := re.fullmatch(r"(?:([0-9]{1,4})-)?([0-9]{1,4}):([0-5][0-9]):([0-5][0-9])", text, re.ASCII):
        days, hours, minutes, rest = (int(each or 0) for each in match.groups())
        return 86400 * days + 3600 * hours + 60 * minutes + rest
    raise ValueError("write e.g. 90s, 30m, 2h, 02:00:00, 1-12:00:00 (days-hours:minutes:seconds), or seconds")


# Seconds, as a number or in the words above.
Seconds = Annotated[float, BeforeValidator(lambda given: seconds(given) if isinstance(given, str) else given)]
