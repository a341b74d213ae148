from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from typing import Any

import pytest

from paimon_pyds.base.options import (
    IMMUTABLE_OPTIONS,
    OPTIONS,
    Scope,
    Status,
    TableOptions,
    check_appendable,
    check_known,
    check_readable,
    check_writable,
    option_of,
)
from paimon_pyds.base.options.describe import describe_options, restore_case
from paimon_pyds.base.types import DataField, parse_type
from paimon_pyds.errors import OptionError, UnsupportedError
from paimon_pyds.metadata.schema import TableSchema, parse_schema
from support.fixtures import DEV, requires_shared

FIXTURES = sorted(p.name for p in DEV.glob("*") if (p / "table").is_dir()) if DEV else []
NOT_WRITABLE = {"part_timestamp6_ltz": "partition.legacy-name"}


def _schema(options: Mapping[str, str] | None = None, *types: str, primary: tuple[str, ...] = ()) -> TableSchema:
    fields = tuple(DataField(i, f"c{i}", parse_type(json.loads(t) if t[0] == "{" else t)) for i, t in enumerate(types))
    return TableSchema(0, fields or (DataField(0, "c0", parse_type("INT")),), 9, (), primary, dict(options or {}))


# ------------------------------------------------------------------------------------------------------ registry


def test_every_option_is_well_formed() -> None:
    assert len(OPTIONS) > 330
    for key, option in OPTIONS.items():
        assert key == option.key and option.doc
        assert option.default is None or option.default_value is not None
        for text in option.accepted:
            assert option.accepts(text)
        if option.default is not None:
            assert option.accepts(option.default)
        assert bool(option.why) == (option.status is not Status.HONOURED), key
        assert bool(option.choices) == (option.kind.value == "enum"), key


def test_defaults_that_are_easily_got_wrong() -> None:
    expected: dict[str, Any] = {
        "bucket": -1, "file.format": "parquet", "file.compression": "zstd", "file.compression.zstd-level": 1,
        "metadata.stats-mode": "truncate(16)", "metadata.stats-dense-store": True, "manifest.target-file-size": 8 << 20,
        "manifest.merge-min-count": 30, "manifest.full-compaction-threshold-size": 16 << 20, "commit.max-retries": 10,
        "file-index.in-manifest-threshold": 500, "source.split.target-size": 128 << 20, "target-file-size": None,
        "source.split.open-file-cost": 4 << 20, "commit.min-retry-wait": 10, "commit.max-retry-wait": 10_000,
        "target-file-row-num": 2**63 - 1, "dynamic-partition-overwrite": True, "partition.legacy-name": True,
        "merge-engine": "deduplicate", "snapshot.time-retained": 3_600_000, "deletion-vectors.enabled": False,
        "bucket-function.type": "default", "manifest.compression": "zstd", "commit.timeout": None,
        "partition.default-name": "__DEFAULT_PARTITION__", "data-file.prefix": "data-",
    }  # fmt: skip
    assert {key: TableOptions().get(key) for key in expected} == expected


def test_what_can_never_change() -> None:
    fixed = "bucket-key bucket-function.type data-file.path-directory merge-engine row-tracking.enabled rowkind.field"
    assert {*fixed.split(), "type", "primary-key", "partition", "index-file-in-data-file-dir"} <= IMMUTABLE_OPTIONS
    assert "bucket" not in IMMUTABLE_OPTIONS and "file.format" not in IMMUTABLE_OPTIONS


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("fields.a.stats-mode", "full", "full"),
        ("fields.a.b.aggregate-function", "sum", "sum"),
        ("file-index.bitmap.columns", "a, m[k]", ("a", "m[k]")),
        ("file-index.bloom-filter.a.fpp", "0.01", 0.01),
        ("file-index.bloom-filter.a.items", "200", 200),
        ("file-index.bitmap.a.index-block-size", "16kb", 16384),
        ("file-index.bitmap.a.b.version", "2", 2),
        ("parquet.page.size", "4096", "4096"),
        ("log.scan", "full", "full"),
        ("commit.callback.com.x.Y.param", "p", "p"),
    ],
)
def test_keys_with_columns_and_older_names(key: str, text: str, value: object) -> None:
    assert option_of(key) is not None
    assert TableOptions({key: text}).get(key) == value


