"""Parquet files with MAP columns whose keys many rows share: the values of frequent keys get columns of their own.

`paimon_pyds.format.shared_maps` says how such a column is stored. A key has the same column in all rows of a file; keys
that came later, or are rare, are in the overflow. (Java: class MapSharedShreddingRowConverter, which moves keys between
columns; readers go by what each row names.)

The footer has all keys of the file. Where they are too many for that the column is stored as a plain MAP, or the next
rows go to another file: readers refuse long footers (pyarrow: 100 MB of texts; pypaimon-rust: 16 MiB of keys).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import field, replace

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import Int64s, array, from_numpy, one_array, pc, to_numpy
from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.types import ArrayType, AtomicType, DataField, Kind, MapType, RowType, arrow_type
from paimon_pyds.errors import OptionError, SchemaError, UnsupportedError
from paimon_pyds.format import has_kind
from paimon_pyds.format.batches import list_window
from paimon_pyds.format.shared_maps import LAYOUT, MAPPING, OVERFLOW, PREFIX, SHARED

_COLUMNS_PER_ENTRY = 8
"""Columns for each entry that a row has on average, at most: that many times the memory of the values is taken."""
FEW_KEY_BYTES, MOST_KEY_BYTES = 4 << 20, 48 << 20
"""Bytes of keys in the footer: up to the first number a file may begin with them, and takes further rows."""
_NUMBER_BYTES = 12
"""Of a key's number and the signs around it."""
_INT = AtomicType(Kind.INT)


def shared_columns(fields: Sequence[DataField], options: Mapping[str, str]) -> dict[str, int]:
    """The most columns for the keys of each MAP that the options want to be stored so.

    Those with other keys than texts, or VARIANT values, are stored plain.
    Raises OptionError: an unknown layout, or a number of columns below 1.
    """
    typed, found = TableOptions(options), dict[str, int]()
    for each in fields:
        layout = str(typed.get(f"fields.{each.name}.{LAYOUT}") or "default").lower()
        if layout not in ("default", SHARED):
            raise OptionError(f"fields.{each.name}.{LAYOUT} can't be {layout!r:.40}", hint=f"default or {SHARED}")
        if layout != SHARED or not isinstance(each.type, MapType):
            continue
        most = typed.get(f"fields.{each.name}.map.shared-shredding.max-columns")
        if most is not None and most < 1:
            raise OptionError(f"fields.{each.name}.map.shared-shredding.max-columns must be at least 1, not {most}")
        if each.type.key.kind is Kind.VARCHAR and not has_kind(each.type.value, Kind.VARIANT):
            found[each.name] = 256 if most is None else int(most)
    return found


class SharedMapPlan:
    """How the MAP columns of one file are stored, and the keys that it has had so far. Row groups come in order.

    ``fields``: the columns of the table. ``most``: as `shared_columns` gives them. ``first_rows``: of the file.
    """

    def __init__(self, fields: Sequence[DataField], most: Mapping[str, int], first_rows: pa.Table) -> None:
        self._fields = fields
        self._columns = dict[str, _Keys]()
        for each in fields:
            found = _Keys.of(each, first_rows.column(each.name), most[each.name]) if each.name in most else None
            if found is not None:
                self._columns[each.name] = found

    @property
    def is_empty(self) -> bool:
        """Whether all columns are stored plain."""
        return not self._columns

    @property
    def is_full(self) -> bool:
        """Whether further rows should be in another file, as this one has too many keys."""
        return any(keys.size > FEW_KEY_BYTES for keys in self._columns.values())

    def new_key_bytes(self, rows: pa.RecordBatch) -> int:
        """The bytes that rows, which are not applied yet, add to the footer."""
        return sum(
            _size(keys.new(list_window(maps, maps.keys).unique()))
            for maps, keys in ((rows.column(name), keys) for name, keys in self._columns.items())
        )

    @property
    def stored(self) -> list[DataField]:
        """The columns of the file."""
        return [
            replace(each, type=self._columns[each.name].stored_type) if each.name in self._columns else each
            for each in self._fields
        ]

    def apply(self, rows: pa.Table) -> pa.Table:
        """Rows as the file has them. Raises SchemaError: a key is NULL; UnsupportedError: keys are too many."""
        columns = [
            self._columns[each.name].taken_apart(one_array(column)) if each.name in self._columns else column
            for each, column in zip(self._fields, rows.columns, strict=True)
        ]
        return pa.Table.from_arrays(columns, names=rows.column_names)

    def arrow_schema(self, schema: pa.Schema) -> bytes:
        """What the file's metadata has as ``ARROW:schema``. ``schema``: of `stored`."""
        described = [
            each.with_metadata({**(each.metadata or {}), **self._columns[each.name].metadata})
            if each.name in self._columns
            else each
            for each in schema
        ]
        return base64.b64encode(pa.schema(described).serialize().to_pybytes())


