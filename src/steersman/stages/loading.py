"""A name or path, and what the user set -> a workflow and its checked parameters."""

from __future__ import annotations

import difflib
import importlib.util
import os
import re
import sys
import traceback
import types
from collections.abc import Iterable, Mapping
from functools import partial
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError
from pydantic.errors import PydanticErrorMixin, PydanticSchemaGenerationError

import steersman.workflows
from steersman.stages import outline as outlines
from steersman.stages.errors import BadWorkflow
from steersman.stages.kinds import KINDS
from steersman.stages.modules import MODULE, make_importable
from steersman.stages.params import Params
from steersman.stages.workflow import Workflow
from steersman.steering import SECONDS, Progress, Steering, StopRule
from steersman.system import plain
from steersman.system.calls import called
from steersman.system.errors import BadInput, BadValue, UnknownName, place, told

V = TypeVar("V")
SHIPPED = Path(steersman.workflows.__file__).parent
REFERENCE = SHIPPED / "reference"
SHOWN_CHARS = 200
NO_LABELS = "labels are counted, and nothing gives any; decorate a function with @wf.label()"
VERBS = (*KINDS, "steer")


def shipped() -> dict[str, Path]:
    """The workflow files that come with Steersman, by name, and after them those of the reference problems."""
    return {path.stem: path for folder in (SHIPPED, REFERENCE) for path in sorted(folder.glob("[!_]*.py"))}


def find(name_or_path: str) -> Path:
    """The file of a workflow given as a shipped name, as a path, or as a folder with a workflow.py.

    Raises: UnknownName: none of them.
    """
    path = Path(name_or_path)
    if path.is_dir() and name_or_path not in shipped():
        path = path / "workflow.py"
    if path.suffix == ".py":
        if not path.is_file():
            raise BadWorkflow(str(path), 0, "there is no such file")
        return path
    if name_or_path not in shipped():
        here = [f"{path}.py"] if Path(f"{path}.py").is_file() else []
        raise UnknownName("workflow", name_or_path, [*here, *shipped()])
    return shipped()[name_or_path]


def load(path: Path, *, shown: Path | None = None, moves: bool = False) -> Workflow:
    """Import a workflow file and return the one Workflow that it defines.

    Args:
        shown: what errors call the file; by default by its path.
        moves: this process goes to the folder that the file may go to, as a worker does.
    Raises: BadWorkflow: it raises on import, defines no workflow or several, or lacks a stage.
    """
    global _last
    text = path.read_bytes()
    if module := _copies.get((path.resolve(), text)):
        sys.modules[MODULE] = module
        make_importable(path)
    else:
        module = _import(path, shown or path, moves=moves)
    workflows = [value for value in vars(module).values() if isinstance(value, Workflow)]
    if len(set(map(id, workflows))) != 1:
        problem = f"it defines {len(workflows)} workflows; it must hold one: wf = Workflow(...)"
        raise BadWorkflow(str(shown or path), 0, problem)
    if problems := outlines.problems(workflows[0]):
        raise BadWorkflow(str(shown or path), 0, "; ".join(problems))
    _last = workflows[0], module, text
    return workflows[0]


# The workflow that was loaded last, and copies of loaded files, which are not imported again.
_last: tuple[Workflow, types.ModuleType, bytes] | None = None
_copies: dict[tuple[Path, bytes], types.ModuleType] = {}
_importing: list[Path] = []


def source_of(workflow: str | os.PathLike[str] | Workflow) -> tuple[str, dict[str, str] | None]:
    """What `find` takes of a workflow that is to be run, and the outline of one that the caller has as an object.

    Raises: BadInput: it is of no file; or its file, while it is imported, starts a run, which would do the same.
    """
    if _importing:
        words = f"{_importing[-1]} starts a run while it is imported, as every walker imports it; put the call below"
        raise BadInput(f'{words} `if __name__ == "__main__":`')
    if not isinstance(workflow, Workflow):
        return os.fspath(workflow), None
    if workflow.file is None or not workflow.file.endswith(".py"):
        raise BadInput(
            f"the workflow {workflow.name!r} is of no .py file, and a run stores the file, which its walkers import: "
            'in a notebook write `%%writefile my.py` as the first line of the cell, and then steersman.run("my.py")'
        )
    return workflow.file, outlines.outline(workflow)


