from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.types import DataField, Kind, from_arrow_schema, parse_type, walk_fields
from paimon_pyds.base.types.sql_columns import parse_columns
from paimon_pyds.engine.write import TableWriter
from paimon_pyds.errors import (
    AlreadyExistsError,
    ArgumentTypeError,
    OptionError,
    SchemaError,
    UnknownColumnError,
    UnsupportedError,
)
from paimon_pyds.format import has_kind
from paimon_pyds.metadata.schema import TableSchema, parse_schema, schema_digest, schema_to_json
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.ops.ddl.create import TableDefinition, create_table, fresh_ids, unmake
from paimon_pyds.storage.local import LocalFileIO
from paimon_pyds.table import Table
from support.fixtures import DEV, requires_shared

FIXTURES = sorted(p.name for p in DEV.glob("*") if (p / "table").is_dir()) if DEV else []
IO = LocalFileIO()


def _fields(**types: Any) -> tuple[DataField, ...]:
    return tuple(DataField(i, name, parse_type(type_)) for i, (name, type_) in enumerate(types.items()))


ORDERS = _fields(
    id="INT NOT NULL",
    name="STRING",
    price="DECIMAL(10, 2)",
    day="DATE",
    tags={"type": "MAP", "key": "STRING NOT NULL", "value": "STRING"},
)


def _create(
    path: Path,
    fields: Sequence[DataField] = ORDERS,
    primary: Sequence[str] = (),
    partition: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    comment: str | None = None,
    **how: Any,
) -> TableSchema:
    definition = TableDefinition(fields, primary, partition, options or {}, comment)
    return create_table(IO, str(path / "t"), definition, **how).latest_schema()


def test_a_new_table(tmp_path: Path) -> None:
    schema = _create(tmp_path, partition=["day"], options={"write-only": True, "commit.max-retries": 3}, comment="mine")
    assert schema.fields == ORDERS and schema.partition_keys == ("day",) and schema.comment == "mine"
    assert (schema.id, schema.version, schema.highest_field_id) == (0, 3, 4)
    assert schema.options == {"write-only": "true", "commit.max-retries": "3"}
    assert schema.time_millis > 1_600_000_000_000
    text = (tmp_path / "t" / "schema" / "schema-0").read_text(encoding="utf-8")
    assert text == schema_to_json(schema) and "bucket" not in text
    assert [p.name for p in (tmp_path / "t").iterdir()] == ["schema"]


@requires_shared
@pytest.mark.parametrize("name", FIXTURES)
def test_tables_of_java_can_be_made_again(name: str, tmp_path: Path) -> None:
    """What Java accepted is accepted (or refused by name), and columns are numbered as Java numbers them."""
    assert DEV is not None
    theirs = parse_schema((DEV / name / "table/db.db/t/schema/schema-0").read_bytes(), name)
    anew = tuple(replace(f, id=0) for f in theirs.fields)
    if name == "part_timestamp6_ltz":
        with pytest.raises(UnsupportedError):
            _create(tmp_path, anew, theirs.primary_keys, theirs.partition_keys, theirs.options)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        ours = _create(
            tmp_path, anew, theirs.primary_keys, theirs.partition_keys, theirs.options, comment=theirs.comment
        )
    expected = dict(theirs.options)
    if any(has_kind(f.type, Kind.TIMESTAMP_LTZ) for f in anew) and expected.get("file.format") == "orc":
        expected["orc.timestamp-ltz.legacy.type"] = "false"
    assert replace(ours, time_millis=0) == replace(theirs, time_millis=0, options=expected)


LTZ = "TIMESTAMP(3) WITH LOCAL TIME ZONE"
INSTANTS = {"file.format": "orc", "orc.timestamp-ltz.legacy.type": "false"}


def test_instants_of_new_orc_tables_are_stored_as_such(tmp_path: Path) -> None:
    """Else Java would take what is written here for clock times of its own zone."""
    fields = _fields(id="INT", z={"type": "ARRAY", "element": LTZ})
    assert _create(tmp_path / "a", fields, options={"file.format": "orc"}).options == INSTANTS
    asked = {"file.format": "orc", "orc.timestamp-ltz.legacy.type": "true"}
    assert _create(tmp_path / "b", fields, options=asked).options == asked
    assert _create(tmp_path / "c", fields).options == {}
    assert _create(tmp_path / "d", fields[:1], options={"file.format": "orc"}).options == {"file.format": "orc"}


