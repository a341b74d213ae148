"""Reading a file of an older schema: columns are matched by field id, cast, or added as NULL, and filters go back.

Sources: Paimon documentation (concepts/spec/schema, "Update Schema": field ids are for ever), and tables altered and
read by Java 1.4. A column's default value applies when rows are written, never when old files are read. Partition
columns have the values of the file's partition, whatever the file holds: those migrated from Hive hold none.

`Evolution.apply` turns a batch of the file's columns into the table's columns; `Evolution.devolve` turns a filter on
the table's columns into one on the file's columns, for indexes and statistics. The law between the two: a row that
matches the filter after `apply` matches the devolved filter before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import array, from_numpy, is_true, pc
from paimon_pyds.base.cache import ByIdentity
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.types.arrow import arrow_schema, arrow_type, scalar_to_internal
from paimon_pyds.base.types.kinds import Kind
from paimon_pyds.base.types.model import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VectorType,
)
from paimon_pyds.base.types.nulls import as_nulls, wants_nulls_only
from paimon_pyds.base.types.vectors import stored_fields, vectors_of
from paimon_pyds.errors import CorruptFileError, SchemaError, UnsupportedError
from paimon_pyds.format import has_kind
from paimon_pyds.format.batches import rebuild
from paimon_pyds.sql.predicate.exact import matches
from paimon_pyds.sql.predicate.tree import (
    Among,
    And,
    ColumnRef,
    Computed,
    Const,
    Leaf,
    MapKey,
    Op,
    Or,
    Predicate,
    is_computed,
    make_and,
    make_or,
    tested_columns,
)

_Convert = Callable[[pa.Array], pa.Array]


@dataclass(frozen=True, slots=True)
class Evolution:
    """How the columns of one file become columns of the table.

    ``file_fields`` are the columns to read from the file, under the file's names and types, in the order in which
    `apply` takes them; ``read_fields`` are the columns that `apply` gives.
    """

    file_fields: tuple[DataField, ...]
    read_fields: tuple[DataField, ...]
    sources: tuple[int | None, ...]
    """For each of ``read_fields``, its place in ``file_fields``; None when the file does not have it."""

    converters: tuple[_Convert | None, ...]
    schema: pa.Schema
    without_index: frozenset[str] = frozenset()
    """Columns of the file whose indexes are not used: containers can't distinguish a column ``m[k]`` from a key of a
    MAP column ``m``, and hold CHAR values with the blanks that are removed when ORC files are read."""

    zone: str | None = None
    """The time zone of casts that depend on one; None where no call names it."""

    constants: Mapping[str, pa.Scalar] | None = None
    """Partition columns, by their names in ``read_fields``: they are not read from the file."""

    def fields_not_in(self, other: Evolution) -> list[DataField]:
        """The columns of the file that are read for this one and not for the other."""
        read = {(f.name, f.type) for f in other.file_fields}
        return [f for f in self.file_fields if (f.name, f.type) not in read]

    def unchanged(self, name: str) -> DataField | None:
        """The column of the file that has the values of a column of the table unchanged; None if there is no such
        column."""
        for field, source, convert in zip(self.read_fields, self.sources, self.converters, strict=True):
            if field.name == name and source is not None and convert is None and name not in (self.constants or ()):
                return self.file_fields[source]
        return None

    def apply(self, batch: pa.RecordBatch, partition: Mapping[str, pa.Array] | None = None) -> pa.RecordBatch:
        """The table's columns (schema ``arrow_schema(read_fields)``) from a batch of ``arrow_schema(file_fields)``.

        ``partition``: partition columns of each row, where the batch has rows of several files.

        Raises:
            SchemaError: a NULL for a column that is NOT NULL now, or a value that can't be cast to the new type.
            UnsupportedError: a timestamp outside of what Arrow can hold in the new precision; a cast that depends on a
                time zone, and none is named.
        """
        if self.file_fields == self.read_fields or not self.read_fields:
            return batch
        columns = [self._column(batch, i, partition) for i in range(len(self.read_fields))]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _column(self, batch: pa.RecordBatch, i: int, partition: Mapping[str, pa.Array] | None) -> pa.Array:
        field, source, convert = self.read_fields[i], self.sources[i], self.converters[i]
        if partition and field.name in partition:
            array = partition[field.name]
        elif self.constants and field.name in self.constants:
            array = pa.repeat(self.constants[field.name], batch.num_rows)
        elif source is None:
            array = pa.nulls(batch.num_rows, self.schema.field(i).type)
        else:
            array = batch.column(source)
            if convert is not None:
                try:
                    array = convert(array)
                except (SchemaError, UnsupportedError, CorruptFileError) as error:
                    raise type(error)(f"column {field.name!r}: {error.message}", hint=error.hint) from error
        if not field.type.nullable and array.null_count:
            raise SchemaError(
                f"column {field.name!r} is NOT NULL, but a file written before that has {array.null_count} NULLs in it",
                hint="alter the column to be nullable, or rewrite the rows that are NULL",
            )
        return array

    def devolve(self, predicate: Predicate) -> Predicate:
        """The filter for the file's own columns that matches at least the rows that match ``predicate`` after `apply`.

        ``predicate`` is bound to ``read_fields``; conditions on other columns count as unknown (they match).
        """
        tests = {column.name: Leaf(Op.IS_NOT_NULL, column) for column in tested_columns(predicate)}
        if not is_computed(predicate) and all(self._devolve_leaf(leaf) is leaf for leaf in tests.values()):
            return predicate  # the file has these columns as they are now
        match predicate:
            case And(children=children):
                return make_and(*(self.devolve(c) for c in children))
            case Or(children=children, ranges=ranges):
                if ranges is not None and self.constants and ranges.column.name in self.constants:
                    return _of_constant(predicate, ranges.column.name, self.constants[ranges.column.name])
                return make_or(*(self.devolve(c) for c in children))
            case Leaf():
                return self._devolve_leaf(predicate)
            case Among():
                return self._devolve_rows(predicate)
            case Computed():
                return Const.TRUE
        return predicate

    def devolves_exactly(self, predicate: Predicate) -> bool:
        """Whether the devolved filter keeps exactly what ``predicate`` does: no leaf is about a column that is cast."""
        return not is_computed(predicate) and all(map(self._is_exact, tested_columns(predicate)))

    def _is_exact(self, column: ColumnRef) -> bool:
        position = next((i for i, f in enumerate(self.read_fields) if f.name == column.name), None)
        if position is None:
            return False
        source = self.sources[position]
        if source is None:
            return True
        if self.file_fields[source].name in self.without_index:
            return False
        place = _devolve_path(column.path, self.read_fields[position].type, self.file_fields[source].type)
        return place is None or (not isinstance(place, Const) and same_type(place[1], place[2]))

    def _devolve_rows(self, node: Among) -> Predicate:
        """The condition ``(a, b) IN (…)`` for the file's columns, which may have other types or be missing."""
        places = tuple(self._devolve_leaf(Leaf(Op.IS_NOT_NULL, column)) for column in node.columns)
        if any(self.constants and column.name in self.constants for column in node.columns):
            return self._devolved_rows(node, places)
        key = places, self.zone
        if key not in node.known:  # of a table's files, most are of one schema
            node.known[key] = self._devolved_rows(node, places)
        return node.known[key]

    def _devolved_rows(self, node: Among, of_columns: Sequence[Predicate]) -> Predicate:
        columns, arrays, others = list[ColumnRef](), list[pa.Array](), list[Predicate]()
        from paimon_pyds.sql.predicate.among import among, column_test, place_of, places_of, row_count

        kept = np.ones(row_count(node), np.bool_)
        for column, values, places, there in zip(node.columns, node.values, places_of(node), of_columns, strict=True):
            if self.constants and column.name in self.constants:
                kept &= places == place_of(values, self.constants[column.name], column)
            elif not isinstance(there, Leaf):
                others.append(there)
            elif _same_type(column, there.column):
                columns.append(there.column)
                arrays.append(values.take(from_numpy(places)))
            elif (changed := self._devolve_values(column, values, there.column)) is not None:
                columns.append(there.column)
                arrays.append(changed.take(from_numpy(places)))
            else:
                others.append(self.devolve(column_test(column, values)))
        left = among(columns, [array.filter(from_numpy(kept)) for array in arrays]) if columns else Const.TRUE
        return make_and(left if kept.any() else Const.FALSE, *others)

    def _devolve_values(self, column: ColumnRef, values: pa.Array, of_file: ColumnRef) -> pa.Array | None:
        """Values as the file's column has them, NULL for those that it can't have; None where there are very many, or
        values of the table stand for others there."""
        from paimon_pyds.sql.predicate.among import LISTED_VALUES

        if len(values) > LISTED_VALUES:
            return None
        parts = [self._devolve_leaf(Leaf(Op.EQ, column, (value,))) for value in map(scalar_to_internal, values)]
        if not all(part is Const.FALSE or (isinstance(part, Leaf) and part.op is Op.EQ) for part in parts):
            return None
        literals = [part.literals[0] if isinstance(part, Leaf) else None for part in parts]
        assert of_file.type is not None
        return array(literals, arrow_type(of_file.type))

    def _devolve_leaf(self, leaf: Leaf) -> Predicate:
        position = next((i for i, f in enumerate(self.read_fields) if f.name == leaf.column.name), None)
        if position is None:
            return Const.TRUE
        source = self.sources[position]
        if self.constants and leaf.column.name in self.constants:
            return _of_constant(leaf, leaf.column.name, self.constants[leaf.column.name])
        if source is None:
            return _on_null(leaf.op)
        read, file = self.read_fields[position], self.file_fields[source]
        if file.name in self.without_index:
            return Const.TRUE
        if read == file:
            return leaf
        place = _devolve_path(leaf.column.path, read.type, file.type)
        if isinstance(place, Const):
            return place
        if place is None:
            return _on_null(leaf.op)
        path, read_type, file_type = place
        column = ColumnRef(file.name, path, file_type, file.id)
        if same_type(read_type, file_type):
            return Leaf(leaf.op, column, leaf.literals)
        from paimon_pyds.metadata.evolution.devolve import devolve_leaf  # few tables have changed types

        return devolve_leaf(leaf, column, read_type, file_type, self.zone)


