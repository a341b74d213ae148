"""Rows that users give, of pandas, polars, DuckDB, Arrow and plain Python, as Arrow's.

None of these libraries is imported; Arrow's C stream and C array interfaces do most of the work.
(Source: Arrow documentation, "The Arrow PyCapsule Interface".)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain, islice
from typing import Any

import pyarrow as pa

from paimon_pyds.base.absent_fields import LeftOut, batches_with_left_out, find_left_out, left_out_of, with_left_out
from paimon_pyds.base.arrays import array as arrow_array
from paimon_pyds.base.arrays import no_columns
from paimon_pyds.base.python_values import LossyValueError, as_mapping, check_lossless, none_of
from paimon_pyds.base.types.arrow import is_variant
from paimon_pyds.errors import SchemaError

_ROWS_AT_ONCE = 65_536
"""Rows of plain Python that are converted to Arrow at a time, to bound memory."""
_NOT_ARROWS = (ValueError, TypeError, NotImplementedError, OverflowError)
"""What Arrow raises for values that it can't hold: its own errors, which are among these, and Python's."""
_NO_ARROW_TYPE = ("Object", "Int128", "UInt128")
_TAKEN = (
    "give a pandas or polars DataFrame, a pyarrow Table, batch or reader, a DuckDB relation, a dictionary of columns, "
    "a list of dictionaries, or anything with __arrow_c_stream__ or __arrow_c_array__"
)


Convert = Callable[[str, Any, bool], "pa.Array | None"]
"""Of a column's name, its values, and whether they are of pandas, which makes floats of integers."""


def unconverted(name: str, values: Any, of_pandas: bool) -> pa.Array | None:
    """Leave a column to Arrow."""
    return None


def as_batches(data: Any) -> Iterator[pa.RecordBatch]:
    """The rows of anything that `rows_of` takes, as record batches.

    Raises:
        SchemaError: as `rows_of`.
    """
    yield from rows_of(data)[1]


def row_count(data: Any) -> int | None:
    """The number of rows of the data, if it is known without reading; else None."""
    if isinstance(data, pa.RecordBatch | pa.Table):
        return int(data.num_rows)
    frame = type(data).__module__.split(".")[0] in ("pandas", "polars") and type(data).__name__ == "DataFrame"
    return len(data) if frame else None


def rows_of(data: Any, convert: Convert = unconverted) -> tuple[pa.Schema | None, Iterator[pa.RecordBatch]]:
    """The schema of data, and its rows as record batches; no schema where there are no rows to take it from.

    A dictionary holds columns; one within a list or another iterable is a row. Parts of an iterable may differ in
    their schemas: the first one's is returned. Of a pandas index the levels that have a name are columns.

    Args:
        data: the rows.
        convert: makes a column of Python's own values, by its name; None where Arrow has to find out a type.

    Raises:
        SchemaError: nothing that rows can be taken from, or values of several types in one column.
    """
    if isinstance(data, pa.RecordBatch):
        return data.schema, iter((data,))
    if isinstance(data, pa.Table):
        return data.schema, batches_with_left_out(data)
    library = type(data).__module__.split(".")[0]
    if library == "polars":
        if hasattr(data, "collect"):
            return rows_of(_collected(data))
        _check_polars(data)
    data = _of_tasks(library, data)
    try:
        if library == "pandas" and hasattr(data, "columns"):
            return rows_of(_from_pandas(_with_index(data), convert))
        if isinstance(data, pa.RecordBatchReader) or hasattr(data, "__arrow_c_stream__"):
            reader = data if isinstance(data, pa.RecordBatchReader) else pa.RecordBatchReader.from_stream(data)
            return reader.schema, iter(reader)
        if hasattr(data, "__arrow_c_array__"):
            return rows_of(pa.record_batch(data))
        if isinstance(data, Mapping):
            return rows_of(_from_columns(data, convert))
        rows = _mappings(data)
        if rows:
            return rows_of(_from_rows(rows, convert))
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise _refused(data, str(error)) from error
    if isinstance(data, Iterable) and not isinstance(data, str | bytes):
        return _from_parts(iter(data), convert)
    raise _refused(data)


def _of_tasks(library: str, data: Any) -> Any:
    """The Arrow batches of a frame of Daft or a dataset of Ray; other data as they are."""
    if library == "daft" and hasattr(data, "to_arrow_iter"):
        return iter(data.to_arrow_iter())
    if library == "ray" and hasattr(data, "iter_batches"):
        return iter(data.iter_batches(batch_size=None, batch_format="pyarrow"))
    return data