def test_first_instants_of_an_orc_table_are_stored_as_such(tmp_path: Path) -> None:
    fields = _fields(id="INT", z=LTZ)
    table = Table.create(str(tmp_path / "a"), fields[:1], options={"file.format": "orc"})
    table.alter(add_columns={"z": LTZ})
    assert table.schema.options == INSTANTS
    table = Table.create(str(tmp_path / "b"), fields)
    table.alter(set_options={"file.format": "orc"})
    assert table.schema.options == INSTANTS
    table.alter(unset_options=["orc.timestamp-ltz.legacy.type"])
    table.alter(add_columns={"y": LTZ})  # there may be files by the clocks of a zone
    assert "orc.timestamp-ltz.legacy.type" not in table.schema.options


def test_columns_are_numbered_parents_first() -> None:
    nested = pa.struct(
        [("x", pa.int32()), ("in", pa.struct([("y", pa.int32())])), ("z", pa.list_(pa.struct([("q", pa.int8())])))]
    )
    fields = from_arrow_schema(
        pa.schema([("a", pa.int32()), ("r", nested), ("m", pa.map_(pa.string(), nested)), ("b", pa.int8())])
    )
    numbers = {f.name: f.id for f in walk_fields(fresh_ids(fields)[:2])}
    assert numbers == {"a": 0, "r": 1, "x": 2, "in": 3, "y": 4, "z": 5, "q": 6}
    ids = [f.id for f in walk_fields(fresh_ids(fields))]
    assert ids == list(range(len(ids)))


def test_ids_that_are_all_different_are_kept(tmp_path: Path) -> None:
    schema = _create(tmp_path, (DataField(7, "a", parse_type("INT")), DataField(3, "b", parse_type("INT"))))
    assert [f.id for f in schema.fields] == [7, 3] and schema.highest_field_id == 7


def test_primary_keys_become_not_null(tmp_path: Path) -> None:
    schema = _create(tmp_path, primary=["name", "day"], partition=["day"], options={"bucket": "2"})
    assert [f.type.nullable for f in schema.fields] == [False, False, True, False, True]
    assert schema.bucket_keys == ("name",)


def test_keys_may_come_as_options(tmp_path: Path) -> None:
    schema = _create(tmp_path, options={"partition": "day", "primary-key": " id , day", "bucket": "1"})
    assert (
        schema.partition_keys == ("day",) and schema.primary_keys == ("id", "day") and schema.options == {"bucket": "1"}
    )
    with pytest.raises(OptionError, match="given twice"):
        _create(tmp_path, partition=["id"], options={"partition": "day"})


def test_columns_may_be_names_and_types(tmp_path: Path) -> None:
    given: list[Any] = ["id BIGINT, `a b` ARRAY<INT>", {"id": "BIGINT", "a b": "ARRAY<INT>"}]
    for number, schema in enumerate(given):
        table = Table.create(tmp_path / str(number), schema, primary_key="id", options={"bucket": "1"})
        assert [str(field.type) for field in table.schema.fields] == ["BIGINT NOT NULL", "ARRAY<INT>"]
    with pytest.raises(SchemaError, match="did you mean BIGINT"):
        Table.create(tmp_path / "t", {"id": "BIGNT"})
    with pytest.raises(SchemaError, match="'BIGINT, x INT' is not one type — give each column its own type"):
        Table.create(tmp_path / "t", {"id": "BIGINT, x INT"})
    table = Table.create(tmp_path / "n", {"r": "ROW<a INT, b STRING> COMMENT 'both'", "d": "DECIMAL(10, 2)"})
    assert [field.id for field in table.schema.fields] == [0, 3]
    table.alter(add_columns={"m": "MAP<STRING, ROW<x INT>> COMMENT 'more'"}, change_types={"d": "DECIMAL(12, 2)"})
    assert [(str(f.type), f.description) for f in table.schema.fields] == [
        ("ROW<a INT, b STRING>", "both"), ("DECIMAL(12, 2)", None), ("MAP<STRING, ROW<x INT>>", "more"),
    ]  # fmt: skip
    with pytest.raises(SchemaError, match="is more than a type — comments and defaults have their own arguments"):
        table.alter(change_types={"d": "DECIMAL(14, 2) COMMENT 'x'"})
    with pytest.raises(SchemaError, match="'id' is no column — write a name and a type, such as id BIGINT"):
        Table.create(tmp_path / "t", "id")


