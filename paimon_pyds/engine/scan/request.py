"""What a scan reads, as one record: made by `scan.Scan` and by row changes, passed on whole to planning and answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from paimon_pyds.base.options import TableOptions, holds_views, is_apart_blob
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.types import DataField, Kind
from paimon_pyds.base.types.nulls import as_nulls
from paimon_pyds.engine.scan.travel import Incremental, TableState
from paimon_pyds.format import has_kind
from paimon_pyds.metadata.paths import file_paths
from paimon_pyds.metadata.row_ids import condition_fields
from paimon_pyds.metadata.split import BlobReferences, ViewFinder
from paimon_pyds.sql.predicate.tree import Predicate, root_columns

if TYPE_CHECKING:
    from paimon_pyds.metadata.schema import TableSchema
    from paimon_pyds.metadata.store import TableStore
    from paimon_pyds.sql.text.order import TopN


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """A state of a table, a bound predicate, the columns to return, and how many rows of them.

    Attributes:
        between: read what some snapshots added, or leave out the files of an older state, instead of reading the state
            whole.
        read_optimized: read what compactions left on the highest level only, where rows have versions.
        least_level: the lowest level that is read of a table with a primary key; None as its options say.
        waiting: also files of rows that wait for their buckets (``bucket=-2``), which batch reads leave out.
        partitions: read only these (arity + BinaryRow), of those that match the predicate; None for all of them.
        zone: the time zone of casts of columns that were given another type; None refuses those that depend on one.
        chain: merge each partition from those before it, some of which are in another branch: see `plan_chain`.
        explain: note which step left out which file, and what indexes said.
        stored_blobs: references to BLOBs stay what data files have, as these are written again.
        find_views: finds the BLOBs that views stand for, which takes a scan of another table.
    """

    state: TableState
    predicate: Predicate
    fields: tuple[DataField, ...]
    options: TableOptions
    metadata_columns: tuple[str, ...] = ()
    limit: int | None = None
    top_n: TopN | None = None
    between: Incremental | None = None
    read_optimized: bool = False
    least_level: int | None = None
    waiting: bool = False
    partitions: frozenset[bytes] | None = None
    zone: str | None = None
    chain: Chain | None = None
    explain: bool = False
    stored_blobs: bool = False
    find_views: ViewFinder | None = None

    @property
    def filter_fields(self) -> tuple[DataField, ...]:
        """The columns that the predicate needs: the table's, and row ids."""
        names = set(root_columns(self.predicate))
        return tuple(f for f in condition_fields(self.state.schema.fields, self.options) if f.name in names)

    @property
    def row_limit(self) -> int | None:
        """The rows of the result at most, by the limit and the order; None where there is neither."""
        limits = (self.limit, None if self.top_n is None else self.top_n.n)
        return min((limit for limit in limits if limit is not None), default=None)

    def limited(self, rows: int) -> int:
        """The rows of the result, given the number of rows that match the predicate."""
        return rows if self.row_limit is None else min(rows, self.row_limit)


class Chain(NamedTuple):
    """The branch of a chain table that has partitions whole, and a scan's request for it."""

    store: TableStore
    request: ScanRequest


def blob_references(store: TableStore, request: ScanRequest) -> BlobReferences | None:
    """Of which columns the bytes are fetched that references stand for, and from where."""
    schema, options = request.state.schema, request.options
    if request.stored_blobs or options.get("blob-as-descriptor"):
        return None
    of_options = dict(options)
    names = [f.name for f in request.fields if has_kind(f.type, Kind.BLOB) and not is_apart_blob(f, schema, of_options)]
    views = frozenset(f.name for f in request.fields if f.name in names and holds_views(f, of_options))
    if views and not options.get("blob-view.resolve.enabled"):
        names, views = [name for name in names if name not in views], frozenset()
    if not names:
        return None
    outside = file_paths(store, schema.options, outside=True).external_roots
    return BlobReferences(frozenset(names), store.root, tuple(outside), views, request.find_views)


def nulls_of_blobs(fields: Sequence[DataField], schema: TableSchema, options: TableOptions) -> tuple[DataField, ...]:
    """The columns of a filter: of BLOBs in files of their own the NULLs alone are read."""
    return tuple(
        as_nulls(f) if has_kind(f.type, Kind.BLOB) and is_apart_blob(f, schema, dict(options)) else f for f in fields
    )
