"""Options of primary keys, compaction, streams, catalogs and maintenance: none changes the rows of an append table.

Defaults are those of Java Paimon's CoreOptions.
"""

from __future__ import annotations

from collections.abc import Iterable

from paimon_pyds.base.options.option import Kind, Option, Scope, Status

_S, _B, _N, _L, _D = Kind.STRING, Kind.BOOLEAN, Kind.INT, Kind.LONG, Kind.DOUBLE
_M, _T, _E = Kind.MEMORY, Kind.DURATION, Kind.ENUM
_LONG_MAX = str(2**63 - 1)
_INT_MAX = str(2**31 - 1)

_Row = tuple[str, Kind, "str | None", str]


def _group(
    why: str, rows: Iterable[_Row], *, primary_key_only: bool = False, status: Status = Status.IGNORABLE
) -> list[Option]:
    return [
        Option(
            key=key, kind=kind, default=default, doc=doc, status=status, why=why,
            choices=_CHOICES.get(key, ()), primary_key_only=primary_key_only, immutable=key in _IMMUTABLE,
            fallbacks=_FALLBACKS.get(key, ()),
        )
        for key, kind, default, doc in rows
    ]  # fmt: skip


_IMMUTABLE = frozenset({
    "merge-engine", "aggregation.remove-record-on-delete", "partial-update.remove-record-on-delete",
    "partial-update.remove-record-on-sequence-group", "rowkind.field", "primary-key.nullable",
    "dynamic-bucket.initial-buckets", "force-lookup",
})  # fmt: skip
_FALLBACKS = {
    "ignore-delete": ("first-row.ignore-delete", "deduplicate.ignore-delete", "partial-update.ignore-delete"),
    "lookup-wait": ("changelog-producer.lookup-wait",),
    "snapshot.clean-empty-directories": ("snapshot.expire.clean-empty-directories",),
    "file-operation.thread-num": ("delete-file.thread-num",),
    "clustering.columns": ("sink.clustering.by-columns",),
    "clustering.strategy": ("sink.clustering.strategy",),
}
_TAG_MODES = ("none", "process-time", "watermark", "batch")
_SEARCH_MODES = ("fast", "full", "detail")
_CHOICES = {
    "merge-engine": ("deduplicate", "partial-update", "aggregation", "first-row"),
    "aggregation-rules": ("1.4", "2.1"),
    "diff-rules": ("1.4", "2.1"),
    "sort-engine": ("min-heap", "loser-tree"),
    "sequence.field.sort-order": ("ascending", "descending"),
    "changelog-producer": ("none", "input", "full-compaction", "lookup"),
    "write.sequence-number-init-mode": ("scan", "snapshot"),
    "lookup-compact": ("radical", "gentle"),
    "snapshot.expire.execution-mode": ("sync", "async"),
    "consumer.mode": ("exactly-once", "at-least-once"),
    "tag.automatic-creation": _TAG_MODES,
    "tag.creation-period": ("daily", "hourly", "two-hours"),
    "tag.period-formatter": ("with_dashes", "without_dashes", "without_dashes_and_spaces"),
    "metastore.tag-to-partition.preview": _TAG_MODES,
    "partition.sink-strategy": ("none", "hash", "partition_dynamic"),
    "sort-compaction.range-strategy": ("size", "quantity"),
    "clustering.incremental.mode": ("global-sort", "local-sort"),
    "format-table.implementation": ("paimon", "engine"),
    "global-index.column-update-action": ("throw_error", "drop_partition_index", "ignore"),
    "global-index.search-mode": _SEARCH_MODES,
    "scalar-index.search-mode": _SEARCH_MODES,
    "vector-index.search-mode": _SEARCH_MODES,
    "full-text-index.search-mode": _SEARCH_MODES,
    "materialized-table.interval-freshness.time-unit": ("second", "minute", "hour", "day"),
    "materialized-table.logical-refresh-mode": ("continuous", "full", "automatic"),
    "materialized-table.refresh-mode": ("continuous", "full", "automatic"),
    "materialized-table.refresh-status": ("initializing", "activated", "suspended"),
}