def test_typed_access() -> None:
    options = TableOptions({"bucket": "4", "target-file-size": "1 mb", "write.compaction-skip": "true", "mine": "x"})
    assert options.get("bucket") == 4 and options["bucket"] == "4" and dict(options)["bucket"] == "4"
    assert options.get("target-file-size") == 1 << 20
    assert options.get("write-only") is True and options.is_set("write-only") and not options.is_set("file.format")
    assert options.get("mine") == "x" and options.get("other", 5) == 5 and options.get("bucket", 9) == 4
    assert options.get("commit.max-retries", 3) == 3
    assert pickle.loads(pickle.dumps(options)) == options
    with pytest.raises(OptionError, match=r"no option target-file-sise.*target-file-size"):
        options.get("target-file-sise")
    with pytest.raises(OptionError, match=r"bucket must be a whole number"):
        TableOptions({"bucket": "many"}).get("bucket")


def test_bucket_keys() -> None:
    assert _schema({"bucket-key": "c0, c1"}, "INT", "INT", primary=("c1",)).bucket_keys == ("c0", "c1")
    assert _schema({}, "INT", "INT", primary=("c1",)).bucket_keys == ("c1",)


# ------------------------------------------------------------------------------------------------ honour or refuse


@requires_shared
@pytest.mark.parametrize("name", FIXTURES)
def test_tables_of_java_are_readable_or_refused_by_name(name: str) -> None:
    assert DEV is not None
    path = max((DEV / name / "table/db.db/t/schema").iterdir(), key=lambda p: int(p.name.split("-")[1]))
    schema = parse_schema(path.read_bytes(), str(path))
    check_readable(schema)
    if name in NOT_WRITABLE:
        with pytest.raises(UnsupportedError, match=NOT_WRITABLE[name]):
            check_writable(schema)
    else:
        check_writable(schema)
    assert describe_options(schema).num_rows >= len(OPTIONS)


REFUSED_FOR_READING = [
    ("type", "object-table"), ("type", "lance-table"), ("chain-table.enabled", "true"), ("query-auth.enabled", "true"),
    ("scan.mode", "compacted-full"), ("scan.bucket", "1"),
    ("scan.ignore-corrupt-files", "true"), ("scan.file-creation-time-millis", "1"),
    ("manifest.format", "orc"),
]  # fmt: skip
REFUSED_FOR_WRITING = [
    ("data-file.external-paths.strategy", "round-robin"), ("commit.callbacks", "com.x.Y"),
    ("metadata.iceberg.storage", "hive-catalog"), ("commit.strict-mode.last-safe-snapshot", "3"), ("bucket", "-2"),
    ("bucket", "0"), ("file-index.lucene.columns", "c0"), ("type", "materialized-table"),
]  # fmt: skip


@pytest.mark.parametrize(("key", "value"), REFUSED_FOR_READING)
def test_options_that_stop_reading_and_writing(key: str, value: str) -> None:
    for check in (check_readable, check_writable):
        with pytest.raises(UnsupportedError, match=f"{key}={value}"):
            check(_schema({key: value}))
        with pytest.raises(UnsupportedError, match=f"{key}={value}"):
            check(_schema(), {key: value})


@pytest.mark.parametrize(("key", "value"), REFUSED_FOR_WRITING)
def test_options_that_stop_writing_only(key: str, value: str) -> None:
    check_readable(_schema({key: value}))
    with pytest.raises(UnsupportedError, match=f"{key}={value}"):
        check_writable(_schema({key: value}))


@pytest.mark.parametrize("key", [k for k, o in OPTIONS.items() if o.status is Status.REFUSED])
def test_every_refused_option_is_refused_and_its_default_is_not(key: str) -> None:
    option = OPTIONS[key]
    other = {"boolean": "true", "long": "7", "int": "7"}.get(option.kind.value, "something")
    if option.choices:
        other = next(c for c in option.choices if not option.accepts(c))
    by_schema = {Scope.READ: check_readable, Scope.WRITE: check_writable}.get(option.scope)
    by_options = {Scope.APPEND: check_appendable}.get(option.scope)
    with pytest.raises(UnsupportedError, match=key):
        if by_schema is not None:
            by_schema(_schema({key: other}))
        if by_options is not None:
            by_options({key: other})
    for text in (*((option.default,) if option.default is not None else ()), *option.accepted):
        check_readable(_schema({key: text}))


@pytest.mark.parametrize(
    "type_",
    ["BLOB", '{"type": "ARRAY", "element": "BLOB"}', '{"type": "MAP", "key": "STRING", "value": "BLOB"}'],
)
def test_types_that_stop_writing(type_: str) -> None:
    check_readable(_schema({}, "INT", type_))
    with pytest.raises(UnsupportedError, match=r"column c1 of type BLOB can't be written"):
        check_writable(_schema({}, "INT", type_))


def test_options_of_primary_keys_do_not_matter_to_append_tables() -> None:
    options = {"merge-engine": "aggregation", "fields.c0.aggregate-function": "sum", "ignore-delete": "true"}
    check_readable(_schema(options))
    check_writable(_schema(options))


