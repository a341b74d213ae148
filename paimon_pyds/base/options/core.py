"""Options of files, buckets, reading, writing and committing: what changes bytes or rows of an append table.

Defaults are those of Java Paimon's CoreOptions.
"""

from __future__ import annotations

from paimon_pyds.base.options.option import Kind, Option, Scope, Status

_H, _I, _R = Status.HONOURED, Status.IGNORABLE, Status.REFUSED
_S, _B, _N, _L, _D = Kind.STRING, Kind.BOOLEAN, Kind.INT, Kind.LONG, Kind.DOUBLE
_M, _T, _E, _MAP = Kind.MEMORY, Kind.DURATION, Kind.ENUM, Kind.MAP
_LONG_MAX = str(2**63 - 1)


def _h(key: str, kind: Kind, default: str | None, doc: str, **more: object) -> Option:
    return Option(key=key, kind=kind, default=default, doc=doc, status=_H, **more)  # type: ignore[arg-type]


def _i(key: str, kind: Kind, default: str | None, doc: str, why: str, **more: object) -> Option:
    return Option(key=key, kind=kind, default=default, doc=doc, status=_I, why=why, **more)  # type: ignore[arg-type]


def _r(key: str, kind: Kind, default: str | None, doc: str, why: str, **more: object) -> Option:
    return Option(key=key, kind=kind, default=default, doc=doc, status=_R, why=why, **more)  # type: ignore[arg-type]


_TYPES = ("table", "format-table", "materialized-table", "object-table", "lance-table", "iceberg-table")
_STRATEGIES = ("none", "specific-fs", "round-robin", "entropy-inject", "weight-robin")
_MODES = (
    "default", "latest-full", "full", "latest", "latest-delta", "compacted-full", "from-timestamp",
    "from-creation-timestamp", "from-file-creation-time", "from-snapshot", "from-snapshot-full", "incremental",
)  # fmt: skip
_W = Scope.WRITE
_PER_FILE = "the first rows of each file say which parts it has as columns; all readers take any"
ICEBERG_REST = "metadata.iceberg.rest."
"""What options of the client of an Iceberg REST catalog begin with; its own names follow."""
ICEBERG_PROPERTIES = "metadata.iceberg.table-properties."
"""What options begin with that are properties of the table in such a catalog."""
KEYS_STAY = "each key has the same column in all rows of a file"
_TUNING = "tunes Java's readers or writers; the result is the same"
_ENGINE = "belongs to Flink or to a streaming job"
_NO_COMPACT = "writes of append tables are not followed by a compaction, and all others wait for theirs"
_NO_EMPTY = "a commit without changes makes no snapshot here"
_EXTERNAL = "writing data files outside the table is not supported; reading them is"

_TABLE = (
    _r("type", _E, "table", "kind of table", "other kinds have another layout", choices=_TYPES,
       accepted=("materialized-table", "format-table"), immutable=True),
    _i("path", _S, None, "location, as a catalog keeps it", "the location is what the table was opened with"),
    _i("owner", _S, None, "owner, as a catalog keeps it", "access is what the storage grants"),
    _i("primary-key", _S, None, "primary key, as SQL properties give it", "the schema holds the key", immutable=True),
    _i("partition", _S, None, "partition columns, as SQL properties have them", "the schema has them", immutable=True),
    _i("auto-create", _B, "false", "create the storage when the table is read", _ENGINE),
    _r("chain-table.enabled", _B, "false", "combine a snapshot branch and a delta branch", "not supported"),
    _i("chain-table.chain-partition-keys", _S, None, "partition keys of a chain", "only for chain tables"),
    _i("chain-table.streaming.merge-snapshot", _B, "false", "merge on streaming reads", "only for chain tables"),
    _i("chain-table.split.key-range-enabled", _B, "true", "splits by key range", "only for chain tables"),
    _i("scan.fallback-snapshot-branch", _S, None, "snapshot branch of a chain", "only for chain tables"),
    _i("scan.fallback-delta-branch", _S, None, "delta branch of a chain", "only for chain tables"),
    _r("query-auth.enabled", _B, "false", "row and column rules of a catalog", "the rules can't be enforced here"),
    _h("branch", _S, "main", "branch to read and write"),
    _h("scan.fallback-branch", _S, None, "branch that partitions come from which this one has not"),
    _i("scan.fallback-branch.read-fail-fast", _B, "false", "fail early in a fallback", "each error ends a read here"),
    _h("scan.primary-branch", _S, None, "branch that partitions come from, unless it has not got them"),
    _i("map.storage-layout", _S, None, "layout of MAP columns in files", "columns have it: fields.<column>.…"),
)  # fmt: skip