@pytest.mark.parametrize(
    ("type_", "whole"),
    [("VARCHAR", "STRING"), ("varchar NOT NULL", "STRING"), ("CHAR", "STRING"), ("Character", "STRING"),
     ("BINARY", "BYTES"), ("VARBINARY NOT NULL", "BYTES"), ("ARRAY<VARCHAR>", "STRING"), ("MAP<CHAR, INT>", "STRING"),
     ("ROW<a INT, b VARCHAR>", "STRING")],
)  # fmt: skip
def test_types_of_some_length_need_it(type_: str, whole: str, tmp_path: Path) -> None:
    said = rf"[A-Z]+ needs a length — write [A-Z]+\(n\), or {whole} for values of any length"
    table = Table.create(tmp_path / "there", "id INT, s STRING")
    for make in (
        lambda: Table.create(tmp_path / "t", f"id INT, s {type_}"),
        lambda: Table.create(tmp_path / "t", {"id": "INT", "s": type_}),
        lambda: table.alter(add_columns={"n": type_}),
        lambda: table.alter(add_columns=f"n {type_}"),  # type: ignore[arg-type]
        lambda: table.alter(change_types={"s": type_}),
    ):
        with pytest.raises(SchemaError, match=said):
            make()
    assert not (tmp_path / "t").exists() and table.schema.id == 0


def test_types_of_some_length_need_it_in_types_as_schemas_have_them(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "id INT, r ROW<a INT>")
    row = {"type": "ROW", "fields": [{"id": 0, "name": "a", "type": {"type": "ARRAY", "element": "VARCHAR"}}]}
    with pytest.raises(SchemaError, match="VARCHAR needs a length"):
        table.alter(change_types={"r": row})
    assert str(parse_type("VARCHAR")) == "VARCHAR(1)"  # schema files mean what Java reads in them
    assert str(Table.create(tmp_path / "d", "d DECIMAL").schema.fields[0].type) == "DECIMAL(10, 0)"  # as Java and Spark


def test_a_table_that_is_there(tmp_path: Path) -> None:
    _create(tmp_path)
    with pytest.raises(AlreadyExistsError, match="already exists"):
        _create(tmp_path, _fields(other="INT"))


def test_a_table_that_is_there_stays_as_it_is_where_asked(tmp_path: Path) -> None:
    first = Table.create(tmp_path / "t", {"id": [1]}, ignore_if_exists=True)
    assert first.count() == 1
    again = Table.create(tmp_path / "t", {"other": ["a", "b"]}, ["other"], comment="no", ignore_if_exists=True)
    assert (again.schema, again.path, again.count()) == (first.schema, first.path, 1)
    with pytest.raises(AlreadyExistsError, match="already exists"):
        Table.create(tmp_path / "t", {"id": [1]})
    with pytest.raises(SchemaError):
        Table.create(tmp_path / "t", "nothing like columns", ignore_if_exists=True)


def test_one_of_many_makes_the_table(tmp_path: Path) -> None:
    def make(n: int) -> bool:
        try:
            _create(tmp_path, comment=str(n))
        except AlreadyExistsError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(make, range(8))) == 1


