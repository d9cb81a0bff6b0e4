"""The verbs of the command line. Each is imported when it is called: the list of them must not wait for the engine."""

from __future__ import annotations

import keyword
import re
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from steersman.system.registry import Others

_NAMED = re.compile(r'"""[^\n]*`steersman ([a-z |]+)')
_TEXTS = {file.stem: file.read_text(encoding="utf-8") for file in Path(__file__).parent.glob("*.py")}
_HOMES = {  # name -> file of this folder whose first line names it, and which has a function or a group of that name
    name: file
    for file, text in _TEXTS.items()
    if (line := _NAMED.match(text))
    for name in line[1].replace("|", " ").split()
}
FIRST = ("run", "submit", "check", "try", "resume", "status", "watch", "dashboard", "tell", "why", "replay", "compare")
VERBS = {name: _HOMES[name] for name in (*FIRST, *sorted(_HOMES.keys() - FIRST))}  # in the order that help shows
OPEN = {  # words of theirs may look like options
    "tell": {"ignore_unknown_options": True},
    "bench": {"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False},
}


class Verbs(TyperGroup):
    """All verbs by name and summary; one that is called is imported."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = {name: TyperCommand(name) for name in VERBS}

    def list_commands(self, context: Any) -> list[str]:
        for name in VERBS:
            self.commands[name].help = _summary(name)
        for name, entry in OTHERS.entries.items():
            self.commands[name] = TyperCommand(name, help=f"added by {entry.value}")
        return [*self.commands]

    def resolve_command(self, context: Any, words: list[str]) -> Any:
        if words[0] not in VERBS:
            self.list_commands(context)
        name, _, rest = super().resolve_command(context, words)  # of an unknown one it names the nearest
        return name, name and _imported(name), rest


def _imported(name: str) -> Any:
    if name in VERBS:
        return _command(getattr(import_module(f"steersman.cli.{VERBS[name]}"), _identifier(name)), name)
    return _command(OTHERS.load(name), name)


def _command(part: Any, name: str = "") -> Any:
    """Make a command of a function, or a group of commands of a Typer."""
    if isinstance(part, typer.Typer):
        command: Any = typer.main.get_group(part)
    else:
        alone = typer.Typer(add_completion=False)
        alone.command(name, context_settings=OPEN.get(name))(part)
        command = typer.main.get_command(alone)
    command.name = name
    _refuse_repeated(command)
    return command


OTHERS = Others("steersman.commands", taken=VERBS, check=_command)


def _refuse_repeated(command: Any) -> None:
    """Of an option that takes one value, and is given twice, the last would count without a word."""
    for each in getattr(command, "commands", {}).values():
        _refuse_repeated(each)
    parse = command.parse_args

    def parse_args(context: Any, words: list[str]) -> Any:
        _, _, order = command.make_parser(context).parse_args(list(words))
        for option, times in Counter(order).items():
            if times > 1 and not (option.is_flag or option.multiple):
                context.fail(f"{option.opts[0]} is given {times} times; give it once")
        return parse(context, words)

    command.parse_args = parse_args


def _summary(name: str) -> str:
    """The first paragraph of what documents the function, or the callback of the group, read and not run."""
    begin = rf"^(?:def {_identifier(name)}\(|@{_identifier(name)}\.callback\()"
    words = re.search(rf'{begin}[\s\S]*?\n    """([\s\S]*?)(?:\n\n|""")', _TEXTS[VERBS[name]], re.MULTILINE)
    return " ".join(words[1].split()) if words else ""


def _identifier(name: str) -> str:
    return f"{name}_" if keyword.iskeyword(name) else name
