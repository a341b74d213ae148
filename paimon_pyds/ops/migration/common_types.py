"""The columns of a table whose files other writers made: the widest type of each column, and what each file has of it.

Paimon reads a file by the schema that its entry names, and casts from there (specification: Paimon documentation,
concepts/spec/schema): a file that lacks columns, or has a narrower type, gets a schema of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, TypeAlias

import pyarrow as pa

from paimon_pyds.base.arrays import scalar
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.types.arrow import arrow_type, scalar_to_internal
from paimon_pyds.base.types.kinds import BINARY_KINDS, INTEGER_BITS, STRING_KINDS, TIMESTAMP_KINDS, Kind
from paimon_pyds.base.types.model import ArrayType, AtomicType, DataField, DataType, MapType, RowType
from paimon_pyds.errors import SchemaError, UnsupportedError

Bounds: TypeAlias = "tuple[Any, Any, int | None]"
"""The least and greatest value of a column and its number of NULLs: internal values, None where not known."""
_MOST_DIGITS = 38
"""Greatest precision of a DECIMAL."""
_APPEND = "append the rows of this table instead: they are written anew"
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,18}")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


MAX_DEPTH = 64
"""Levels of types, as schema files may have them."""


def checked_name(name: object) -> str:
    """A column's name as a source's metadata has it. Raises TypeError: no text."""
    if not isinstance(name, str):
        raise TypeError(f"{name!r:.40} is no name of a column")
    return name


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What a file's own footer or header says.

    Attributes:
        format: parquet, orc or avro.
        rows: how many it has.
        fields: its columns; with the ids that the file gives them, or -1.
        untyped: columns that hold nothing but NULL, of no type.
        statistics: by the names of columns in the file.
        names: in the file, of columns that ``fields`` names otherwise, as they were renamed since.
    """

    format: str
    rows: int
    fields: tuple[DataField, ...]
    untyped: tuple[str, ...] = ()
    statistics: Mapping[str, Bounds] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A data file: its path, its bytes, and the texts of its partition's values (None for NULL) by column.

    ``needed`` are the ids of columns that it must have, as the source has their values outside of it, too.
    """

    path: str
    size: int
    partition: tuple[tuple[str, str | None], ...] = ()
    needed: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Source:
    """The source of a migration.

    Attributes:
        kind: ``directory``, ``delta`` or ``iceberg``.
        partition_by: the columns whose values partitions have.
        fields: its columns, where it declares them.
        instants: timestamps of 96 bits are instants.
        by_id: ``fields`` have ids, and columns of files are those of the same id, whatever their names.
        links: links that were left out, as no option allows the places they lead to.
    """

    kind: str
    files: tuple[SourceFile, ...]
    partition_by: tuple[str, ...] = ()
    fields: tuple[DataField, ...] | None = None
    instants: bool = False
    by_id: bool = False
    links: tuple[str, ...] = ()


def widest_fields(
    left: Sequence[DataField], right: Sequence[DataField], *, closed: bool = False, within: str = ""
) -> tuple[DataField, ...]:
    """The columns of both, each of the widest of its types; those of one side alone may be NULL. ``closed``: columns
    that are on the right side alone are left out. ``within``: the column that they are fields of, for messages.
    Raises SchemaError: types of a column that contradict each other."""
    others = {f.name: f for f in right}
    merged = []
    for ours in left:
        theirs = others.pop(ours.name, None)
        if theirs is None:
            merged.append(replace(ours, type=ours.type.with_nullable(True)))
        else:
            merged.append(replace(ours, type=_widest(ours.type, theirs.type, closed, f"{within}{ours.name}")))
    added = () if closed else (replace(f, type=f.type.with_nullable(True)) for f in others.values())
    return (*merged, *added)


def _widest(left: DataType, right: DataType, closed: bool, name: str) -> DataType:
    nullable = left.nullable or right.nullable
    match left, right:
        case RowType(), RowType():
            fields = widest_fields(left.fields, right.fields, closed=closed, within=f"{name}.")
            return RowType(fields=fields, nullable=nullable)
        case ArrayType(), ArrayType():
            element = _widest(left.element, right.element, closed, f"{name}.element")
            return ArrayType(element=element, nullable=nullable)
        case MapType(), MapType():
            keys = _widest(left.key, right.key, closed, f"{name}.key").with_nullable(False)
            return MapType(key=keys, value=_widest(left.value, right.value, closed, f"{name}.value"), nullable=nullable)
        case AtomicType(), AtomicType():
            found = _widest_atom(left, right)
            if found is not None:
                return found.with_nullable(nullable)
    raise SchemaError(
        f"column {name} is {right.with_nullable(True)} in this file, and {left.with_nullable(True)} before",
        hint="no type of Paimon holds the values of both as they are: write one kind of files anew, or append its rows",
    )


def _widest_atom(left: AtomicType, right: AtomicType) -> AtomicType | None:
    """The type that holds the values of both as they are, and that Java casts both to; None for none."""
    kinds = {left.kind, right.kind}
    if kinds <= INTEGER_BITS.keys():
        return max(left, right, key=lambda t: INTEGER_BITS[t.kind])
    if kinds == {Kind.FLOAT, Kind.DOUBLE}:
        return left if left.kind is Kind.DOUBLE else right
    if kinds == {Kind.DECIMAL}:
        scale = max(left.scale or 0, right.scale or 0)
        digits = scale + max((t.precision or 0) - (t.scale or 0) for t in (left, right))
        return replace(left, precision=digits, scale=scale) if digits <= _MOST_DIGITS else None
    if len(kinds) == 1 and left.kind in TIMESTAMP_KINDS:
        return max(left, right, key=lambda t: t.precision or 0)
    for alike, of_any_length in ((STRING_KINDS, Kind.VARCHAR), (BINARY_KINDS, Kind.VARBINARY)):
        if kinds <= alike and left != right:
            return AtomicType(of_any_length, length=max(left.length or 0, right.length or 0))
    return left if replace(left, nullable=True) == replace(right, nullable=True) else None


def named_by_id(file: SourceFile, facts: FileFacts, declared: Sequence[DataField]) -> FileFacts:
    """What a file holds of the declared columns, which are those of the same ids, under the declared names.
    Raises UnsupportedError: columns without ids, or none that is left; fields of rows that were renamed; a column is
    missing that the file must have."""
    ours = {f.id: f for f in declared}
    if missing := [f.name for f in facts.fields if f.id < 0]:
        raise UnsupportedError(f"columns without ids: {', '.join(missing):.200}", path=file.path, hint=_APPEND)
    if absent := file.needed - {f.id for f in facts.fields}:
        lacking = ", ".join(sorted(ours[id_].name for id_ in absent))
        raise UnsupportedError(f"the file lacks the partition columns {lacking}", path=file.path, hint=_APPEND)
    fields = []
    names: dict[str, str] = {}
    for theirs in facts.fields:
        if (found := ours.get(theirs.id)) is not None:
            _check_ids(theirs.type, found.type, found.name, file.path)
            fields.append(replace(theirs, name=found.name))
            if theirs.name != found.name:
                names[found.name] = theirs.name
    if not {f.name for f in fields} - {name for name, _ in file.partition}:
        raise UnsupportedError("the table has no column of this file any more", path=file.path, hint=_APPEND)
    return replace(facts, fields=tuple(fields), names=names)


def _check_ids(theirs: DataType, ours: DataType, within: str, path: str) -> None:
    """Refuse fields of rows whose names and ids don't go together: those are found by their names."""
    if isinstance(theirs, RowType) and isinstance(ours, RowType):
        by_id, by_name = {f.id: f for f in ours.fields}, {f.name: f for f in ours.fields}
        for inner in theirs.fields:
            if by_id.get(inner.id) is not by_name.get(inner.name):
                raise UnsupportedError(
                    f"field {within}.{inner.name} was renamed, or made anew, since this file was written",
                    path=path,
                    hint=_APPEND,
                )
            if inner.id in by_id:
                _check_ids(inner.type, by_id[inner.id].type, f"{within}.{inner.name}", path)
        if by_id.keys().isdisjoint(f.id for f in theirs.fields):
            raise UnsupportedError(f"the table has no field of {within} in this file any more", path=path, hint=_APPEND)
    else:
        for left, right in zip(theirs.children(), ours.children(), strict=False):
            _check_ids(left, right, within, path)