_BUCKETS = (
    _h("bucket", _N, "-1", "number of buckets; -1 for none in append tables"),
    _h("bucket-key", _S, None, "columns whose hash gives a row's bucket", immutable=True),
    _h("bucket-function.type", _E, "default", "how a bucket is computed", choices=("default", "mod", "hive"),
       immutable=True),
    _i("bucket-append-ordered", _B, "true", "keep the order of appends in a bucket", "batch reads promise no order"),
    _h("partition.default-name", _S, "__DEFAULT_PARTITION__", "directory of NULL and blank partition values"),
    _h("partition.legacy-name", _B, "true", "partition directories in Java's form of values, not SQL's"),
)  # fmt: skip

_FILES = (
    _h("file.format", _S, "parquet", "format of new data files: parquet, orc, avro", lower=True),
    _h("file.format.per.level", _MAP, "", "format by level of the merge tree", primary_key_only=True, lower=True),
    _h("file.compression", _S, "zstd",
       "compression of new data files; unless set, Parquet leaves numbers alone that it would not shorten by a tenth"),
    _h("file.compression.per.level", _MAP, "", "compression by level", primary_key_only=True),
    _h("file.compression.zstd-level", _N, "1", "level of zstd"),
    _h("file.block-size", _M, None, "size of a row group or stripe"),
    _h("file.suffix.include.compression", _B, "false", "file names like data-….zst.parquet"),
    _h("data-file.prefix", _S, "data-", "first part of a data file's name"),
    _h("data-file.path-directory", _S, None, "directory of the table that holds the data files", immutable=True),
    _h("changelog-file.prefix", _S, "changelog-", "first part of a changelog file's name", primary_key_only=True),
    _h("changelog-file.format", _S, None, "format of changelog files", primary_key_only=True, lower=True),
    _h("changelog-file.compression", _S, None, "compression of changelog files", primary_key_only=True),
    _h("changelog-file.stats-mode", _S, None, "statistics of changelog files", primary_key_only=True),
    _i("data-file.external-paths", _S, None, "places outside the table for data files",
       "matters with data-file.external-paths.strategy only"),
    _r("data-file.external-paths.strategy", _E, "none", "how a place outside the table is chosen", _EXTERNAL,
       choices=_STRATEGIES, scope=_W),
    _i("data-file.external-paths.specific-fs", _S, None, "file system of external paths", "only with external paths"),
    _i("data-file.external-paths.weights", _S, None, "weights of external paths", "only with external paths"),
    _h("parquet.enable.dictionary", _B, None, "dictionary encoding in Parquet files"),
    _h("orc.timestamp-ltz.legacy.type", _B, "true",
       "instants in ORC files by the clocks of the writer's time zone; tables made here have false"),
    _h("orc.timestamp-ltz.legacy.timezone", _S, "UTC",
       "time zone of the JVM that wrote instants so, for files that do not name it (of this package)"),
    _h("target-file-size", _M, None,
       "size at which a new file is begun; 256 MB for append tables, 128 MB with a primary key"),
    _h("target-file-row-num", _L, _LONG_MAX, "rows at which a new file is begun"),
    _h("index-file-in-data-file-dir", _B, "false", "deletion vectors next to the data files", immutable=True),
    _h("file-index.in-manifest-threshold", _M, "500 B", "indexes up to this size live in the manifest"),
    _h("file-index.read.enabled", _B, "true", "use file indexes when reading"),
    _h("global-index.enabled", _B, "true", "use global indexes when reading"),
    _h("metadata.stats-mode", _S, "truncate(16)", "column statistics: none, counts, truncate(n), full"),
    _h("metadata.stats-mode.per.level", _MAP, "", "statistics by level", primary_key_only=True),
    _h("metadata.stats-dense-store", _B, "true", "store statistics of those columns only that have some"),
    _h("metadata.stats-keep-first-n-columns", _N, "-1", "statistics for the first columns only; -1 for all"),
    _h("variant.shreddingSchema", _S, None, "parts of VARIANT columns that Parquet files have as columns, by name",
       fallbacks=("parquet.variant.shreddingSchema",)),
    _h("variant.inferShreddingSchema", _B, "false", "find these parts by the first rows of a file"),
    _i("variant.shredding.inferenceMode", _E, "per-file", "how parts are found", _PER_FILE,
       choices=("per-file", "adaptive")),
    _h("variant.shredding.maxSchemaWidth", _N, "300", "columns of parts at most, those of bytes included"),
    _h("variant.shredding.maxSchemaDepth", _N, "50", "levels of objects and arrays that are looked into"),
    _h("variant.shredding.minFieldCardinalityRatio", _D, "0.1", "share of rows that must have a part"),
    _h("variant.shredding.maxInferBufferRow", _N, "4096", "rows that parts are found by"),
    _i("variant.shredding.adaptive.maxInferBufferRow", _N, "256", "rows of later files", _PER_FILE),
    _i("variant.shredding.adaptive.retentionRatio", _D, "0.05", "share of rows for parts of earlier files", _PER_FILE),
    _h("blob-field", _S, None, "columns stored in blob files; all BLOB columns that no other option names are",
       immutable=True),
    _h("blob-descriptor-field", _S, None, "columns whose data files hold descriptors of blobs that are elsewhere",
       immutable=True, fallbacks=("blob.stored-descriptor-fields",)),
    _i("blob-external-storage-field", _S, None, "columns stored outside the table", "blobs are written in the table",
       immutable=True),
    _i("blob-external-storage-path", _S, None, "the directory of these", "blobs are written in the table",
       immutable=True),
    _h("blob-view-field", _S, None, "columns whose data files hold views of blobs of another table", immutable=True),
    _h("blob-view.resolve.enabled", _B, "true", "read the bytes that views stand for, and not the views"),
    _h("blob-as-descriptor", _B, "false", "read blobs as descriptors, and copy the bytes behind descriptors in writes"),
    _h("blob.target-file-size", _M, None, "size at which a new blob file is begun; that of data files by default"),
    _i("blob.split-by-file-size", _B, None, "splits by blob size", _TUNING),
    _i("blob.copy-buffer-size", _M, "4 kb", "buffer for blobs", _TUNING),
    _i("blob-write-null-on-missing-file", _B, "false", "missing blobs as NULL", "that is an error here"),
    _i("blob-write-null-on-fetch-failure", _B, "false", "failing blobs as NULL", "that is an error here"),
    _i("blob-compaction.enabled", _B, "false", "compact blob files", _NO_COMPACT),
    _i("vector-field", _S, None, "columns of vectors", "the schema says which columns are vectors"),
    _h("vector.file.format", _S, None, "VECTOR columns are in files of their own, of this format: parquet or avro"),
    _h("vector.target-file-size", _M, None, "size of a vector file; that of data files by default"),
)  # fmt: skip

