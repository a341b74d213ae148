"""Options as Spark hands them over: what is known, what is refused, and what the refusal says."""

from __future__ import annotations

import pytest

from paimon_pyds.base.types import DataField, arrow_schema, parse_type
from paimon_pyds.errors import OptionError, SchemaError, UnknownColumnError
from paimon_pyds.spark.options import parse_read_options, parse_write_options
from paimon_pyds.spark.projection import resolve_schema, select_columns, split_names

pytestmark = pytest.mark.spark

FIELDS = (
    DataField(0, "id", parse_type("INT NOT NULL")),
    DataField(1, "Name", parse_type("STRING")),
    DataField(
        2,
        "info",
        parse_type(
            {
                "type": "ROW",
                "fields": [
                    {"id": 3, "name": "a", "type": "INT"},
                    {
                        "id": 4,
                        "name": "b",
                        "type": {"type": "ROW", "fields": [{"id": 5, "name": "c", "type": "STRING"}]},
                    },
                ],
            }
        ),
    ),
    DataField(6, "x.y", parse_type("DOUBLE")),
)


def test_a_condition_has_two_names():
    assert parse_read_options({"path": "/t", "filter": "a = 1"}) == parse_read_options({"path": "/t", "where": "a = 1"})
    with pytest.raises(OptionError, match="where and filter are two names of one condition"):
        parse_read_options({"path": "/t", "filter": "a = 1", "where": "a = 1"})


def test_reading():
    options = parse_read_options(
        {
            "path": "/t",
            "where": "a = 1",
            "columns": "a, b",
            "limit": "10",
            "metadata-columns": "__paimon_bucket, _ROW_ID",
            "pushdown": "on",
            "explain": "log",
            "timezone": "Europe/Berlin",
            "scan.snapshot-id": "3",
            "source.split.target-size": "8 mb",
            "s3.endpoint": "http://localhost:9000",
            "branch": "b",
        }
    )
    assert (options.path, options.branch, options.where, options.columns, options.limit) == (
        "/t",
        "b",
        "a = 1",
        "a, b",
        10,
    )
    assert options.metadata_columns == ("__paimon_bucket", "_ROW_ID")
    assert options.pushdown
    assert options.travels
    assert options.scan == {"timezone": "Europe/Berlin", "scan.snapshot-id": "3", "source.split.target-size": "8 mb"}
    assert options.storage == {"s3.endpoint": "http://localhost:9000"}


@pytest.mark.parametrize("where", ["log", "/tmp/why.txt", "why.HTML", "s3://b/why.json"])
def test_an_explanation_goes_to_the_log_or_to_a_file_of_its_kind(where):
    assert parse_read_options({"path": "/t", "explain": where}).explain == where


@pytest.mark.parametrize(
    "where", ["true", "on", "Log", "html", "why", "/tmp/why.htm", "why.txt/", "", ".html", "/tmp/.txt"]
)
def test_an_explanation_goes_nowhere_else(where):
    with pytest.raises(OptionError, match=r"explain is log, or the path of a \.txt, \.html or \.json file, not "):
        parse_read_options({"path": "/t", "explain": where})


def test_defaults():
    options = parse_read_options({"path": "/t"})
    assert not options.pushdown
    assert not options.travels
    assert parse_read_options({"path": "/t"}, pushdown=True).pushdown
    assert not parse_read_options({"path": "/t", "pushdown": "off"}, pushdown=True).pushdown
    writing = parse_write_options({"path": "/t"}, overwrite=False)
    assert (writing.create, writing.partition_by, writing.partition, writing.dynamic) == (True, None, None, False)


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({"path": "/t"}, "/t"),
        ({"warehouse": "/wh/", "table": "db.t"}, "/wh/db.db/t"),
        ({"warehouse": "s3://b/wh", "database": "db", "table": "t"}, "s3://b/wh/db.db/t"),
        ({"warehouse": "/wh", "database": "db", "table": "db.t"}, "/wh/db.db/t"),
        ({"warehouse": "/wh", "table": "db.t.x"}, "/wh/db.db/t.x"),
        ({"warehouse": "/wh", "table": "`d.b`.`t.x`"}, "/wh/d.b.db/t.x"),
        ({"warehouse": "/wh", "table": "`t.x`", "database": "d.b"}, "/wh/d.b.db/t.x"),
        ({"path": "/t", "owner": "me", "provider": "paimon", "location": "file:/t"}, "/t"),
    ],
)
def test_where_the_table_is(options, path):
    assert parse_read_options(options).path == path
    assert parse_write_options(options, overwrite=True).path == path