_MERGE = _group("", status=Status.HONOURED, primary_key_only=True, rows=[
    ("merge-engine", _E, "deduplicate", "what becomes of rows with one key"),
    ("sequence.field", _S, None, "columns that order the rows of one key"),
    ("sequence.field.sort-order", _E, "ascending", "their direction"),
    ("aggregation.remove-record-on-delete", _B, "false", "a delete removes the aggregate"),
    ("partial-update.remove-record-on-delete", _B, "false", "a delete removes the row"),
    ("partial-update.remove-record-on-sequence-group", _S, None, "groups whose delete removes the row"),
    ("fields.default-aggregate-function", _S, None, "aggregate of columns that name none"),
    ("aggregation-rules", _E, None, "the version of Java whose aggregate functions are followed (of this package)"),
    ("diff-rules", _E, "1.4", "the version of Java that incremental diffs follow (of this package)"),
    ("primary-key.nullable", _B, "false", "NULL in key columns"),
    ("changelog-producer", _E, "none", "where changelogs come from"),
    ("delete.force-produce-changelog", _B, "false", "whole partitions are deleted row by row"),
    ("data-file.thin-mode", _B, "false", "data files without key columns"),
])  # fmt: skip

_KINDS = _group("", status=Status.HONOURED, rows=[
    ("rowkind.field", _S, None, "column that holds the kind of a row"),
    ("ignore-delete", _B, "false", "deletes are dropped"),
    ("ignore-update-before", _B, "false", "update-befores are dropped"),
])  # fmt: skip

_UNMERGED = (
    Option(
        key="sequence.snapshot-ordering", kind=_B, default="false", doc="snapshots order the versions of one key",
        status=Status.HONOURED, primary_key_only=True, immutable=True,
    ),
    Option(
        key="pk-clustering-override", kind=_B, default="false",
        doc="compacted files are sorted by clustering.columns, and not by the key", status=Status.HONOURED,
        primary_key_only=True, immutable=True,
    ),
)  # fmt: skip

_MEMORY = _group("runs are merged by columns, in windows of bounded size", primary_key_only=True, rows=[
    ("sort-engine", _E, "loser-tree", "how runs are merged"),
    ("sort-spill-threshold", _N, None, "runs before spilling"),
    ("sort-spill-buffer-size", _M, "64 mb", "memory of a merge"),
    ("local-merge-buffer-size", _M, None, "merging before shuffling"),
    ("lookup.merge-buffer-size", _M, "8 mb", "memory of look-ups"),
    ("lookup.merge-records-threshold", _N, "1024", "records before spilling"),
])  # fmt: skip

_NUMBERS = _group("numbers go on from the greatest one of the files of a bucket", primary_key_only=True, rows=[
    ("write.sequence-number-init-mode", _E, "scan", "where sequence numbers go on from"),
])  # fmt: skip

_WAITS = _group("each write waits for the compaction that follows it", primary_key_only=True, rows=[
    ("num-sorted-run.stop-trigger", _N, None, "writers wait"),
    ("lookup-wait", _B, "true", "commits wait for look-ups"),
])  # fmt: skip

_OVERWRITES = _group("overwritten files are lifted by compactions only", primary_key_only=True, rows=[
    ("overwrite-upgrade", _B, "true", "level of overwritten files"),
])  # fmt: skip

_POSTPONED = _group("", status=Status.HONOURED, primary_key_only=True, rows=[
    ("postpone.batch-write-fixed-bucket", _B, "true", "batch writes choose buckets at once"),
    ("postpone.batch-write-fixed-bucket.max-parallelism", _N, "2048", "buckets that such a write makes, at most"),
    ("postpone.batch-write-fixed-bucket.rescale-load-factor", _N, "32", "how many times too few: then more"),
    ("postpone.default-bucket-num", _N, None, "buckets of a new partition"),
    ("postpone.target-row-num-per-bucket", _L, None, "rows of a bucket, from which the number of buckets follows"),
    ("postpone.target-size-per-bucket", _M, "1 gb", "the same by size, where rows are not set"),
])  # fmt: skip

_KEYS = _group("", status=Status.HONOURED, primary_key_only=True, rows=[
    ("dynamic-bucket.target-row-num", _L, "2000000", "keys of a dynamic bucket"),
    ("dynamic-bucket.initial-buckets", _N, None, "buckets of a new partition"),
    ("dynamic-bucket.max-buckets", _N, "-1", "most buckets of a partition"),
    ("dynamic-bucket.assigner-parallelism", _N, None, "assigners of a job"),
    ("cross-partition-upsert.index-ttl", _T, None, "age of files whose keys a write does not look for"),
    ("cross-partition-upsert.bootstrap-parallelism", _N, "10", "threads that look for keys; on Spark its tasks do"),
])  # fmt: skip


