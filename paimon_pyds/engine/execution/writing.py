"""What operations that write data files begin with, and what they leave when they fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from paimon_pyds import format as formats
from paimon_pyds.base.options import TableOptions, check_branch, check_known, check_shape, check_writable
from paimon_pyds.engine.write import WriteContext
from paimon_pyds.engine.write.context import check_table_files
from paimon_pyds.engine.write.incoming import ROW_KIND_COLUMN, IncomingRows
from paimon_pyds.engine.write.missing_columns import MISSING_COLUMNS
from paimon_pyds.errors import UnsupportedError
from paimon_pyds.format import CLOCKED, LEGACY_TYPE, LEGACY_ZONE, ReadCounters, ReadHints, holds_instants, is_legacy
from paimon_pyds.metadata.commit_message import CommitMessage
from paimon_pyds.metadata.manifest_reader import ManifestReader
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.storage import discard


def write_context(
    store: TableStore, options: Mapping[str, str] | None = None, *, existing_rows: bool = False, overwrite: bool = False
) -> WriteContext:
    """What tasks need to write to the table.

    ``options``: of the one write, over the table's own. ``existing_rows``: the rows are in the table, and stay in their
    buckets. ``overwrite``: the rows replace all others of their partitions.

    Raises:
        UnsupportedError: a table that can't be written to.
        OptionError: an unknown option, or one that would shape the table otherwise.
    """
    schema = store.latest_schema()
    check_known(options or (), (ROW_KIND_COLUMN, MISSING_COLUMNS), own=False)
    check_branch(schema, store.branch, store.root, options)
    check_shape(schema, options or {}, store.root)
    check_writable(schema, options, existing_rows=existing_rows)
    own = dict(options or {})
    if overwrite:
        own.setdefault(MISSING_COLUMNS, "null")  # no value stays that NULL could replace
    context = WriteContext(
        store.io, store.root, store.branch, schema, own, existing_rows=existing_rows, replaces=overwrite
    )
    if ROW_KIND_COLUMN in context.raw_options or MISSING_COLUMNS in context.raw_options:
        IncomingRows(context)  # refuses what has no meaning
    if schema.has_dynamic_buckets and not existing_rows:
        latest = None if overwrite else store.latest_snapshot()
        context = replace(context, index_manifest=(latest and latest.index_manifest) or "")
    if schema.primary_keys:
        from paimon_pyds.keys.merge.engine_options import check_merge_options  # other tables do without

        check_merge_options(schema)
    check_table_files(schema, context.raw_options)
    check_instant_writers(store, schema, context.raw_options)
    return context


MERGE_SCHEMA = "write.merge-schema"


def is_merging(store: TableStore, options: Mapping[str, str] | None) -> bool:
    """Whether a write with these options, over the table's own, brings columns along."""
    stored = store.schema_read_last().options  # no request: without an option of its own a write costs no more for it
    return bool(TableOptions({**stored, **(options or {})}).get(MERGE_SCHEMA))


def abort_messages(store: TableStore, messages: Sequence[CommitMessage | None]) -> None:
    """Remove the files of messages that nobody has committed; best effort."""
    discard(store.io, (path for message in messages if message is not None for path in message.paths()))


def check_instant_writers(store: TableStore, schema: TableSchema, options: Mapping[str, str]) -> None:
    """Look at a file of the last commit, where instants are stored by the clocks of writers and nobody says which.

    Raises:
        UnsupportedError: a JVM in another time zone than UTC wrote it: it would read ours shifted.
        CorruptFileError, StorageError: the file can't be read.
    """
    own = {**schema.options, **options}
    if LEGACY_ZONE in own or not is_legacy(own) or not holds_instants(schema.fields, own):
        return
    store.read_newest(lambda newest: _check_last_file(store, schema, newest, own))


def _check_last_file(store: TableStore, schema: TableSchema, snapshot: Snapshot | None, own: Mapping[str, str]) -> None:
    """`check_instant_writers` by the files of one snapshot. ``own``: the options of the table and the write."""
    if snapshot is None:
        return
    from paimon_pyds.engine.scan.planned_files import planned_files
    from paimon_pyds.format.orc.reader import OrcReader
    from paimon_pyds.format.orc.zones import is_utc

    manifests = ManifestReader(store)
    for manifest in manifests.delta(snapshot):
        entries = manifests.added([manifest])
        names = enumerate(entries["file_name"].to_pylist())
        first = next((i for i, name in names if name.endswith(CLOCKED)), entries.num_rows)
        for file in planned_files(store, schema, entries.slice(first, 1)):
            hints = ReadHints(own, file.instants)
            try:
                reader = formats.by_path(file.path).open_reader(store.io, file.path, file.size, ReadCounters(), hints)
                zone = reader.writer_zone() if isinstance(reader, OrcReader) else ""
                reader.close()
            except FileNotFoundError:  # removed by a later commit
                return
            if not is_utc(zone):
                raise UnsupportedError(
                    f"a JVM in {zone:.60} writes instants to ORC files of this table by its clocks, and would read "
                    "those that are written here, in UTC, shifted",
                    path=store.root,
                    hint=f"copy it to a table with {LEGACY_TYPE}=false; or give {LEGACY_ZONE}=UTC, if only JVMs in UTC "
                    "read what you write",
                )
            return