NESTED = {"type": "ARRAY", "element": "INT"}
REFUSED: list[tuple[type[Exception], str, dict[str, Any]]] = [
    (SchemaError, "at least one column", {"fields": ()}),
    (SchemaError, "named twice: a", {"fields": (*_fields(a="INT"), *_fields(a="INT"))}),
    (SchemaError, "is not a column name", {"fields": _fields(**{"": "INT"})}),
    (SchemaError, "is not a column name", {"fields": _fields(**{" ": "INT"})}),
    (SchemaError, "is not a column name", {"fields": parse_columns("a ARRAY<ROW<` ` INT>>")}),
    (SchemaError, "of column a named twice: x", {"fields": parse_columns("a MAP<INT, ROW<x INT, y INT, x INT>>")}),
    (SchemaError, "reserved", {"fields": _fields(_SEQUENCE_NUMBER="BIGINT")}),
    (SchemaError, "reserved", {"fields": _fields(rowkind="STRING")}),
    (SchemaError, "metadata column", {"fields": _fields(__paimon_file_path="STRING")}),
    (SchemaError, "reserved", {"fields": _fields(_KEY_a="INT")}),
    (SchemaError, "primary key column v can't be of type VARIANT", {"fields": _fields(v="VARIANT"), "primary": ["v"]}),
    (SchemaError, "partition column v can't be of type", {"fields": _fields(a="INT", v="VARIANT"), "partition": ["v"]}),
    (
        UnsupportedError,
        "column v: neither this package nor Java Paimon writes VARIANT into avro files",
        {"fields": _fields(v="VARIANT"), "options": {"file.format": "avro"}},
    ),
    (UnsupportedError, "column v of type BLOB", {"fields": _fields(v={"type": "ARRAY", "element": "BLOB"})}),
    (SchemaError, r"the partition names 'dya'.*did you mean day", {"partition": ["dya"]}),
    (SchemaError, "partition columns named twice", {"partition": ["day", "day"]}),
    (SchemaError, "partition column tags can't be of type MAP", {"partition": ["tags"]}),
    (UnsupportedError, "legacy-name", {"fields": _fields(a="INT", b="BYTES"), "partition": ["b"]}),
    (SchemaError, "primary key names 'x'", {"primary": ["x"]}),
    (SchemaError, "must not be just the partition", {"primary": ["day"], "partition": ["day"]}),
    (OptionError, "You should define a 'bucket-key' for bucketed append mode", {"options": {"bucket": "4"}}),
    (OptionError, "Cannot define 'bucket-key' with bucket = -1", {"options": {"bucket-key": "id"}}),
    (OptionError, "greater than 0", {"options": {"bucket": "0"}}),
    (OptionError, "greater than 0", {"options": {"bucket": "-2"}}),
    (SchemaError, "bucket-key names 'idd'.*did you mean id", {"options": {"bucket": "2", "bucket-key": "idd"}}),
    (OptionError, "must not be partition", {"partition": ["day"], "options": {"bucket": "2", "bucket-key": "day"}}),
    (OptionError, "must not be nested", {"options": {"bucket": "2", "bucket-key": "tags"}}),
    (OptionError, "part of the primary key", {"primary": ["id"], "options": {"bucket": "2", "bucket-key": "name"}}),
    (OptionError, "type INT or BIGINT",
     {"options": {"bucket": "2", "bucket-key": "name", "bucket-function.type": "mod"}}),
    (OptionError, "bucket must be a whole number", {"options": {"bucket": "many"}}),
    (OptionError, "one of default, mod, hive", {"options": {"bucket-function.type": "murmur"}}),
    (OptionError, "unknown option file.formt.*file.format", {"options": {"file.formt": "orc"}}),
    (OptionError, "unknown option bukcet.*bucket", {"options": {"bukcet": "4"}}),
    (UnknownColumnError, "no column nmae", {"options": {"file-index.bitmap.columns": "nmae"}}),
    (OptionError, "bitmap index can't be built on price", {"options": {"file-index.bitmap.columns": "price"}}),
    (OptionError, "no index of type lucene", {"options": {"file-index.lucene.columns": "name"}}),
    (OptionError, "column name has no bitmap index", {"options": {"file-index.bitmap.name.version": "2"}}),
    (OptionError, "index can't be built on tags", {"options": {"file-index.bitmap.columns": "tags"}}),
    (SchemaError, "option fields.x.stats-mode names 'x'", {"options": {"fields.x.stats-mode": "full"}}),
    (OptionError, "changelog-producer", {"options": {"changelog-producer": "input"}}),
    (OptionError, "primary key only", {"options": {"sequence.field": "id"}}),
    (OptionError, "primary key only", {"options": {"streaming-read-overwrite": "true"}}),
    (OptionError, "tables with partitions only", {"options": {"partition.expiration-time": "1 d"}}),
    (OptionError, "primary key only", {"options": {"pk-clustering-override": "true"}}),
    (OptionError, "is not for the merge engine first-row",
     {"options": {"merge-engine": "first-row", "deletion-vectors.enabled": "true"}}),
    (SchemaError, "rowkind.field names id, which is of type", {"options": {"rowkind.field": "id"}}),
    (OptionError, "at least 1", {"options": {"target-file-row-num": "0"}}),
    (OptionError, "must not be larger",
     {"options": {"snapshot.num-retained.min": "9", "snapshot.num-retained.max": "3"}}),
    (OptionError, "full-compaction.delta-commits", {"options": {"full-compaction.delta-commits": "5"}}),
    (OptionError, "row-tracking", {"options": {"row-tracking.enabled": "true", "bucket": "2", "bucket-key": "id"}}),
    (OptionError, "needs row-tracking", {"options": {"data-evolution.enabled": "true"}}),
    (UnsupportedError, "type=object-table", {"options": {"type": "object-table"}}),
    (UnsupportedError, "format 'csv' are not supported", {"options": {"file.format": "csv"}}),
    (SchemaError, "Avro has no TIMESTAMP",
     {"fields": _fields(a="TIMESTAMP(9)"), "options": {"file.format": "avro"}}),
    (SchemaError, "no default for INT", {"fields": (DataField(0, "a", parse_type("INT"), default="x"),)}),
    (SchemaError, "no default for DATE", {"fields": (DataField(0, "a", parse_type("DATE"), default="2020-13-01"),)}),
    (SchemaError, "no default for DEC", {"fields": (DataField(0, "a", parse_type("DECIMAL(3, 1)"), default="999"),)}),
    (UnsupportedError, "default values of type", {"fields": (DataField(0, "a", parse_type(NESTED), default="[]"),)}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "message", "arguments"), REFUSED)
