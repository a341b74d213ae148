from __future__ import annotations

import decimal
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_pyds.base.types import DataField, parse_type
from paimon_pyds.base.types.java_text import is_spelled_alike, java_float_text, partition_text
from paimon_pyds.errors import OptionError, SecurityError, UnsupportedError
from paimon_pyds.metadata.paths import (
    ExternalPaths,
    TablePaths,
    check_names,
    checked_name,
    escape_path_name,
    partition_path,
)
from paimon_pyds.metadata.schema import parse_schema
from paimon_pyds.storage import normalise_location, scheme_of
from support.fixtures import DEV, requires_shared

PART_FIXTURES = sorted(p.name for p in DEV.glob("*") if (p / "table").is_dir()) if DEV else []


def _field(type_text: str, name: str = "k") -> DataField:
    return DataField(0, name, parse_type(type_text))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1.0"),
        (1e10, "1.0E10"),
        (1e7, "1.0E7"),
        (9999999.0, "9999999.0"),
        (1e-3, "0.001"),
        (9.99e-4, "9.99E-4"),
        (5e-324, "4.9E-324"),
        (2e-323, "2.0E-323"),
        (-1e-323, "-9.9E-324"),
        (5.0, "5.0"),
        (2e23, "2.0E23"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (2.2250738585072014e-308, "2.2250738585072014E-308"),
        (1e23, "1.0E23"),
        (123456.75, "123456.75"),
        (100.0, "100.0"),
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (-1.5, "-1.5"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_double_is_spelled_as_java_spells_it(value: float, text: str) -> None:
    assert java_float_text(value, single=False) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.4e-45, "1.4E-45"),
        (1.17549435e-38, "1.1754944E-38"),
        (3.4028235e38, "3.4028235E38"),
        (16777216.0, "1.6777216E7"),
        (0.3, "0.3"),
        (868.8255, "868.8255"),
        (-278.04108, "-278.04108"),
        (1e10, "1.0E10"),
    ],
)
def test_float_is_spelled_as_java_spells_it(value: float, text: str) -> None:
    assert java_float_text(float(np.float32(value)), single=True) == text


@pytest.mark.parametrize(
    ("value", "single", "alike"),
    [
        (1e10, True, True),
        (1.1e10, True, False),  # 1.10000005E10 by Java 17
        (2.0**-126, True, False),  # 1.17549435E-38
        (0.1, True, True),
        (1e-40, True, True),
        (7.3866076e25, True, False),
        (0.1, False, True),
        (123456789.1, False, True),
        (2.0**-44, False, False),
        (2.0**57 + 2**20, False, False),
        (2e23, False, False),
        (1e22, False, True),
        (-0.0, False, True),
        (float("nan"), False, True),
        (float("-inf"), False, True),
    ],
)
def test_floats_that_versions_of_java_spell_differently(value: float, single: bool, alike: bool) -> None:
    assert is_spelled_alike(float(np.float32(value)) if single else value, single) is alike


@given(st.floats())
def test_double_text_means_the_same_number(value: float) -> None:
    text = java_float_text(value, single=False)
    again = float(text.replace("Infinity", "inf"))
    assert again == value or (again != again and value != value)


@given(st.floats(width=32))
def test_float_text_means_the_same_number(value: float) -> None:
    again = np.float32(java_float_text(value, single=True).replace("Infinity", "inf"))
    assert again == np.float32(value) or (again != again and value != value)


