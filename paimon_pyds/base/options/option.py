"""One table option: its type and default, whether this package honours it, and the typed values of its texts, as Java
Paimon reads them (its MemorySize and TimeUtils); and arguments of public calls, checked for their Python types.

A text where a number belongs, or a number where a condition belongs, would else fail far from its cause, or not at all.
"""

from __future__ import annotations

import enum
import operator
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from paimon_pyds.base.records import dataclass
from paimon_pyds.base.text import BLANKS, whole_number
from paimon_pyds.base.types import DataField
from paimon_pyds.base.zones import instant
from paimon_pyds.errors import ArgumentTypeError, OptionError

_AMOUNT = re.compile(r"\s*(\d{1,19})\s*([A-Za-zµ]*)\s*", re.ASCII | re.IGNORECASE)
_MEMORY_UNITS = {
    1: ("", "b", "bytes"),
    1 << 10: ("k", "kb", "kibibytes"),
    1 << 20: ("m", "mb", "mebibytes"),
    1 << 30: ("g", "gb", "gibibytes"),
    1 << 40: ("t", "tb", "tebibytes"),
}
_MEMORY = {name: factor for factor, names in _MEMORY_UNITS.items() for name in names}
_TIME_UNITS = {
    86_400_000_000_000: ("d", "day", "days"),
    3_600_000_000_000: ("h", "hour", "hours"),
    60_000_000_000: ("m", "min", "minute", "minutes"),
    1_000_000_000: ("s", "sec", "secs", "second", "seconds"),
    1_000_000: ("", "ms", "milli", "millis", "millisecond", "milliseconds"),
    1_000: ("µs", "us", "micro", "micros", "microsecond", "microseconds"),
    1: ("ns", "nano", "nanos", "nanosecond", "nanoseconds"),
}
_TIME = {name: nanos for nanos, names in _TIME_UNITS.items() for name in names}
_MAX_LONG = 2**63 - 1
"""Greatest value of Java's long, in which Java Paimon holds sizes and durations."""
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?", re.IGNORECASE)
_MICROSECONDS = re.compile(r"us$", re.IGNORECASE)
_SHOWN_CHARACTERS = 60
"""Characters of a value that errors show."""
_INT_RANGES = {"int": (-(2**31), 2**31 - 1), "long": (-(2**63), _MAX_LONG)}


class Kind(enum.Enum):
    """What an option's value is, and the Python type of it."""

    STRING = "string"
    BOOLEAN = "boolean"
    INT = "int"
    LONG = "long"
    DOUBLE = "double"
    MEMORY = "memory"
    DURATION = "duration"
    ENUM = "enum"
    MAP = "map"
    LIST = "list"


def parse_value(key: str, kind: Kind, text: str, choices: Sequence[str] = ()) -> Any:
    """The typed value of an option's text.

    STRING str · BOOLEAN bool · INT, LONG int · DOUBLE float · MEMORY int (bytes) · DURATION int (milliseconds) ·
    ENUM str (one of ``choices``) · MAP dict of str (``k:v,k2:v2``) · LIST tuple of str (comma-separated).
    Raises OptionError: the text is not a value of that kind; the message names the key and what is allowed.
    """
    text = str(text).strip(BLANKS) if kind is not Kind.STRING else str(text)
    match kind:
        case Kind.STRING:
            return text
        case Kind.BOOLEAN:
            return _boolean(key, text)
        case Kind.INT | Kind.LONG:
            return _integer(key, text, kind.value)
        case Kind.DOUBLE:
            return _double(key, text)
        case Kind.MEMORY:
            return parse_memory(text, key)
        case Kind.DURATION:
            return parse_duration_ms(text, key)
        case Kind.ENUM:
            return _choice(key, text, choices)
        case Kind.MAP:
            return _map(key, text)
    return comma_separated(text)


def _bad(key: str, text: str, wanted: str) -> OptionError:
    return OptionError(f"option {key} must be {wanted}, not {text!r:.100}")


