"""How a compaction orders rows, and which files of a table with incremental clustering it takes: Java Paimon's choice.

``clustering.columns`` order the rows of whatever files are rewritten, unless the call names columns of its own. With
``clustering.incremental`` files have levels, as those of a table with a primary key: what writers leave is on level 0,
each file a run of its own; the files of a level above were sorted together, and are one run. Runs are picked by number
and size, so that rows are rewritten a few times rather than by every call.

Source: Paimon documentation, append-table/incremental-clustering; Java: classes IncrementalClusterManager,
IncrementalClusterStrategy, HistoryPartitionCluster and BucketedAppendClusterManager.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.options.option import comma_separated, shown_argument, texts
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.sort.external import SortSpec
from paimon_pyds.base.sort.keys import STRATEGIES
from paimon_pyds.base.zones import clock_now_ms
from paimon_pyds.engine.compact.universal import CompactUnit, LevelFile, UniversalRules, pick, pick_full, sorted_runs
from paimon_pyds.engine.write import WriteContext
from paimon_pyds.engine.write.clustering import COLUMNS, INCREMENTAL, clustering_order, order_of
from paimon_pyds.errors import OptionError, UnsupportedError
from paimon_pyds.keys.merge.files_to_merge import highest_level
from paimon_pyds.metadata.store import TableStore

if TYPE_CHECKING:
    from paimon_pyds.engine.compact.append_plan import LiveFile


def sort_spec(context: WriteContext, order_by: str | Sequence[str] | None, order: str) -> SortSpec | None:
    """How rows are to be ordered: as the call says, else by ``clustering.columns``; None for as they are.

    ``order_by``: columns, as a sequence or with commas between them. ``order``: ``order``, ``zorder`` or ``hilbert``.

    Raises:
        OptionError: an unknown strategy, partition columns, columns whose values have no order.
        UnknownColumnError: a name of no column.
        UnsupportedError: buckets whose rows have an order of their own.
    """
    names = texts("order_by", order_by or ())
    if order not in STRATEGIES:
        raise OptionError(
            f"rows can't be ordered by {shown_argument(order)}", hint=f"order is one of {', '.join(STRATEGIES)}"
        )
    options = context.options
    ordered = int(options.get("bucket")) > 0 and options.get("bucket-append-ordered")
    if not names:
        if order != "order":
            raise OptionError(f"order={order} needs the columns to order by", hint='such as "a, b"')
        return None if ordered else clustering_order(context)
    if options.get(INCREMENTAL):
        raise UnsupportedError(
            f"rows of a table with {INCREMENTAL}=true are ordered by its {COLUMNS}, and by no others",
            hint=f"leave order_by out, or alter {COLUMNS}: files are ordered by these as they are rewritten",
        )
    if ordered:
        raise UnsupportedError(
            "rows of fixed buckets can't be ordered while bucket-append-ordered is true: their order is that of writes",
            hint="set bucket-append-ordered to false where no reader relies on it",
        )
    for name in names:
        if name in context.schema.partition_keys:
            raise OptionError(f"rows of one partition can't be ordered by its column {name!r}", hint="leave it out")
    return order_of(context, names, order, "order_by")


@dataclass(frozen=True, slots=True)
class Clusters:
    """Picks the files of a table with ``clustering.incremental`` that are sorted anew.

    Attributes:
        columns: its clustering columns.
        rules: when runs are merged.
        task_size: bytes of the files that are sorted together at most, with ``local-sort``; None for all.
    """

    store: TableStore
    columns: tuple[str, ...]
    rules: UniversalRules
    task_size: int | None

    @classmethod
    def of(cls, store: TableStore, context: WriteContext) -> Clusters | None:
        """By the table's options; None for a table without incremental clustering.
        Raises UnsupportedError: buckets whose rows have an order of their own, or deletion vectors."""
        options = context.options
        if not options.get(INCREMENTAL):
            return None
        if int(options.get("bucket")) > 0 and (
            options.get("bucket-append-ordered") or options.get("deletion-vectors.enabled")
        ):
            raise UnsupportedError(
                f"{INCREMENTAL}=true is for buckets without an order of their own and without deletion vectors",
                hint="set bucket-append-ordered and deletion-vectors.enabled to false",
            )
        rules = UniversalRules(
            small_size=0,
            trigger=int(options.get("num-sorted-run.compaction-trigger")),
            highest_level=highest_level(options),
            size_amplification=int(options.get("compaction.max-size-amplification-percent")),
            size_ratio=int(options.get("compaction.size-ratio")),
            rewrite_all=bool(options.get("compaction.force-rewrite-all-files")),
        )
        local = options.get("clustering.incremental.mode") == "local-sort"
        columns = comma_separated(str(options.get(COLUMNS) or ""))
        return cls(store, columns, rules, 2 * context.target_file_size if local else None)

    def pick(self, files: Sequence[LiveFile], *, full: bool) -> Iterator[tuple[list[LiveFile], int]]:
        """The files of one partition (of one bucket) to sort together, of all live ones, oldest first; and the level
        that they get. With ``full`` all of them, unless they are one run of the highest level, by the columns of
        today."""
        by_place = {file.at: file for file in files}
        runs = sorted_runs([
            LevelFile(
                at=f.at, size=f.size, level=f.level, key_range=(0, 0), age=(number, 0, 0, ""),
                loses_rows=f.vector_file is not None,
            )
            for number, f in enumerate(files)
        ])  # fmt: skip
        if full and len(runs) == 1 and not self._by_columns(by_place[runs[0][0].at]):
            unit: CompactUnit | None = CompactUnit(tuple(runs), max(self.rules.highest_level, runs[0][0].level))
        else:
            unit = pick_full(runs, self.rules) if full else pick(runs, self.rules, clock_now_ms())
        if unit is None:
            return
        picked: list[LiveFile] = []
        size = 0
        for file in unit.files:
            picked.append(by_place[file.at])
            size += file.size
            if self.task_size is not None and size >= self.task_size:
                yield picked, unit.output_level
                picked, size = [], 0
        if picked:
            yield picked, unit.output_level

    def _by_columns(self, file: LiveFile) -> bool:
        """Whether the table had the clustering columns of today when the file was written."""
        options = TableOptions(self.store.schema(file.schema_id).options)
        return comma_separated(str(options.get(COLUMNS) or "")) == self.columns

    def idle_partitions(
        self, files: Mapping[bytes, Sequence[LiveFile]], options: TableOptions, now: int
    ) -> frozenset[bytes]:
        """Of other partitions than a call is about, those to cluster fully all the same: nobody has written to them for
        ``clustering.history-partition.idle-to-full-sort``; the most idle first, ``…limit`` at most.

        ``files``: of all other partitions. ``now``: milliseconds.
        """
        idle = options.get("clustering.history-partition.idle-to-full-sort")
        if idle is None:
            return frozenset()
        fresh = {p: [f.created for f in mine if f.level < self.rules.highest_level] for p, mine in files.items()}
        newest = sorted((max(times), p) for p, times in fresh.items() if times and max(times) < now - idle)
        return frozenset(p for _, p in newest[: int(options.get("clustering.history-partition.limit"))])