def test_what_paimon_does_not_allow(
    kind: type[Exception], message: str, arguments: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(kind, match=message):
        _create(tmp_path, **arguments)
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        ("a INT", {"comment": 5}),
        ("a INT", {"comment": {}}),
        ((DataField(0, "a", parse_type("INT"), 5),), {}),  # type: ignore[arg-type]
        ((DataField(0, "a", parse_type("INT"), default=5),), {}),  # type: ignore[arg-type]
        ((DataField(0, 5, parse_type("INT")),), {}),  # type: ignore[arg-type]
    ],
)
def test_wrong_types_never_reach_a_schema(tmp_path: Path, schema: Any, arguments: dict[str, Any]) -> None:
    with pytest.raises(ArgumentTypeError, match=r"takes a text, not (5|\{\}) "):
        pp.Table.create(tmp_path / "t", schema, **arguments)
    assert not (tmp_path / "t").exists()


def test_what_paimon_allows(tmp_path: Path) -> None:
    options = {
        "bucket": "4", "bucket-key": "id,name", "file-index.bitmap.columns": "name, tags[k]", "file.format": "orc",
        "file-index.bloom-filter.columns": "id", "file-index.bloom-filter.id.fpp": "0.01", "my.own": "x",
        "fields.name.stats-mode": "full", "target-file-size": "64 mb",
    }  # fmt: skip
    schema = _create(tmp_path, partition=["day"], options=options)
    assert schema.options == options
    default = DataField(0, "a", parse_type("TIMESTAMP(3)"), default="2020-01-01 00:00:00")
    assert _create(tmp_path / "d", (default,)).fields == (default,)


def test_bsi_is_deprecated(tmp_path: Path) -> None:
    with pytest.warns(DeprecationWarning, match=r"bsi index of id is deprecated.*range-bitmap"):
        _create(tmp_path, options={"file-index.bsi.columns": "id"})


def test_the_store_of_the_new_table_is_ready(tmp_path: Path) -> None:
    store = create_table(IO, str(tmp_path / "t"), TableDefinition(ORDERS))
    assert isinstance(store, TableStore) and store.latest_snapshot_id() is None
    assert json.loads(schema_to_json(TableStore.open(tmp_path / "t").latest_schema()))["id"] == 0