def _same_type(a: ColumnRef, b: ColumnRef) -> bool:
    return a.type is not None and b.type is not None and same_type(a.type, b.type)


_PLANS = ByIdentity[Evolution]()


@lru_cache(maxsize=512)
def _plan(
    file_fields: tuple[DataField, ...],
    read_fields: tuple[DataField, ...],
    available: frozenset[str] | None,
    trims_char: bool,
    elsewhere: frozenset[str],
    zone: str | None,
) -> Evolution:
    by_id = {f.id: f for f in stored_fields(file_fields) if available is None or f.name in available}
    wanted: dict[int, int] = {}
    converters: list[_Convert | None] = []
    sources: list[int | None] = []
    for field in read_fields:
        file = None if field.name in elsewhere else by_id.get(field.id)
        if file is None:
            sources.append(None)
            converters.append(None)
            continue
        if wants_nulls_only(field) and not isinstance(file.type, RowType):
            file = by_id[field.id] = as_nulls(file)
        sources.append(wanted.setdefault(field.id, len(wanted)))
        try:
            converters.append(_converter(file.type, field.type, zone))
        except SchemaError as error:
            raise SchemaError(f"column {field.name!r}: {error.message}") from error
    columns = tuple(by_id[id_] for id_ in wanted)
    if columns == read_fields:
        columns = read_fields
    without_index = _alike(file_fields)
    if trims_char:
        without_index |= {f.name for f in file_fields if has_kind(f.type, Kind.CHAR)}
    schema = arrow_schema(read_fields)
    return Evolution(columns, read_fields, tuple(sources), tuple(converters), schema, without_index, zone)


