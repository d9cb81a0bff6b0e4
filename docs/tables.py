"""Docstrings, fields and options -> the tables of the pages: `python docs/tables.py` writes them anew.

A table stands between `<!-- table: NAME -->` and `<!-- end -->`. A test compares them: a page cannot become stale. The
same goes for what type checkers are told of policies, rules and models, in the `__init__.py` of their folders.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, get_type_hints

import typer

from steersman import models, steering
from steersman.cli.__main__ import EXIT_CODES, app
from steersman.cli.verbs import VERBS
from steersman.executors.executor import Blockless
from steersman.executors.globus import Endpoint
from steersman.executors.schedulers.registry import SCHEDULERS
from steersman.executors.site import Node, QueueLimits, Site
from steersman.executors.threads import Threads
from steersman.executors.workers import Labellers, Mpi, Scorers, Trainers, Walkers, Workers
from steersman.journal.run_directory import LEARNED, RunDirectory
from steersman.system.registry import subclasses

DOCS = Path(__file__).parent
PLACE = re.compile(r"(?<=<!-- table: )([\w ]+)( -->\n).*?(?=<!-- end -->)", re.DOTALL)
SECTION = re.compile(r"^(Args|Attributes|Returns|Raises|Source):[ \n]*", re.MULTILINE)
ENTRY = re.compile(r"^    (?=\S)", re.MULTILINE)
EXAMPLE = {"version": 3, "call": "KEY", "stage": "steer"}  # of what a part of a run directory is of
STEERING, NETWORKS = "steersman.steering", "steersman.models.networks"
PARTS: dict[Any, list[tuple[str, type]]] = {
    models: [(NETWORKS, models.Model)],
    steering: [(STEERING, steering.Policy), (STEERING, steering.SegmentRule), (STEERING, steering.LabelRule)],
}
Row = Sequence[str]


def main() -> None:
    for page, text in stale():
        page.write_text(text, encoding="utf-8")


def stale() -> Iterator[tuple[Path, str]]:
    """Files that are not as the code says, and what they would be."""
    pages = {page: page.read_text(encoding="utf-8") for page in sorted(DOCS.rglob("*.md"))}
    tables = (
        (page, text, PLACE.sub(lambda place: f"{place[1]}{place[2]}\n{TABLES[place[1]]()}\n\n", text))
        for page, text in pages.items()
    )
    for page, text, now in (*tables, *map(_typed, PARTS)):
        if now != text:
            yield page, now


def _typed(package: Any) -> tuple[Path, str, str]:
    """A package's file, its text, and the same with a line for each of its parts."""
    file, kinds = Path(package.__file__), [kind for folder, base in PARTS[package] for kind in _parts(folder, base)]
    text = file.read_text(encoding="utf-8")
    listed = re.findall(r"^    from .* as .*\n", text, re.MULTILINE)
    lines = {*listed, *(f"    from {each.__module__} import {each.__name__} as {each.__name__}\n" for each in kinds)}
    return file, text, text.replace("".join(listed), "".join(sorted(lines, key=_order)))


def _order(line: str) -> tuple[str, bool, str]:
    """As ruff sorts imports."""
    _, home, _, name, *_ = line.split()
    return home, not name.isupper(), name


def commands() -> str:
    """Each command with its arguments and options."""
    group = typer.main.get_command(app)
    context = typer.Context(group)
    parts = []
    for verb in VERBS:
        _, command, _ = group.resolve_command(context, [verb])  # type: ignore[attr-defined]
        for name, each in {"": command, **getattr(command, "commands", {})}.items():
            records = (option.get_help_record(context) for option in each.params if option.name != "help")
            rows = [(f"`{name}`", meaning) for name, meaning in filter(None, records)]
            title = f"### steersman {verb} {name}".rstrip()
            parts += [title, _text(inspect.cleandoc(each.help or "")), *([_table(("", ""), rows)] if rows else [])]
    return "\n\n".join(parts)


def exit_codes() -> str:
    return _table(("exit code", ""), [(str(code), meaning) for code, meaning in EXIT_CODES.items()])


def run_directory() -> str:
    """The parts of a run directory by what its docstring and those of its methods say."""
    run, words = RunDirectory(Path("RUN")), _sections(RunDirectory)
    rows = [(getattr(run, name), meaning) for name, meaning in _entries(words["Attributes"])]
    rows += [(run.path / name, meaning) for name, meaning in LEARNED.items()]
    for name, method in inspect.getmembers(RunDirectory, inspect.isfunction):
        if not name.startswith("_") and inspect.signature(method).return_annotation == "Path":
            given = {each: EXAMPLE[each] for each in inspect.signature(method).parameters if each in EXAMPLE}
            if len(given) == 1 and method(run, **given).parent.name not in LEARNED:
                rows.append((method(run, **given), _sections(method)[""]))
    return _table(("below RUN", "holds"), [(f"`{_below(part)}`", meaning) for part, meaning in rows])


def policies() -> str:
    kinds = (each for each in _parts(STEERING, steering.Policy) if each is not steering.Turns)  # what `a | b` makes
    words = ((each, _sections(each)) for each in kinds)
    rows = [(_signed(each), said[""], said.get("Source", "")) for each, said in words]
    return _table(("policy", "chooses", "source"), rows)


def segment_rules() -> str:
    return _rules(steering.SegmentRule, "a segment is ended when")


def label_rules() -> str:
    return _rules(steering.LabelRule, "labels are asked for")


def _rules(base: type, title: str) -> str:
    return _table(("rule", title), [(_signed(each), _sections(each)[""]) for each in _parts(STEERING, base)])