def key_index(name: str, doc: str) -> Option:
    """The option that names the columns with an index over the keys of a table. ``name``: the type of the index."""
    return Option(
        key=f"pk-{name}.index.columns", kind=_S, default=None, doc=doc, status=Status.REFUSED, scope=Scope.WRITE,
        primary_key_only=True, why="its index files would stay behind its rows",
        remedy="write to this table with Java Paimon; it can be read here, without these indexes",
    )  # fmt: skip


_INDEXED = [
    key_index("vector", "vector indexes"), key_index("btree", "tree indexes"),
    key_index("bitmap", "bitmap indexes by key"), key_index("multivalue", "indexes of arrays"),
    key_index("full-text", "text indexes"),
]  # fmt: skip

_LOOK_UPS = _group("", status=Status.HONOURED, primary_key_only=True, rows=[
    ("changelog-producer.row-deduplicate", _B, "false", "no changelog for equal rows"),
    ("changelog-producer.row-deduplicate-ignore-fields", _S, None, "columns that do not count there"),
    ("record-level.expire-time", _T, None, "rows expire on compaction"),
    ("record-level.time-field", _S, None, "the time they expire by"),
])  # fmt: skip

_MERGE_RUNS = _group("", status=Status.HONOURED, primary_key_only=True, rows=[
    ("compaction.force-up-level-0", _B, "false", "a compaction leaves nothing on level 0"),
    ("force-lookup", _B, "false", "compactions look older versions up, and leave nothing on level 0"),
    ("lookup-compact", _E, "radical", "gentle: what is looked up may stay on level 0 until runs are merged anyway"),
    ("lookup-compact.max-interval", _N, None, "compactions of one writer, of which each here is the first, until then"),
    ("compaction.offpeak.start.hour", _N, "-1", "quiet hours"),
    ("compaction.offpeak.end.hour", _N, "-1", "quiet hours"),
    ("compaction.offpeak-ratio", _N, "0", "size ratio in quiet hours"),
    ("compaction.optimization-interval", _T, None, "how often all runs are merged"),
    ("compaction.total-size-threshold", _M, None, "size of a bucket below which all runs are merged"),
    ("compaction.incremental-size-threshold", _M, None, "size of newer runs above which all are merged"),
    ("full-compaction.delta-commits", _N, None, "compact fully after a batch write, and each n-th of a stream"),
])  # fmt: skip

_RUNS = _group("", status=Status.HONOURED, rows=[
    ("compaction.max-size-amplification-percent", _N, "200", "percent of the oldest run that is too much"),
    ("compaction.size-ratio", _N, "1", "percent that a run may be larger than those before it"),
    ("num-sorted-run.compaction-trigger", _N, "5", "sorted runs that are worth a compaction"),
    ("num-levels", _N, None, "levels of the merge tree"),
])  # fmt: skip

_COMPACTION = _group("belongs to the memory of Java's writers, or to compaction jobs of its own", [
    ("compaction.file-num-limit", _N, "100000", "most files at once"),
    ("compaction.skip-expired-partitions", _B, "false", "leave expired partitions"),
    ("local-sort.max-num-file-handles", _N, "128", "files of a sort"),
    ("spill-compression.zstd-level", _N, "1", "of spilled data"),
    ("page-size", _M, "64 kb", "memory pages of Java"),
    ("cache-page-size", _M, "64 kb", "memory pages of Java"),
])  # fmt: skip

_CLUSTERING = _group("", status=Status.HONOURED, rows=[
    ("clustering.columns", _S, None, "columns that files are sorted by"),
    ("clustering.strategy", _S, "auto", "order, zorder or hilbert"),
    ("clustering.incremental", _B, "false", "cluster bit by bit"),
    ("clustering.incremental.mode", _E, "global-sort", "how"),
    ("clustering.incremental.optimize-write", _B, "false", "writers order their rows, too"),
    ("clustering.history-partition.limit", _N, "5", "old partitions at once"),
    ("clustering.history-partition.idle-to-full-sort", _T, None, "age of old partitions"),
])  # fmt: skip