def test_a_branch_in_the_name_of_the_table():
    options = {"warehouse": "/wh", "table": "db.t$branch_b"}
    assert parse_read_options(options).branch == parse_write_options(options, overwrite=False).branch == "b"
    assert parse_read_options(options).path == "/wh/db.db/t"
    with pytest.raises(OptionError, match="the option table names the branch 'b', the option branch 'c'"):
        parse_read_options({**options, "branch": "c"})


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"warehouse": "/wh", "table": "db.t$files"}, ("/wh/db.db/t", None, "files")),
        ({"warehouse": "/wh", "table": "db.t$branch_b$FILES"}, ("/wh/db.db/t", "b", "files")),
        ({"path": "/wh/db.db/t$branch_b$files"}, ("/wh/db.db/t", "b", "files")),
        ({"path": "s3://b/t$snapshots"}, ("s3://b/t", None, "snapshots")),
        ({"warehouse": "/wh", "table": "sys.tables"}, ("/wh", None, "sys.tables")),
        ({"path": "/t$ro"}, ("/t", None, None)),
    ],
)
def test_system_tables_by_name_and_by_path(options, found):
    read = parse_read_options(options)
    assert (read.path, read.branch, read.system) == found
    with pytest.raises(OptionError, match="system table, which can't be written"):
        parse_write_options(options, overwrite=False)


def test_parts_of_a_path_that_are_none():
    for path in ("/t$", "/t$a$b", "/$files", "/t$branch_"):
        with pytest.raises(OptionError, match="does not end a path"):
            parse_read_options({"path": path})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"warehouse": "/wh", "table": "db.../t"}, "is not a name of a table"),
        ({}, "no table is named.*CREATE TEMPORARY VIEW"),
        ({"warehouse": "/wh"}, "no table is named"),
        ({"path": "/t", "warehouse": "/wh"}, "path and warehouse both name a table"),
        ({"warehouse": "/wh", "table": "t"}, "must be 'database.table', not 't'"),
        ({"warehouse": "/wh", "table": "a.t", "database": "b"}, "names the database 'a', the option database 'b'"),
        ({"paths": '["/a","/b"]'}, "one table at a time"),
        ({"path": "/t", "fliter": "a = 1"}, "there is no option fliter.*did you mean filter"),
        ({"path": "/t", "scan.snapshotid": "1"}, "there is no option scan.snapshotid.*did you mean scan.snapshot-id"),
        ({"path": "/t", "limit": "-1"}, "limit must be a number of rows, not '-1'"),
        ({"path": "/t", "limit": "ten"}, "limit must be a number of rows, not 'ten'"),
        ({"path": "/t", "pushdown": "maybe"}, "pushdown is on or off"),
        ({"path": "/t", "if-exists": "rubbish"}, "if-exists is append, error or ignore, not 'rubbish'"),
        ({"path": "/t", "metadata-columns": "a,,b"}, "metadata-columns: an empty name"),
    ],
)
def test_reading_refuses(options, message):
    with pytest.raises(OptionError, match=message):
        parse_read_options(options)


def test_an_order_is_read_with_the_table():
    assert parse_read_options({"path": "/t", "topN": "a desc, 3"}).top_n == "a desc, 3"
    with pytest.raises(OptionError, match="topn is an option of reading"):
        parse_write_options({"path": "/t", "topn": "a desc, 3"}, overwrite=False)


def test_writing():
    options = parse_write_options(
        {
            "path": "/t",
            "create-if-missing": "false",
            "partition-by": "dt, `odd,name`",
            "bucket": "2",
            "file-index.bitmap.columns": "a",
            "file-index.bitmap.a.version": "1",
            "variant.shreddingschema": "x",
        },
        overwrite=False,
    )
    assert not options.create
    assert options.partition_by == ("dt", "odd,name")
    assert options.table == {
        "bucket": "2",
        "file-index.bitmap.columns": "a",
        "file-index.bitmap.a.version": "1",
        "variant.shreddingSchema": "x",
    }


def test_paimons_own_name_for_partition_columns():
    assert parse_write_options({"path": "/t", "partition": "a,b"}, overwrite=False).partition_by == ("a", "b")


@pytest.mark.parametrize(
    ("text", "partition"),
    [
        ("dt=2024-01-01", {"dt": "2024-01-01"}),
        ("dt=2024-01-01, hh = 1", {"dt": "2024-01-01", "hh": "1"}),
        ("a='x,y=''z'", {"a": "x,y='z"}),
        ("a=null,b='null'", {"a": None, "b": "null"}),
        ("a=", {"a": ""}),
        ("`odd,``name` = 'x', b=2", {"odd,`name": "x", "b": "2"}),
    ],
)
def test_partitions_to_overwrite(text, partition):
    assert parse_write_options({"path": "/t", "overwrite-partition": text}, overwrite=True).partition == partition


