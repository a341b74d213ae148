"""JSON as Java Paimon writes it, and distrustful reading of it."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

from paimon_pyds.base.secrets import raise_alone
from paimon_pyds.errors import CorruptFileError, UnsupportedError

_INT64 = range(-(2**63), 2**63)


class JsonObject:
    """The object of a JSON file with typed access; every mismatch is a CorruptFileError that names the member.
    Raises CorruptFileError: the bytes are not the JSON of an object."""

    __slots__ = ("_members", "_path")

    def __init__(self, data: bytes, path: str) -> None:
        self._path = path
        try:
            value = json.loads(data.decode("utf-8"), parse_constant=_no_constants)
        except json.JSONDecodeError as error:
            what = "the file is empty" if not data.strip() else f"not valid JSON: {error.msg}"
            raise_alone(CorruptFileError(what, path=path, offset=error.pos))  # it holds the text: options are in it
        except (ValueError, RecursionError) as error:
            raise_alone(CorruptFileError(f"not valid JSON: {error}", path=path))
        if not isinstance(value, dict):
            raise CorruptFileError("a JSON object was expected", path=path, offset=0)
        if b"\\ud" in data.lower():  # pairs of surrogates, or half ones, which nothing can encode again
            try:
                json.dumps(value, ensure_ascii=False).encode()
            except (UnicodeEncodeError, RecursionError) as error:
                raise_alone(CorruptFileError(f"not valid JSON: {error}", path=path))
        self._members: dict[str, Any] = value

    @property
    def members(self) -> dict[str, Any]:
        """All members, in the order of the text."""
        return dict(self._members)

    def corrupt(self, message: str, member: str) -> CorruptFileError:
        """The error for something wrong with a member."""
        return CorruptFileError(message, path=self._path, field=member)

    def _required(self, member: str, value: Any) -> Any:
        if value is None:
            raise self.corrupt("a member is missing", member)
        return value

    def others(self, known: Container[str]) -> dict[str, Any]:
        """The members of other names than these, but nulls."""
        return {name: value for name, value in self._members.items() if name not in known and value is not None}

    def any_or_none(self, member: str) -> Any:
        """Whatever it is, None when absent."""
        return self._members.get(member)

    def integer_or_none(self, member: str) -> int | None:
        """A 64-bit integer, None when absent."""
        value = self._members.get(member)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or value not in _INT64:
            raise self.corrupt(f"a 64-bit integer was expected, not {value!r:.80}", member)
        return value

    def integer(self, member: str, default: int | None = None) -> int:
        """A 64-bit integer; ``default`` when absent."""
        value = self.integer_or_none(member)
        result: int = self._required(member, default if value is None else value)
        return result

    def count_or_none(self, member: str) -> int | None:
        """A 64-bit integer that is not negative, None when absent."""
        value = self.integer_or_none(member)
        if value is not None and value < 0:
            raise self.corrupt(f"it is {value}", member)
        return value

    def count(self, member: str) -> int:
        """A 64-bit integer that is not negative."""
        result: int = self._required(member, self.count_or_none(member))
        return result

    def text_or_none(self, member: str) -> str | None:
        """A string, None when absent."""
        value = self._members.get(member)
        if value is not None and not isinstance(value, str):
            raise self.corrupt(f"a string was expected, not {value!r:.80}", member)
        return value

    def version(self, what: str, newest: int) -> int:
        """The member ``version`` of a ``what``, 1 when absent. Raises UnsupportedError for one after ``newest``."""
        version = self.integer("version", 1)
        if not 1 <= version <= newest:
            raise UnsupportedError(
                f"{what} version {version} is not supported, 1 to {newest} are",
                path=self._path,
                hint="a newer Paimon wrote this table: upgrade paimon-pyds",
            )
        return version

    def text(self, member: str) -> str:
        """A string."""
        result: str = self._required(member, self.text_or_none(member))
        return result

    def list_(self, member: str) -> list[Any]:
        """An array."""
        value = self._required(member, self._members.get(member))
        if not isinstance(value, list):
            raise self.corrupt("an array was expected", member)
        return value

    def texts(self, member: str) -> tuple[str, ...]:
        """An array of strings."""
        values = self.list_(member)
        if not all(isinstance(v, str) for v in values):
            raise self.corrupt("an array of strings was expected", member)
        return tuple(values)

    def object_or_none(self, member: str) -> dict[str, Any] | None:
        """An object, None when absent."""
        value = self._members.get(member)
        if value is not None and not isinstance(value, dict):
            raise self.corrupt("an object was expected", member)
        return value


def _no_constants(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def texts_in(value: Any) -> Iterator[str]:
    """All texts in a JSON value, names of members, too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, member in value.items():
            yield from (key, *texts_in(member))
    elif isinstance(value, Sequence) and not isinstance(value, bytes):
        for item in value:
            yield from texts_in(item)


def names_in(value: Any) -> Iterator[str]:
    """Possible names of files in a JSON value: the last path parts of all texts."""
    return (text.rpartition("/")[2] for text in texts_in(value))


def to_java_json(value: Any) -> str:
    """JSON text laid out as Java Paimon lays it out (Jackson's default printer), so that files compare by eye."""
    return _render(value, "\n")


def _render(value: Any, newline: str) -> str:
    if isinstance(value, Mapping):
        if not value:
            return "{ }"
        inner = newline + "  "
        members = (f"{json.dumps(k, ensure_ascii=False)} : {_render(v, inner)}" for k, v in value.items())
        return "{" + inner + ("," + inner).join(members) + newline + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[ " + ", ".join(_render(v, newline) for v in value) + " ]" if value else "[ ]"
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
