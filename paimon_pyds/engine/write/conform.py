"""Incoming Arrow data → the table's columns, or one clear error before a byte is written; and default values.

Defaults are texts in the schema, read as Java Paimon casts them. Spark stores the SQL literal of a default, quotes and
all; Flink and Java's API store the bare text. Java reads both.
(Source: Paimon documentation, spark/default-value, and what Java Paimon 1.4 writes.)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import count

import numpy as np
import pyarrow as pa

from paimon_pyds.base.absent_fields import LeftOut, left_out_of
from paimon_pyds.base.arrays import array, decoded, from_numpy, pc, scalar, with_one_nan
from paimon_pyds.base.text import names_text
from paimon_pyds.base.types.arrow import arrow_schema, arrow_type, from_arrow_type, internal_to_scalar
from paimon_pyds.base.types.kinds import BINARY_KINDS, FLOAT_KINDS, MAX_LENGTH, STRING_KINDS, Kind
from paimon_pyds.base.types.model import AtomicType, DataField, DataType
from paimon_pyds.base.types.nested import (
    TIME_HINT,
    MissingMemberError,
    cast_nested,
    cast_number,
    check_carries_variant,
    has_strict_member,
    nulls_of,
    with_members,
)
from paimon_pyds.base.zones import default_zone
from paimon_pyds.errors import (
    GROWS,
    CorruptFileError,
    SchemaError,
    UnknownColumnError,
    UnsupportedError,
    columns_text,
    suggest,
)
from paimon_pyds.metadata.evolution.cast_text import PARSERS, decimal_text, parser
from paimon_pyds.sql.expression.cast import to_instant


def match_columns(names: Sequence[str], fields: Sequence[DataField], table: str) -> list[int | None]:
    """For each table column the position of the incoming column of that name (exactly, else ignoring case).

    None where the column is missing and may be filled with its default or NULL.
    Raises SchemaError: a column the table does not have, a missing NOT NULL column, an ambiguous name.
    """
    exact = {name: i for i, name in enumerate(names)}
    if len(exact) != len(names):
        raise SchemaError(f"two incoming columns have the same name: {names}", path=table)
    folded: dict[str, list[int]] = {}
    for i, name in enumerate(names):
        folded.setdefault(name.casefold(), []).append(i)
    found, missing = list[int | None](), None
    for field in fields:
        at = exact.get(field.name)
        if at is None:
            candidates = [i for i in folded.get(field.name.casefold(), []) if names[i] not in {f.name for f in fields}]
            if len(candidates) > 1:
                raise SchemaError(f"several incoming columns could be {field.name!r}", path=table)
            at = candidates[0] if candidates else None
        if at is None and not field.type.nullable and field.default is None:
            missing = missing or field
        found.append(at)
    unknown = [name for i, name in enumerate(names) if i not in found]
    if unknown:
        left = [field.name for field, at in zip(fields, found, strict=True) if at is None]
        similar = suggest(
            unknown[0], left or [f.name for f in fields], "columns missing from the data" if left else "its columns"
        )
        hint = f"{similar}; {GROWS}" if similar else GROWS
        raise UnknownColumnError(f"the table has no {columns_text(unknown)}", path=table, hint=hint)
    if missing is not None:
        raise SchemaError(
            f"the column {missing.name!r} is NOT NULL and missing from the data",
            path=table,
            hint=f"add it; the data has {names_text(names) or 'no column'}",
        )
    return found


class Conformer:
    """Brings batches to a table's columns and their Arrow types; made once for many batches.

    Values are cast where they stay the same: integers and decimals that fit, strings of any Arrow kind, timestamps
    that need no finer unit (TIMESTAMP(0) to (3) hold milliseconds, as in Java), midnights as dates. Floats alone are
    rounded, to FLOAT, as Spark does when it stores them, but never to infinity. Instants and wall-clock times do not
    go into each other. Missing columns, and NULLs of nullable ones, become the column's default where it has one.

    Args:
        fields: the table's columns.
        table: where it is, for errors.
        trims_char: take off the blanks at the end of CHAR values, so that indexes, statistics and buckets are of
            the values that will be read.
        partition_keys: columns that are read from the partition, blanks and all.
        placing: columns that determine bucket and partition: their NaN values, of which there are many, become Java's.
            With others, rows of one key, or that are equal in filters, would be in several buckets and partitions.
        bounded: whether texts and bytes must be within their column's length; other writers may have left longer ones.
        takes_members: NULL stands for members of structs that are not there.
    """

    def __init__(  # noqa: PLR0913 - named arguments, of one caller
        self,
        fields: Sequence[DataField],
        table: str,
        *,
        trims_char: bool = False,
        partition_keys: Sequence[str] = (),
        placing: Collection[str] = (),
        bounded: bool = True,
        takes_members: bool = False,
    ) -> None:
        self._fields = fields
        self._table = table
        self._takes_members = takes_members
        trimmed = (f.type.kind is Kind.CHAR and f.name not in partition_keys for f in fields)
        self._trimmed = [i for i, trim in enumerate(trimmed) if trims_char and trim]
        self._floats = [i for i, f in enumerate(fields) if f.name in placing and f.type.kind in FLOAT_KINDS]
        self._schema = arrow_schema(fields)
        # Bounds that Arrow does not hold, and NULLs that nested values may hide, are looked for in every batch.
        self._bounded = bounded and any(_bounded(f.type) for f in fields)
        hidden = self._bounded or any(map(has_strict_member, self._schema.types))
        self._has_defaults = any(f.default is not None for f in fields)
        self.missing: Sequence[str] = ()
        """Columns without a default that the last batch did not have."""
        changed = hidden or self._has_defaults or self._trimmed or self._floats
        self._plain = None if changed else self._schema
        self._names: Sequence[str] = ()
        self._found: Sequence[int | None] = ()

    def conform(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with exactly the table's columns.
        Raises SchemaError: columns that do not fit, values that do not fit, NULL in a NOT NULL column."""
        if self._plain is not None and batch.schema.equals(self._plain):
            self._names, self._found, self.missing = batch.schema.names, range(batch.num_columns), ()
            self._check_nulls(batch)
            return batch
        if batch.schema.names != self._names:
            self._found = match_columns(batch.schema.names, self._fields, self._table)
            self._names = batch.schema.names
        pairs = zip(self._fields, self._found, strict=True)
        self.missing = [field.name for field, at in pairs if at is None and field.default is None]
        columns = [
            _missing(field, type_, batch.num_rows) if at is None else self._conformed(batch, at, field, type_)
            for field, type_, at in zip(self._fields, self._schema.types, self._found, strict=True)
        ]
        if self._has_defaults:
            columns = [fill_default(column, field) for column, field in zip(columns, self._fields, strict=True)]
        for at in self._trimmed:
            columns[at] = pc.utf8_rtrim(columns[at], " ")
        for at in self._floats:
            columns[at] = with_one_nan(columns[at])
        fitting = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        self._check_nulls(fitting)
        return fitting

    def _conformed(self, batch: pa.RecordBatch, at: int, field: DataField, type_: pa.DataType) -> pa.Array:
        column, origin = batch.column(at), origin_of(batch.schema)
        if self._takes_members:
            column = with_members(column, type_)
        try:
            return conform_column(column, field, self._table, origin=origin, bounded=self._bounded)
        except MissingMemberError as error:
            raise error.of_write() from None

    def left_out(self, schema: pa.Schema) -> LeftOut:
        """What single rows of the last batch, of this schema, leave out: columns without a default, and members."""
        found = left_out_of(schema)
        if not found:
            return found
        pairs = zip(self._fields, self._found, strict=True)
        ours = {self._names[at]: field for field, at in pairs if at is not None}
        return {
            (ours[path[0]].name, *path[1:]): rows
            for path, rows in found.items()
            if path[0] in ours and (len(path) > 1 or ours[path[0]].default is None)
        }

    def _check_nulls(self, batch: pa.RecordBatch) -> None:
        for at, field in enumerate(self._fields):
            missing = 0 if field.type.nullable else batch.column(at).null_count
            if missing:
                error = SchemaError(
                    f"column {field.name!r} is NOT NULL, and {missing} of {batch.num_rows} rows have no value",
                    path=self._table,
                    hint="fill or drop those rows",
                )
                error.row = int(np.argmax(batch.column(at).is_null()))
                raise error


