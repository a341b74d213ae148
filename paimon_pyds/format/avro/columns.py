"""Columns of Avro data files at places that are known (`avro.lockstep`): a whole column at once, for some rows.

Values of arrays, maps and rows inside of them are made by fastavro, for these rows alone.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Flags, Int64s, Octets, bits, slices, unaligned_words
from paimon_pyds.base.types import AtomicType, DataField, DataType, arrow_schema, arrow_type
from paimon_pyds.base.types.kinds import TIMESTAMP_KINDS, Kind
from paimon_pyds.format.avro.batch_decode import (
    MAX_STEPS,
    PADDING_BYTES,
    Bytes,
    Capture,
    Longs,
    TooManyStepsError,
    Walker,
    to_arrow,
)
from paimon_pyds.format.avro.encode import varints
from paimon_pyds.format.avro.lockstep import FieldPlaces
from paimon_pyds.format.avro.records import to_array
from paimon_pyds.format.avro.schema import Node, Primitive, Record, Union, parse_schema
from paimon_pyds.format.avro.types import MAX_DEPTH, record_of

_BRANCH = ""
"""The field before those of a record that may be NULL as a whole: which of the two it is."""


_MISFITS = (pa.ArrowException, TooManyStepsError, EOFError, LookupError, TypeError, ValueError, OverflowError)


class FileRecord:
    """The records of a file: its schema as types.

    Attributes:
        record: the type of the records; where they may be NULL, with a field more, the first.
        branch: the value of that field in records that are not NULL; None where no record may be NULL.

    ``plain``: the file's schema by `plain_schema`, without references to types by their names.
    """

    def __init__(self, plain: Any) -> None:
        node = parse_schema(plain, max_depth=MAX_DEPTH)
        self._members: dict[str, Any] = {f["name"]: f["type"] for f in record_of(plain)["fields"]}
        self.branch: int | None = None
        if isinstance(node, Union):
            self.branch = next(n for n, branch in enumerate(node.branches) if isinstance(branch, Record))
            node = node.branches[self.branch]
        assert isinstance(node, Record)
        fields = node.fields
        self.record = Record(fields if self.branch is None else ((_BRANCH, Primitive("long")), *fields))
        self._nodes = dict(fields)

    def wanted(self, fields: Sequence[DataField]) -> frozenset[str]:
        """Names of the record's fields whose places are needed."""
        return frozenset({f.name for f in fields} | (set() if self.branch is None else {_BRANCH}))

    def node(self, name: str) -> Node:
        """The type of a field."""
        return self._nodes[name]

    def items_schema(self, name: str) -> Any:
        """The schema of an array of a field's values, as fastavro takes it."""
        from fastavro import parse_schema as parse

        return parse({"type": "array", "items": self._members[name]}, _write_hint=False)


class MisfitError(Exception):
    """A value is not what its column says, or is written in an unusual way: the records are to be read one by one."""