def _alike(fields: Sequence[DataField]) -> frozenset[str]:
    """Columns named like a key of a MAP column of the same file, and those MAP columns."""
    bracketed = [f.name for f in fields if f.name.endswith("]")]
    maps = [f.name for f in fields if isinstance(f.type, MapType)] if bracketed else []
    return frozenset(n for m in maps for name in bracketed if name.startswith(f"{m}[") for n in (m, name))


def plan_evolution(
    file_fields: Sequence[DataField],
    read_fields: Sequence[DataField],
    available: Sequence[str] | None = None,
    *,
    trims_char: bool = False,
    partition: Mapping[str, pa.Scalar] | None = None,
    zone: str | None = None,
) -> Evolution:
    """How to read ``read_fields`` of the table from a file whose schema is ``file_fields``.

    Args:
        file_fields: the columns of the schema that the file was written under (its ``_SCHEMA_ID``).
        read_fields: the columns wanted, as the table names and types them now.
        available: names of the columns that the file holds (``_WRITE_COLS``); all of them when None. Other columns read
            as NULL.
        trims_char: the file's format gives CHAR values without blanks at their end, and its indexes may have them
            (`FormatTraits.trims_char`).
        partition: the values of partition columns and of others that the file need not be read for.
        zone: the time zone of casts that depend on one; None where the call names none, and `Evolution.apply` refuses
            them.

    Raises:
        SchemaError: a column's type was changed in a way that Paimon has no cast for.
        UnsupportedError: a column of a type that is not supported.
    """
    present = None if available is None else frozenset(available)
    constants = {f.name: partition[f.name] for f in read_fields if f.name in partition} if partition else {}
    others = present, trims_char, frozenset(constants), zone
    evolution = _PLANS.get(
        (file_fields, read_fields), others, lambda: _plan(tuple(file_fields), tuple(read_fields), *others)
    )
    return replace(evolution, constants=constants) if constants else evolution