_CURVES = _group("curves run over ranks of values, by a sample of the rows, and ranges have as many rows each", [
    ("sort-compaction.range-strategy", _E, "size", "ranges of a sort"),
    ("sort-compaction.local-sample.magnification", _N, "1000", "sample of a sort"),
    ("zorder.var-length-contribution", _N, "8", "bytes of a string in a z-order"),
])  # fmt: skip

_EXPIRY = _group("", [
    ("partition.mark-done-action", _S, "success-file", "how a partition is marked done"),
    ("partition.end-input-to-done", _B, "false", "each write marks its partitions as done"),
    ("snapshot.num-retained.min", _N, "10", "snapshots that stay"),
    ("snapshot.num-retained.max", _N, _INT_MAX, "most snapshots"),
    ("snapshot.time-retained", _T, "1 h", "age of snapshots"),
    ("snapshot.expire.execution-mode", _E, "sync", "how snapshots expire"),
    ("snapshot.expire.limit", _N, "50", "at once"),
    ("snapshot.clean-empty-directories", _B, "false", "remove empty directories"),
    ("changelog.num-retained.min", _N, None, "changelogs that stay, also when their snapshots have expired"),
    ("changelog.num-retained.max", _N, None, "most changelogs"),
    ("changelog.time-retained", _T, None, "age of changelogs"),
    ("consumer.expiration-time", _T, None, "age of consumers"),
    ("consumer.changelog-only", _B, "false", "consumers keep changelogs that outlive snapshots, and no snapshots"),
    ("partition.expiration-strategy", _S, "values-time", "what the age of a partition is"),
    ("partition.expiration-time", _T, None, "age of partitions"),
    ("partition.expiration-check-interval", _T, "1 h", "pace"),
    ("partition.expiration-max-num", _N, "100", "at once"),
    ("partition.expiration-batch-size", _N, None, "at once"),
    ("end-input.check-partition-expire", _B, "false", "expire at the end of a job"),
    ("file-operation.thread-num", _N, None, "threads that delete"),
    ("tag.automatic-creation", _E, "none", "tags made on commit"),
    ("tag.creation-period", _E, "daily", "how often"),
    ("tag.creation-delay", _T, "0 ms", "how late"),
    ("tag.creation-period-duration", _T, None, "how often"),
    ("tag.period-formatter", _E, "with_dashes", "names of tags"),
    ("tag.num-retained-max", _N, None, "most tags"),
    ("tag.default-time-retained", _T, None, "age of tags"),
    ("tag.time-expire-enabled", _B, "true", "tags expire by age"),
    ("tag.automatic-completion", _B, "false", "missed tags are made up for"),
    ("tag.create-success-file", _B, "false", "a file that announces each new tag"),
    ("tag.batch.customized-name", _S, None, "name of a batch tag"),
    ("sink.watermark-time-zone", _S, "UTC", "zone of tags by watermark"),
    ("sink.process-time-zone", _S, None, "zone of tags by time"),
    ("partition.timestamp-formatter", _S, None, "time of a partition"),
    ("partition.timestamp-pattern", _S, None, "time of a partition"),
    ("partition.timestamp-format.strict", _B, "false", "no rows go into partitions that are no times"),
], status=Status.HONOURED)  # fmt: skip

_FOLLOWED = _group("", [
    ("consumer-id", _S, None, "name under which a stream stores its progress"),
    ("consumer.mode", _E, "exactly-once", "how progress is stored: here by whole snapshots, in both modes"),
    ("consumer.ignore-progress", _B, "false", "start anew, not where the consumer was"),
    ("streaming.read.snapshot.delay", _T, None, "how old snapshots are when streams read them"),
    ("streaming-read-overwrite", _B, "false", "streams of tables with a primary key have what overwrites change"),
    ("streaming-read-append-overwrite", _B, "false", "streams of other tables have what overwrites add"),
    ("scan.bounded.watermark", _L, None, "a stream ends before the first snapshot with a later watermark"),
], status=Status.HONOURED)  # fmt: skip