def test_describe_options() -> None:
    options = {
        "bucket": "-1",
        "my.key": "1",
        "type": "object-table",
        "fields.c0.stats-mode": "full",
        "merge-engine": "x",
    }
    rows = {row["key"]: row for row in describe_options(_schema(options)).to_pylist()}
    assert rows["bucket"] == {
        "key": "bucket",
        "value": "-1",
        "default": "-1",
        "set": True,
        "status": "honoured",
        "why": "",
    }
    assert rows["my.key"]["status"] == "unknown" and rows["my.key"]["set"]
    assert rows["type"]["status"] == "refused" and "reading" in rows["type"]["why"]
    assert rows["fields.c0.stats-mode"]["status"] == "honoured"
    assert rows["file.format"] == {"key": "file.format", "value": "parquet", "default": "parquet", "set": False,
                                   "status": "honoured", "why": ""}  # fmt: skip
    assert rows["merge-engine"]["status"] == "ignorable" and "primary key" in rows["merge-engine"]["why"]
    assert rows["scan.bucket"]["status"] == "honoured" and "other values are refused" in rows["scan.bucket"]["why"]
    upsert = describe_options(_schema({"upsert-key": "c0"})).to_pylist()[0]
    assert upsert["status"] == "refused" and "(when appending)" in upsert["why"]
    keys = describe_options(_schema(options))["key"].to_pylist()
    assert keys[: len(options)] == sorted(options)


def test_describe_options_of_a_table_with_a_primary_key() -> None:
    options = {"bucket": "1", "merge-engine": "first-row", "rowkind.field": "c1", "fields.c1.aggregate-function": "sum"}
    schema = _schema(options, "INT", "STRING", primary=("c0",))
    rows = {row["key"]: row for row in describe_options(schema).to_pylist()}
    for key in (
        "merge-engine",
        "changelog-producer",
        "rowkind.field",
        "fields.c1.aggregate-function",
        "data-file.thin-mode",
        "file.format.per.level",
        "pk-clustering-override",
    ):
        assert rows[key]["status"] == "honoured" and not rows[key]["why"]
    assert rows["lookup-wait"]["status"] == "ignorable" and "compaction" in rows["lookup-wait"]["why"]
    ignored = describe_options(_schema({"pk-clustering-override": "true"})).to_pylist()[0]
    assert ignored["status"] == "ignorable" and "primary key only" in ignored["why"]
    wrong = _schema({"merge-engine": "x"}, "INT", primary=("c0",))
    (row,) = (row for row in describe_options(wrong).to_pylist() if row["key"] == "merge-engine")
    assert row["status"] == "refused" and "must be one of" in row["why"]


def test_a_bad_value_of_a_refused_option_is_told_in_the_report() -> None:
    rows = {row["key"]: row for row in describe_options(_schema({"chain-table.enabled": "maybe"})).to_pylist()}
    assert rows["chain-table.enabled"]["status"] == "refused" and "true or false" in rows["chain-table.enabled"]["why"]


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("file.formats", "file.format"),
        ("target_file_size", "target-file-size"),
        ("Bucket", "bucket"),
        ("file-index.bitmap", r"file-index\.bitmap\.columns"),
        ("manifest.compresion", "manifest.compression"),
    ],
)
def test_misspelt_options_are_caught_on_create(key: str, near: str) -> None:
    with pytest.raises(OptionError, match=f"unknown option {key}.*{near}"):
        check_known({key: "x"})


def test_properties_of_ones_own_pass() -> None:
    check_known({"team.owner": "me", "delta.x": "1", "bucket": "1", "fields.a.stats-mode": "none", "parquet.x": "1"})
    with pytest.raises(OptionError, match=r"unknown option team\.owner"):
        check_known({"team.owner": "me"}, own=False)


def test_case_is_restored() -> None:
    columns = ["userId", "Tags", "a.B"]
    given = {
        "variant.shreddingschema": "1", "file-index.bitmap.userid.version": "2", "fields.a.b.stats-mode": "full",
        "file-index.bloom-filter.tags[k].fpp": "0.1", "my.key": "x", "bucket": "3",
    }  # fmt: skip
    assert restore_case(given, columns) == {
        "variant.shreddingSchema": "1", "file-index.bitmap.userId.version": "2", "fields.a.B.stats-mode": "full",
        "file-index.bloom-filter.Tags[k].fpp": "0.1", "my.key": "x", "bucket": "3",
    }  # fmt: skip
    with pytest.raises(OptionError, match="could mean column Ab or aB"):
        restore_case({"fields.ab.stats-mode": "full"}, ["Ab", "aB"])
    assert restore_case({"fields.aB.stats-mode": "full"}, ["Ab", "aB"]) == {"fields.aB.stats-mode": "full"}
