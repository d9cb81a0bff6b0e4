"""Fields -> Tuple: what comes off the bus, and the templates that ask for it."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Final

from steersman.bus import codec
from steersman.bus.errors import NotPlain
from steersman.system.errors import BadValue


def dead_letters(name: str) -> str:
    """The name that gets the tuples of a name which failed too often; take from it as from any other."""
    return f"{name}!dead"


class Any_:
    """The template field that matches everything."""

    _instance: Any_ | None = None

    def __new__(cls) -> Any_:
        cls._instance = cls._instance or super().__new__(cls)
        return cls._instance

    def __reduce__(self) -> str:
        return "ANY"

    def __repr__(self) -> str:
        return "ANY"


ANY: Final = Any_()


class Tuple(tuple[Any, ...]):
    """A tuple from the bus: ``(name, *fields)``, and how it came.

    Attributes:
        number: its place in the order of its name, from 1.
        deliveries: how often it was handed out, this time included; 0 when it was only read and never handed out.
        lease_s: the lease it is held under, None without one.
        history: one line for each delivery that failed: milliseconds since 1970 and the reason.
    """

    number: int = 0
    deliveries: int = 0
    lease_s: float | None = None
    history: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Its first field."""
        return str(self[0])


@dataclass(frozen=True)
class Template:
    """What a taker asks for.

    Attributes:
        shape: b'.' and a byte a field: a letter for a type, its capital for a value, b'*' for anything.
        values: the encoded values, one after another; over 40 bytes their SHA-1, as the server's index has it.
    """

    name: str
    shape: bytes
    values: bytes

    @classmethod
    def of_all(cls, name: str) -> Template:
        """Every tuple of a name, of any length."""
        return cls(name, b".~", b"")

    @classmethod
    def of(cls, name: str, fields: tuple[Any, ...]) -> Template:
        """Raises: BadValue: a field is neither ANY, a known type, nor a plain value without dicts and arrays."""
        if not isinstance(name, str):
            raise _bad_template(repr(name), "a name that is not a str; the first field is the name")
        if all([isinstance(field, type) for field in fields]):  # noqa: C419 - a list is faster, and this is each take
            return _by_types(name, fields)
        shape, values = [b"."], b""
        for field in fields:
            if field is ANY:
                shape.append(b"*")
            elif isinstance(field, type):
                shape.append(_type_letter(name, field))
            else:
                letter, value = _value(name, field)
                shape.append(letter)
                values += value
        return cls(name, b"".join(shape), codec.index_key(values))


@functools.lru_cache(1024)
def _by_types(name: str, kinds: tuple[type, ...]) -> Template:
    return Template(name, b"." + b"".join([_type_letter(name, kind) for kind in kinds]), b"")


def _type_letter(name: str, kind: type) -> bytes:
    letter = codec.letter_of_type(kind)
    if letter is None:
        raise _bad_template(name, f"the type {kind.__name__}")
    return letter


def _value(name: str, field: Any) -> tuple[bytes, bytes]:
    try:
        letter, value = codec.pack_field(name, field)
    except NotPlain:
        raise _bad_template(name, f"a {type(field).__name__} as a value") from None
    if letter in b"dat" or (letter == b"l" and not codec.is_flat(field)):
        raise _bad_template(name, f"a {type(field).__name__} as a value (match it by its type)")
    if len(value) > codec.CHUNK_BYTES:
        raise _bad_template(name, f"a value of {len(value)} bytes")
    return letter.upper(), value


def _bad_template(name: str, what: str) -> BadValue:
    return BadValue(f"a field of a template of {name}", what, "match by a plain value, by a type, or by ANY")