def expect(source: Path, workflow: Workflow, outline: Mapping[str, str]) -> None:
    """Raises: BadInput: a workflow object was changed since its file made it: its run would not know of that."""
    there = outlines.outline(workflow)
    if changed := [part for part in {**there, **outline} if there.get(part) != outline.get(part)]:
        raise BadInput(
            f"the {changed[0]} of the workflow is not what {source} says, and a run stores the file: change it there, "
            f'or make it a parameter; or run what the file says: steersman.run("{source}")'
        )


def adopt(copy: Path, workflow: Workflow) -> None:
    """Let `load` of a copy give a workflow that is loaded: a file may do what can be done once in a process."""
    if _last and _last[0] is workflow and _last[2] == (text := copy.read_bytes()):
        _copies[copy.resolve(), text] = _last[1]


class _Source(SourceFileLoader):
    """Leaves no bytecode beside the file, since what was sealed would differ; and runs none that another put there."""

    def __init__(self, path: Path, shown: Path) -> None:
        super().__init__(MODULE, str(path))
        self._shown = str(shown)

    def source_to_code(self, data: Any, path: Any, **options: Any) -> types.CodeType:  # type: ignore[override]
        return super().source_to_code(data, self._shown, **options)

    def path_stats(self, path: str) -> Any:
        raise OSError(path)  # then bytecode is neither looked for nor written


def _import(path: Path, shown: Path, *, moves: bool) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(MODULE, path, loader=_Source(path, shown))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[MODULE] = module
    make_importable(path)
    here = "" if moves else os.getcwd()
    _importing.append(path)
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise BadWorkflow(str(shown), error.lineno or 0, f"SyntaxError: {error.msg}") from None
    except BaseException as error:  # whatever a user's file raises, SystemExit too, is its author's to see
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(shown)]
        line = (lines[-1] or 0) if lines else 0
        meant = _meant(error, path.read_bytes().splitlines()[line - 1].decode(errors="replace")) if line else ""
        raise BadWorkflow(str(shown), line, f"{_of_pydantic(error) or told(error)}{meant}") from None
    finally:
        _importing.remove(path)
        if here:
            os.chdir(here)
    return module


def _of_pydantic(error: BaseException) -> str:
    """What is wrong with a class of parameters, without advice for those who write pydantic's types; "" of others."""
    if isinstance(error, PydanticSchemaGenerationError):
        kind = error.message.partition(". ")[0].rpartition("schema for ")[2]
        return f"{kind} is no type of a parameter: use int, float, bool, str, or lists and mappings of these"
    return f"{type(error).__name__}: {error.message}" if isinstance(error, PydanticErrorMixin) else ""


_NOT_THERE = re.compile(r"cannot import name '(\w+)' from '([\w.]+)'")


def _meant(error: BaseException, line: str) -> str:
    """What to write instead: the verb of a Workflow where a line calls what is none, such as `wf.scoring`, a name that
    a module has, or an import by name."""
    if isinstance(error, ImportError) and "relative import" in str(error):
        return "; write `import other`: modules beside the file are found"
    if wrong := isinstance(error, ImportError) and _NOT_THERE.match(str(error)):
        there = dir(sys.modules.get(wrong[2]))
        return f"; did you mean {near[0]!r}?" if (near := difflib.get_close_matches(wrong[1], there, 1)) else ""
    if isinstance(error, TypeError) and "Workflow.__init__() missing" in str(error):
        return '; a workflow has a name and an end: Workflow("mine", stop=budget(frames=10_000))'
    none = isinstance(error, TypeError) and "is not callable" in str(error)
    if not none and not (isinstance(error, AttributeError) and isinstance(error.obj, Workflow)):
        return ""
    words = [word for word in re.findall(r"\w\.(\w+)", line) if word not in VERBS]
    close = [verb for word in words for verb in difflib.get_close_matches(word, VERBS, 1)]
    return f"; did you mean `{close[0]}`?" if close else ""