def in_file(fields: Sequence[DataField], table: Sequence[DataField]) -> tuple[DataField, ...]:
    """The columns of the table that a file has, in the file's order: with the table's ids, the file's types."""
    ours = {f.name: f for f in table}
    return tuple(
        DataField(found.id, theirs.name, _type_in_file(theirs.type, found.type))
        for theirs in fields
        if (found := ours.get(theirs.name)) is not None
    )


def _type_in_file(theirs: DataType, ours: DataType) -> DataType:
    match theirs, ours:
        case RowType(), RowType():
            return RowType(fields=in_file(theirs.fields, ours.fields), nullable=ours.nullable)
        case ArrayType(), ArrayType():
            return ArrayType(element=_type_in_file(theirs.element, ours.element), nullable=ours.nullable)
        case MapType(), MapType():
            value = _type_in_file(theirs.value, ours.value)
            return MapType(key=_type_in_file(theirs.key, ours.key), value=value, nullable=ours.nullable)
    return theirs.with_nullable(ours.nullable)


def check_names(fields: Iterable[DataField], within: str = "") -> None:
    """Refuse names that differ only in case: Spark and Hive can't distinguish them. Raises SchemaError."""
    seen: dict[str, str] = {}
    for column in fields:
        other = seen.setdefault(column.name.casefold(), column.name)
        if seen[column.name.casefold()] is not column.name:
            raise SchemaError(
                f"columns {within}{other} and {within}{column.name} differ in case only, or are there twice",
                hint="write the files of one spelling anew, with the other one",
            )
        for inner in _rows_in(column.type):
            check_names(inner.fields, f"{within}{column.name}.")


