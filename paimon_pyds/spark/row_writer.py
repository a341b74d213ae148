"""``df.write.option("operation", "delete" | "upsert")``: a DataFrame of keys, or of rows and their positions.

With the columns ``__paimon_file_path`` and ``__paimon_row_index`` (a read gives them by the option
``metadata-columns``) rows are named by their position in a file; else by the values of key columns, which for an upsert
are those of the primary key, if there is one. Tasks write new
versions of rows; the driver finds the old ones and publishes both as one snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from paimon_pyds.base.arrays import grouped, pc
from paimon_pyds.base.options import check_without_key
from paimon_pyds.base.selection import bitmap_of
from paimon_pyds.base.types import DataField, arrow_schema
from paimon_pyds.base.types.kinds import UNORDERED_KINDS
from paimon_pyds.base.types.nested import find_name
from paimon_pyds.engine.rowlevel.replace_rows import check_replaceable, replace_rows
from paimon_pyds.engine.write import TableWriter, WriteContext
from paimon_pyds.errors import GROWS, CardinalityError, OptionError, SchemaError, UnknownColumnError, UnsupportedError
from paimon_pyds.metadata.paths import ExternalPaths
from paimon_pyds.metadata.split import METADATA_FIELDS
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.ops.ddl.merge_schema import merge_columns
from paimon_pyds.spark import compat
from paimon_pyds.spark.arrow import check_castable, conform_batch
from paimon_pyds.spark.catalogs import CommitCatalog, open_table
from paimon_pyds.spark.clear_errors import clear_errors
from paimon_pyds.spark.writer import PaimonCommitMessage, TwoPhaseWriter, dynamic_options
from paimon_pyds.table import Table

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from paimon_pyds.spark.options import WriteOptions

_POSITION_FIELDS = (
    pa.field("__paimon_file_path", pa.string(), nullable=False),
    pa.field("__paimon_row_index", pa.int64(), nullable=False),
)


@dataclass
class PaimonRowMessage(PaimonCommitMessage):
    """What one task saw and wrote.

    Attributes:
        message: new versions that were written, when rows are named by their position in a file.
        positions: by data file, the rows that go, as a serialized roaring bitmap; empty when rows are named by keys.
        keys: rows of the DataFrame as an Arrow stream, when rows are named by keys.
    """

    positions: dict[str, bytes] = field(default_factory=dict)
    keys: bytes = b""


class PaimonRowWriter(TwoPhaseWriter[PaimonRowMessage]):
    """Deletes or replaces rows. Made by `open_row_writer`; it is pickled into every task.

    Attributes:
        columns: for each column that is used its index in the DataFrame and its field; the position columns come last.
        keys: key columns; empty when rows are named by their position in a file.
        external: files outside of the table that a commit may read.
    """

    def __init__(
        self,
        context: WriteContext,
        operation: str,
        columns: Sequence[tuple[int, pa.Field]],
        keys: tuple[str, ...],
        external: ExternalPaths,
    ) -> None:
        super().__init__(context, PaimonRowMessage, external)
        self._delete = operation == "delete"
        self._at = [at for at, _ in columns]
        self._incoming = pa.schema([f for _, f in columns])
        self._keys = keys

    @clear_errors
    def write(self, iterator: Iterator[pa.RecordBatch]) -> PaimonRowMessage:
        """Look at a task's rows, and write those that are new versions. Nothing is visible until `commit`."""
        batches = (self._conformed(batch) for batch in iterator)
        return self._send_keys(batches) if self._keys else self._write_versions(batches)

    def _conformed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [batch.column(at) for at in self._at]
        loose = pa.schema([pa.field(f.name, c.type) for f, c in zip(self._incoming, columns, strict=True)])
        fitting = conform_batch(pa.RecordBatch.from_arrays(columns, schema=loose), self._incoming)
        return _unrounded(fitting, columns) if self._delete and self._keys else fitting

    def _send_keys(self, batches: Iterator[pa.RecordBatch]) -> PaimonRowMessage:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self._incoming, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
            for batch in batches:
                stream.write_batch(batch)
        return PaimonRowMessage(None, keys=sink.getvalue().to_pybytes())

    def _write_versions(self, batches: Iterator[pa.RecordBatch]) -> PaimonRowMessage:
        positions: dict[str, BitMap] = {}
        with TableWriter(self._context) as writer:
            for batch in batches:
                _add_positions(positions, batch)
                if not self._delete:
                    writer.write(batch.select(batch.schema.names[: -len(_POSITION_FIELDS)]))
            written = None if self._delete else writer.prepare_commit()
        return PaimonRowMessage(written, positions={path: rows.serialize() for path, rows in positions.items()})

    def _publish(self, store: TableStore, messages: Sequence[PaimonRowMessage]) -> int | None:
        if self._keys:
            self._publish_keys(store, messages)
            return None
        positions: dict[str, BitMap] = {}
        for message in messages:
            for path, data in message.positions.items():
                _add_rows(positions, path, BitMap.deserialize(data), unique=not self._delete)
        versions = None if self._delete else [m.message for m in messages if m.message is not None]
        return replace_rows(store, positions, versions, options=self._context.dynamic_options).snapshot_id

    def _publish_keys(self, store: TableStore, messages: Sequence[PaimonRowMessage]) -> None:
        tables = [pa.ipc.open_stream(m.keys).read_all() for m in messages]
        source = pa.concat_tables(tables)
        if not source.num_rows:
            return
        table, keys = Table(store), list(self._keys)
        options = self._context.dynamic_options
        if self._delete:
            distinct = grouped(source, keys).select(keys)
            table.merge(distinct, keys, when_matched="delete", options=options)
        else:
            _check_unique(source.select(keys))
            table.merge(source, keys, when_matched="update", when_not_matched="insert", options=options)