PANDAS, SPARK = "pandas", "spark"
_WHOLE_HINT = "floats of pandas go into integers where they are whole and below 2^53; cast others first"


def origin_of(schema: pa.Schema) -> str:
    """Whether rows with this schema come from ``pandas`` or ``spark``, as its metadata says; empty for others."""
    metadata = schema.metadata or {}
    return PANDAS if PANDAS.encode() in metadata else SPARK if SPARK.encode() in metadata else ""


def _bounded(type_: DataType) -> bool:
    """Whether a type has bounds that Arrow does not hold: of lengths of texts and bytes, of digits, or an encoding."""
    if isinstance(type_, AtomicType):
        has_length = type_.kind in STRING_KINDS | BINARY_KINDS and type_.length != MAX_LENGTH
        return has_length or type_.kind in (Kind.DECIMAL, Kind.VARIANT)
    return any(map(_bounded, type_.children()))


def _missing(field: DataField, type_: pa.DataType, rows: int) -> pa.Array:
    return nulls_of(rows, type_) if field.default is None else pa.repeat(default_value(field), rows)


def conform_column(
    column: pa.Array, field: DataField, table: str | None, *, origin: str = "", bounded: bool = True
) -> pa.Array:
    """Values as those of a table's column, in its Arrow type; NULL stays, whatever the column says of it.

    Args:
        column: the values.
        field: the column.
        table: where the table is, for errors; None to leave it out.
        origin: from pandas whole numbers may come as floats, as it converts integers in columns with NULL; from Spark
            floats are rounded to decimals and timestamps down to a coarser unit, as Spark does when it stores them.
        bounded: whether texts, bytes and decimals must be within the column's length.

    Raises:
        SchemaError: types that do not go together, a value that would not be the same; ``row`` is its position.
    """
    if pa.types.is_dictionary(column.type):
        column = decoded(column)
    type_ = arrow_type(field.type)
    if field.type.kind is Kind.VARIANT and bounded:
        return _variants(column, type_, field.name, table)
    bounded = bounded and _bounded(field.type)
    if pa.types.is_nested(type_) and pa.types.is_nested(column.type):
        return _nested(column, type_, field, table, origin, bounded)
    if column.type != type_:
        column = _converted(column, type_, field.name, field.type, table, origin)
    if bounded:
        from paimon_pyds.base.types.unfit_values import check_bounds

        check_bounds(column, field.type, field.name, table)
    return column