_STREAMS = _group("belongs to Flink or to a streaming job", [
    ("continuous.discovery-interval", _T, "10 s", "how often streams look"),
    ("snapshot.watermark-idle-timeout", _T, None, "watermark of idle streams"),
    ("partition.mark-done-action.custom.class", _S, None, "how a partition is marked done"),
    ("partition.mark-done-action.http.url", _S, None, "how a partition is marked done"),
    ("partition.mark-done-action.http.params", _S, None, "how a partition is marked done"),
    ("partition.sink-strategy", _E, "none", "how rows are shuffled"),
    ("partition.idle-time-to-report-statistic", _T, "0 ms", "statistics of partitions"),
    ("lookup.hash-load-factor", _D, "0.75", "look-up joins"),
    ("lookup.cache-rows", _L, "10000", "look-up joins"),
    ("lookup.continuous.discovery-interval", _T, None, "look-up joins"),
    ("lookup.cache-file-retention", _T, "1 h", "look-up joins"),
    ("lookup.cache-max-disk-size", _M, _LONG_MAX, "look-up joins"),
    ("lookup.cache-spill-compression", _S, "zstd", "look-up joins"),
    ("lookup.cache-max-memory-size", _M, "256 mb", "look-up joins"),
    ("lookup.cache.high-priority-pool-ratio", _D, "0.25", "look-up joins"),
    ("lookup.cache.bloom.filter.enabled", _B, "true", "look-up joins"),
    ("lookup.cache.bloom.filter.fpp", _D, "0.05", "look-up joins"),
    ("lookup.blob-as-descriptor", _B, "false", "look-up joins"),
    ("lookup.remote-file.enabled", _B, "false", "look-up joins"),
    ("lookup.remote-file.level-threshold", _N, str(-(2**31)), "look-up joins"),
    ("local-kv-db.block-size", _M, "4 kb", "look-up joins"),
    ("materialized-table.definition-query", _S, None, "query of a materialized table"),
    ("materialized-table.interval-freshness", _S, None, "its freshness"),
    ("materialized-table.interval-freshness.time-unit", _E, None, "its freshness"),
    ("materialized-table.logical-refresh-mode", _E, None, "its refresh"),
    ("materialized-table.refresh-mode", _E, None, "its refresh"),
    ("materialized-table.refresh-status", _E, None, "its refresh"),
    ("materialized-table.refresh-handler-description", _S, None, "its refresh"),
    ("materialized-table.refresh-handler-bytes", _S, None, "its refresh"),
])  # fmt: skip

_CATALOGS = _group("belongs to a metastore", [
    ("metastore.partitioned-table", _B, "false", "partitions known to Hive"),
    ("metastore.tag-to-partition", _S, None, "tags as partitions in Hive"),
    ("metastore.tag-to-partition.preview", _E, "none", "tags as partitions in Hive"),
    ("format-table.implementation", _E, "paimon", "the reader of a format table"),
    ("format-table.partition-path-only-value", _B, "false", "directories of a format table"),
    ("format-table.file.compression", _S, None, "files of a format table"),
    ("format-table.commit-hive-sync-url", _S, None, "partitions of a format table"),
])  # fmt: skip

_COLUMN_UPDATES = _group("", status=Status.HONOURED, rows=[
    ("global-index.column-update-action", _E, "throw_error", "updates of columns that have a global index"),
    ("global-index.row-count-per-shard", _L, "100000", "rows of an index of vectors or texts"),
])  # fmt: skip

_GLOBAL_INDEX = _group("reads are complete without global indexes; a partition whose rows are rewritten loses its", [
    ("global-index.search-mode", _E, None, "how they are searched"),
    ("scalar-index.search-mode", _E, "fast", "how they are searched"),
    ("vector-index.search-mode", _E, "fast", "how they are searched"),
    ("full-text-index.search-mode", _E, "fast", "how they are searched"),
    ("global-index.thread-num", _N, "32", "threads of a search"),
    ("global-index.build.max-shard", _N, "32", "building"),
    ("global-index.build.max-parallelism", _N, "4096", "building"),
    ("global-index.external-path", _S, None, "place of the indexes"),
    ("vector-search.distribute.enabled", _B, "false", "vector search"),
    ("vector-search.lateral-join.batch-size", _N, "256", "vector search"),
])  # fmt: skip

ENGINE_OPTIONS: tuple[Option, ...] = (
    *_MERGE, *_KINDS, *_UNMERGED, *_MEMORY, *_NUMBERS, *_WAITS, *_OVERWRITES, *_POSTPONED, *_KEYS, *_INDEXED,
    *_LOOK_UPS, *_MERGE_RUNS, *_RUNS, *_COMPACTION, *_CLUSTERING, *_CURVES, *_EXPIRY, *_FOLLOWED, *_STREAMS, *_CATALOGS,
    *_GLOBAL_INDEX, *_COLUMN_UPDATES,
)  # fmt: skip