def parameters(workflow: Workflow, file: Path | None, assignments: Iterable[str] | Mapping[str, Any]) -> Params:
    """Resolve parameters: defaults < workflow file < --params file < --set key=value, or values by key.

    Raises: BadInput: an unknown key (with the nearest valid one), a wrong type or range, an unreadable file.
    """
    given = dict(assignments) if isinstance(assignments, Mapping) else assigned(assignments)
    return checked(workflow, (_from_file(file) if file else {}) | given)


def assigned(assignments: Iterable[str], option: str = "--set") -> dict[str, Any]:
    """The values of `key=value`, by key. Raises: BadValue: one has no `=`, or is not YAML. BadInput: see `once`."""
    given = []
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals:
            raise BadValue(option, assignment, f"write {option} key=value")
        given.append((key.strip(), value(key, text)))
    return once(option, given)


def once(option: str, given: Iterable[tuple[str, V]]) -> dict[str, V]:
    """What a person gave, by key. Raises: BadInput: one is given twice."""
    by_key: dict[str, V] = {}
    for key, each in given:
        if key in by_key:
            raise BadInput(f"{option} {key}: it is given more than once; leave all but one out")
        by_key[key] = each
    return by_key


def value(key: str, text: str) -> Any:
    """What a person wrote behind `key=`. Raises: BadValue: it is not YAML."""
    try:
        return plain.parse(text) if text.strip() else ""
    except yaml.YAMLError:
        text = shortened(text)
        raise BadValue(key, text, f"this is not YAML; quote plain text: {key}='\"{text}\"'") from None


def check_rules(workflow: Workflow, params: Params, before: Steering | None = None) -> None:
    """Rules that are functions of the parameters may only fail now, not in the middle of a run.

    Args:
        before: how a run steered so far that is to go on so.
    Raises: BadValue: in the words of what a rule raises; or it counts simulated time, whose unit is not known, or
        labels, which nothing gives; or frames would be weighed otherwise than before. BadInput: steering does not fit
        the stages; or what is to be held out cannot be drawn. UnknownName: it looks at a metric that is not there.
    """
    when = workflow.training.when if workflow.training else None
    steers = next(filter(callable, workflow.steers.values()), None)
    rules = ("stop", workflow.stop, workflow.stop_rule), ("when", when, workflow.train_rule)
    conditions = workflow.simulation and workflow.simulation.conditions, partial(workflow.condition, turn=0)
    for name, given, rule in (*rules, ("steer", steers, workflow.steering_rule), ("conditions", *conditions)):
        try:
            rule(params)
        except Exception as error:  # a user's rule may raise anything
            raise BadValue(name, _written(given), str(error) or type(error).__name__) from None
    steering = workflow.steering_rule(params)
    if workflow.steering is None and (problems := outlines.problems(workflow, steering)):
        raise BadInput("; ".join(problems))
    weighs = before is not None and any(each.bias or each.policy.rounds for each in (before, steering))
    if before and weighs and (before.policy, before.bias) != (steering.policy, steering.bias):
        said = f"{steering.policy.name} {steering.pushed}".strip()
        raise BadValue("steer", said, "the frames of this run have weights by how it began to steer; begin a new run")
    weighed = steering.bias or steering.policy.rounds
    if weighed and (names := workflow.condition(params, 0)):
        raise BadValue("conditions", ", ".join(names), "frames have weights here, which are of one condition")
    missing = sorted({*workflow.missing, *(workflow.scoring.missing if workflow.scoring else ())})
    if missing and weighed:
        raise BadValue("missing", missing[0], "frames have weights here, and one without scores would have none")
    train = workflow.train_rule(params)
    if train and train.counts == "labels" and workflow.labelling is None:
        raise BadValue("when", str(train), NO_LABELS)
    try:
        workflow.held_out_draws(params)
    except BadInput:
        raise
    except Exception as error:
        raise BadValue("held_out", workflow.name, str(error) or type(error).__name__) from None
    check_stop(workflow, workflow.stop_rule(params), steering)