@pytest.mark.parametrize(
    ("options", "overwrite", "message"),
    [
        ({"overwrite-partition": "dt"}, True, "must look like dt=2024-01-01,hh=1, not 'dt'"),
        ({"overwrite-partition": "dt=1,dt=2"}, True, "must look like"),
        ({"overwrite-partition": ""}, True, "must look like"),
        ({"overwrite-partition": "dt='1"}, True, "must look like"),
        ({"overwrite-partition": "dt=1"}, False, "needs mode"),
        ({"dynamic-partition-overwrite": "true"}, False, "needs mode"),
        ({"overwrite-partition": "dt=1", "dynamic-partition-overwrite": "true"}, True, "not both"),
        ({"partition-by": "a", "partition": "a"}, False, "say the same"),
        ({"filter": "a = 1"}, True, "filter is an option of reading"),
        ({"explain": "rubbish"}, False, "explain is an option of reading"),
        ({"pushdown": "maybe"}, False, "pushdown is on or off"),
        ({"scan.snapshot-id": "1"}, False, "scan.snapshot-id is an option of reading"),
        ({"partition-by": "a b"}, False, None),
        ({"create-if-mising": "true"}, False, "did you mean create-if-missing"),
    ],
)
def test_writing_refuses(options, overwrite, message):
    if message is None:
        assert parse_write_options({"path": "/t", **options}, overwrite=overwrite).partition_by == ("a b",)
        return
    with pytest.raises(OptionError, match=message):
        parse_write_options({"path": "/t", **options}, overwrite=overwrite)


def test_a_primary_key_and_the_column_of_row_kinds():
    found = parse_write_options({"path": "/t", "primary-key": "a, `b c`", "rowkind-column": "op"}, overwrite=False)
    assert (found.primary_key, found.row_kinds, found.table) == (("a", "b c"), "op", {})
    with pytest.raises(OptionError, match="primary-key has no meaning"):
        parse_write_options({"path": "/t", "primary-key": "a", "operation": "delete"}, overwrite=False)


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("a", [("a",)]),
        (" a , b.c ,`x.y`.z", [("a",), ("b", "c"), ("x.y", "z")]),
        ("`a``b`, `c,d`", [("a`b",), ("c,d",)]),
        ("a b", [("a b",)]),
    ],
)
def test_column_lists(text, paths):
    assert split_names(text) == paths


@pytest.mark.parametrize("text", ["", "a,", ",a", "a..b", "`a", "`a`b", "a.`", "``"])
def test_column_lists_that_do_not_parse(text):
    with pytest.raises(OptionError):
        split_names(text)


def names(fields):
    return [(f.name, str(f.type)) for f in fields]


def test_columns():
    assert names(select_columns(FIELDS, split_names("name, ID"))) == [("Name", "STRING"), ("id", "INT NOT NULL")]
    assert names(select_columns(FIELDS, split_names("info.b.c,id"))) == [
        ("info", "ROW<b ROW<c STRING>>"),
        ("id", "INT NOT NULL"),
    ]
    assert names(select_columns(FIELDS, split_names("info.b, id, info.a"))) == [
        ("info", "ROW<b ROW<c STRING>, a INT>"),
        ("id", "INT NOT NULL"),
    ]
    assert names(select_columns(FIELDS, split_names("x.y"))) == [("x.y", "DOUBLE")]
    assert names(select_columns(FIELDS, split_names("`x.y`"))) == [("x.y", "DOUBLE")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nope", "no column 'nope'.*Name, id, info, x.y"),
        ("id, ID", "'ID' is named twice"),
        ("info, info.a", "named twice"),
        ("info.z", "no column 'z'"),
        ("id.a", "'id' is INT NOT NULL, it has no member 'a'"),
    ],
)
def test_columns_that_are_not_there(text, message):
    with pytest.raises((OptionError, UnknownColumnError), match=message):
        select_columns(FIELDS, split_names(text))


def test_a_schema_as_projection():
    import pyarrow as pa

    wanted = pa.schema([("NAME", pa.string()), ("id", pa.int64())])
    assert resolve_schema(FIELDS, wanted) == ["Name", "id"]
    assert resolve_schema(FIELDS, arrow_schema(FIELDS)) == ["id", "Name", "info", "x.y"]
    with pytest.raises(SchemaError, match="names a column 'nope' that the table does not have"):
        resolve_schema(FIELDS, pa.schema([("nope", pa.string())]))
    with pytest.raises(SchemaError, match="column id is INT in the table and string in the schema given"):
        resolve_schema(FIELDS, pa.schema([("id", pa.string())]))
    with pytest.raises(SchemaError, match="names column 'id' twice"):
        resolve_schema(FIELDS, pa.schema([("id", pa.int32()), ("ID", pa.int32())]))
