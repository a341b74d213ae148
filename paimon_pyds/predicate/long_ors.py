"""Very many conditions of one form that are joined by OR, evaluated together: what one costs for a batch, all do.

``a = 1 AND b = 7 OR a = 2 AND b = 9 OR …`` asks whether a row's values are among these pairs, ``s LIKE 'x%' OR …``
whether a text has one of these parts. Rows answer that (`Computed`); leaves beside it say what statistics and indexes
can tell.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paimon_pyds.buffers import Int64s, array, from_numpy, one_array, to_numpy
from paimon_pyds.errors import ExpressionError
from paimon_pyds.predicate.boxes import any_box, box_columns
from paimon_pyds.predicate.exact import column_values
from paimon_pyds.predicate.like import like_prefix, like_regex
from paimon_pyds.predicate.prune import text_successor
from paimon_pyds.predicate.tree import (
    And,
    ColumnRef,
    Computed,
    Const,
    Leaf,
    Op,
    Predicate,
    RowCondition,
    conjuncts,
    is_computed,
    make_and,
    make_computed,
    make_or,
)
from paimon_pyds.types import arrow_type
from paimon_pyds.types.kinds import INTEGER_KINDS, TIMESTAMP_KINDS, Kind

_FEW = 64
"""So many conditions are evaluated one by one."""
_BRANCHES = 16
_SHARED = 8
"""In so many conditions, on average, the same test has to stand, that they are taken together."""
_AT_ONCE = 4 << 20
"""Bytes of texts that are searched at a time: it takes some 30 times as much."""
_TOGETHER = 50
"""So many patterns are one regular expression."""
_LISTED_KINDS = INTEGER_KINDS | TIMESTAMP_KINDS | {Kind.VARCHAR, Kind.DATE, Kind.TIME, Kind.DECIMAL, Kind.BOOLEAN}
_RANGED_KINDS = {Kind.VARCHAR, Kind.VARBINARY, Kind.DECIMAL}
"""Ranges of the others, where they are ordered, are arrays (`paimon_pyds.predicate.disjunction`)."""
_PARTS_OF_TEXTS = (Op.STARTS_WITH, Op.ENDS_WITH, Op.CONTAINS, Op.LIKE)

_Join = Callable[..., Predicate]
_Texts = Sequence[str]


def gathered(parts: Sequence[Predicate], any_of: _Join) -> list[Predicate]:
    """Conditions joined by OR, with very many of one form as one; ``any_of`` joins others by OR."""
    forms: dict[Any, list[Predicate]] = defaultdict(list)
    for part in parts:
        forms[_form(part)].append(part)
    found: list[Predicate] = []
    for form, members in forms.items():
        if len(members) <= _FEW:
            found += members
        else:
            found += _with_common_tests(members, any_of) if form is None else [form[0](members)]
    return found


def _form(part: Predicate) -> tuple[Callable[[Sequence[Any]], Predicate], object] | None:
    """What makes one condition of such ones, and what else they have in common; None of others."""
    if isinstance(part, Computed):
        return _any_computed, None
    if isinstance(part, Leaf):
        return (_any_text, part.column) if part.op in _PARTS_OF_TEXTS and part.literals[0] else None
    tests = conjuncts(part)
    columns = frozenset(test.column for test in tests if isinstance(test, Leaf))
    kinds = {column.type.kind for column in columns if column.type is not None}
    ops = [test.op for test in tests if isinstance(test, Leaf)]
    if ops.count(Op.EQ) == len(columns) == len(tests) and kinds <= _LISTED_KINDS:
        return _any_row, columns
    boxed = box_columns(part)
    if boxed is not None:
        return any_box, boxed
    lower, upper = ops.count(Op.GE) + ops.count(Op.GT), ops.count(Op.LE) + ops.count(Op.LT)
    ranged = len(columns) == lower == upper == 1 and len(tests) == 2 and kinds <= _RANGED_KINDS
    return (_any_range, columns) if ranged else None


def _computed(text: str, columns: Iterable[ColumnRef], condition: RowCondition) -> Computed:
    return make_computed(text, (column.name for column in columns), condition)


def _with_common_tests(members: Sequence[Predicate], any_of: _Join) -> list[Predicate]:
    """Conditions of several tests, where few of one test stand beside very many others: ``b = 1`` in ``a = 5 AND b = 1
    OR a = 9 AND b = 1 OR …`` is asked once, and then whether one of the others holds."""
    by_tests: dict[frozenset[object], list[Predicate]] = defaultdict(list)
    for member in members:
        tests = () if is_computed(member) else conjuncts(member)  # what may fail is asked of the same rows as before
        kinds = frozenset[object]((test.op, test.column) if isinstance(test, Leaf) else None for test in tests)
        by_tests[kinds if len(kinds) == len(tests) > 1 else frozenset()].append(member)
    found: list[Predicate] = []
    for kinds, alike in by_tests.items():
        found += _with_common_test(kinds, alike, any_of) if len(alike) > _FEW else alike
    return found


def _with_common_test(kinds: frozenset[object], members: Sequence[Predicate], any_of: _Join) -> Sequence[Predicate]:
    """The same for conditions whose tests are of the same kinds; as they are where no test stands in very many."""
    best: dict[Leaf, list[Predicate]] = {}
    for kind in kinds - {None}:
        groups: dict[Leaf, list[Predicate]] = defaultdict(list)
        for member in members:
            tests = conjuncts(member)
            common = next(test for test in tests if isinstance(test, Leaf) and (test.op, test.column) == kind)
            groups[common].append(make_and(*(test for test in tests if test is not common)))
        if not best or len(groups) < len(best):
            best = groups
    if not best or len(best) * _SHARED > len(members):
        return members
    return [make_and(common, any_of(*others)) for common, others in best.items()]


@dataclass(frozen=True)
class _AnyRow:
    """Whether rows have, in some columns, the values of one of many rows.

    Attributes:
        columns: the columns.
        values: of each, every value once.
        codes: of each but the first, sorted: the rows up to there, as a number made of those up to the column before
            and of the place of the value.
    """

    columns: tuple[ColumnRef, ...]
    values: tuple[pa.Array, ...]
    codes: tuple[Int64s, ...]

    def matches(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Whether it has, per row."""
        found: Int64s | None = None
        for number, (column, values) in enumerate(zip(self.columns, self.values, strict=True)):
            given = one_array(column_values(column, batch))
            given = given if given.type == values.type else given.cast(values.type)
            here = to_numpy(pc.index_in(given, values).fill_null(-1)).astype(np.int64)
            if found is None:
                found = here
                continue
            codes = self.codes[number - 1]
            joined = np.where((found < 0) | (here < 0), -1, found * len(values) + here)
            at = np.minimum(np.searchsorted(codes, joined), len(codes) - 1)
            found = np.where(codes[at] == joined, at, -1)
        assert found is not None
        return from_numpy(found >= 0)


