"""Tables whose partitions come from two branches: the partitions that one branch has are read from it alone, the others
from the other branch. Each branch has its own snapshots, schemas and options, and the same columns.

Which branch a partition comes from depends on nothing but its files: a filter on other columns may leave no row of it,
and no row comes from the other branch. (Java: classes FallbackReadFileStoreTable and FileStoreTableFactory.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from paimon_pyds.base.arrays import from_numpy, to_numpy
from paimon_pyds.base.options import TableOptions
from paimon_pyds.engine.scan.request import ScanRequest
from paimon_pyds.engine.scan.travel import STATE_NAMES, named_state, resolve_state, state_options
from paimon_pyds.errors import OptionError, SchemaError, SnapshotNotFoundError, TagNotFoundError, UnsupportedError
from paimon_pyds.keys.merge.files_to_merge import hides_level_0
from paimon_pyds.metadata.evolution.file_columns import same_type
from paimon_pyds.metadata.manifest_reader import EntryFilter, ManifestReader
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.sql.predicate.relaxation import partition_filter
from paimon_pyds.sql.predicate.tree import Const, Predicate

FALLBACK, PRIMARY = "scan.fallback-branch", "scan.primary-branch"
ALONE = {FALLBACK: "", PRIMARY: ""}
"""Options of a scan of one branch alone."""


class OtherBranch(NamedTuple):
    """A branch that partitions come from as well; ``wins``: those that both branches have come from it."""

    name: str
    wins: bool


def other_branch(options: TableOptions, branch: str) -> OtherBranch | None:
    """The branch that the options of a scan of ``branch`` name; None for none. Raises OptionError: they name two."""
    fallback, primary = (str(options.get(key) or "").strip() for key in (FALLBACK, PRIMARY))
    if fallback and primary:
        raise OptionError(f"{FALLBACK} and {PRIMARY} can't both be set", hint="name one branch")
    name = fallback or primary
    return OtherBranch(name, wins=bool(primary)) if name and name != branch else None


def check_same_columns(own: TableSchema, other: TableSchema, branch: str) -> None:
    """Raises SchemaError unless both branches have the same columns and partitions, whatever may be NULL in them."""
    for mine, theirs in zip(own.fields, other.fields, strict=False):
        if mine.name != theirs.name or not same_type(mine.type, theirs.type):
            raise _differ(branch, f"{mine.name} {mine.type}", f"{theirs.name} {theirs.type}")
    if len(own.fields) != len(other.fields):
        raise _differ(branch, f"{len(own.fields)} columns", f"{len(other.fields)}")
    if own.partition_keys != other.partition_keys:
        raise _differ(branch, f"partitions by {own.partition_keys}", f"by {other.partition_keys}")


def _differ(branch: str, here: str, there: str) -> SchemaError:
    return SchemaError(
        f"partitions come from branch {branch!r} too, whose columns are others: {here} here, {there} there",
        hint=f"alter one of the two; a scan with the option {FALLBACK}='' reads this branch alone",
    )


def options_there(store: TableStore, other: TableStore, given: Mapping[str, str]) -> dict[str, str] | None:
    """The options of a scan for the other branch, whose snapshots have other numbers: that of a snapshot here becomes
    the newest one there of the same time, or else the first, as in Java.

    None where no snapshot there is as old as the time that is named: nothing comes from there.
    Raises UnsupportedError: ``scan.version`` is a number: Java would read the snapshot of this number in both.
    """
    state = named_state(given)
    found = {**{key: text for key, text in given.items() if key not in STATE_NAMES}, **state, **ALONE}
    if "scan.snapshot-id" in state:
        snapshot = store.snapshot(int(state["scan.snapshot-id"]))
        there = other.newest_until(snapshot.time_millis)
        found["scan.snapshot-id"] = str(1 if there is None else there.id)
    elif "scan.version" in state and not state["scan.version"].startswith("watermark-"):
        try:
            store.tag(state["scan.version"])
        except TagNotFoundError:
            raise UnsupportedError(
                f"scan.version={state['scan.version']} names a snapshot of one branch, and partitions come from two",
                hint="name it as scan.snapshot-id: then the other branch is read as it was at that time",
                feature="branches-of-partitions",
            ) from None
    elif "scan.timestamp" in state or "scan.timestamp-millis" in state:
        latest = other.latest_schema()
        try:
            resolve_state(other, latest, state_options(latest.options, found))
        except SnapshotNotFoundError:
            return None
    return found


def partitions_with_files(store: TableStore, request: ScanRequest) -> frozenset[bytes]:
    """The partitions (arity + BinaryRow) that have a data file which a batch read looks at, whatever the filter says of
    other columns."""
    state, snapshot = request.state, request.state.snapshot
    if snapshot is None:
        return frozenset()
    keys = state.schema.partition_keys
    predicate: Predicate = partition_filter(request.predicate, keys)[0] if keys else Const.TRUE
    reader = ManifestReader(store, EntryFilter(state.schema, predicate))
    entries = reader.live_files(snapshot, ("partition", "bucket", "level"))
    if state.schema.primary_keys:
        seen = to_numpy(entries.column("bucket")) >= 0
        if hides_level_0(request.options):
            seen &= to_numpy(entries.column("level")) > 0
        entries = entries.filter(from_numpy(np.asarray(seen, np.bool_)))
    return frozenset(entries.column("partition").unique().to_pylist())


def nullable_as(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch of the other branch under the schema of this one. Raises SchemaError: NULL in a column that has none."""
    if batch.schema.equals(schema):
        return batch
    for field, column in zip(schema, batch.columns, strict=True):
        if not field.nullable and column.null_count:
            raise SchemaError(
                f"column {field.name!r} is NOT NULL, and rows of the other branch have NULL in it",
                hint="alter the column to be nullable",
            )
    return pa.RecordBatch.from_arrays(batch.columns, schema=schema)