_DELETION = (
    _h("deletion-vectors.enabled", _B, "false", "rows are deleted by deletion vectors"),
    _h("deletion-vectors.bitmap64", _B, "false", "vectors are written with 64 bits; both kinds are read"),
    _h("deletion-vector.index-file.target-size", _M, "2 mb", "size of a file of vectors"),
    _i("deletion-vectors.modifiable", _B, "false", "allow switching deletion-vectors.enabled", "used by ALTER only"),
    _h("deletion-vectors.merge-on-read", _B, "false", "read level 0 too", primary_key_only=True),
    _h("postpone.merge-on-read", _B, "false", "batch reads merge rows that wait for their buckets",
       primary_key_only=True),
    _h("row-tracking.enabled", _B, "false", "each row has an id", immutable=True),
    _i("row-tracking.partition-group-on-commit", _B, "true", "row ids grouped by partition", _TUNING),
    _h("data-evolution.enabled", _B, "false", "columns of a row in several files", immutable=True),
    _i("data-evolution.reassign.skip-contiguous-row-count", _L, "1000000000", "row ids", "only with data evolution"),
    _i("data-evolution.row-id-conflict-rewrite.max-size", _M, "256 mb", "row ids", "only with data evolution"),
    _i("data-evolution.row-sidecar.enabled", _B, "false", "sidecars", "only with data evolution"),
    _i("data-evolution.row-sidecar.max-selected-rows", _L, "4096", "sidecars", "only with data evolution"),
    _i("data-evolution.row-sidecar.max-selection-ratio", _D, "0.05", "sidecars", "only with data evolution"),
    _i("data-evolution.merge-into.file-pruning", _B, "true", "MERGE INTO", "only with data evolution"),
    _i("data-evolution.merge-into.source-persist", _B, "false", "MERGE INTO", "only with data evolution"),
    _i("data-evolution.compaction.rewrite-row-ids", _B, "false", "compaction", "only with data evolution"),
)  # fmt: skip