@pytest.mark.parametrize(
    ("options", "name", "message"),
    [
        ({"file.compression": "foo"}, "a", "'foo' is unknown"),
        ({"file.compression": "zstd", "file.compression.zstd-level": "99"}, "a", "99 is not between 1 and 22"),
        ({"file.format": "orc", "orc.compress": "lzo"}, "a", "can't be compressed with 'lzo'"),
        ({"file.format": "avro"}, "a b", "a b"),
        ({"parquet.page.size": "0"}, "a", "greater than 0"),
        ({"metadata.stats-mode": "some"}, "a", "not a statistics mode"),
        ({"manifest.compression": "brotli"}, "a", "'brotli' is not known"),
        ({"data-file.prefix": "a/b"}, "a", "data-file.prefix='a/b' can't begin a file's name"),
    ],
)
def test_a_table_that_no_row_could_be_written_to_is_not_made(
    tmp_path: Path, options: dict[str, str], name: str, message: str
) -> None:
    with pytest.raises((OptionError, UnsupportedError, SchemaError), match=re.escape(message)):
        _create(tmp_path, _fields(**{name: "INT"}), options=options)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"changelog-file.format": "avro", "changelog-producer": "input"}, r"changelog files .*TIMESTAMP\(9\)"),
        ({"changelog-file.compression": "best", "changelog-producer": "lookup"}, "changelog files .*'best' is unknown"),
        ({"file.format.per.level": "0:avro"}, r"data files of level 0 .*TIMESTAMP\(9\)"),
        ({"manifest.compression": "none"}, "'none' is not known"),
        ({"commit.strict-mode.last-safe-snapshot": "3"}, "can't be written: not supported yet"),
        ({"metadata.stats-mode": "some"}, "not a statistics mode"),
    ],
)
def test_a_table_with_a_key_that_no_row_could_be_written_to_is_not_made(
    tmp_path: Path, options: dict[str, str], message: str
) -> None:
    """Nor altered to be one. One that Java has made is read, and altered otherwise."""
    columns, path = "k INT NOT NULL, t TIMESTAMP(9)", tmp_path / "t"
    with pytest.raises((OptionError, UnsupportedError), match=message):
        Table.create(path, columns, primary_key="k", options={"bucket": "1", **options})
    assert not path.exists()
    table = Table.create(path, columns, primary_key="k", options={"bucket": "1"})
    table.append([{"k": 1, "t": None}])
    with pytest.raises((OptionError, UnsupportedError), match=message):
        table.alter(options)
    schema = path / "schema/schema-0"
    parsed = parse_schema(schema.read_bytes(), schema)
    schema.write_text(schema_to_json(replace(parsed, options={**parsed.options, **options})))
    table = Table.open(path)
    assert table.scan().count() == 1
    table.alter(add_columns="v INT")
    with pytest.raises((OptionError, UnsupportedError), match=message):
        table.append([{"k": 2}], missing_columns="null")
    table.alter(unset_options=[*options])
    table.append([{"k": 2}], missing_columns="null")


def test_the_format_of_changelogs_matters_where_there_are_some(tmp_path: Path) -> None:
    """As in Java."""
    options = {"bucket": "1", "changelog-file.format": "avro"}
    table = Table.create(tmp_path / "t", "k INT NOT NULL, t TIMESTAMP(9)", primary_key="k", options=options)
    table.append([{"k": 1, "t": None}])
    with pytest.raises(UnsupportedError, match="changelog files"):
        table.alter({"changelog-producer": "input"})


class _Busy(LocalFileIO):
    """Another writer does something just after the schema has gone."""

    def __init__(self, then: Callable[[], object]) -> None:
        self._then = then

    def delete(self, paths: Iterable[str]) -> None:
        super().delete(paths)
        self._then()


def _digest(table: Table) -> str:
    return schema_digest(table.schema)


def test_a_new_table_goes_only_as_it_was_made(tmp_path: Path) -> None:
    made = Table.create(tmp_path / "t", "id INT")
    assert not unmake(IO, made.path, _digest(Table.create(tmp_path / "u", "id INT", comment="another")))
    altered = Table.create(tmp_path / "a", "id INT")
    altered.alter(add_columns="v INT")
    assert not unmake(IO, altered.path, _digest(altered))
    assert made.scan().count() == altered.scan().count() == 0
    assert unmake(IO, made.path, _digest(made))
    assert not (tmp_path / "t").exists()


def test_a_new_table_gets_its_schema_back_where_another_writer_was_faster(tmp_path: Path) -> None:
    made = Table.create(tmp_path / "t", "id INT")
    schema = (tmp_path / "t/schema/schema-0").read_bytes()
    with TableWriter(made.write_context()) as writer:
        writer.write(pa.table({"id": pa.array([7], pa.int32())}))
        message = writer.prepare_commit()

    moved = {Path(path): tmp_path / Path(path).name for path in message.paths()}
    for path, aside in moved.items():
        path.rename(aside)
        path.parent.rmdir()

    def then() -> None:
        for path, aside in moved.items():
            path.parent.mkdir()
            aside.rename(path)
        (tmp_path / "t/schema/schema-0").write_bytes(schema)  # it has read that before
        Table.open(tmp_path / "t").commit([message])
        (tmp_path / "t/schema/schema-0").unlink()

    assert not unmake(_Busy(then), made.path, _digest(made))
    assert Table.open(tmp_path / "t").scan().to_arrow().to_pylist() == [{"id": 7}]
