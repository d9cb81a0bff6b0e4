"""Two versions of a workflow file -> what differs between them, and whether the loop could know of it.

The loop is what the file's statements do when it is imported, its stages, and all functions and modules that these
name. What comes after the loop, or shows it, may be another in a run that has its frames: see `kinds.py`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from steersman.stages import modules
from steersman.stages.kinds import KINDS

MAY_DIFFER = frozenset(name for name, kind in KINDS.items() if kind.may_differ)


@dataclass(frozen=True)
class _Part:
    """A statement, or one name of an import: what it binds, what it says, and the names that it uses."""

    binds: str
    says: str
    uses: frozenset[str]
    fixed: bool  # it belongs to the loop, whoever uses it
    imports: frozenset[str] = frozenset()  # modules, by their first names
    unused: bool = field(default=False, compare=False)  # an import for what it does


def differing(
    old: bytes, new: bytes, others: frozenset[str] = frozenset(), may: frozenset[str] = MAY_DIFFER
) -> tuple[set[str], set[str]]:
    """Two versions of a workflow file, both valid Python -> the names of what differs.

    Args:
        others: modules that are not what they were.
        may: kinds of stages that may be others.
    Returns: names that belong to the loop; and the others, with all that use them.
    """
    versions = [list(_parts(text, may)) for text in (old, new)]
    loops = [_loop(parts) for parts in versions]
    if [part.says for part in loops[0]] != [part.says for part in loops[1]]:
        said = [{part.says for part in loop} for loop in loops]
        only = {
            part.binds for loop, other in zip(loops, said[::-1], strict=True) for part in loop if part.says not in other
        }
        return only or {"the order of its statements"}, set()
    unused = [part for part in versions[1] if part.unused]
    if of_loop := frozenset().union(*(part.imports for part in (*loops[1], *unused))) & others:
        return set(of_loop), set()
    before, after = ([p for p in parts if p not in loop] for parts, loop in zip(versions, loops, strict=True))
    changed = {part.binds for part in {*before} ^ {*after}} | {part.binds for part in after if part.imports & others}
    while more := {part.binds for part in after if part.uses & changed} - changed:
        changed |= more
    return set(), changed


def code(of: Any, run: Path) -> bytes:
    """What a function or a class of a run's workflow file says, or of a module kept with it, with all that it uses; b""
    of others, which are known by their names."""
    kept, module = run / modules.FOLDER, str(of.__module__)
    if module != modules.MODULE:
        return b"".join(file.read_bytes() for file in sorted(modules.reached(kept, {module.partition(".")[0]})))
    parts = _loop([
        replace(part, fixed=part.binds == of.__qualname__.partition(".")[0])
        for part in _parts((run / "workflow.py").read_bytes(), MAY_DIFFER)
    ])  # fmt: skip
    used = modules.reached(kept, frozenset().union(*(part.imports for part in parts)))
    return b"".join([*(part.says.encode() for part in parts), *(file.read_bytes() for file in sorted(used))])


def _loop(parts: Iterable[_Part]) -> list[_Part]:
    """Those that the loop consists of, or that it names."""
    parts = list(parts)
    used: set[str] = set()
    while more := frozenset().union(*(p.uses for p in parts if p.fixed or p.binds in used)) - used:
        used |= more
    return [part for part in parts if part.fixed or part.binds in used]


def _parts(text: bytes, may: frozenset[str]) -> Iterator[_Part]:
    tree = ast.parse(text)
    used = _names(tree)
    for statement in tree.body:
        says, uses, imports = ast.dump(statement), _names(statement), modules.named(statement)
        match statement:
            case ast.Import(names) | ast.ImportFrom(names=names):
                origin = (
                    ast.dump(ast.ImportFrom(statement.module, [], statement.level))
                    if isinstance(statement, ast.ImportFrom)
                    else ""
                )
                for each in names:
                    bound, top = (each.asname or each.name).partition(".")[0], each.name.partition(".")[0]
                    of = imports if origin else frozenset([top])
                    yield _Part(
                        bound, f"{origin}{ast.dump(each)}", frozenset(), each.name == "*", of, bound not in used
                    )
            case ast.FunctionDef(name) | ast.AsyncFunctionDef(name) | ast.ClassDef(name):
                verbs = {_verb(each) for each in statement.decorator_list}
                yield _Part(name, says, uses, not verbs <= may, imports)
            case ast.Assign(targets=[ast.Name(name)], value=value) if not any(
                isinstance(node, ast.Call) for node in ast.walk(value)
            ):
                yield _Part(name, says, uses, False, imports)
            case ast.If(test) if "__name__" in _names(test):
                pass  # of a script; never of a run
            case _:
                yield _Part(f"line {statement.lineno}", says, uses, True, imports)


def _verb(decorator: ast.expr) -> str:
    """`after` of @wf.after and of @wf.after()."""
    function = decorator.func if isinstance(decorator, ast.Call) else decorator
    return function.attr if isinstance(function, ast.Attribute) else ""


def _names(node: ast.AST) -> frozenset[str]:
    return frozenset(each.id for each in ast.walk(node) if isinstance(each, ast.Name))
