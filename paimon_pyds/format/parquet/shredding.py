"""Parquet files with shredded VARIANT columns: which parts are columns, as options say or the first rows show.

Source: Paimon documentation, multimodal-table/variant; option keys of Java's ``CoreOptions``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from paimon_pyds.base.arrays import one_array
from paimon_pyds.base.options.table_options import TableOptions
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.types import ArrayType, AtomicType, DataField, DataType, RowType, arrow_type, parse_type
from paimon_pyds.base.types.kinds import BINARY_KINDS, INTEGER_KINDS, MAX_LENGTH, STRING_KINDS, TIMESTAMP_KINDS, Kind
from paimon_pyds.base.types.nested import with_values
from paimon_pyds.base.variant.infer import Inference, Limits
from paimon_pyds.base.variant.shred import shredded, stored_type
from paimon_pyds.errors import OptionError, SchemaError, UnsupportedError
from paimon_pyds.format import has_kind

_SCHEMA = "variant.shreddingSchema"
_MICROS = range(4, 7)
_SCALARS = INTEGER_KINDS | {Kind.BOOLEAN, Kind.FLOAT, Kind.DOUBLE, Kind.DATE, Kind.DECIMAL}


@dataclass(frozen=True, slots=True)
class Shredding:
    """How the VARIANT columns of new files are shredded.

    Attributes:
        fields: the columns of the table.
        given: by column, the types that the options give; None where they are inferred within ``limits``.
    """

    fields: Sequence[DataField]
    given: Mapping[str, DataType] | None
    limits: Limits

    @staticmethod
    def parse(fields: Sequence[DataField], options: Mapping[str, str]) -> Shredding | None:
        """What a table's options say; None where files hold whole values.

        Raises:
            OptionError: an option that does not parse.
            UnsupportedError: a type that no column of a part may have.
        """
        typed = TableOptions(options)
        if (text := typed.get(_SCHEMA)) is not None:
            given = _given(text)
            return Shredding(fields, given, Limits()) if given.keys() & {f.name for f in fields} else None
        if not typed.get("variant.inferShreddingSchema"):
            return None
        names = ("maxSchemaWidth", "maxSchemaDepth", "minFieldCardinalityRatio", "maxInferBufferRow")
        return Shredding(fields, None, Limits(*(typed.get(f"variant.shredding.{name}") for name in names)))

    def plan(self, first_rows: pa.Table) -> ShreddingPlan:
        """How the columns of a file are shredded. ``first_rows``: its first rows."""
        if self.given is not None:
            return ShreddingPlan(self.fields, [_whole_or(f.type, self.given.get(f.name)) for f in self.fields])
        inference = Inference(self.limits)
        columns = [one_array(column.slice(0, self.limits.rows)) for column in first_rows.columns]
        pairs = zip(self.fields, columns, strict=True)
        return ShreddingPlan(self.fields, [_inferred(f.type, column, inference) for f, column in pairs])


@dataclass(frozen=True, slots=True)
class ShreddingPlan:
    """How the columns of one file are shredded: ``shapes`` are their types, with those of the parts for VARIANT."""

    fields: Sequence[DataField]
    shapes: Sequence[DataType]

    @property
    def stored(self) -> list[DataField]:
        """The columns of the file."""
        pairs = zip(self.fields, self.shapes, strict=True)
        return [replace(field, type=_stored(field.type, shape)) for field, shape in pairs]

    def apply(self, rows: pa.Table, schema: pa.Schema) -> pa.Table:
        """Rows as the file has them. ``schema``: the Arrow schema of `stored`."""
        types = [field.type for field in self.fields]
        columns = [
            pa.chunked_array([_taken_apart(chunk, type_, shape) for chunk in column.chunks], wanted)
            for column, type_, shape, wanted in zip(rows.columns, types, self.shapes, schema.types, strict=True)
        ]
        return pa.Table.from_arrays(columns, schema=schema)


def _given(text: str) -> dict[str, DataType]:
    """The types that an option gives by column. Raises OptionError, UnsupportedError."""
    try:
        type_ = parse_type(_numbered(json.loads(text)))
    except (ValueError, RecursionError, SchemaError) as error:
        raise OptionError(f"{_SCHEMA}={text!r:.100} is no type in JSON: {error}") from None
    if not isinstance(type_, RowType):
        raise OptionError(f"{_SCHEMA} is a {type_}, it has to be a ROW of the VARIANT columns")
    return {field.name: _checked(field.type, field.name) for field in type_.fields}


def _numbered(value: Any) -> Any:
    """A type as JSON whose fields all have ids: Java gives numbers to those without."""
    if isinstance(value, list):
        return [{"id": number, **_numbered(m)} if isinstance(m, dict) else m for number, m in enumerate(value)]
    return {key: _numbered(member) for key, member in value.items()} if isinstance(value, dict) else value


def _checked(type_: DataType, path: str) -> DataType:
    """A type of parts, as files have it. Raises OptionError, UnsupportedError."""
    match type_:
        case RowType(fields=fields):
            names = [f.name for f in fields]
            if not names or len({*names}) < len(names):
                raise OptionError(
                    f"{_SCHEMA}: {path} is a ROW {'with two fields of one name' if names else 'of nothing'}"
                )
            return RowType(fields=tuple(replace(f, type=_checked(f.type, f"{path}.{f.name}")) for f in fields))
        case ArrayType(element=element):
            return ArrayType(element=_checked(element, f"{path}[]"))
        case AtomicType(kind=kind) if kind in STRING_KINDS | BINARY_KINDS:
            return AtomicType(Kind.VARCHAR if kind in STRING_KINDS else Kind.VARBINARY, length=MAX_LENGTH)
        case AtomicType(kind=kind) if kind in TIMESTAMP_KINDS and type_.precision in _MICROS:
            return AtomicType(kind, precision=6)
        case AtomicType(kind=kind) if kind in _SCALARS or kind is Kind.VARIANT:
            return type_.with_nullable(True)
    raise UnsupportedError(
        f"{_SCHEMA}: {path} is a {type_}, which no part of a VARIANT can be stored as",
        hint="use ROW, ARRAY, STRING, BYTES, BOOLEAN, numbers, DATE, TIMESTAMP(6), TIMESTAMP_LTZ(6) or VARIANT",
        feature="variant",
    )


def _whole_or(type_: DataType, shape: DataType | None) -> DataType:
    return type_ if shape is None or type_.kind is not Kind.VARIANT else shape


def _inferred(type_: DataType, column: pa.Array, inference: Inference) -> DataType:
    if type_.kind is Kind.VARIANT:
        return inference.of(column)
    if isinstance(type_, RowType) and has_kind(type_, Kind.VARIANT):
        members = zip(type_.fields, column.flatten(), strict=True)
        return replace(type_, fields=tuple(replace(f, type=_inferred(f.type, m, inference)) for f, m in members))
    return type_


def _stored(type_: DataType, shape: DataType) -> DataType:
    if type_.kind is Kind.VARIANT:  # whole values stay as all versions have them
        return type_ if shape.kind is Kind.VARIANT else stored_type(shape).with_nullable(type_.nullable)
    if isinstance(type_, RowType) and isinstance(shape, RowType):
        pairs = zip(type_.fields, shape.fields, strict=True)
        return replace(type_, fields=tuple(replace(f, type=_stored(f.type, by.type)) for f, by in pairs))
    return type_


def _taken_apart(column: pa.Array, type_: DataType, shape: DataType) -> pa.Array:
    if type_.kind is Kind.VARIANT:
        return column if shape.kind is Kind.VARIANT else shredded(column, shape)
    if not (isinstance(type_, RowType) and isinstance(shape, RowType) and has_kind(type_, Kind.VARIANT)):
        return column
    pairs = zip(column.flatten(), type_.fields, shape.fields, strict=True)
    members = [_taken_apart(member, field.type, by.type) for member, field, by in pairs]
    fields = list(arrow_type(_stored(type_, shape)))
    mask = column.is_null() if column.null_count else None
    return with_values(pa.StructArray.from_arrays(members, fields=fields, mask=mask))