def _any_row(members: Sequence[And]) -> Predicate:
    rows = [{test.column: test.literals[0] for test in member.children if isinstance(test, Leaf)} for member in members]
    columns = sorted(rows[0], key=str)
    lists, codes = _coded([[row[column] for column in columns] for row in rows])
    tests = [
        Leaf(Op.IN if len(values) > 1 else Op.EQ, c, tuple(values)) for c, values in zip(columns, lists, strict=True)
    ]
    arrays = [array(v, arrow_type(c.type)) for c, v in zip(columns, lists, strict=True) if c.type is not None]
    text = f"({', '.join(map(str, columns))}) IN ({len(rows):,} rows)"
    return make_and(*tests, _computed(text, columns, _AnyRow(tuple(columns), tuple(arrays), codes)))


def _coded(rows: Sequence[Sequence[Any]]) -> tuple[list[list[Any]], tuple[Int64s, ...]]:
    """The values of each column, every one once, and the codes of `_AnyRow`."""
    lists: list[list[Any]] = []
    codes: list[Int64s] = []
    found: Int64s | None = None
    for column in zip(*rows, strict=True):
        values = sorted(set(column))
        place = {value: number for number, value in enumerate(values)}
        here = np.array([place[value] for value in column], np.int64)
        if found is None:
            found = here
        else:
            distinct, found = np.unique(found * len(values) + here, return_inverse=True)
            codes.append(distinct)
        lists.append(values)
    return lists, tuple(codes)


@dataclass(frozen=True)
class _Parts:
    """Parts of one length, at least a byte.

    Attributes:
        length: their number of bytes.
        texts: the parts.
        words: up to eight bytes of each as numbers, by where in the parts they are: the first ones, and the last ones.
    """

    length: int
    texts: frozenset[bytes]
    words: dict[int, pa.Array]

    @classmethod
    def of(cls, length: int, texts: set[bytes]) -> _Parts:
        """The parts, all of the same length."""
        size = min(length, 8)
        numbers = {
            start: np.array([int.from_bytes(text[start : start + size], "little") for text in texts], np.uint64)
            for start in {0, length - size}
        }
        return cls(length, frozenset(texts), {start: from_numpy(found) for start, found in numbers.items()})


