"""What works and what does not: each feature of Paimon with what is read and written of it, and since which Paimon.

`UnsupportedError.feature` names a feature of this list. docs/compatibility.md shows it: ``python tools/features.py``
writes the table there. Each cell with the word *refused* has a test in ``tests/table/test_refusals.py``.
"""

from __future__ import annotations

from paimon_pyds.base.records import dataclass


@dataclass(frozen=True, slots=True)
class Feature:
    """A row of the table; its texts are Markdown.

    Attributes:
        id: what errors name.
        name: the feature, with the options that it is known by.
        read: what is read.
        write: what is written.
        since: the first Paimon that has it; empty where that is 0.7 or earlier, or Paimon has no part in it.
        options: options whose refusal is one of this feature.
    """

    id: str
    name: str
    read: str = ""
    write: str = ""
    since: str = ""
    options: tuple[str, ...] = ()


FEATURES = (
    # ------------------------------------------------------------------------------------------------ kinds of tables
    Feature("append-tables", "append tables: with and without buckets, partitions of every type but nested",
            "yes; FLOAT and DOUBLE partitions in the directories of every version of Java",
            "yes; bytes as partitions need `partition.legacy-name=false`, and are refused else, as are new partitions "
            "of FLOAT and DOUBLE values that Java before 19 spells differently"),
    Feature("key-tables", "tables with a primary key: each merge engine, `changelog-producer`, deletion vectors", "yes",
            "fixed and dynamic buckets; `delete`, `update`, `merge`, `compact`; NULL in keys with "
            "`primary-key.nullable`"),
    Feature("postpone", "the same with `bucket=-2`",
            "rows that are in their buckets, as in Java; streams also those that wait, and so do batch reads with "
            "`postpone.merge-on-read`",
            "yes; `compact` brings waiting rows into buckets", "1.1"),
    Feature("key-changes", "changes of such tables: `incremental-between`, `table.snapshots.diff`, "
            "`table.system.audit_log`, `.binlog`", "yes"),
    Feature("snapshot-ordering", "`sequence.snapshot-ordering`", "yes; data files without `_FILE_SOURCE` are refused",
            "fixed and dynamic buckets; `bucket=-2` is refused. Java Paimon 1.4, pypaimon 2.1 and "
            "pypaimon-rust 0.4 pass over the option: they may read older rows, and rows that they write may count as "
            "older ones", "2.0"),
    Feature("nested-sequence", "`nested-sequence-field`, `nested-key-null-strategy`", "yes",
            "yes. Java Paimon 1.4 passes over them", "2.0"),
    Feature("clustering-override", "`pk-clustering-override`",
            "yes; batch reads what is compacted, as in Java",
            "yes; `compact` leaves files whose ranges overlap alone until there are too many, where Java merges them",
            "1.4"),
    Feature("key-indexes", "indexes over keys (`pk-*.index.columns`)", "yes, without the index",
            "refused: the index would stay behind", "2.0"),
    Feature("branches-of-partitions", "`scan.fallback-branch`, `scan.primary-branch`",
            "yes; changes between states are refused; system tables show the one branch, and streams and row changes "
            "are of it, as in Java", "as a table without them", "0.9; primary 1.4"),
    Feature("chain-tables", "chain tables (`chain-table.enabled`)",
            "batch reads, also of each of the two branches by itself; changes between states and streams are refused, "
            "and so are other merge engines than `deduplicate` and `partial-update`", "refused", "1.4",
            ("chain-table.enabled",)),
    Feature("upsert-key", "`upsert-key`", "yes", "appends are refused: merge the rows by these columns", "1.3",
            ("upsert-key",)),
    Feature("row-ids", "row ids (`row-tracking.enabled`)", "yes",
            "`delete`, `update`, `merge`, `compact` keep them. pypaimon-rust 0.4 reads no table in which rows were "
            "rewritten, here or by Java; deletions by vectors rewrite none", "1.3"),
    Feature("data-evolution", "[data evolution](row-changes.md#updates-that-write-single-columns) "
            "(`data-evolution.enabled`): columns of one row in several files",
            "yes; of `incremental-between` and streams what appends added, changes of columns are refused (Java "
            "gives rows there with NULL in all other columns), and so is `table.snapshots.diff`",
            "`append`, `update`, `merge`, `delete` by deletion vectors, and `compact`, which leaves BLOB files as "
            "they are, and deleted rows in their places, as Java's does (its `materialize_deletion_vectors` is not "
            "there); `delete` without deletion vectors is refused",
            "1.3"),
    Feature("format-tables", "[format tables](catalogs.md#format-tables) (`type=format-table`): directories of "
            "Parquet, ORC, CSV, JSON or text",
            "yes; what parsers of CSV take for different values is refused, and so are partitions that a catalog keeps "
            "(`metastore.partitioned-table`), BYTES and instants in CSV and JSON, MAPs in JSON, and streams", "refused",
            "0.9; text 1.3"),
    Feature("object-tables", "`type=object-table`, `lance-table`, `iceberg-table`", "refused", "refused",
            "1.0; the latter 1.3", ("type",)),
    # -------------------------------------------------------------------------------------------------------- formats
    Feature("parquet-avro", "Parquet, Avro", "yes", "yes"),
    Feature("orc", "ORC", "yes; outside the years 1677 to 2262 nested timestamps, and those with nanoseconds, are "
            "refused", "yes; timestamps with a fraction in the last second before 1970 are refused"),
    Feature("row-files", "`row` files (`file.format=row`)", "yes",
            "yes. From such tables with a primary key Java Paimon 2.1 and pypaimon-rust 0.4 read other values, from "
            "their own too, and a compaction by Java stores them; of those with data evolution Java reads none",
            "2.0"),
    Feature("mosaic-files", "Mosaic files (`file.format=mosaic`)",
            "with the package `paimon-mosaic` (the extra `mosaic`), whose native code may end the process at a damaged "
            "file; without it refused", "refused", "2.0"),
    Feature("other-files", "data files of Vortex, Lance, CSV, JSON and text",
            "refused by name, with what reads them", "refused", "CSV, JSON, text, Lance 1.3; others 2.0"),
    Feature("file-indexes", "file indexes: bloom filter, bitmap 1 and 2, BSI, range bitmap", "yes",
            "yes; `table.index.build` for files that are there; indexes of other types are refused",
            "0.8; bitmap 0.9, BSI 1.0, bitmap 2 1.1, range bitmap 1.3"),
    Feature("global-indexes", "global indexes of tables with row tracking",
            "yes; btree and bitmap answer filters for the rows that they cover, all other rows are read",
            "yes; an index goes when rows of its partition are rewritten (update, compaction, deletion without "
            "vectors). With data evolution, updates of its column follow `global-index.column-update-action`", "1.4"),
    Feature("searches", "[searches](indexes.md#searching-for-vectors-and-texts) for vectors and texts by global "
            "indexes (`ivf-*`, `diskann`, `full-text`)",
            "`scan.search`, with the extra `search`; rows that no index covers are searched, too, and without an index "
            "all rows; indexes over keys (`pk-vector`, `pk-full-text`) are not used",
            "`table.index.build_global(column, kind=…)`", "2.0"),
    Feature("deletion-vectors", "deletion vectors, 32 and 64 bit", "yes", "`delete`, `update`, `merge`, `compact`",
            "0.8; 64 bit 1.2"),
    Feature("manifest-formats", "`manifest.format` orc, parquet", "refused", "refused", "", ("manifest.format",)),
    Feature("extra-metadata", "extra files of manifests (`manifest.sidecar.enabled`), members of metadata that later "
            "versions add", "ignored", "preserved where a record is written again; a commit whose record can't "
            "preserve one is refused"),
    Feature("external-paths", "data files outside the table (`data-file.external-paths`)", "yes",
            "refused where a strategy is set (`data-file.external-paths.strategy`)", "1.1",
            ("data-file.external-paths.strategy",)),
    # -------------------------------------------------------------------------------------------------------- columns
    Feature("column-changes", "changes of columns (add, drop, rename, reorder, widen)", "yes",
            "`table.alter`; all writes with `write.merge-schema` and its two options, which are those of Java's Spark "
            "connector. Java widens with loss, too"),
    Feature("time", "TIME", "in milliseconds", "fractions of a millisecond are an error: Paimon's files hold none"),
    Feature("variant", "VARIANT columns in Parquet files, plain and shredded, and in `row` files", "yes",
            "yes, [shredded](types.md#values-of-variant) as `variant.shreddingSchema` says or "
            "`variant.inferShreddingSchema` finds; parts of types that VARIANT has not are refused, and so are other "
            "file formats", "1.1; shredded 1.4"),
    Feature("blob", "BLOB, `ARRAY<BLOB>`, `MAP<…, BLOB>` columns, in `.blob` files or as references "
            "(`blob-descriptor-field`, tables with a primary key)",
            "yes, as bytes or descriptors; views (`blob-view-field`) of a table in the same warehouse directory: of "
            "other tables, and of views, they are refused",
            "in tables of data evolution, `blob-descriptor-field` and `blob-view-field` too; in tables with a primary "
            "key BLOB columns, by `append`; refused there: arrays and maps of them, new values in `update`, "
            "changelogs, `bucket=-2`, `rename_table` where that moves files; in `row` files references are refused; "
            "BLOB columns are not renamed",
            "1.4; nested 2.0"),
    Feature("vector", "VECTOR columns, in data files or in files of their own (`vector.file.format`)", "yes",
            "yes; own files as Parquet or Avro, others are refused, and so are updates of vectors after the option was "
            "set, or columns were added or renamed, until `compact(full=True)`. ORC files with vectors are not read by "
            "Java 2.1", "1.4"),
    Feature("shared-maps", "MAP columns whose keys many rows share (`map.storage-layout=shared-shredding`)",
            "yes, in Parquet and ORC", "yes, in Parquet files, if keys are texts, at most 4 MiB of different ones "
            "where a file begins, and values have no VARIANT; else as plain MAP columns", "2.0"),
    Feature("unknown-types", "columns of types that later versions add (GEOMETRY)",
            "refused by name; the other columns are read",
            "refused; what writes no data file works: altering, deleting by deletion vectors, dropping partitions, "
            "tags, expiry", "2.1"),
    # ----------------------------------------------------------------------------------------------------- operations
    Feature("time-travel", "snapshots, tags, timestamps, versions, branches; `incremental-between`", "yes",
            "tags, branches, rollback"),
    Feature("system-tables", "system tables: 19 of a table, 4 of a catalog", "yes"),
    Feature("maintenance", "maintenance: expiry, `truncate`, `maintenance.drop_partitions`, "
            "`maintenance.compact_manifests`, `.clone`, `.purge`, `.analyze`", "",
            "yes, also of changelogs that outlive their snapshots"),
    Feature("damage", "damage: `maintenance.verify`, `.repair`, `.remove_orphan_files`, `.remove_unexisting_files`",
            "yes", "yes"),
    Feature("migration", "[files of other writers](migrating.md): Parquet, ORC, Avro, Delta, Iceberg", "",
            "`pp.migrate`, `paimon-pyds migrate`"),
    Feature("iceberg", "[Iceberg metadata of the table](iceberg.md) (`metadata.iceberg.storage`)", "",
            "`table-location`, `hadoop-catalog` and `rest-catalog`; `hive-catalog` is refused, and so is what "
            "Iceberg's readers could not read rightly", "0.9; format version 3 1.3", ("metadata.iceberg.storage",)),
    Feature("streams", "[streams](streams.md) in Spark and in Python", "yes", "yes, exactly once"),
    Feature("query-auth", "row and column rules of a catalog (`query-auth.enabled`)", "refused", "refused", "1.2",
            ("query-auth.enabled",)),
    # ---------------------------------------------------------------------------------------------- catalogs, storage
    Feature("catalogs", "[catalogs](catalogs.md): directories, REST, JDBC in SQLite, PostgreSQL, MySQL", "yes", "yes"),
    Feature("hive", "[Hive metastores](catalogs.md#hive), as Java's Hive catalog", "yes",
            "with the extra `hive`; `metastore.tag-to-partition` is refused"),
    Feature("hive-security", "Hive metastores that want Kerberos, TLS, HTTP or a password",
            "with Kerberos, TLS or both; HTTP and passwords are refused", "the same; HTTP and passwords are refused"),
    Feature("glue", "[AWS Glue](catalogs.md#aws-glue), as Java's Hive catalog with Amazon's client class", "yes",
            "with the extra `glue`; new names of tables and `lock.enabled` are refused, as Glue has neither"),
    Feature("other-catalogs", "other JDBC databases, other classes of metastores (`metastore.client.class`)",
            "their tables by path; as catalogs refused", "refused"),
    Feature("object-stores", "[object stores](storage.md): S3, Google Cloud Storage, Azure", "yes",
            "with the extra `cloud`"),
    Feature("hdfs", "[HDFS](storage.md#hdfs)", "yes", "with the extra `hdfs`"),
)  # fmt: skip
"""In the order of the page."""

_BY_OPTION = {key: feature.id for feature in FEATURES for key in feature.options}


def feature_of_option(key: str) -> str | None:
    """The feature that the refusal of this option belongs to."""
    if key.endswith(".columns") and key.startswith(("pk-", "file-index.")):
        return "key-indexes" if key.startswith("pk-") else "file-indexes"
    return _BY_OPTION.get(key)