@dataclass(slots=True)
class _Keys:
    """The keys of one column.

    Attributes:
        source: the column of the table.
        columns: how many columns hold values: those of the keys with a lower number.
        numbers: of the keys.
        size: bytes of the keys in the footer.
        outside: the numbers of keys that were in the overflow.
        widest: entries of a row, at most.
    """

    source: DataField
    columns: int
    numbers: dict[str, int]
    size: int
    outside: set[int] = field(default_factory=set)
    widest: int = 0

    @classmethod
    def of(cls, column: DataField, first: pa.ChunkedArray, most: int) -> _Keys | None:
        """Those of the first rows of a file, the most frequent first. None where they are too many."""
        live = one_array(first).drop_null()
        counted = pc.value_counts(list_window(live, live.keys).drop_null())
        keys, counts = counted.field(0), to_numpy(counted.field(1))
        if (size := _size(keys)) > FEW_KEY_BYTES:
            return None
        order = np.argsort(-counts, kind="stable")
        entries = int(counts.sum())
        average = -(-entries * _COLUMNS_PER_ENTRY // max(1, len(live)))
        names = keys.take(from_numpy(order)).to_pylist()
        numbers = {name: number for number, name in enumerate(names)}
        return cls(column, max(1, min(most, len(keys), average)), numbers, size)

    @property
    def _type(self) -> MapType:
        assert isinstance(self.source.type, MapType)
        return self.source.type

    @property
    def stored_type(self) -> RowType:
        """The type of the column in the file."""
        value = self._type.value.with_nullable(True)
        members = [(MAPPING, ArrayType(element=_INT)), *((f"__col_{i}", value) for i in range(self.columns))]
        types = [*members, (OVERFLOW, MapType(key=_INT.with_nullable(False), value=value))]
        fields = tuple(DataField(number, name, type_) for number, (name, type_) in enumerate(types))
        return RowType(fields=fields, nullable=self.source.type.nullable)

    @property
    def metadata(self) -> dict[bytes, bytes]:
        """What readers have to know of the column."""
        texts = json.dumps(self.numbers, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()
        inside = {str(number): [number] for number in range(min(self.columns, len(self.numbers)))}
        found = {
            "version": "1",
            "field-dict": bytes(pa.Codec("zstd").compress(texts)).decode("latin-1"),
            "field-dict-compression": "zstd",
            "field-dict-original-size": str(len(texts)),
            "field-columns": json.dumps(inside, separators=(",", ":")),
            "overflow-set": json.dumps(sorted(self.outside), separators=(",", ":")),
            "num-columns": str(self.columns),
            "max-row-width": str(self.widest),
        }
        return {
            f"paimon.{LAYOUT}".encode(): SHARED.encode(),
            **{PREFIX + key.encode(): text.encode() for key, text in found.items()},
        }

    def taken_apart(self, maps: pa.MapArray) -> pa.StructArray:
        """Maps as the file has them."""
        valid = to_numpy(maps.is_valid())
        live = maps if valid.all() else maps.filter(from_numpy(valid))
        keys, items = list_window(live, live.keys), list_window(live, live.items)
        if keys.null_count:
            raise SchemaError(f"column {self.source.name!r}: a key of a MAP is NULL")
        offsets = to_numpy(live.offsets).astype(np.int64)
        lengths: Int64s = offsets[1:] - offsets[:-1]
        self.widest = max(self.widest, int(lengths.max(initial=0)))
        rows, numbers = np.repeat(np.arange(len(live)), lengths), self._numbered(keys)
        at = _last_of_each(rows, numbers)
        inside = at[numbers[at] < self.columns]
        outside = at[numbers[at] >= self.columns]
        self.outside.update(np.unique(numbers[outside]).tolist())
        stored = self._stored(len(live), items, (rows, numbers), inside, outside)
        if valid.all():
            return stored
        return stored.take(array(np.cumsum(valid) - 1, mask=~valid))

    def new(self, keys: pa.StringArray) -> pa.StringArray:
        """Those of different keys that have no number yet."""
        return array([key for key in keys.to_pylist() if key not in self.numbers], pa.string())

    def _numbered(self, keys: pa.StringArray) -> Int64s:
        coded = keys.dictionary_encode()
        self.size += _size(self.new(coded.dictionary))
        if self.size > MOST_KEY_BYTES:
            raise UnsupportedError(
                f"column {self.source.name!r}: a file would have more keys of MAPs than its footer can hold",
                hint=f"unset fields.{self.source.name}.{LAYOUT}: the keys are too many to be shared",
            )
        of_batch = [self.numbers.setdefault(name, len(self.numbers)) for name in coded.dictionary.to_pylist()]
        numbers: Int64s = np.array(of_batch, np.int64)[to_numpy(coded.indices)]
        return numbers

    def _stored(
        self, count: int, items: pa.Array, entries: tuple[Int64s, Int64s], inside: Int64s, outside: Int64s
    ) -> pa.StructArray:
        rows, numbers = entries
        mapping = np.full((count, self.columns), -1, np.int32)
        mapping[rows[inside], numbers[inside]] = numbers[inside]
        offsets = np.arange(0, (count + 1) * self.columns, self.columns, dtype=np.int32)[: count + 1]
        members: list[pa.Array] = [pa.ListArray.from_arrays(from_numpy(offsets), from_numpy(mapping.reshape(-1)))]
        by_column = inside[np.argsort(numbers[inside], kind="stable")]
        ends = np.searchsorted(numbers[by_column], np.arange(self.columns + 1))
        for start, stop in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
            mine = by_column[start:stop]
            chosen, there = np.zeros(count, np.int64), np.zeros(count, np.bool_)
            chosen[rows[mine]], there[rows[mine]] = mine, True
            members.append(items.take(array(chosen, mask=~there)))
        type_ = arrow_type(self.stored_type)
        overflow = type_.field(OVERFLOW).type
        counts = np.bincount(rows[outside], minlength=count)
        keys = array(numbers[outside].astype(np.int32), pa.int32())
        pairs = pa.StructArray.from_arrays(
            [keys, items.take(from_numpy(outside))], fields=[overflow.key_field, overflow.item_field]
        )
        buffers = [
            array(counts > 0, pa.bool_()).buffers()[1],
            pa.py_buffer(np.append(0, np.cumsum(counts)).astype(np.int32)),
        ]
        members.append(pa.Array.from_buffers(overflow, count, buffers, children=[pairs]))
        casted = [member.cast(each.type) for member, each in zip(members, type_, strict=True)]
        return pa.StructArray.from_arrays(casted, fields=list(type_))


def _size(keys: pa.StringArray) -> int:
    """Bytes of different keys in the footer, but for signs that JSON writes as several."""
    return (pc.sum(pc.binary_length(keys)).as_py() or 0) + _NUMBER_BYTES * len(keys)


def _last_of_each(rows: Int64s, numbers: Int64s) -> Int64s:
    """The places of entries, ascending, without those whose key comes again in their row."""
    order = np.lexsort((numbers, rows))
    again = (np.diff(rows[order]) == 0) & (np.diff(numbers[order]) == 0)
    return np.sort(order[~np.append(again, False)[: len(order)]])