@pytest.mark.parametrize(
    ("type_text", "value", "legacy", "text"),
    [
        ("DATE", 10957, True, "10957"),
        ("DATE", 10957, False, "2000-01-01"),
        ("DATE", -1, False, "1969-12-31"),
        ("DATE", -719162, False, "0001-01-01"),
        ("DATE", 2932896, False, "9999-12-31"),
        ("TIME(3)", 40749505, True, "40749505"),
        ("TIME(3)", 40749505, False, "11:19:09.505"),
        ("TIME(3)", 40749500, False, "11:19:09.5"),
        ("TIME(3)", 40749000, False, "11:19:09.0"),
        ("TIME(2)", 40749102, False, "11:19:09.10"),
        ("TIME(0)", 40749505, False, "11:19:09"),
        ("TIMESTAMP(3)", 0, True, "1970-01-01T00:00"),
        ("TIMESTAMP(3)", 1000, True, "1970-01-01T00:00:01"),
        ("TIMESTAMP(3)", -1, True, "1969-12-31T23:59:59.999"),
        ("TIMESTAMP(6)", 1, True, "1970-01-01T00:00:00.000001"),
        ("TIMESTAMP(6)", 1_500_000, True, "1970-01-01T00:00:01.500"),
        ("TIMESTAMP(9)", 1, True, "1970-01-01T00:00:00.000000001"),
        ("TIMESTAMP(6)", 253402300800000000, True, "+10000-01-01T00:00"),
        ("TIMESTAMP(3)", 1500, False, "1970-01-01 00:00:01.500"),
        ("TIMESTAMP(0)", 1000, False, "1970-01-01 00:00:01"),
        ("TIMESTAMP(6)", 1_500_000, False, "1970-01-01 00:00:01.500000"),
        ("DECIMAL(10, 2)", decimal.Decimal("900.5"), True, "900.50"),
        ("DECIMAL(38, 0)", decimal.Decimal(10**37), True, "1" + "0" * 37),
        ("DECIMAL(10, 8)", decimal.Decimal("0.00000001"), False, "0.00000001"),
        ("BOOLEAN", True, True, "true"),
        ("BIGINT", -5, False, "-5"),
        ("BYTES", b"ab", False, "ab"),
    ],
)
def test_partition_text(type_text: str, value: object, legacy: bool, text: str) -> None:
    assert partition_text(value, parse_type(type_text), legacy=legacy) == text


def test_instants_in_partitions_stand_in_utc() -> None:
    type_ = parse_type("TIMESTAMP(3) WITH LOCAL TIME ZONE")
    assert partition_text(0, type_, legacy=False) == "1970-01-01 00:00:00.000"
    assert partition_text(0, type_, legacy=True) == "1970-01-01T00:00"


def test_binary_partitions_with_legacy_names_are_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"partition\.legacy-name"):
        partition_path([_field("BYTES")], [b"x"])


@pytest.mark.parametrize("value", [None, "", " ", "\t", "　"])
def test_null_and_blank_share_the_default_directory(value: str | None) -> None:
    assert partition_path([_field("STRING")], [value]) == "k=__DEFAULT_PARTITION__"
    assert partition_path([_field("STRING")], [value], {"partition.default-name": "nil"}) == "k=nil"


def test_no_break_space_is_not_blank_to_java() -> None:
    assert partition_path([_field("STRING")], ["\u00a0"]) == "k=\u00a0"


@given(st.text(min_size=1))
def test_escaping_can_be_undone_and_stays_in_one_directory(name: str) -> None:
    escaped = escape_path_name(name)
    assert unquote(escaped) == name
    assert "/" not in escaped and "=" not in escaped


@requires_shared
@pytest.mark.parametrize("name", [n for n in PART_FIXTURES if n.startswith("part_")])
def test_partition_directories_of_java_are_named_the_same(name: str) -> None:
    row = pytest.importorskip("paimon_pyds.base.row")
    codec = pytest.importorskip("paimon_pyds.metadata.manifest_codec")
    assert DEV is not None
    table = DEV / name / "table" / "db.db" / "t"
    schema = parse_schema(max(table.glob("schema/schema-*")).read_bytes(), name)
    paths = TablePaths(str(table), options=schema.options)
    checked = 0
    for manifest in table.glob("manifest/manifest-*"):
        if manifest.name.startswith("manifest-list"):
            continue
        batch = codec.decode_manifest(manifest.read_bytes(), str(manifest))
        for entry in batch.select(["kind", "partition", "bucket", "file_name"]).to_pylist():
            if entry["kind"] != 0:
                continue
            types = [f.type for f in schema.partition_fields]
            values = row.decode_row(entry["partition"], types)
            directory = partition_path(schema.partition_fields, values, schema.options)
            file = Path(paths.data_file(directory, entry["bucket"], entry["file_name"]))
            if not file.exists():
                assert name == "part_overwrite", file
            else:
                checked += 1
    assert checked > 0