def _check_unique(keys: pa.Table) -> None:
    """Each key once, whether the table has it or not. Keys without a value equal no other."""
    counts = grouped(keys.drop_null(), keys.column_names, [([], "count_all")])
    twice = counts.filter(pc.greater(counts["count_all"], 1))
    if twice.num_rows:
        first = ", ".join(f"{name} = {twice[name][0]}" for name in keys.column_names)
        raise CardinalityError(
            f"{twice['count_all'][0]} rows of the DataFrame have the same key ({first})",
            hint="keep the one that is meant, as by dropDuplicates; nothing was changed",
        )


def _unrounded(keys: pa.RecordBatch, given: Sequence[pa.Array]) -> pa.RecordBatch:
    """Keys to delete that are still what they were: one that was rounded to its column's type equals no row's value."""
    for column, source in zip(keys.columns, given, strict=True):
        t = pa.types
        floating = t.is_floating(source.type)
        if column.type != source.type and (floating or t.is_timestamp(source.type)):
            same = pc.equal(column.cast(source.type), source)
            same = pc.or_(same, pc.is_nan(source)) if floating else same
            if not pc.all(same, min_count=0).as_py():
                return _unrounded(keys.filter(same), [array.filter(same) for array in given])
    return keys


def _add_positions(positions: dict[str, BitMap], batch: pa.RecordBatch) -> None:
    paths = batch.column(batch.num_columns - 2).dictionary_encode()
    rows = np.asarray(batch.column(batch.num_columns - 1))
    if len(rows) and (rows.min() < 0 or rows.max() >= 1 << 32):
        raise OptionError("__paimon_row_index must be a position in its file, 0 or more")
    codes = np.asarray(paths.indices)
    for code, path in enumerate(paths.dictionary.to_pylist()):
        mine = rows[codes == code]
        found = bitmap_of(mine)
        if len(found) != len(mine):
            raise _named_twice(path)
        _add_rows(positions, path, found, unique=True)


def _add_rows(positions: dict[str, BitMap], path: str, rows: BitMap, *, unique: bool) -> None:
    before = positions.get(path)
    if before is None:
        positions[path] = rows
    elif unique and not before.isdisjoint(rows):
        raise _named_twice(path)
    else:
        positions[path] = before | rows


def _named_twice(path: str) -> OptionError:
    return OptionError(
        f"a row of {path.rpartition('/')[2]} is named twice by __paimon_file_path and __paimon_row_index",
        hint="a join may have doubled it: drop the duplicates first",
    )