def _variants(column: pa.Array, type_: pa.DataType, name: str, table: str | None) -> pa.Array:
    """Values of VARIANT; bytes that no reader would understand are refused."""
    from paimon_pyds.base.variant.nodes import Nodes, levels_of

    try:
        if not pa.types.is_null(column.type) and not isinstance(column, pa.ExtensionArray):
            check_carries_variant(column.type, name)
        found = cast_nested(column, type_, name, lambda values, wanted, path: values.cast(wanted))
        for _ in levels_of(Nodes.of(found)[0]):
            pass
    except CorruptFileError as error:
        raise SchemaError(f"column {name}: {error.message}", path=table) from None
    except SchemaError as error:
        error.path = error.path or table
        raise
    return found


def _nested(
    column: pa.Array, type_: pa.DataType, field: DataField, table: str | None, origin: str, bounded: bool
) -> pa.Array:
    def leaf(values: pa.Array, wanted: pa.DataType, path: str) -> pa.Array:
        return _converted(values, wanted, path, field.type if path == field.name else None, table, origin)

    def fitted(values: pa.Array) -> pa.Array:
        found = cast_nested(values, type_, field.name, leaf)
        if values.type != type_:
            from paimon_pyds.base.types.unfit_values import check_no_more_members

            check_no_more_members(values.type, type_, field.name)
        if bounded:
            from paimon_pyds.base.types.unfit_values import check_bounds

            check_bounds(found, field.type, field.name, table)
        return found

    try:
        return fitted(column)
    except SchemaError as error:
        error.path = error.path or table
        if error.row is not None:  # of a leaf, which need not have a value for each row
            from paimon_pyds.base.types.unfit_values import first_refused

            error.row = first_refused(len(column), lambda n: fitted(column.take(from_numpy(np.arange(n)))))
        raise


