"""YAML that a person wrote -> plain values, of a size that is read in seconds."""

from __future__ import annotations

import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

MOST_BYTES = 2**20  # parameters and sites take some kB; a MiB is read in 10 s
MOST_ALIASES = 20  # each may double what a few lines stand for
MOST_BITS = 1024  # of an integer; Python writes none of more than 4,300 digits


class _Bounded(yaml.SafeLoader):
    aliases = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self.aliases += self.check_event(yaml.AliasEvent)
        if self.aliases > MOST_ALIASES:
            raise yaml.YAMLError(f"it has more than {MOST_ALIASES} aliases (*name); write the values out")
        return super().compose_node(parent, index)

    def compose_mapping_node(self, anchor: Any) -> Any:
        """PyYAML would take the last of a key's values."""
        node, lines = super().compose_mapping_node(anchor), dict[tuple[str, str], int]()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            line, which = key.start_mark.line + 1, (key.tag, key.value)
            if which in lines:
                raise yaml.YAMLError(f"{key.value} stands in lines {lines[which]} and {line}; write it once")
            lines[which] = line
        return node

    def construct_yaml_int(self, node: Any) -> int:
        text = self.construct_scalar(node).replace("_", "")
        number = int(text, 0 if "x" in text or "o" in text else 10)
        if number.bit_length() > MOST_BITS:
            raise yaml.YAMLError(f"it holds an integer of {number.bit_length()} bits; {MOST_BITS} are read")
        return int(number)


_Bounded.add_constructor("tag:yaml.org,2002:int", _Bounded.construct_yaml_int)


class _Written(_Bounded):
    """What a person writes, as in YAML 1.2. PyYAML reads and writes 1.1."""


# In YAML 1.1 010 is 8, 1:30 is 90, no is false, 2024-01-02 is no text, 1e4 is no number. In YAML 1.2 they are what
# people mean; an integer that begins with 0 stays as it was written, and a field for numbers takes it.
_TAGS = {
    "bool": (r"true|True|TRUE|false|False|FALSE", "tTfF"),
    "int": (r"[-+]?(0|[1-9][0-9_]*|0o[0-7]+|0x[0-9a-fA-F]+)", "-+0123456789"),
    "float": (
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)[eE][-+]?[0-9]+|[-+]?([0-9]+\.[0-9]*|\.[0-9]+)"
        r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        "-+.0123456789",
    ),
}
_OTHERS = {f"tag:yaml.org,2002:{name}" for name in (*_TAGS, "timestamp")}
_Written.yaml_implicit_resolvers = {
    first: [(tag, words) for tag, words in resolvers if tag not in _OTHERS]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for _name, (_words, _first) in _TAGS.items():
    _Written.add_implicit_resolver(f"tag:yaml.org,2002:{_name}", re.compile(f"({_words})$"), list(_first))


def parse(text: str, *, dumped: bool = False) -> Any:
    """The plain values of a YAML text.

    Args:
        dumped: PyYAML wrote it, not a person.
    Raises: yaml.YAMLError: it is none, or none that can be read in seconds.
    """
    try:
        return yaml.load(text, _Bounded if dumped else _Written)
    except RecursionError:
        raise yaml.YAMLError("it is nested too deeply") from None
    except (ValueError, TypeError) as error:  # a date that there is not, a number of thousands of digits, a list as key
        raise yaml.YAMLError(str(error)) from None


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """site: {walltime_s: 60} -> site.walltime_s: 60."""
    pairs: dict[str, Any] = {}
    for key, value in values.items():
        pairs |= flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return pairs


def read(path: Path) -> Any:
    """The same of a file. Raises: yaml.YAMLError: also where it is no regular file or too large. OSError."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise yaml.YAMLError("this is no regular file; give the path of a YAML file")
    if status.st_size > MOST_BYTES:
        raise yaml.YAMLError(f"it has {status.st_size:,} bytes, and {MOST_BYTES:,} are read; keep large data elsewhere")
    try:
        return parse(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise yaml.YAMLError(f"it is no text: {error}") from None