def open_row_writer(schema: StructType, options: WriteOptions) -> PaimonRowWriter:
    """The writer for a DataFrame of this schema.

    Raises:
        TableNotFoundError: there is no table.
        SchemaError: columns that do not fit the table.
        OptionError: no keys to find rows by, or options that contradict each other.
    """
    operation = options.operation or ""
    table = open_table(options)
    dynamic = dynamic_options(table, options)
    if operation == "upsert":
        merge_columns(table._store, [compat.target_schema(schema)], dynamic, METADATA_FIELDS)
    context = table.write_context(dynamic)
    names = schema.fieldNames()
    if all(field.name in names for field in _POSITION_FIELDS):
        check_without_key(table.schema, f"operation={operation} by the columns __paimon_file_path, __paimon_row_index")
        if options.keys is not None:
            raise OptionError("operation-keys and the columns __paimon_file_path, __paimon_row_index both name rows")
        if operation == "upsert":
            check_replaceable(context.options, table.path)
        fields = () if operation == "delete" else context.schema.fields
        columns = _columns(schema, [*arrow_schema(fields), *_POSITION_FIELDS], table.path)
        keys: tuple[str, ...] = ()
    else:
        requested = options.keys
        if requested is None and operation == "upsert":
            requested = context.schema.primary_keys or None
        keys = _keys(requested, names, context.schema.fields, operation)
        whole = context.schema.primary_keys
        if operation == "upsert" and not set(whole) <= set(keys):
            raise OptionError(
                f"operation-keys={', '.join(keys)} is a part of the primary key ({', '.join(whole)})",
                hint="leave the option out: an upsert finds rows by the primary key",
            )
        chosen = [f for f in context.schema.fields if operation == "upsert" or f.name in keys]
        columns = _columns(schema, arrow_schema(chosen), table.path)
    if operation == "upsert":
        _check_dropped(names, columns, table.path)
    writer = PaimonRowWriter(context, operation, columns, keys, table._store.external)
    writer.catalog, writer.commit_name = CommitCatalog.of(options), options.commit
    return writer


def _keys(
    requested: Sequence[str] | None, names: Sequence[str], fields: Sequence[DataField], operation: str
) -> tuple[str, ...]:
    """Key columns in the table's spelling: those of the option, or all that a DataFrame of keys has."""
    if requested is None and operation == "upsert":
        raise OptionError(
            "an upsert needs to know which columns find the old rows",
            hint="option('operation-keys', 'id'), or a DataFrame with __paimon_file_path and __paimon_row_index",
        )
    spellings = [f.name for f in fields]
    keys = []
    for name in names if requested is None else requested:
        at = find_name(spellings, name)
        if at is None:
            raise UnknownColumnError(
                f"the table has no column {name!r}", hint=f"its columns are {', '.join(spellings)}"
            )
        if fields[at].type.kind in UNORDERED_KINDS:
            raise UnsupportedError(
                f"rows can't be found by column {spellings[at]!r}, which is {fields[at].type}",
                hint="option('operation-keys', …) names others",
            )
        keys.append(spellings[at])
    if not keys:
        raise OptionError("there are no columns to find rows by")
    return tuple(dict.fromkeys(keys))


def _columns(schema: StructType, wanted: Iterable[pa.Field], table: str) -> list[tuple[int, pa.Field]]:
    names = schema.fieldNames()
    source = compat.target_schema(schema)
    found = []
    for target in wanted:
        at = find_name(names, target.name)
        if at is None:
            raise SchemaError(
                f"the DataFrame has no column {target.name!r}",
                path=table,
                hint="new versions of rows need all columns: select them from the table, and change their values",
            )
        check_castable(source.field(at).type, target.type, target.name)
        found.append((at, target))
    return found


def _check_dropped(names: Sequence[str], columns: Sequence[tuple[int, pa.Field]], table: str) -> None:
    written = {at for at, _ in columns}
    for at, name in enumerate(names):
        if at not in written and name not in METADATA_FIELDS:
            raise UnknownColumnError(f"the table has no column {name!r}", path=table, hint=f"drop it; or {GROWS}")
