"""Which table and which state of it a read is about, carried from the process that made the DataFrame to later ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from paimon_pyds.errors import PaimonError, SnapshotNotFoundError
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.snapshot import Snapshot
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.spark.options import ReadOptions, parse_read_options
from paimon_pyds.table import Table

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from paimon_pyds.operations.query import Scan

__all__ = ["Pin", "ReadState", "open_state", "state_schema", "try_pin"]


@dataclass(frozen=True, slots=True)
class Pin:
    """The state a DataFrame reads: a snapshot (None: the table was never written) and the schema to read it with."""

    snapshot_id: int | None
    schema_id: int


class _PinnedStore(TableStore):
    """A table as it was: its latest snapshot and schema are those of the pin."""

    def __init__(self, store: TableStore, pin: Pin) -> None:
        super().__init__(store.io, store.root, store.branch, store.external)
        self._pin = pin

    def latest_snapshot_id(self, refresh: bool = False) -> int | None:
        return self._pin.snapshot_id

    def latest_snapshot(self) -> Snapshot | None:
        if self._pin.snapshot_id is None:
            return None
        try:
            return self.snapshot(self._pin.snapshot_id)
        except SnapshotNotFoundError as error:
            raise SnapshotNotFoundError(
                f"the snapshot that this DataFrame was loaded from is gone: {error.message}",
                path=self.root,
                hint="load the table again; a tag keeps a snapshot from expiring",
            ) from error

    def latest_schema(self) -> TableSchema:
        return self.schema(self._pin.schema_id)


@dataclass(frozen=True, slots=True)
class ReadState:
    """A table in the state that is read. ``pin`` is None when the options name a state by themselves."""

    table: Table
    pin: Pin | None
    options: ReadOptions

    def scan(self, columns: tuple[str, ...] | None = None) -> Scan:
        """The scan of these columns (all by default) with the filter, the limit and the order of the options."""
        options = self.options
        return self.table.scan(options.filter, columns, options.limit, options.top_n, options=options.scan)


def open_state(options: ReadOptions, pin: Pin | None) -> ReadState:
    """The table of the options, in the pinned state; a state is pinned now when none was and none is named.

    Raises:
        NotFoundError: no such table, branch, snapshot or tag.
    """
    table = Table.open(options.path, options.branch, options.storage)
    if options.travels:
        return ReadState(table, None, options)
    if pin is None:
        store = table.store
        pin = Pin(store.latest_snapshot_id(), store.latest_schema().id)
    return ReadState(Table(_PinnedStore(table.store, pin)), pin, options)


def try_pin(options: Mapping[str, str]) -> Pin | None:
    """The pin of what these options name now, None where that can't be told: the read itself will say why."""
    try:
        return open_state(parse_read_options(options), None).pin
    except PaimonError:
        return None


def state_schema(state: ReadState, options: ReadOptions) -> StructType:
    """Spark's schema of the read: the table's columns, or those of the option ``columns``, then metadata columns.

    Raises:
        PaimonError: the options do not fit the table: here, when it is loaded, and not in the first query.
    """
    from paimon_pyds.scan.split import METADATA_FIELDS
    from paimon_pyds.spark.projection import select_columns, split_names
    from paimon_pyds.spark.reader import check_metadata_columns
    from paimon_pyds.spark.types import spark_schema

    fields = state.scan().schema.fields
    if options.columns is not None:
        named = [path for path in split_names(options.columns) if path[-1] not in METADATA_FIELDS]
        hidden = [path[-1] for path in split_names(options.columns) if path[-1] in METADATA_FIELDS]
        fields = select_columns(fields, named)
        options = replace(options, metadata_columns=(*hidden, *options.metadata_columns))
    check_metadata_columns(options.metadata_columns)
    return spark_schema([*fields, *(METADATA_FIELDS[name] for name in dict.fromkeys(options.metadata_columns))])