def _converted(
    column: pa.Array, type_: pa.DataType, name: str, wanted: DataType | None, table: str | None, origin: str
) -> pa.Array:
    """Values in another Arrow type, which is that of ``wanted``; None within nested values."""
    source, t = column.type, pa.types
    whole = origin == PANDAS and t.is_floating(source) and t.is_integer(type_)
    cast = _whole if whole else _rounded if origin == SPARK else _same
    rounded = origin == SPARK and t.is_decimal(type_)
    fraction = t.is_floating(source) and not t.is_floating(type_) and not rounded
    if whole or t.is_null(source) or (_meaning(source) == _meaning(type_) and not fraction):
        try:
            return cast(column, type_)
        except pa.ArrowNotImplementedError:
            pass  # whatever the values are
        except pa.ArrowInvalid as error:
            from paimon_pyds.base.types.unfit_values import first_refused, misfit

            wanted = wanted or from_arrow_type(type_, count())
            at = first_refused(len(column), lambda n: cast(column.slice(0, n), type_))
            hint = TIME_HINT if t.is_time(source) else _WHOLE_HINT if whole else None
            raise misfit(column, at, name, wanted, path=table, hint=hint) from error
    from paimon_pyds.base.types.unfit_values import arrow_text, how_to_give

    plain = (wanted or from_arrow_type(type_, count())).with_nullable(True)
    text = f"column {name} is {arrow_text(source)} in the data and {plain} in the table"
    raise SchemaError(text, path=table, hint="cast it first" if origin == SPARK else how_to_give(type_, name))


def _same(column: pa.Array, type_: pa.DataType) -> pa.Array:
    """A cast that keeps values what they are, but for floats: FLOAT takes the nearest to any that it has room for."""
    t = pa.types
    if t.is_decimal256(column.type) and t.is_floating(type_):
        column = column.cast(pa.decimal128(38, column.type.scale))
    source, found = column.type, cast_number(column, type_)
    if t.is_decimal(source) and t.is_floating(type_):
        changed = pc.not_equal(cast_number(found, source), column)
    elif t.is_timestamp(source) and t.is_date(type_):
        changed = pc.not_equal(found.cast(source), column)
    else:
        return found
    if pc.any(changed).as_py():
        raise pa.ArrowInvalid(f"it is not the same as {type_}")
    return found


def _rounded(column: pa.Array, type_: pa.DataType) -> pa.Array:
    """A cast that also rounds floats to decimals, and timestamps down to milliseconds."""
    t = pa.types
    if t.is_timestamp(column.type) and t.is_timestamp(type_) and type_.unit == "ms":
        column = pc.floor_temporal(column, unit="millisecond")
    return _same(column, type_)


def _whole(column: pa.Array, type_: pa.DataType) -> pa.Array:
    """Floats of pandas as the integers that they were, NaN as NULL."""
    numbers = column.cast(pa.float64())
    numbers = pc.if_else(pc.is_nan(numbers), scalar(None, pa.float64()), numbers)
    if pc.any(pc.greater_equal(pc.abs(numbers), 2.0**53)).as_py():
        raise pa.ArrowInvalid("a float of that size may have been another integer")
    return numbers.cast(type_)


