"""Thrift structs that are spelled like one that was met before, read without decoding them.

Footers that one writer makes for files of one schema differ in some numbers and bounds, as do the headers of its pages.
The first struct shows where these are, and becomes a regular expression, which finds the numbers of others. A struct
that has other bytes anywhere else is spelled in another way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from paimon_pyds.base.varints import unzigzag
from paimon_pyds.errors import CorruptFileError
from paimon_pyds.format.parquet.thrift import (
    BINARY,
    BOOL_FALSE,
    I16,
    I64,
    LIST,
    SET,
    STRUCT,
    field_head,
    list_head,
    skip_field,
    varint,
)

Path: TypeAlias = tuple[int, ...]
"""Field ids from the outermost struct on; those of the structs in a list are the same."""
_LONG = 32
"""Bytes from which comparing them alone is faster than by a regular expression."""
_MOST_WAYS = 8
"""Ways to spell one struct that are tried."""
_MAX_DEPTH = 16
_MOST_NUMBERS = 1 << 16
_NUMBER = rb"[\x80-\xff]{0,9}[\x00-\x7f]"
_T = TypeVar("_T")


class Gap(NamedTuple):
    """A value that may differ from struct to struct: bytes from ``start`` to ``stop``."""

    start: int
    stop: int
    path: Path
    is_number: bool


def gaps_of(data: bytes, pos: int, differs: Callable[[Path], bool]) -> tuple[list[Gap], int]:
    """The numbers and binary values of the struct at ``pos`` whose path may differ, and the position after the struct.

    Raises CorruptFileError, IndexError: it is cut off, or none.
    """
    found: list[Gap] = []
    return found, _struct_gaps(data, pos, (), differs, found)


def _struct_gaps(data: bytes, pos: int, path: Path, differs: Callable[[Path], bool], found: list[Gap]) -> int:
    field_id = 0
    while True:
        wire, field_id, pos = field_head(data, pos, field_id)
        if wire == 0:
            return pos
        if wire > BOOL_FALSE:
            pos = _value_gaps(data, pos, wire, (*path, field_id), differs, found)


def _value_gaps(data: bytes, pos: int, wire: int, path: Path, differs: Callable[[Path], bool], found: list[Gap]) -> int:
    if len(path) > _MAX_DEPTH:
        raise CorruptFileError("a struct nested too deeply", field="struct")
    if I16 <= wire <= I64 or wire == BINARY:
        stop = skip_field(data, pos, wire)
        if differs(path):
            found.append(Gap(pos, stop, path, wire != BINARY))
        return stop
    if wire == STRUCT:
        return _struct_gaps(data, pos, path, differs, found)
    if wire in (LIST, SET):
        element, size, pos = list_head(data, pos)
        if element > BOOL_FALSE:
            for _ in range(size):
                pos = _value_gaps(data, pos, element, path, differs, found)
            return pos
        return pos + size
    return skip_field(data, pos, wire)


class Spelling:
    """One way to spell a struct, or a part of one.

    ``data``: bytes from ``start`` to ``stop`` that are spelled so. ``gaps``: those within them that may differ.
    ``wanted``: paths of the numbers to give. ``has_texts``: binary values may differ in length, too.
    """

    def __init__(
        self,
        data: bytes,
        start: int,
        stop: int,
        gaps: Sequence[Gap],
        wanted: Collection[Path] = (),
        *,
        has_texts: bool = False,
    ) -> None:
        self._steps: list[Any] = []
        """Bytes to compare, regular expressions to match, and None for a text of any length."""
        self._pattern = b""
        for gap in gaps:
            self._add_same(data[start : gap.start])
            start = gap.stop
            if gap.is_number:
                self._pattern += b"(%b)" % _NUMBER if gap.path in wanted else _NUMBER
            elif has_texts:
                self._end_pattern()
                self._steps.append(None)
            else:
                length, content = varint(data, gap.start)
                self._pattern += re.escape(data[gap.start : content]) + b".{%d}" % length
        self._add_same(data[start:stop])
        self._end_pattern()
        is_one = len(self._steps) == 1 and callable(self._steps[0])
        self._match: Callable[[bytes, int], re.Match[bytes] | None] | None = self._steps[0] if is_one else None
        """The only step."""

    def _add_same(self, same: bytes) -> None:
        if len(same) < _LONG:
            self._pattern += re.escape(same)
        else:
            self._end_pattern()
            self._steps.append(same)

    def _end_pattern(self) -> None:
        if self._pattern:
            self._steps.append(re.compile(self._pattern, re.DOTALL).match)
            self._pattern = b""

    def read(self, data: bytes, pos: int) -> tuple[int, list[int]] | None:
        """The position after the struct at ``pos``, and its wanted numbers; None if it is spelled in another way."""
        if self._match is not None:
            match = self._match(data, pos)
            return None if match is None else (match.end(), list(map(_NUMBERS.__getitem__, match.groups())))
        found: list[bytes] = []
        for step in self._steps:
            if type(step) is bytes:
                if not data.startswith(step, pos):
                    return None
                pos += len(step)
            elif step is None:
                if pos + 1 >= len(data):
                    return None
                length, more = data[pos], data[pos + 1]
                if length < 0x80:
                    pos += 1 + length
                elif more < 0x80:
                    pos += 2 + (length & 0x7F | more << 7)
                else:
                    return None
            elif (match := step(data, pos)) is None:
                return None
            else:
                pos = match.end()
                found += match.groups()
        return pos, list(map(_NUMBERS.__getitem__, found))


class _Numbers(dict[bytes, int]):
    """Numbers by how they are encoded."""

    def __missing__(self, encoded: bytes) -> int:
        if len(self) >= _MOST_NUMBERS:
            self.clear()
        number = self[encoded] = unzigzag(varint(encoded, 0)[0])
        return number


_NUMBERS = _Numbers()


class Ways(Generic[_T]):
    """The ways in which a struct is spelled that was met in some files.

    ``differs``, ``wanted``, ``has_texts``: as for `gaps_of` and `Spelling`. ``common``: gives what is the same in all
    structs of a spelling, by the bytes of one and the paths of its wanted numbers, in their order; what it raises says
    that such structs are not to be read.
    """

    def __init__(
        self,
        differs: Callable[[Path], bool],
        wanted: Collection[Path],
        common: Callable[[bytes, Sequence[Path]], _T],
        *,
        has_texts: bool,
    ) -> None:
        self._differs = differs
        self._wanted = wanted
        self._common = common
        self._has_texts = has_texts
        self._ways: list[tuple[Spelling, _T]] = []

    def read(self, data: bytes, pos: int) -> tuple[int, list[int], _T] | None:
        """As `Spelling.read`, with what is the same in all structs of this spelling; None too where the bytes are no
        such struct, or are spelled in a way that is not tried any more."""
        for spelling, common in self._ways:
            if (found := spelling.read(data, pos)) is not None:
                return found[0], found[1], common
        if len(self._ways) >= _MOST_WAYS:
            return None
        try:
            gaps, stop = gaps_of(data, pos, self._differs)
            wanted = [gap.path for gap in gaps if gap.is_number and gap.path in self._wanted]
            common = self._common(data[pos:stop], wanted)
        except (CorruptFileError, IndexError):
            return None
        spelling = Spelling(data, pos, stop, gaps, self._wanted, has_texts=self._has_texts)
        self._ways.append((spelling, common))
        found = spelling.read(data, pos)
        return None if found is None else (found[0], found[1], common)


def field_places(data: bytes, pos: int = 0) -> dict[int, tuple[int, int, int]]:
    """The fields of the struct at ``pos``: wire types, and where their values begin and end. Errors as `gaps_of`."""
    fields, field_id = dict[int, tuple[int, int, int]](), 0
    while True:
        wire, field_id, start = field_head(data, pos, field_id)
        if wire == 0:
            return fields
        pos = skip_field(data, start, wire)
        fields[field_id] = (wire, start, pos)


def raw_fields(data: bytes, pos: int = 0) -> dict[int, tuple[int, bytes]]:
    """The fields of the struct at ``pos``: wire types, and values as they are encoded. Errors as `gaps_of`."""
    return {number: (wire, data[start:stop]) for number, (wire, start, stop) in field_places(data, pos).items()}


def element_starts(data: bytes, pos: int) -> list[int]:
    """Where each struct of the list at ``pos`` begins, and where the last one ends. Errors as `gaps_of`."""
    element, size, pos = list_head(data, pos)
    if element != STRUCT:
        raise CorruptFileError("not a list of structs", field="list")
    starts = [pos]
    for _ in range(size):
        starts.append(skip_field(data, starts[-1], STRUCT))
    return starts