def _mappings(data: Any) -> list[Mapping[str, Any]]:
    """The rows of a list of rows; none where it is not such a list."""
    if not isinstance(data, Sequence) or isinstance(data, str | bytes) or not data or as_mapping(data[0]) is None:
        return []
    rows = [row for row in map(as_mapping, data) if row is not None]
    return rows if len(rows) == len(data) else []


def _from_parts(parts: Iterator[Any], convert: Convert) -> tuple[pa.Schema | None, Iterator[pa.RecordBatch]]:
    """Rows of parts that follow each other: each is data of its own, or a dictionary that is a row."""
    tables = (rows_of(part, convert) for part in _with_rows_gathered(parts, convert))
    first = next(tables, None)
    if first is None:
        return None, iter(())
    return first[0], chain(first[1], chain.from_iterable(batches for _, batches in tables))


def _with_rows_gathered(parts: Iterator[Any], convert: Convert) -> Iterator[Any]:
    for part in parts:
        first = as_mapping(part)
        if first is None:
            if isinstance(part, tuple | list) and part and isinstance(part[0], int | float | str | None):
                raise SchemaError("a row without names of columns", hint="rows are dictionaries, such as [{'id': 1}]")
            yield part
            continue
        rows: list[Mapping[str, Any]] = [first]
        other: list[Any] = []
        for following in islice(parts, _ROWS_AT_ONCE - 1):
            row = as_mapping(following)
            if row is None:
                other.append(following)
                break
            rows.append(row)
        yield _from_rows(rows, convert)
        yield from other


def _from_rows(rows: Sequence[Mapping[str, Any]], convert: Convert) -> pa.Table:
    """A table of dictionaries; the columns are those of all of them, and NULL where one has none."""
    names = dict.fromkeys(chain.from_iterable(rows))
    if not names:
        return pa.Table.from_batches([no_columns(len(rows))])
    table = _from_columns({name: [row.get(name) for row in rows] for name in names}, convert)
    if any(len(row) < len(names) for row in rows) and all(isinstance(name, str) for name in names):
        plain = pa.struct([(name, pa.null()) for name in names])  # members are noted already
        table = with_left_out(table, find_left_out(rows, plain))
    return table


