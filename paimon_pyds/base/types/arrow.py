"""The Arrow types that carry values of Paimon's types, and Arrow's scalars as internal values.

Source: the table of public types in the README.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from paimon_pyds.base.arrays import scalar
from paimon_pyds.base.cache import ByIdentity
from paimon_pyds.base.types.kinds import MAX_LENGTH, TIMESTAMP_KINDS, UNIT_DIGITS, Kind
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
from paimon_pyds.errors import SchemaError, UnsupportedError

_ARROW_ATOMS: dict[Kind, pa.DataType] = {
    Kind.BOOLEAN: pa.bool_(), Kind.TINYINT: pa.int8(), Kind.SMALLINT: pa.int16(), Kind.INT: pa.int32(),
    Kind.BIGINT: pa.int64(), Kind.FLOAT: pa.float32(), Kind.DOUBLE: pa.float64(), Kind.CHAR: pa.string(),
    Kind.VARCHAR: pa.string(), Kind.BINARY: pa.binary(), Kind.VARBINARY: pa.binary(), Kind.DATE: pa.date32(),
    Kind.TIME: pa.time32("ms"), Kind.BLOB: pa.large_binary(),
}  # fmt: skip

ARROW_VARIANT = pa.struct(
    [pa.field("value", pa.binary(), False), pa.field("metadata", pa.binary(), False, metadata={"variant": "true"})]
)
"""The Arrow type of VARIANT, marked as Spark marks its own: for Arrow a struct with the mark is of the same type as one
without."""
_MARK = (b"variant", b"true")
_VARIANT_EXTENSIONS = frozenset({"parquet.variant", "arrow.parquet.variant"})


def is_variant(type_: pa.DataType) -> bool:
    """Whether an Arrow type is said to carry VARIANT: by Spark's mark, or as the extension of Parquet readers."""
    if isinstance(type_, pa.BaseExtensionType):
        return type_.extension_name in _VARIANT_EXTENSIONS
    if not pa.types.is_struct(type_) or (at := type_.get_field_index("metadata")) < 0:
        return False
    return _MARK in (type_.field(at).metadata or {}).items()


def timestamp_unit(type_: DataType) -> str:
    """The Arrow unit of a timestamp type: ms for precision 0 to 3, us for 4 to 6, ns for 7 to 9."""
    precision = getattr(type_, "precision", None)
    if precision is None:
        raise SchemaError(f"{type_} is not a timestamp")
    return "ms" if precision <= 3 else "us" if precision <= 6 else "ns"


def arrow_type(type_: DataType) -> pa.DataType:
    """The Arrow type that carries values of this type. Raises UnsupportedError: none does, as for BLOB."""
    match type_:
        case ArrayType():
            return pa.list_(pa.field("element", arrow_type(type_.element), type_.element.nullable))
        case VectorType():
            return pa.list_(pa.field("element", arrow_type(type_.element), type_.element.nullable), type_.length)
        case MapType():
            return _arrow_map(type_.key, type_.value)
        case MultisetType():
            return _arrow_map(type_.element, AtomicType(Kind.INT, nullable=False))
        case RowType():
            return pa.struct([_arrow_field(f) for f in type_.fields])
    if type_.kind is Kind.VARIANT:
        return ARROW_VARIANT
    atom = _ARROW_ATOMS.get(type_.kind)
    if atom is not None:
        return atom
    if isinstance(type_, AtomicType):
        if type_.kind is Kind.DECIMAL:
            return pa.decimal128(type_.precision, type_.scale)
        if type_.kind in TIMESTAMP_KINDS:
            return pa.timestamp(timestamp_unit(type_), "UTC" if type_.kind is Kind.TIMESTAMP_LTZ else None)
    raise UnsupportedError(
        f"columns of type {type_.name} are not supported",
        hint="read the other columns with columns=…, or use Java Paimon",
        feature="unknown-types",
    )


def _arrow_map(key: DataType, value: DataType) -> pa.DataType:
    return pa.map_(
        pa.field("key", arrow_type(key), nullable=False), pa.field("value", arrow_type(value), value.nullable)
    )


def _arrow_field(field_: DataField) -> pa.Field:
    return pa.field(field_.name, arrow_type(field_.type), field_.type.nullable)


def arrow_schema(fields: Sequence[DataField]) -> pa.Schema:
    """The Arrow schema of these columns, with nullability, without metadata.
    Raises UnsupportedError: a column of a type that has no Arrow type here, or has one inside."""
    return _SCHEMAS.get((fields,), None, lambda: _arrow_schema(fields))


_SCHEMAS = ByIdentity[pa.Schema]()


def _arrow_schema(fields: Sequence[DataField]) -> pa.Schema:
    found = []
    for field_ in fields:
        try:
            found.append(_arrow_field(field_))
        except UnsupportedError as error:
            told = f"column {field_.name}: {error.message}"
            raise UnsupportedError(told, hint=error.hint, feature=error.feature) from None
    return pa.schema(found)