@dataclass(frozen=True)
class _AnyText:
    """Whether the texts of a column have one of many parts, or match one of many patterns.

    Attributes:
        column: the column.
        parts: by where they are looked for, those of each number of bytes.
        regexes: of the patterns.
    """

    column: ColumnRef
    parts: dict[Op, tuple[_Parts, ...]]
    regexes: _Texts

    def matches(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Whether they have, per row."""
        values = one_array(column_values(self.column, batch))
        if pa.types.is_dictionary(values.type):
            return self._of(values.dictionary).take(values.indices).fill_null(False)
        return self._of(values)

    def _of(self, values: pa.Array) -> pa.BooleanArray:
        if values.nbytes > _AT_ONCE and len(values) > 1:
            half = len(values) // 2
            return pa.concat_arrays([self._of(values.slice(0, half)), self._of(values.slice(half))])
        if values.nbytes > _AT_ONCE:
            return pa.array([self._has_part(values[0].as_py()) or self._has_pattern(values)[0].as_py()])
        texts = _Bytes(values.cast(pa.large_string()).fill_null(""))
        found = np.zeros(len(values), np.bool_)
        for op, by_length in self.parts.items():
            for parts in by_length:
                ends = texts.stops - parts.length
                places = {Op.STARTS_WITH: texts.starts, Op.ENDS_WITH: ends}.get(op, texts.everywhere)
                found[texts.rows_with(parts, places)] = True
        left = np.flatnonzero(~found)
        found[left] = to_numpy(self._has_pattern(values.take(from_numpy(left))))
        return pc.and_(from_numpy(found), values.is_valid())

    def _has_pattern(self, values: pa.Array) -> pa.BooleanArray:
        found = np.zeros(len(values), np.bool_)
        for regex in self.regexes:
            left = np.flatnonzero(~found)
            found[left] = to_numpy(pc.match_substring_regex(values.take(from_numpy(left)), regex).fill_null(False))
        return from_numpy(found)

    def _has_part(self, text: str) -> bool:
        """Of a very long text."""
        data = text.encode()
        tests: dict[Op, Callable[[bytes], bool]] = {Op.STARTS_WITH: data.startswith, Op.ENDS_WITH: data.endswith}
        return any(
            tests.get(op, data.__contains__)(part)
            for op, by_length in self.parts.items()
            for parts in by_length
            for part in parts.texts
        )


class _Bytes:
    """The bytes of all texts of a column, one after the other, and as numbers of eight bytes that begin at each."""

    def __init__(self, texts: pa.Array) -> None:
        offsets = np.frombuffer(texts.buffers()[1], np.int64, len(texts) + 1, texts.offset * 8)
        self._data = bytes(texts.buffers()[2][offsets[0] : offsets[-1]]) if len(texts) and texts.buffers()[2] else b""
        self.starts, self.stops = offsets[:-1] - offsets[0], offsets[1:] - offsets[0]
        words = np.frombuffer(self._data + bytes(8), np.uint8).astype(np.uint64)
        for step in (1, 2, 4):
            words = words[:-step] | words[step:] << np.uint64(8 * step)
        self._words = words
        self.everywhere = np.arange(len(self._data))

    def rows_with(self, parts: _Parts, places: Int64s) -> Int64s:
        """The rows that have one of some parts of one length at one of some places."""
        length = parts.length
        places = places[(places >= 0) & (places + length <= len(self._data))]
        size = min(length, 8)
        for start, wanted in parts.words.items():
            words = self._words[places + start] & np.uint64((1 << 8 * size) - 1)
            places = places[to_numpy(pc.is_in(from_numpy(words), wanted))]
        rows: Int64s = np.searchsorted(self.starts, places, "right") - 1
        inside = places + length <= self.stops[rows]
        places, rows = places[inside], rows[inside]
        if length > size:
            data = self._data
            equal = [data[place : place + length] in parts.texts for place in places.tolist()]
            rows = rows[np.array(equal, np.bool_)]
        return rows


def _any_text(leaves: Sequence[Leaf]) -> Predicate:
    column = leaves[0].column
    parts: dict[Op, dict[int, set[bytes]]] = defaultdict(lambda: defaultdict(set))
    patterns = [leaf.literals for leaf in leaves if leaf.op is Op.LIKE]
    for leaf in leaves:
        if leaf.op is not Op.LIKE:
            part = leaf.literals[0].encode()
            parts[leaf.op][len(part)].add(part)
    regexes = [like_regex(*pattern)[6:-2] for pattern in dict.fromkeys(patterns)]
    together = [rf"(?s)\A(?:{'|'.join(regexes[n : n + _TOGETHER])})\z" for n in range(0, len(regexes), _TOGETHER)]
    frozen = {op: tuple(_Parts.of(n, found) for n, found in by_length.items()) for op, by_length in parts.items()}
    text = f"{column} LIKE ANY ({len(leaves):,} patterns)"
    return make_and(_bounds(column, leaves), _computed(text, [column], _AnyText(column, frozen, together)))


def _bounds(column: ColumnRef, leaves: Sequence[Leaf]) -> Predicate:
    """What statistics can tell: between which texts those lie that match."""
    prefixes = [
        like_prefix(*leaf.literals) if leaf.op is Op.LIKE else leaf.literals[0] if leaf.op is Op.STARTS_WITH else ""
        for leaf in leaves
    ]
    ends = [text_successor(prefix) for prefix in prefixes]
    if not all(ends) or column.type is None or column.type.kind is not Kind.VARCHAR:
        return Leaf(Op.IS_NOT_NULL, column)
    return _spans(column, list(zip(prefixes, ends, strict=True)))


def _spans(column: ColumnRef, ranges: Sequence[tuple[Any, Any]]) -> Predicate:
    """A few ranges that many lie in."""
    ordered = sorted(ranges)
    size = -(-len(ordered) // _BRANCHES)
    parts = (ordered[start : start + size] for start in range(0, len(ordered), size))
    spans = ((part[0][0], max(high for _, high in part)) for part in parts)
    return make_or(*(make_and(Leaf(Op.GE, column, (low,)), Leaf(Op.LE, column, (high,))) for low, high in spans))


@dataclass(frozen=True)
class _AnyRange:
    """Whether the values of a column lie in one of many ranges. ``column``: the column. ``ends``: where ranges begin
    and end, in turn and in order: a value, and whether the place is behind it."""

    column: ColumnRef
    ends: tuple[tuple[Any, bool], ...]

    def matches(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Whether they do, per row."""
        values = one_array(column_values(self.column, batch))
        values = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
        given = values.dictionary.to_pylist()
        inside = [value is not None and bisect_right(self.ends, (value, False)) % 2 == 1 for value in given]
        return pa.array(inside, pa.bool_()).take(values.indices).fill_null(False)


def _any_range(members: Sequence[And]) -> Predicate:
    ranges: list[tuple[Any, Any]] = []
    for member in members:
        place = {leaf.op: leaf.literals[0] for leaf in member.children if isinstance(leaf, Leaf)}
        low = (place[Op.GE], False) if Op.GE in place else (place[Op.GT], True)
        high = (place[Op.LT], False) if Op.LT in place else (place[Op.LE], True)
        if low < high:
            ranges.append((low, high))
    joined: list[tuple[Any, Any]] = []
    for low, high in sorted(ranges):
        if joined and low <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], high)
        else:
            joined.append((low, high))
    if not joined:
        return Const.FALSE
    column = next(leaf.column for leaf in members[0].children if isinstance(leaf, Leaf))
    text = f"{column} in {len(members):,} ranges"
    computed = _computed(text, [column], _AnyRange(column, tuple(end for one in joined for end in one)))
    return make_and(_spans(column, [(low[0], high[0]) for low, high in joined]), computed)


@dataclass(frozen=True)
class _AnyComputed:
    """Whether one of many conditions holds."""

    conditions: tuple[RowCondition, ...]

    def matches(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Whether one does, per row; of conditions that fail on rows which others keep, they are not asked of those."""
        try:
            return reduce(pc.or_, (condition.matches(batch) for condition in self.conditions))
        except ExpressionError:
            found = np.zeros(batch.num_rows, np.bool_)
            for condition in self.conditions:
                left = np.flatnonzero(~found)
                found[left] = to_numpy(condition.matches(batch.take(from_numpy(left))))
            return from_numpy(found)


def _any_computed(members: Sequence[Computed]) -> Predicate:
    text = f"{members[0].text} OR {len(members) - 1:,} conditions more"
    columns = [ColumnRef(name) for member in members for name in member.columns]
    return _computed(text, columns, _AnyComputed(tuple(member.condition for member in members)))