def _rows_in(type_: DataType) -> Iterator[RowType]:
    if isinstance(type_, RowType):
        yield type_
    else:
        for child in type_.children():
            yield from _rows_in(child)


def inferred_type(texts: Iterable[str | None]) -> AtomicType:
    """The type of a column of which directories name the values: INT, BIGINT, DATE or STRING.

    Numbers with zeros in front of them, such as ``01``, are texts, for they would not be the same afterwards.
    """
    given = {text for text in texts if text is not None}
    if given and all(_WHOLE.fullmatch(text) for text in given):
        for kind in (Kind.INT, Kind.BIGINT):
            if all(-(1 << INTEGER_BITS[kind] - 1) <= int(t) < 1 << INTEGER_BITS[kind] - 1 for t in given):
                return AtomicType(kind)
    if given and all(_DATE.fullmatch(text) for text in given):
        try:
            for text in given:
                partition_value(text, AtomicType(Kind.DATE), "")
            return AtomicType(Kind.DATE)
        except SchemaError:
            pass
    return AtomicType(Kind.VARCHAR, length=2**31 - 1)


def partition_value(text: str | None, type_: DataType, name: str) -> Any:
    """The internal value of a partition column from its text; None for NULL.
    Raises SchemaError: the text is no value of the type; UnsupportedError: a type that has no text."""
    if text is None:
        return None
    what = f"partition {name}={text!r:.100} is no value of {type_}"
    refused = SchemaError(what, hint="give its type in partition_by")
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, or a byte of a directory's name that is no UTF-8
        raise refused from None
    if isinstance(type_, AtomicType) and type_.kind in STRING_KINDS:
        if len(text) > (type_.length or 1):
            raise refused
        return text
    if type_.kind in BINARY_KINDS or not isinstance(type_, AtomicType):
        raise UnsupportedError(f"partition column {name} of type {type_} is not supported")
    target = arrow_type(type_)
    if pa.types.is_integer(target) and "x" in text.lower():  # to Arrow, 0x10 is 16
        raise refused
    try:
        if pa.types.is_timestamp(target):
            stamp = scalar(text.removesuffix("Z")).cast(pa.timestamp(target.unit))
            return scalar_to_internal(stamp)
        return scalar_to_internal(scalar(text).cast(target))
    except pa.ArrowException as error:
        raise refused from error