_SCAN = (
    _r("scan.mode", _E, "default", "what a read starts from", "only the newest state and time travel are supported",
       choices=_MODES, accepted=("latest-full", "full", "latest", "from-timestamp", "from-snapshot",
                                 "from-snapshot-full", "incremental"), fallbacks=("log.scan",)),
    _h("scan.snapshot-id", _L, None, "read this snapshot"),
    _h("scan.tag-name", _S, None, "read the snapshot of this tag"),
    _h("scan.timestamp", _S, None, "read the newest snapshot up to this time"),
    _h("scan.timestamp-millis", _L, None, "the same in milliseconds since 1970 UTC",
       fallbacks=("log.scan.timestamp-millis",)),
    _h("scan.version", _S, None, "read a tag, or the snapshot of this number"),
    _h("scan.watermark", _L, None, "read the first snapshot with this watermark or a later one"),
    _r("scan.file-creation-time-millis", _L, None, "read files made after this time", "not supported"),
    _r("scan.creation-time-millis", _L, None, "read from a snapshot or files made after this time", "not supported"),
    _h("incremental-between", _S, None, "rows added between two snapshots or tags"),
    _h("incremental-between-scan-mode", _E, "auto", "which changes are read",
       choices=("auto", "delta", "changelog", "diff")),
    _h("incremental-between-timestamp", _S, None, "rows added between two times"),
    _h("incremental-to-auto-tag", _S, None, "rows added since the automatic tag before this one"),
    _h("incremental-between-tag-to-snapshot", _B, "false", "take tags for the numbers of their snapshots"),
    _r("scan.bucket", _N, None, "read one bucket only", "not supported; filter by the bucket key"),
    _r("scan.ignore-corrupt-files", _B, "false", "skip files that can't be decoded", "rows would be lost silently"),
    _r("scan.ignore-lost-files", _B, "false", "skip files that are gone", "rows would be lost silently"),
    _h("source.split.target-size", _M, "128 mb", "bytes of data files in one split"),
    _h("source.split.open-file-cost", _M, "4 mb", "least weight of a file in a split"),
    _i("scan.manifest.parallelism", _N, None, "threads that read manifests", _TUNING),
    _i("scan.max-splits-per-task", _N, "10", "splits per task", _ENGINE),
    _i("scan.plan-sort-partition", _B, "false", "splits in order of partitions", _TUNING),
    _i("scan.plan-auto-tag-for-read.time-retained", _T, None, "tag a snapshot while it is read", "no tag is made"),
    _i("batch-scan-mode", _E, "none", "internal scan mode", _ENGINE, choices=("none", "compact")),
    _i("stream-scan-mode", _E, "none", "internal scan mode", _ENGINE,
       choices=("none", "compact-bucket-table", "file-monitor")),
    _i("read.batch-size", _N, "1024", "rows per batch of Java's readers", _TUNING),
    _i("file-reader-async-threshold", _M, "10 mb", "files read ahead", _TUNING),
    _h("table-read.sequence-number.enabled", _B, "false", "add _SEQUENCE_NUMBER to audit_log and binlog"),
    _r("key-value.sequence_number.enabled", _B, "false", "add _SEQUENCE_NUMBER to rows", "not supported"),
    _h("format-table.partition-path-only-value", _B, "false", "directories of a format table without partition names"),
    _i("format-table.scan.list-parallelism", _N, "64", "listing of format tables", "only for format tables"),
)  # fmt: skip