def from_arrow_type(type_: pa.DataType, next_id: Iterator[int], *, nullable: bool = True) -> DataType:
    """The Paimon type for an Arrow type; nested ROW fields take their ids from ``next_id``.
    Raises SchemaError: Paimon has no such type."""
    kind = Kind.VARIANT if is_variant(type_) else _FROM_ARROW.get(type_)
    if kind is not None:
        return AtomicType(kind, nullable=nullable)
    t = pa.types
    if t.is_dictionary(type_):
        return from_arrow_type(type_.value_type, next_id, nullable=nullable)
    if t.is_string(type_) or t.is_large_string(type_) or t.is_string_view(type_):
        return AtomicType(Kind.VARCHAR, length=MAX_LENGTH, nullable=nullable)
    if t.is_binary(type_) or t.is_large_binary(type_) or t.is_binary_view(type_):
        return AtomicType(Kind.VARBINARY, length=MAX_LENGTH, nullable=nullable)
    if t.is_fixed_size_binary(type_):
        return AtomicType(Kind.BINARY, length=type_.byte_width, nullable=nullable)
    if t.is_decimal(type_) and 0 <= type_.scale <= type_.precision <= 38:
        return AtomicType(Kind.DECIMAL, precision=type_.precision, scale=type_.scale, nullable=nullable)
    if t.is_time(type_):
        return AtomicType(Kind.TIME, precision=0 if str(type_) == "time32[s]" else 3, nullable=nullable)
    if t.is_timestamp(type_):
        precision = UNIT_DIGITS[type_.unit]
        stamp = Kind.TIMESTAMP if type_.tz is None else Kind.TIMESTAMP_LTZ
        return AtomicType(stamp, precision=precision, nullable=nullable)
    if t.is_list(type_) or t.is_large_list(type_) or t.is_fixed_size_list(type_):
        item = type_.value_field
        return ArrayType(element=from_arrow_type(item.type, next_id, nullable=item.nullable), nullable=nullable)
    if t.is_map(type_):
        key = from_arrow_type(type_.key_type, next_id, nullable=False)
        value = from_arrow_type(type_.item_type, next_id, nullable=type_.item_field.nullable)
        return MapType(key=key, value=value, nullable=nullable)
    if t.is_struct(type_):
        return _from_struct(type_, next_id, nullable)
    raise SchemaError(f"Paimon has no type for Arrow's {type_}", hint="cast the column first")


def _from_struct(type_: pa.StructType, next_id: Iterator[int], nullable: bool) -> RowType:
    ids = [next(next_id) for _ in range(type_.num_fields)]
    members = [type_.field(i) for i in range(type_.num_fields)]
    fields = tuple(
        DataField(i, f.name, from_arrow_type(f.type, next_id, nullable=f.nullable))
        for i, f in zip(ids, members, strict=True)
    )
    return RowType(fields=fields, nullable=nullable)


_FROM_ARROW: dict[pa.DataType, Kind] = {
    pa.bool_(): Kind.BOOLEAN, pa.int8(): Kind.TINYINT, pa.int16(): Kind.SMALLINT, pa.int32(): Kind.INT,
    pa.int64(): Kind.BIGINT, pa.uint8(): Kind.SMALLINT, pa.uint16(): Kind.INT, pa.uint32(): Kind.BIGINT,
    pa.float32(): Kind.FLOAT, pa.float64(): Kind.DOUBLE, pa.date32(): Kind.DATE,
}  # fmt: skip


def from_arrow_schema(schema: pa.Schema) -> tuple[DataField, ...]:
    """Columns for a new table from an Arrow schema; ids count from 0, top-level columns first come first numbered.
    Raises SchemaError: a column of a type that Paimon does not have, or two columns of one name."""
    names = schema.names
    if len(set(names)) != len(names):
        raise SchemaError(f"two columns have the same name: {sorted(n for n in set(names) if names.count(n) > 1)}")
    counter = iter(range(MAX_LENGTH))
    fields = []
    for column in schema:
        id_ = next(counter)
        comment = (column.metadata or {}).get(b"comment")
        type_ = _type_of(column, counter)
        fields.append(DataField(id_, column.name, type_, None if comment is None else comment.decode()))
    return tuple(fields)


def _type_of(column: pa.Field, next_id: Iterator[int]) -> DataType:
    if pa.types.is_null(column.type):
        raise SchemaError(
            f"column {column.name!r} has no value, which leaves its type open", hint="cast the column first"
        )
    try:
        return from_arrow_type(column.type, next_id, nullable=column.nullable)
    except SchemaError as error:
        raise SchemaError(f"column {column.name!r}: {error.message}", hint=error.hint) from None


def with_leaves(field: pa.Field, leaf: Callable[[pa.DataType], pa.DataType]) -> pa.Field:
    """The field with what ``leaf`` gives for each type in it that has nothing inside."""
    type_ = field.type
    if pa.types.is_struct(type_):
        return field.with_type(pa.struct([with_leaves(inner, leaf) for inner in type_]))
    if pa.types.is_map(type_):
        return field.with_type(pa.map_(with_leaves(type_.key_field, leaf), with_leaves(type_.item_field, leaf)))
    if pa.types.is_list(type_):
        return field.with_type(pa.list_(with_leaves(type_.value_field, leaf)))
    return field.with_type(leaf(type_))


def internal_to_scalar(value: object, type_: DataType) -> pa.Scalar:
    """An Arrow scalar of the column's Arrow type from an internal value (None gives a null)."""
    return scalar(value, arrow_type(type_))


def scalar_to_internal(scalar: pa.Scalar) -> Any:
    """The internal value of an Arrow scalar; None for null. Dates, times and timestamps become integers."""
    if not scalar.is_valid:
        return None
    if pa.types.is_temporal(scalar.type):
        return scalar.value
    return scalar.as_py()