def stop_rules() -> str:
    functions = (each for name in sorted(dir(steering)) if inspect.isfunction(each := getattr(steering, name)))
    rules = [each for each in functions if issubclass(_returned(each), steering.StopRule)]
    words = (_sections(each)[""].removeprefix("Stop when ") for each in rules)
    return _table(("rule", "the run ends when"), zip(map(_signed, rules), words, strict=True))


def networks() -> str:
    """The models, and which shipped workflows use each."""
    texts = {file.stem: file.read_text() for file in sorted((DOCS.parent / "workflows").rglob("*.py"))}
    rows = []
    for each in _parts(NETWORKS, models.Model):
        used = [f"`{name}`" for name, text in texts.items() if re.search(rf"\b{each.__name__}\b", text)]
        words = _sections(each)
        rows.append((f"`{each.__name__}`", words[""], ", ".join(used), words.get("Source", "")))
    return _table(("class", "learns", "used by", "source"), rows)


def site_keys() -> str:
    """Every key of a site file, with its default."""
    parts: list[tuple[str, Iterable[Row]]] = [
        ("of the site", _fields(Site)),
        ("of `simulation`, `training`, `scoring` and `labelling`", _fields(Workers)),
        ("of `simulation`", _fields(Walkers, Workers)),
        ("of `training`", _fields(Trainers, Workers)),
        ("of `scoring`", _fields(Scorers, Workers)),
        ("of `labelling`", _fields(Labellers, Workers)),
        ("of `training`, `scoring` or `labelling` on an endpoint", _fields(Endpoint, Blockless)),
        ("of `scoring` in threads", _fields(Threads, Blockless)),
        ("of `mpi`", _fields(Mpi)),
        ("of `node`", _fields(Node)),
        ("of a queue in `queues`", _fields(QueueLimits)),
    ]
    own = {key: kind for key, kind in sorted(SCHEDULERS.items()) if kind.__module__.startswith("steersman.")}
    parts += [(f"of `{key}`: {_sections(kind)['']}", _fields(kind)) for key, kind in own.items()]
    titles = "key", "default", "meaning"
    return "\n\n".join(f"**Keys {title.rstrip('.')}**\n\n{_table(titles, rows)}" for title, rows in parts)


def _fields(kind: type[Any], base: type[Any] | None = None) -> list[Row]:
    """Fields of a pydantic model, but those that are as in its base."""
    said = dict(entry for each in reversed(kind.__mro__) for entry in _entries(_sections(each).get("Args", "")))
    known = base.model_fields if base else {}
    rows = list[Row]()
    for name, field in kind.model_fields.items():
        same = name in known and known[name].default == field.default
        if not same and name not in SCHEDULERS:
            default = field.get_default(call_default_factory=True)
            plain = isinstance(default, str | int | float) and default != ""
            rows.append((f"`{name}`", f"`{_plain(default)}`" if plain else "", said.get(name, "")))
    return rows


def _plain(default: str | float) -> str:
    """A default as a site file would have it."""
    if isinstance(default, str):
        return default
    return str(default).lower() if isinstance(default, bool) else f"{default:g}"


def gpu() -> str:
    """What `make gpu` measured, and what it has not."""
    parts = json.loads((DOCS / "figures" / "gpu.json").read_text())
    rows = [
        (part, row, "; ".join(f"{key} {value}" for key, value in figures.items()) or "not measured yet")
        for part, measured in parts.items() for row, figures in measured.items()
    ]  # fmt: skip
    return _table(("part", "what", "figures"), rows)


TABLES: dict[str, Callable[[], str]] = {
    "gpu": gpu,
    "commands": commands,
    "exit codes": exit_codes,
    "run directory": run_directory,
    "policies": policies,
    "segment rules": segment_rules,
    "label rules": label_rules,
    "stop rules": stop_rules,
    "models": networks,
    "site keys": site_keys,
}


def _parts(folder: str, base: type) -> list[type]:
    """The subclasses of a class in a folder that no other is made of, by name."""
    kinds: list[type] = subclasses(folder, base)
    last = (each for each in kinds if not any(each in other.__bases__ for other in kinds))
    return sorted(last, key=lambda each: each.__name__)


def _returned(function: Callable[..., Any]) -> type:
    returned = get_type_hints(function).get("return")
    return returned if inspect.isclass(returned) else object


def _signed(function: Any) -> str:
    parameters = [each.replace(annotation=each.empty) for each in inspect.signature(function).parameters.values()]
    return f"`{function.__name__}{inspect.Signature(parameters)}`"


def _sections(documented: Any) -> dict[str, str]:
    """The first paragraph of a docstring under "", and each of its sections under its title."""
    before, *others = SECTION.split(inspect.cleandoc(documented.__doc__ or ""))
    return {"": before.partition("\n\n")[0], **dict(zip(others[::2], others[1::2], strict=True))}


def _entries(section: str) -> list[tuple[str, str]]:
    """`a, b: meaning` of each entry of a section, one for each name."""
    parts = [part.partition(": ") for part in ENTRY.split(section) if part.strip()]
    return [(name.strip(), meaning) for names, _, meaning in parts for name in names.split(",")]


def _below(part: Any) -> str:
    path: Path = getattr(part, "path", part)
    return str(path.relative_to("RUN")) + ("" if path.suffix else "/")


def _table(titles: Row, rows: Iterable[Row]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    cells = ([_text(cell).replace("|", "\\|") for cell in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def _text(words: str) -> str:
    """One line of Markdown: what stands outside of code is no HTML."""
    parts = re.sub(r"\s+", " ", words).strip().split("`")
    return "`".join(part if i % 2 else part.replace("<", "&lt;") for i, part in enumerate(parts))


if __name__ == "__main__":
    main()