def _boolean(key: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise _bad(key, text, "true or false")
    return text.lower() == "true"


def _integer(key: str, text: str, kind: str) -> int:
    low, high = _INT_RANGES[kind]
    value = whole_number(text)
    if value is None or not low <= value <= high:
        raise _bad(key, text, f"a whole number from {low} to {high}")
    return value


def _double(key: str, text: str) -> float:
    if _NUMBER.fullmatch(text) is None:
        raise _bad(key, text, "a number")
    return float(text)


def _choice(key: str, text: str, choices: Sequence[str]) -> str:
    folded = text.lower().replace("_", "-")
    for choice in choices:
        if folded == choice.replace("_", "-"):
            return choice
    raise _bad(key, text, f"one of {', '.join(choices)}")


def _map(key: str, text: str) -> dict[str, str]:
    result = {}
    for part in text.split(","):
        if part.strip():
            name, _, value = (piece.strip() for piece in part.partition(":"))
            if not (name and value) or ":" in value:
                raise _bad(key, text, "pairs like 0:avro,3:parquet")
            result[name] = value
    return result


def comma_separated(text: str) -> tuple[str, ...]:
    """The parts of a list that option values are, without blanks around them and without empty ones."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def parse_memory(text: str, key: str = "") -> int:
    """Bytes of a size such as ``128 mb``, ``16kb``, ``500 B`` or ``1024``, in powers of 1024. Raises OptionError."""
    match = _AMOUNT.fullmatch(str(text))
    factor = None if match is None else _MEMORY.get(match[2].lower())
    if match is None or factor is None or int(match[1]) * factor > _MAX_LONG:
        raise _bad(key, text, "a size such as 128 mb, 16 kb or 500 b")
    return int(match[1]) * factor


def parse_duration_ms(text: str, key: str = "") -> int:
    """Milliseconds of a duration such as ``1 h``, ``10 ms``, ``3d`` or ``500`` (milliseconds). Raises OptionError."""
    match = _AMOUNT.fullmatch(str(text))
    nanos = None if match is None else _TIME.get(match[2].lower())
    if match is None or nanos is None or int(match[1]) * nanos > _MAX_LONG * 1_000_000:
        raise _bad(key, text, "a duration such as 1 h, 30 s or 10 ms")
    return int(match[1]) * nanos // 1_000_000


class Status(enum.Enum):
    """How this package takes an option."""

    HONOURED = "honoured"
    IGNORABLE = "ignorable"
    REFUSED = "refused"
    UNKNOWN = "unknown"


class Scope(enum.Enum):
    """What a refused value makes impossible: reading (and with it writing), writing, or only appending rows."""

    READ = "read"
    WRITE = "write"
    APPEND = "append"


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A table option of Paimon.

    Attributes:
        default: the text of the default value; None for no default.
        status: REFUSED means that other values than the default and those of ``accepted`` are refused for ``scope``.
        why: the reason for a status that is not HONOURED.
        remedy: what to do where a value is refused; other values are named when empty.
        primary_key_only: the option means something for tables with a primary key only, and is ignorable elsewhere.
        immutable: it can't be changed once the table has a snapshot.
        fallbacks: older names of the option.
        lower: values are names that Java takes in lower case, however they are written.
    """

    key: str
    kind: Kind
    default: str | None
    doc: str
    status: Status
    why: str = ""
    remedy: str = ""
    choices: tuple[str, ...] = ()
    accepted: tuple[str, ...] = ()
    scope: Scope = Scope.READ
    primary_key_only: bool = False
    immutable: bool = False
    fallbacks: tuple[str, ...] = ()
    lower: bool = False

    def parse(self, text: str) -> Any:
        """The typed value of a text. Raises OptionError."""
        return parse_value(self.key, self.kind, text.lower() if self.lower else text, self.choices)

    @property
    def default_value(self) -> Any:
        """The typed default; None for no default."""
        return None if self.default is None else self.parse(self.default)

    def stored(self, text: str) -> str:
        """The text for a schema file: as it is where Java reads it, else one that Java takes for the same value.

        Java trims no numbers and names, knows no ``5 us``, has its choices with hyphens only, and takes no pair that
        is empty.
        Raises OptionError: it is no value.
        """
        value = self.parse(text)
        match self.kind:
            case Kind.STRING | Kind.LIST:
                return text
            case Kind.ENUM:
                return text if text.lower() == value.lower() else str(value)
            case Kind.INT | Kind.LONG:
                return text if _WHOLE_NUMBER.fullmatch(text) else str(value)
            case Kind.DOUBLE:
                return text.strip(BLANKS)
            case Kind.MAP:
                return ",".join(f"{name}:{part}" for name, part in value.items())
            case Kind.DURATION:
                return _MICROSECONDS.sub("micro", text.strip(BLANKS))
        return text.strip(BLANKS)

    def accepts(self, text: str) -> bool:
        """Whether this package works with that value. Raises OptionError when it is no value at all."""
        if self.status is not Status.REFUSED:
            return True
        value = self.parse(text)
        return value == self.default_value or any(value == self.parse(a) for a in self.accepted)


# ------------------------------------------------------------------------------------------ arguments of public calls


def shown_argument(value: object) -> str:
    """An argument as a message shows it: its own text, cut, and its type."""
    kind = type(value).__name__
    try:
        shown = repr(value)
    except ValueError:  # Python makes no texts of integers of thousands of digits
        return f"one ({kind})"
    return f"{shown if len(shown) <= _SHOWN_CHARACTERS else f'{shown[: _SHOWN_CHARACTERS - 1]}…'} ({kind})"


def refused_argument(name: str, wanted: str, value: object) -> ArgumentTypeError:
    """The error for an argument of another Python type."""
    return ArgumentTypeError(f"{name} takes {wanted}, not {shown_argument(value)}")


def is_utf8(text: str) -> bool:
    """Whether the text can be stored: half of a surrogate pair is no character, and has no bytes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def integer(name: str, value: Any) -> int:
    """The value as an int of 64 bits: an int or one of numpy's, no bool. Raises ArgumentTypeError and OptionError."""
    if not isinstance(value, bool):
        try:
            number = operator.index(value)
        except TypeError:
            pass
        else:
            if -(2**63) <= number < 2**63:
                return number
            raise OptionError(f"{name} is a number of {number.bit_length():,} bits; at most 64 are supported")
    raise refused_argument(name, "an integer", value)


def text(name: str, value: Any) -> str:
    """The value when it is a str. Raises ArgumentTypeError."""
    if isinstance(value, str):
        return value
    raise refused_argument(name, "a text", value)


def texts(name: str, value: Any) -> list[str]:
    """The strs in an iterable, or between the commas of a str. Raises ArgumentTypeError."""
    if isinstance(value, str):
        return list(comma_separated(value))
    if not isinstance(value, Iterable):
        raise refused_argument(name, "a list of names", value)
    return [text(f"{name}: each", item) for item in value]


def several(name: str, value: Any) -> list[Any]:
    """The values in an iterable; a str is one value. Raises ArgumentTypeError."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, Iterable):
        raise refused_argument(name, "a list", value)
    return list(value)


def mapping(name: str, value: Any) -> Mapping[Any, Any]:
    """The value when it is a mapping. Raises ArgumentTypeError; what stands for storage options is not shown."""
    if isinstance(value, Mapping):
        return value
    if name == "storage_options":
        raise ArgumentTypeError(f"{name} takes a dictionary, not a value of type {type(value).__name__}")
    raise refused_argument(name, "a dictionary", value)


def option_texts(options: Any) -> dict[str, str]:
    """Option values as Paimon keeps them: texts, ``true`` and ``false`` in lower case. None values are left out.

    Raises ArgumentTypeError.
    """
    given = mapping("options", options or {})
    return {str(key): option_text(str(key), value) for key, value in given.items() if value is not None}


def with_settings(options: Any, settings: Mapping[str, Any]) -> dict[str, str]:
    """Options as texts, with those among them that arguments gave; None for an argument that was not given.
    Raises ArgumentTypeError; OptionError: an option is given twice."""
    own = option_texts(options)
    for key, value in settings.items():
        if value is not None:
            name = key.replace("-", "_")
            if key in own:
                raise OptionError(f"{key} is given twice, as an option and by {name}", hint="leave one of them out")
            own[key] = text(name, value)
    return own


def option_text(key: str, value: Any) -> str:
    """An option's value as Paimon keeps it; a datetime with its zone, which is the local one where it has none.
    Raises OptionError for integers of more than 64 bits, ArgumentTypeError."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return instant(value).isoformat(" ")
    try:
        return str(integer(key, value) if type(value) is int else value)
    except ValueError as error:  # a list of integers of thousands of digits
        if isinstance(error, OptionError):
            raise
        raise refused_argument(key, "a text", value) from None


def path_like(name: str, value: Any) -> str | os.PathLike[str]:
    """The value when it is a path. Raises ArgumentTypeError."""
    if isinstance(value, str | os.PathLike):
        return value
    raise refused_argument(name, "a path", value)


def columns(name: str, value: Any) -> tuple[DataField, ...]:
    """The value when it is a list of Paimon's columns. Raises ArgumentTypeError."""
    found = tuple(value) if isinstance(value, Iterable) and not isinstance(value, str) else (value,)
    if all(isinstance(item, DataField) for item in found):
        return found
    raise refused_argument(
        name, "an Arrow schema, such as pa.schema([('id', pa.int64())]), a list of DataField, or data", value
    )


def present(name: str, value: Any, what: str) -> Any:
    """The value when it is not None. Raises ArgumentTypeError."""
    if value is None:
        raise refused_argument(name, what, value)
    return value