def same_type(a: DataType, b: DataType) -> bool:
    """Whether values of both types are the same: equal but for NOT NULL and comments, at every depth."""
    if isinstance(a, RowType) and isinstance(b, RowType):
        return len(a.fields) == len(b.fields) and all(
            x.id == y.id and x.name == y.name and same_type(x.type, y.type)
            for x, y in zip(a.fields, b.fields, strict=True)
        )
    if isinstance(a, AtomicType | VectorType) or isinstance(b, AtomicType | VectorType):
        return a.with_nullable(True) == b.with_nullable(True)
    return a.kind is b.kind and all(same_type(x, y) for x, y in zip(a.children(), b.children(), strict=True))


def _converter(file: DataType, read: DataType, zone: str | None) -> _Convert | None:
    """The function from arrays of the file's type to arrays of the table's, None when they are the same."""
    if same_type(file, read) and arrow_type(file) == arrow_type(read):
        return None
    match file, read:
        case RowType(), RowType():
            return _row_converter(file, read, zone)
        case ArrayType(), ArrayType():
            element = _not_null(_converter(file.element, read.element, zone), read.element)
            return lambda array: rebuild(array, arrow_type(read), [_apply(element, array.values)])
        case ArrayType(), VectorType():
            return _vector_converter(_converter(file.element, read.element, zone), read)
        case ((MapType() | MultisetType()), (MapType() | MultisetType())) if file.kind is read.kind:
            return _map_converter(file, read, zone)
        case AtomicType(), AtomicType():
            if same_type(file, read):
                return None
            from paimon_pyds.metadata.evolution.casting import can_cast, cast_atomic, depends_on_zone

            if not can_cast(file, read):
                raise SchemaError(f"Paimon has no cast from {file} to {read}")
            if zone is None and depends_on_zone(file, read):
                return partial(_refuse_without_zone, file, read)
            return lambda array: cast_atomic(array, file, read, zone or "UTC")
    raise SchemaError(f"Paimon has no cast from {file} to {read}")


def _vector_converter(element: _Convert | None, read: VectorType) -> _Convert:
    type_ = arrow_type(read)

    def convert(array: pa.Array) -> pa.Array:
        lists = rebuild(array, pa.list_(type_.value_field), [_apply(element, array.values)])
        try:
            return vectors_of(lists, type_)
        except SchemaError as error:
            raise CorruptFileError(error.message) from None

    return convert