def check_stop(workflow: Workflow, stop: StopRule, steering: Steering) -> None:
    """Raises: BadValue: it counts simulated time, whose unit is not known, or labels, which nothing gives.
    UnknownName: it looks at another metric.
    """
    if stop.counts_simulated and workflow.time_unit not in SECONDS:
        problem = f"it counts simulated time, but the unit of `time` is {workflow.time_unit!r}, and no known one"
        give = 'write its unit, @wf.simulate(variables={"time": Variable((), "ps")}), or count frames'
        raise BadValue("stop", str(stop), f"{problem}: {give}")
    if stop.counts_labels and workflow.labelling is None:
        raise BadValue("stop", str(stop), NO_LABELS)
    for name in stop.needs:
        if name not in workflow.metrics:
            raise UnknownName("metric", name, workflow.metrics or ("none; decorate a function with @wf.metric",))
    for ask in (stop.reason, stop.share, stop.room):
        try:
            called(ask, Progress())
        except Exception as error:  # a user's rule may raise anything
            problem = f"asked before there is a frame, it fails in {ask.__name__}: {told(error)}{place(error)}"
            raise BadValue("stop", type(stop).__name__, problem) from None
    rule = steering.label
    audits = workflow.labelling and workflow.labelling.error and rule and rule.audits
    if not audits and called(stop.reason, Progress(bound=0.0)):
        problem = "no audit measures the error of a model: give @wf.label(error=...), and audits= to the label rule"
        raise BadValue("stop", str(stop), problem)


def _written(rule: object) -> str:
    """A rule of a workflow file, and where it is."""
    code = getattr(rule, "__code__", None)
    return f"{code.co_name} ({code.co_filename}, line {code.co_firstlineno})" if code else shortened(repr(rule))


def checked(workflow: Workflow, given: Mapping[str, Any]) -> Params:
    """Make the parameters from plain values.

    Raises: UnknownName, BadValue.
    """
    for key in given:
        if key not in workflow.params.model_fields:
            raise UnknownName(f"parameter of {workflow.name}", key, workflow.params.model_fields)
    try:
        return workflow.params.model_validate(dict(given))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"])) or "parameters"
        if first["type"] == "missing":
            raise BadInput(f"{key} has no default; give it: --set {key}=...{_allowed(workflow.params, key)}") from None
        problem = first["msg"].removeprefix("Value error, ")
        problem += "; put it in quotes, so that it stays as it is written" * (first["type"] == "string_type")
        allowed = "" if first["type"] == "value_error" else _allowed(workflow.params, key)
        raise BadValue(key, shortened(repr(first["input"])), problem + allowed) from None
    except Exception as error:  # a validator of the workflow file may raise anything
        raise BadValue("parameters", shortened(str(dict(given))), told(error)) from None


def shortened(text: str) -> str:
    """What of a value an error shows."""
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}... ({len(text):,} characters)"


def changed(workflow: Workflow, params: Params, settings: Mapping[str, Any]) -> Params:
    """The parameters with what people have set since. Raises: UnknownName, BadValue."""
    return checked(workflow, params.model_dump(mode="json") | dict(settings)) if settings else params


def _allowed(params: type[Params], key: str) -> str:
    """Type and range of a parameter in words, e.g. " (integer, >= 1, <= 64; default 3)"."""
    schema = params.model_json_schema().get("properties", {}).get(key, {})
    words = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
    bounds = [f"{word} {schema[name]}" for name, word in words.items() if name in schema]
    said = ", ".join([*([schema["type"]] if "type" in schema else []), *bounds])
    return f" ({said}; default {schema['default']})" if said and "default" in schema else f" ({said})" if said else ""


def _from_file(file: Path) -> dict[str, Any]:
    try:
        loaded = plain.read(file)
    except OSError as error:
        raise BadValue("--params", str(file), str(error.strerror)) from None
    except yaml.YAMLError as error:
        raise BadValue("--params", str(file), f"this is not YAML: {error}") from None
    if not isinstance(loaded, dict):
        raise BadInput(f"--params {file}: expected `key: value` lines")
    return loaded