def _meaning(type_: pa.DataType) -> str:
    """What values are; those of one meaning go into each other. A DATE is the wall-clock time at its midnight."""
    t = pa.types
    if t.is_string(type_) or t.is_large_string(type_) or t.is_string_view(type_):
        return "text"
    if t.is_binary(type_) or t.is_large_binary(type_) or t.is_fixed_size_binary(type_) or t.is_binary_view(type_):
        return "bytes"
    if t.is_temporal(type_):
        local = t.is_date(type_) or (t.is_timestamp(type_) and type_.tz is None)
        return "wall clock" if local else "instant" if t.is_timestamp(type_) else "time" if t.is_time(type_) else "span"
    return "truth" if t.is_boolean(type_) else "number"


def default_value(field: DataField) -> pa.Scalar:
    """What rows get that have no value in this column, as a scalar of its Arrow type: its default, or NULL for none.

    Texts and bytes are cut to the length of their type, or filled up where that is fixed. An instant is what the clocks
    of `default_zone` show, as in Java those of the process that writes.
    Raises SchemaError: the text is no value of the column's type; UnsupportedError: a type that has no defaults here.
    """
    return internal_to_scalar(None if field.default is None else _parsed(field, field.default), field.type)


def check_default(field: DataField) -> None:
    """Refuse a default that is no value of its column, or is longer than the column allows.
    Raises SchemaError, UnsupportedError: as `default_value`."""
    if field.default is None:
        return
    default_value(field)
    if field.default == "'":
        raise _no_default(field, "it has one quote, Java Paimon looks for a second one")
    type_, text = field.type, _unquoted(field.default)
    if not isinstance(type_, AtomicType) or type_.length is None:
        return
    size = len(text) if type_.kind in STRING_KINDS else len(text.encode())
    if size > type_.length or (type_.kind is Kind.BINARY and size < type_.length):
        raise _no_default(field, f"it has {size} {'characters' if type_.kind in STRING_KINDS else 'bytes'}")


def fill_default(column: pa.Array, field: DataField) -> pa.Array:
    """NULLs replaced by the column's default, as Java does; NULLs of NOT NULL columns stay, for the writer to refuse.
    Raises SchemaError, UnsupportedError: as `default_value`, when there is a NULL to replace."""
    if field.default is None or not field.type.nullable or not column.null_count:
        return column
    return pc.fill_null(column, default_value(field))


def without_defaults(fields: Iterable[DataField]) -> tuple[DataField, ...]:
    """The columns as rows are written with that were in the table before: their NULLs are what they are."""
    return tuple(replace(field, default=None) for field in fields)


def _unquoted(text: str) -> str:
    """The text without the quotes around it; nothing inside is unescaped, as in Java."""
    return text[1:-1] if len(text) > 1 and text.startswith("'") and text.endswith("'") else text


def _no_default(field: DataField, why: str) -> SchemaError:
    return SchemaError(f"column {field.name}: {field.default!r} is no default for {field.type}", hint=why)


def _parsed(field: DataField, default: str) -> object:
    type_ = field.type
    if isinstance(type_, AtomicType):
        text = _unquoted(default)
        try:
            if type_.kind in STRING_KINDS:
                fitting = text[: type_.length]
                return fitting.ljust(type_.length or 0) if type_.kind is Kind.CHAR else fitting
            if type_.kind in BINARY_KINDS:
                data = text.encode()[: type_.length]
                return data.ljust(type_.length or 0, b"\0") if type_.kind is Kind.BINARY else data
            if type_.kind is Kind.TIMESTAMP_LTZ:
                clock = array([parser(type_)(text)], pa.int64())
                return to_instant(clock, type_, default_zone()).view(pa.int64())[0].as_py()
            if type_.kind in PARSERS:
                return parser(type_)(text)
            if type_.kind is Kind.DECIMAL:
                value = decimal_text(type_)(text)
                if value is None:
                    raise SchemaError(f"it has more digits than {type_}")
                return value
        except SchemaError as error:
            raise _no_default(field, error.message) from error
    raise UnsupportedError(f"column {field.name}: default values of type {type_} are not supported")