def _refuse_without_zone(file: AtomicType, read: AtomicType, array: pa.Array) -> pa.Array:
    raise UnsupportedError(
        f"it was {file} and is {read} now: its old values depend on a time zone, and this operation would store them "
        "for good, or what follows from them",
        hint="name the zone of the JVMs that read the table: options={'timezone': 'Europe/Berlin'}",
    )


def _apply(convert: _Convert | None, array: pa.Array) -> pa.Array:
    return array if convert is None else convert(array)


def _not_null(convert: _Convert | None, read: DataType) -> _Convert | None:
    """The conversion, followed by a check when NULL is not allowed any more."""
    if read.nullable:
        return convert

    def checked(array: pa.Array) -> pa.Array:
        result = _apply(convert, array)
        if result.null_count:
            raise SchemaError(f"NULL in a place of type {read}, in a file written before that")
        return result

    return checked


def _row_converter(file: RowType, read: RowType, zone: str | None) -> _Convert:
    by_id = {f.id: i for i, f in enumerate(file.fields)}
    plan: list[tuple[int | None, _Convert | None, DataField]] = []
    for field in read.fields:
        i = by_id.get(field.id)
        plan.append((i, None if i is None else _converter(file.fields[i].type, field.type, zone), field))
    fields = list(arrow_schema(read.fields))

    def convert(array: pa.Array) -> pa.Array:
        children = []
        below = array.flatten()  # NULL where the row is: what stands there may have no cast
        for (i, inner, field), arrow in zip(plan, fields, strict=True):
            child = pa.nulls(len(array), arrow.type) if i is None else _apply(inner, below[i])
            if not field.type.nullable and pc.any(pc.and_(child.is_null(), array.is_valid())).as_py():
                raise SchemaError(f"field {field.name!r} is NOT NULL, but a file written before that has NULLs in it")
            children.append(child)
        if not children:
            return rebuild(array, arrow_type(read), [])
        return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null())

    return convert


def _map_converter(file: MapType | MultisetType, read: MapType | MultisetType, zone: str | None) -> _Convert:
    keys = (file.children()[0], read.children()[0])
    if not same_type(*keys):
        raise SchemaError(f"the keys of a map can't be cast from {keys[0]} to {keys[1]}")
    key = _converter(*keys, zone)
    value: _Convert | None = None
    if isinstance(file, MapType) and isinstance(read, MapType):
        value = _not_null(_converter(file.value, read.value, zone), read.value)
    type_ = arrow_type(read)

    def convert(array: pa.Array) -> pa.Array:
        entries = pa.StructArray.from_arrays(
            [_apply(key, array.keys), _apply(value, array.items)], fields=[type_.key_field, type_.item_field]
        )
        return rebuild(array, type_, [entries])

    return convert


def _on_null(op: Op) -> Predicate:
    """What a leaf says of a column that is NULL in every row."""
    return Const.TRUE if op is Op.IS_NULL else Const.FALSE


def _of_constant(predicate: Predicate, name: str, value: pa.Scalar) -> Predicate:
    """What a predicate on one column says where this has one value in every row."""
    mask = matches(predicate, pa.RecordBatch.from_arrays([pa.repeat(value, 1)], [name]))
    return Const.TRUE if is_true(mask)[0] else Const.FALSE


def _devolve_path(
    path: Sequence[str | MapKey], read: DataType, file: DataType
) -> tuple[tuple[str | MapKey, ...], DataType, DataType] | Const | None:
    """The path under the file's names with the types reached on both sides.

    None when the file does not have the place (it is NULL in every row); TRUE when nothing can be said.
    """
    steps: list[str | MapKey] = []
    for step in path:
        if isinstance(step, MapKey):
            if not isinstance(read, MapType) or not isinstance(file, MapType) or not same_type(read.key, file.key):
                return Const.TRUE
            read, file = read.value, file.value
            steps.append(step)
            continue
        if not isinstance(read, RowType) or not isinstance(file, RowType):
            return Const.TRUE
        inner = next((f for f in read.fields if f.name == step), None)
        if inner is None:
            return Const.TRUE
        there = next((f for f in file.fields if f.id == inner.id), None)
        if there is None:
            return None
        steps.append(there.name)
        read, file = inner.type, there.type
    return tuple(steps), read, file