def test_paths_of_a_table() -> None:
    paths = TablePaths("/wh/db.db/t")
    assert paths.schema(0) == "/wh/db.db/t/schema/schema-0"
    assert paths.snapshot(7) == "/wh/db.db/t/snapshot/snapshot-7"
    assert paths.latest_hint == "/wh/db.db/t/snapshot/LATEST"
    assert paths.manifest("manifest-1-0") == "/wh/db.db/t/manifest/manifest-1-0"
    assert paths.tag("v1") == "/wh/db.db/t/tag/tag-v1"
    assert paths.bucket_dir("", 0) == "/wh/db.db/t/bucket-0"
    assert paths.bucket_dir("a=1/b=2", -2) == "/wh/db.db/t/a=1/b=2/bucket-postpone"
    branch = paths.for_branch("b1")
    assert branch.schema(0) == "/wh/db.db/t/branch/branch-b1/schema/schema-0"
    assert branch.tag("x") == "/wh/db.db/t/branch/branch-b1/tag/tag-x"
    assert branch.manifest("m") == "/wh/db.db/t/manifest/m"
    moved = paths.with_options({"data-file.path-directory": "data", "index-file-in-data-file-dir": "true"})
    assert moved.bucket_dir("p=1", 0) == "/wh/db.db/t/data/p=1/bucket-0"
    assert moved.index_file("p=1", 0, "index-1-0") == "/wh/db.db/t/data/p=1/bucket-0/index-1-0"
    assert paths.index_file("p=1", 0, "index-1-0") == "/wh/db.db/t/index/index-1-0"


def test_external_paths_and_what_lies_beside_them() -> None:
    paths = TablePaths("/t").with_external(["/ext", "s3://b"])
    file = paths.data_file("p=1", 0, "data-1.parquet", "file:/ext/p=a%3Db/bucket-0/data-1.parquet")
    assert file == "/ext/p=a%3Db/bucket-0/data-1.parquet"
    assert paths.extra_file(file, "data-1.parquet.index") == "/ext/p=a%3Db/bucket-0/data-1.parquet.index"
    with pytest.raises(UnsupportedError, match="s3"):
        paths.data_file("", 0, "data-1.parquet", "s3://b/data-1.parquet")


@pytest.mark.parametrize(
    ("root", "allowed", "external"),
    [
        ("s3a://b/t", "s3://ext/d", "s3n://ext//d/p=%201/f"),
        ("s3://b/t", "s3a://ext/d", "S3://ext/d/p=%201/f"),
        ("abfss://c@a.dfs.core.windows.net/t", "abfs://c@a.dfs.core.windows.net/d",
         "abfss://c@a.dfs.core.windows.net/d/p=%201/f"),
        ("dbfs:/Volumes/c/t", "/Volumes/d", "dbfs:/Volumes/d/p=%201/f"),
        ("/Volumes/c/t", "dbfs:///Volumes/d", "/Volumes/d/./p=%201/f"),
        ("/dbfs/t", "dbfs:/d", "file:/dbfs/d/p=%201/f"),
    ],
)  # fmt: skip
def test_one_place_in_several_spellings(root: str, allowed: str, external: str) -> None:
    root = normalise_location(root)
    paths = TablePaths(root).with_external(ExternalPaths.of({"external-paths.allow": allowed}).allowed)
    found = paths.data_file("", 0, "f", external)
    assert found.endswith("/d/p=%201/f") and scheme_of(found) == scheme_of(root)
    with pytest.raises((SecurityError, UnsupportedError)):
        paths.data_file("", 0, "f", external.replace("/d/", "/dd/"))
    with pytest.raises((SecurityError, UnsupportedError)):
        paths.data_file("", 0, "f", "oss://ext/d/f")