class LocatedRows:
    """Rows whose fields have been located, to be decoded column by column.

    Raises MisfitError: a record is NULL.
    """

    def __init__(self, of: FileRecord, located: FieldPlaces, rows: Int64s) -> None:
        self._of = of
        self._located = located
        self._rows = rows
        self.count = len(rows)
        if of.branch is not None:
            branches = self._captured(Primitive("long"), _BRANCH, rows)
            if not isinstance(branches, Longs) or (branches.values != of.branch).any():
                raise MisfitError

    def batch(self, fields: Sequence[DataField], picked: Int64s | None = None) -> pa.RecordBatch:
        """Some columns of the rows, or of those at some positions among them, as a batch of ``arrow_schema(fields)``.
        Raises MisfitError."""
        rows = self._rows if picked is None else self._rows[picked]
        try:
            columns = [self._column(field, rows) for field in fields]
        except _MISFITS as error:
            raise MisfitError from error
        if any(c.null_count and not f.type.nullable for c, f in zip(columns, fields, strict=True)):
            raise MisfitError
        return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(fields))

    def _captured(self, node: Node, name: str, rows: Int64s) -> Capture | None:
        """The values of a field, where they can be had at once."""
        found, ends = Walker(self._located.data).walk(node, self._starts(name, rows), keep=True)
        self._check(ends)
        return found

    def _starts(self, name: str, rows: Int64s) -> Int64s:
        return self._located.places[name][rows].astype(np.int64)

    def _check(self, ends: Int64s) -> None:
        if len(ends) and ends.max() > len(self._located.data) - PADDING_BYTES:
            raise MisfitError

    def _column(self, field: DataField, rows: Int64s) -> pa.Array:
        if not len(rows):
            return pa.nulls(0, arrow_type(field.type))
        data = self._located.data
        if not isinstance(field.type, AtomicType):
            return self._nested(field, rows)
        found = self._captured(self._of.node(field.name), field.name, rows)
        if found is None:
            raise MisfitError
        if isinstance(found, Bytes) and field.type.kind is Kind.DECIMAL:
            return _decimals(found, field.type, data)
        return to_arrow(found, _stored(field.type), data).view(arrow_type(field.type))

    def _nested(self, field: DataField, rows: Int64s) -> pa.Array:
        from fastavro import schemaless_reader

        starts = self._starts(field.name, rows)
        _, ends = Walker(self._located.data, max_steps=max(MAX_STEPS, len(rows))).walk(
            self._of.node(field.name), starts
        )
        self._check(ends)
        _, offsets, body = slices(self._located.data, starts, ends).buffers()
        size = int(np.frombuffer(offsets, np.int32, len(rows) + 1)[-1])
        head = varints(np.array([len(rows)]))[0].as_py()
        source = io.BytesIO(b"".join([head, memoryview(body)[:size], b"\0"]))
        values: Any = schemaless_reader(source, self._of.items_schema(field.name), None)
        if len(values) != len(rows):
            raise MisfitError
        return to_array(values, field.type)


def _stored(type_: DataType) -> pa.DataType:
    """The Arrow type of values as the file has them."""
    if type_.kind in TIMESTAMP_KINDS:
        return pa.int64()
    if type_.kind in (Kind.DATE, Kind.TIME):
        return pa.int32()
    return arrow_type(type_)


def _decimals(found: Bytes, type_: AtomicType, data: Octets) -> pa.Array:
    """As `records` makes them: those of more digits than the type has are NULL."""
    sizes = found.ends - found.starts if found.valid is None else np.where(found.valid, found.ends - found.starts, 0)
    if sizes.max(initial=0) > 16:
        raise MisfitError  # one by one
    words = unaligned_words(data)
    low = _signed(words, found.ends, np.minimum(sizes, 8))
    long = sizes > 8
    high = low >> 63
    if long.any():
        high[long] = _signed(words, found.ends[long] - 8, sizes[long] - 8)
    valid = _less(low, high, 10 ** (type_.precision or 0)) & ~_less(low, high, 1 - 10 ** (type_.precision or 0))
    if found.valid is not None:
        valid &= found.valid
    pairs = np.stack((low, high), axis=1)
    return pa.Array.from_buffers(arrow_type(type_), len(sizes), [bits(valid), pa.py_buffer(pairs)])


def _less(low: Int64s, high: Int64s, limit: int) -> Flags:
    """Which numbers of 128 bits are less than another one."""
    upper, lower = limit >> 64, np.uint64(limit & (1 << 64) - 1)
    less: Flags = (high < upper) | ((high == upper) & (low.view(np.uint64) < lower))
    return less


def _signed(words: Any, ends: Int64s, sizes: Int64s) -> Int64s:
    """Signed numbers of up to 8 bytes each, the highest byte first, by the places where they end."""
    unused = 8 * (8 - sizes).astype(np.uint64)
    values = words[ends - 8].byteswap() << np.minimum(unused, np.uint64(63))
    signed: Int64s = values.view(np.int64) >> np.minimum(unused, np.uint64(63)).view(np.int64)
    return np.where(sizes == 0, 0, signed)