_WRITE = (
    _r("upsert-key", _S, None, "columns by which Paimon's Spark connector turns an INSERT into a MERGE",
       "the rows have to be merged by these columns, or keys would come twice", scope=Scope.APPEND, accepted=("",),
       remedy="merge them: Table.merge, paimon_pyds.spark.merge or the command merge, with these columns as 'on'"),
    _h("write-only", _B, "false", "no compaction follows a write", fallbacks=("write.compaction-skip",)),
    _h("dynamic-partition-overwrite", _B, "true", "an overwrite replaces the partitions that it has rows for"),
    _h("commit.max-retries", _N, "10", "how often a commit that lost a race is tried again"),
    _h("commit.timeout", _T, None, "how long a commit is tried"),
    _h("commit.min-retry-wait", _T, "10 ms", "shortest wait before trying again"),
    _h("commit.max-retry-wait", _T, "10 s", "longest wait before trying again"),
    _h("commit.user-prefix", _S, None, "first part of a commit user's name"),
    _r("commit.strict-mode.last-safe-snapshot", _L, None, "refuse to commit over others' compactions",
       "not supported yet", scope=_W),
    _i("commit.force-compact", _B, "false", "compact before a commit", _NO_COMPACT),
    _i("commit.force-create-snapshot", _B, "false", "a commit without changes makes a snapshot", _NO_EMPTY),
    _i("snapshot.ignore-empty-commit", _B, None, "a commit without changes makes no snapshot", _NO_EMPTY),
    _i("commit.discard-duplicate-files", _B, "false", "drop files that are committed already", "names are unique"),
    _r("commit.callbacks", _S, "", "Java classes called after a commit", "they can't be called from here", scope=_W),
    _i("tag.callbacks", _S, "", "Java classes called after tagging", "they can't be called from here"),
    _r("metadata.iceberg.storage", _E, "disabled", "Iceberg metadata of the table, and the catalog that shows it",
       "a Hive metastore can't be written to from here", scope=_W,
       accepted=("table-location", "hadoop-catalog", "rest-catalog"),
       choices=("disabled", "table-location", "hadoop-catalog", "hive-catalog", "rest-catalog"),
       remedy="set table-location or hadoop-catalog, and register the metadata in the catalog"),
    _h("metadata.iceberg.storage-location", _E, None, "where it is: with the table, or in a directory of its own",
       choices=("table-location", "catalog-location")),
    _h("metadata.iceberg.format-version", _N, "2", "Iceberg's format: 2, or 3, which has deletion vectors"),
    _h("metadata.iceberg.compaction.min.file-num", _N, "10", "Iceberg manifests from which small ones may be merged"),
    _h("metadata.iceberg.compaction.max.file-num", _N, "50", "Iceberg manifests from which small ones are merged"),
    _h("metadata.iceberg.delete-after-commit.enabled", _B, "true", "remove metadata of earlier snapshots"),
    _h("metadata.iceberg.previous-versions-max", _N, "0", "metadata of earlier snapshots that stays"),
    _h("metadata.iceberg.manifest-compression", _S, "snappy", "compression of Iceberg manifests"),
    _h("metadata.iceberg.manifest-legacy-version", _B, "false", "manifest lists as Iceberg 1.4 has them, for Athena"),
    _h("metadata.iceberg.database", _S, None, "its namespace in an Iceberg REST catalog"),
    _h("metadata.iceberg.table", _S, None, "its name in an Iceberg REST catalog"),
    *(_i(f"metadata.iceberg.{key}", _S, None, doc, "belongs to catalogs of Hive or Glue")
      for key, doc in (("uri", "address of a metastore"), ("hive-conf-dir", "Hive's settings"),
                       ("hadoop-conf-dir", "Hadoop's settings"), ("hive-client-class", "Hive's client"),
                       ("glue.skip-archive", "no archive in Glue"),
                       ("hive-skip-update-stats", "no statistics in Hive"))),
    _r("manifest.format", _E, "avro", "format of manifests", "only Avro manifests are supported", immutable=True,
       choices=("avro", "orc", "parquet"),
       remedy="copy its rows by Java Paimon or Spark into a table with manifest.format=avro"),
    _h("manifest.compression", _S, "zstd", "compression of manifests: zstd, snappy, deflate, bzip2, xz, null"),
    _h("manifest.target-file-size", _M, "8 mb", "size of a manifest"),
    _h("manifest.merge-min-count", _N, "30", "small manifests that are merged on commit"),
    _h("manifest.full-compaction-threshold-size", _M, "16 mb", "changed manifests that make a full rewrite worthwhile"),
    _i("manifest.delete-file-drop-stats", _B, "false", "entries of deleted files without statistics", _TUNING),
    _i("manifest.merge-optimize.enabled", _B, "true", "how manifests are merged", _TUNING),
    _i("manifest-sort.enabled", _B, "false", "manifests in order of a partition column", _TUNING),
    _i("manifest-sort.partition-field", _S, None, "column of that order", _TUNING),
    _i("manifest-sort.max-rewrite-size", _M, "256 mb", "limit of that rewrite", _TUNING),
    _i("write.batch-size", _N, "1024", "rows per batch of Java's writers", _TUNING,
       fallbacks=("orc.write.batch-size",)),
    _i("write.batch-memory", _M, "128 mb", "memory per batch of Java's writers", _TUNING),
    _h("write-buffer-size", _M, "256 mb",
       "rows that a compaction, or a write by key, orders in memory; more of them are spilled"),
    _i("write-buffer-for-append", _B, "false", "buffer of Java's writers", _TUNING),
    _h("write-buffer-spillable", _B, "true", "spill rows that are written by key; else their files are smaller"),
    _h("write-buffer-spill.max-disk-size", _M, _LONG_MAX, "bytes that a writer spills to the temporary disk"),
    _h("write-max-writers-to-spill", _N, "10",
       "data files that a writer has open at once; rows of more partitions and buckets are spilled"),
    _i("async-file-write", _B, "true", "how Java's writers write", _TUNING),
    _h("alter-column-null-to-not-null.disabled", _B, "true", "a nullable column can't become NOT NULL"),
    _h("disable-explicit-type-casting", _B, "false", "columns change type by widening only"),
    _h("write.merge-schema", _B, "false", "rows bring new columns, and fields of rows, into the table"),
    _h("write.merge-schema.type-widening", _B, "false", "with write.merge-schema: wider types, too, losslessly"),
    _h("write.merge-schema.explicit-cast", _B, "false",
       "with type-widening: any type that old values can be cast to, perhaps with loss"),
    _h("add-column-before-partition", _B, "false", "new columns go before the partition columns"),
    _r("visibility-callback.enabled", _B, "false", "wait until a commit can be seen elsewhere", "not supported",
       scope=_W),
    _i("visibility-callback.timeout", _T, "30 min", "limit of that wait", "only with visibility-callback.enabled"),
    _i("visibility-callback.check-interval", _T, "10 s", "pace of that wait", "only with visibility-callback.enabled"),
)  # fmt: skip

_COMPACT = (
    _h("compaction.min.file-num", _N, "5", "small files that a compaction merges, at least"),
    _h("compaction.small-file-ratio", _D, "0.7", "share of target-file-size below which a file is small"),
    _h("compaction.delete-ratio-threshold", _D, "0.2", "share of deleted rows above which a compaction drops them"),
    _h("compaction.force-rewrite-all-files", _B, "false", "a compaction rewrites every file"),
    _h("spill-compression", _S, "zstd", "compression of rows that are spilled: zstd, lz4, none"),
)  # fmt: skip

CORE_OPTIONS: tuple[Option, ...] = _TABLE + _BUCKETS + _FILES + _DELETION + _SCAN + _WRITE + _COMPACT