def _from_columns(columns: Mapping[str, Any], convert: Convert) -> pa.Table:
    arrays, refused = dict[str, Any](), list[SchemaError]()
    for name, values in columns.items():
        if name is None:
            raise SchemaError("a column has no name: its key is None", hint="name it, or leave it out")
        if str(name) in arrays:
            raise SchemaError(f"two columns have the same name: {str(name)!r}", hint="rename one, or leave it out")
        no_list = not hasattr(values, "__len__") or getattr(values, "ndim", 1) == 0
        if isinstance(values, str | bytes | Mapping | Set) or no_list:
            raise SchemaError(
                f"a dictionary holds columns, and {name!r} is of {type(values).__name__}, not a list of values",
                hint="give a list of dictionaries for rows",
            )
        try:
            arrays[str(name)] = values if isinstance(values, pa.ChunkedArray) else _array(name, values, convert)
        except SchemaError as error:
            refused.append(error)
    if refused:
        refused[0].others = refused[1:]
        raise refused[0]
    lengths = {name: len(values) for name, values in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise SchemaError(
            f"the columns have different numbers of values: {', '.join(f'{k} {v}' for k, v in lengths.items())}"
        )
    try:
        return with_left_out(pa.table(arrays), _left_out_members(columns, arrays))
    except UnicodeEncodeError as error:
        raise SchemaError(f"{error.object!r:.100} is no name of a column: {error.reason}") from None


def _left_out_members(columns: Mapping[str, Any], arrays: Mapping[str, Any]) -> LeftOut:
    """What values that are Python's own leave out of structs."""
    found: dict[tuple[str, ...], Any] = {}
    for name, values in columns.items():
        if _are_objects(values) and not is_variant(arrays[str(name)].type):
            found |= find_left_out(values, arrays[str(name)].type, (str(name),))
    return found


def _array(name: str, values: Any, convert: Convert = unconverted) -> pa.Array:
    found = convert(str(name), values, False) if _are_objects(values) else None
    if found is not None:
        return found
    try:
        return _as_arrow(values)
    except _NOT_ARROWS as error:
        raise _unfit(name, values, error) from error


def _as_arrow(values: Any) -> pa.Array:
    array = arrow_array(values)
    if _are_objects(values):
        check_lossless(values, array.type)
    return array


def _are_objects(values: Any) -> bool:
    """Whether values are Python's own, of which Arrow finds out a type."""
    return isinstance(values, list | tuple) or str(getattr(values, "dtype", "")) == "object"


def _unfit(name: str, values: Any, error: Exception) -> SchemaError:
    from paimon_pyds.base.types.unfit_values import first_refused

    row = first_refused(len(values), lambda n: _as_arrow(values[:n]))
    why, hint = str(error).splitlines()[0], "give values of one type"
    if found := re.fullmatch(r"Expected bytes, got an? '(\w+)' object", why):
        why = f"of type {found[1]} among texts or bytes"
    elif isinstance(error, UnicodeEncodeError):
        why, hint = "half of a surrogate pair is not a character", "correct the text"
    elif isinstance(error, OverflowError):
        why, hint = "an integer has more than 64 bits", "give such values as decimal.Decimal"
    elif isinstance(error, LossyValueError):
        hint = error.hint
    elif hasattr(values, "dtype") and not _are_objects(values):
        why = f"{why} ({values.dtype})"
    elif not isinstance(error, pa.ArrowException) or "did not recognize Python value type" in why:
        why = f"Arrow takes no value of type {type(next(islice(values, row, None))).__name__}"
        hint = "give None for NULL, Python's own values, or the whole column as an array"
    if _are_pairs(next(islice(values, row, None))):
        hint = (
            "pairs of a MAP come with their type: pa.array(…, pa.map_(…)) for the column, or for rows of a table "
            "pa.Table.from_pylist(rows, schema=table.arrow_schema)"
        )
    refused = SchemaError(f"column {name!r}: {why}", hint=hint)
    refused.row = row
    return refused


def _are_pairs(value: Any) -> bool:
    """Whether a value is what Arrow gives for a map: a list of tuples."""
    return isinstance(value, list) and bool(value) and isinstance(value[0], tuple) and len(value[0]) == 2


def _collected(frame: Any) -> Any:
    """The rows of a lazy frame of polars, part by part where its version can do that."""
    return (
        chain(frame.collect_batches(), (frame.clear().collect(),))
        if hasattr(frame, "collect_batches")
        else frame.collect()
    )


def _check_polars(frame: Any) -> None:
    """Refuse columns that polars hands out as what no other library understands, such as addresses of objects."""
    for name, type_ in frame.schema.items() if hasattr(frame, "rows") else ():
        if str(type_).partition("(")[0] in _NO_ARROW_TYPE:
            raise SchemaError(
                f"column {name!r} is of polars' {type_}, which Arrow has no form for", hint="cast it first"
            )


def _from_pandas(frame: Any, convert: Convert) -> pa.Table:
    if not len(frame.columns):
        return pa.Table.from_batches([no_columns(len(frame))])
    if not frame.columns.is_unique:
        twice = [*dict.fromkeys(frame.columns[frame.columns.duplicated()])]
        raise SchemaError(f"two columns have the same name: {twice}", hint="rename one, or leave it out")
    objects = [name for name in frame.columns if convert is not unconverted and _are_objects(frame[name])]
    own = {name: frame[name] for name in objects}
    converted = {name: convert(str(name), [_none_of(v) for v in values], True) for name, values in own.items()}
    found = {name: values for name, values in converted.items() if values is not None}
    if found:
        others = _from_pandas(frame.drop(columns=[*found]), unconverted)
        columns = dict(zip(others.schema.names, others.columns, strict=True))
        made = pa.table(columns | {str(name): values for name, values in found.items()})
        notes = {**left_out_of(others.schema), **_left_out_members({name: own[name] for name in found}, found)}
        return with_left_out(made.replace_schema_metadata(others.schema.metadata), notes)
    try:
        table = pa.Table.from_pandas(frame, preserve_index=False)
        for at, field in enumerate(table.schema):
            if _are_objects(frame.iloc[:, at]):
                check_lossless(frame.iloc[:, at], field.type)
    except _NOT_ARROWS as error:
        for name in frame.columns:
            _array(name, frame[name].reset_index(drop=True))  # its error names the column and the row
        raise _refused(frame, str(error)) from error
    series = {str(name): frame.iloc[:, at] for at, name in enumerate(frame.columns)}
    return with_left_out(table, _left_out_members(series, dict(zip(table.schema.names, table.columns, strict=True))))


def _none_of(value: Any) -> Any:
    """None for the NaN that pandas has in the place of missing objects."""
    return None if isinstance(value, float) and value != value else none_of(value)


def _with_index(frame: Any) -> Any:
    """A pandas frame with those levels of its index as columns that have a name."""
    named = [name for name in frame.index.names if name is not None and name not in frame.columns]
    return frame.reset_index(level=named) if named else frame


def _refused(data: Any, reason: str = "") -> SchemaError:
    because = f": {reason.splitlines()[0]}" if reason else ""
    hint = "read the file first, such as by pyarrow.csv.read_csv(path)" if isinstance(data, str) else _TAKEN
    return SchemaError(f"can't take rows from {type(data).__name__}{because}", hint=hint)
