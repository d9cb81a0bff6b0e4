"""Functions of a workflow file that run before or after the loop, each call until it is done: `later` -> a future.

A call is known by its content: the SHA-256 of its name and arguments, a future among them by the key of its call.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import pickle
import reprlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from types import FunctionType
from typing import Any, Protocol

from pydantic import BaseModel

from steersman.stages.content import digest
from steersman.system.errors import BadInput

WORDS_CHARS = 80
SHORT = reprlib.Repr()  # a list that is cut keeps its brackets
SHORT.maxlist = SHORT.maxtuple = SHORT.maxdict = SHORT.maxset = 2


class Later(Future[Any]):
    """What a call will give. In an argument of another call, at any depth, it stands for its result.

    Args:
        load: gives the result once it is there.
        words: the call, for people.
    Attributes:
        seen: somebody asked for the result and was told that the call failed.
    """

    def __init__(self, key: str, load: Callable[[], Any], words: str) -> None:
        super().__init__()
        self.key, self._load, self._words, self.seen = key, load, words, False

    def __repr__(self) -> str:
        return self._words

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the result. Raises: TaskFailed: the call, or one that it needs, failed. TimeoutError."""
        try:
            super().result(timeout)
        except TimeoutError:
            raise
        except BaseException:
            self.seen = True
            raise
        return self._load()


class CallExecutor(Protocol):
    """What has the calls of a run done."""

    def call(self, name: str, given: Any, copy: int) -> Later: ...


class _Nobody:
    """Within a run, but outside its plans: a call that is made at once there would be in no record."""

    def call(self, name: str, given: Any, copy: int) -> Later:
        raise BadInput(f"{name}.later(...) is for @wf.before and @wf.after; in other stages call {name}(...) itself")


NOBODY = _Nobody()
_planner: CallExecutor | None = None


@contextlib.contextmanager
def planned_by(planner: CallExecutor) -> Iterator[None]:
    """Within it calls go to the workers of a run, from whichever thread of this process."""
    global _planner
    before, _planner = _planner, planner
    try:
        yield
    finally:
        if _planner is planner:  # else another driver of this process has begun a plan meanwhile
            _planner = before


class Task:
    """A function with `later`; called as it is, it is an ordinary function."""

    def __init__(self, function: Callable[..., Any], retries: int) -> None:
        if "copy" in inspect.signature(function).parameters:
            raise TypeError(f"@wf.task {function.__name__}: `copy` is an argument of `later`; take another name")
        functools.update_wrapper(self, function)
        self.function, self.retries = function, retries

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self.function(*args, **options)

    def later(self, *args: Any, copy: int = 0, **options: Any) -> Later:
        """Have it called on a worker with these arguments; what was done with the same is not done again.

        Outside a run the function is called at once.

        Args:
            copy: another call with the same arguments.
        Returns: a future, which may be an argument of other calls, also within lists and other objects.
        Raises: BadInput: a stage of a run calls it that is no plan.
        """
        name = self.function.__name__
        if _planner is not None:
            return _planner.call(name, (args, options), copy)
        done = Later("", lambda: result, name)
        given, options_given = resolved((args, options))
        result = self.function(*given, **options_given)
        done.set_result(None)
        return done

    def __reduce__(self) -> str:
        return self.function.__qualname__  # as functions are: by name


def pack(value: Any) -> tuple[bytes, list[Later]]:
    """Pickle a value; the futures in it, at any depth, are left out and given beside it.

    Raises: BadInput: something in it cannot be pickled.
    """
    found: dict[str, Later] = {}

    class Pickler(pickle.Pickler):
        def persistent_id(self, each: Any) -> str | None:
            if not isinstance(each, Later):
                return None
            found[each.key] = each
            return each.key

    file = io.BytesIO()
    try:
        Pickler(file, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    except (pickle.PicklingError, AttributeError, TypeError) as error:  # what it is depends on Python
        advice = "give numbers, arrays, text, or functions at the top level of a file"
        raise BadInput(f"an argument of a task cannot go to a worker: {error}; {advice}") from None
    return file.getvalue(), list(found.values())


def unpack(packed: bytes, load: Callable[[str], Any]) -> Any:
    """The value again, with what `load` gives of a key in place of each future."""

    class Unpickler(pickle.Unpickler):
        def persistent_load(self, key: str) -> Any:
            return load(key)

    return Unpickler(io.BytesIO(packed)).load()


def resolved(value: Any) -> Any:
    """A value with the results in place of the futures, which are waited for; outside a run they are there."""
    found: dict[str, Any] = {}

    class Pickler(pickle.Pickler):
        def persistent_id(self, each: Any) -> str | None:
            if isinstance(each, Later):
                found[str(id(each))] = each.result()
                return str(id(each))
            return None

    file = io.BytesIO()
    Pickler(file, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    return unpack(file.getvalue(), found.__getitem__) if found else value


def key_of(name: str, given: Any, copy: int, code: Callable[[Any], bytes] = lambda _: b"") -> str:
    """SHA-256 of a call.

    Args:
        code: what is known of a function or a class among its arguments, beside its name.
    """

    def known(each: Any) -> tuple[bytes, ...] | None:
        match each:
            case Later():
                return b"future", each.key.encode()
            case Task():
                return known(each.function)
            case FunctionType() | type() if said := code(each):
                return b"code", each.__module__.encode(), each.__qualname__.encode(), said
        return None

    return digest((name, given, copy), known)


def words_of(given: Any) -> str:
    """Arguments for people: without the parameters, which are the same for all."""
    args, options = given
    shown = [SHORT.repr(each) for each in args if not isinstance(each, BaseModel)]
    text = ", ".join([*shown, *(f"{name}={SHORT.repr(value)}" for name, value in options.items())])
    return text if len(text) <= WORDS_CHARS else f"{text[: WORDS_CHARS - 3]}..."