@pytest.mark.parametrize("name", ["", "..", ".", "../x", "a/b", "/etc/passwd", "a\0b"])
def test_names_that_leave_the_table_are_refused(name: str) -> None:
    paths = TablePaths("/t")
    for call in (
        lambda: paths.manifest(name),
        lambda: paths.data_file("", 0, name),
        lambda: paths.index(name),
        lambda: paths.extra_file("/t/bucket-0/x", name),
        lambda: paths.data_file("", 0, name, "file:/x/" + name),
    ):
        with pytest.raises(SecurityError):
            call()


@given(st.lists(st.text("a./\0", max_size=3), max_size=4))
def test_many_names_are_checked_as_each_is(names: list[str]) -> None:
    try:
        for name in names:
            checked_name(name, "data file")
    except SecurityError as error:
        with pytest.raises(SecurityError) as raised:
            check_names(names, "data file")
        assert str(raised.value) == str(error)
    else:
        check_names(names, "data file")


@pytest.mark.parametrize("external", ["file:/x/../y/f", "f", "x/f", "file:/x/g", "\0/f", "file:relative/f/.."])
def test_external_paths_that_name_another_file_are_refused(external: str) -> None:
    with pytest.raises(SecurityError):
        TablePaths("/t").data_file("", 0, "f", external)


@pytest.mark.parametrize(
    "external",
    ["file:///etc/passwd", "/etc/passwd", "/extra/passwd", "file:/ext/../etc/passwd", "http://h/passwd",
     "s3://other/ext/passwd", "s3a://b/ext/passwd", "s3://bb/passwd", "dbfs:/ext/passwd"],
)  # fmt: skip
def test_external_paths_that_nobody_allows_are_refused(external: str) -> None:
    paths = TablePaths("/t").with_external(["/ext", "s3://b"])
    for call in (paths.data_file, paths.index_file):
        with pytest.raises(SecurityError):
            call("", 0, "passwd", external)
    assert paths.data_file("", 0, "passwd", "/t/bucket-1/passwd") == "/t/bucket-1/passwd"


@pytest.mark.parametrize(
    ("given", "roots"),
    [
        ({}, ("/ext", "s3://b/x")),
        ({"external-paths.allow": "file:/more/, hdfs://h/d"}, ("/more", "hdfs://h/d", "/ext", "s3://b/x")),
        ({"External-Paths.Trust-Table": "false", "external-paths.allow": "/more"}, ("/more",)),
        ({"external-paths.trust-table": "FALSE", "s3.region": "eu"}, ()),
    ],
)
def test_where_external_paths_may_lie(given: dict[str, str], roots: tuple[str, ...]) -> None:
    named = [{"data-file.external-paths": "file:/ext/,s3://b/x"}, {"data-file.external-paths": "/ext, , ., ext, /a/.."}]
    assert ExternalPaths.of(given).roots(named) == roots


@pytest.mark.parametrize(
    "given", [{"external-paths.allow": "relative"}, {"external-paths.allow": "/a/../b"}, {"external-paths.alow": "/a"},
              {"external-paths.trust-table": "perhaps"}],
)  # fmt: skip
def test_what_is_no_setting_of_external_paths_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(OptionError, match="external-paths"):
        ExternalPaths.of(given)


@pytest.mark.parametrize("directory", ["../x", "a/../../b", "a\0"])
def test_data_directories_that_leave_the_table_are_refused(directory: str) -> None:
    with pytest.raises(SecurityError):
        TablePaths("/t", options={"data-file.path-directory": directory}).bucket_dir("", 0)
