"""Delta tables: their live files, and what is refused.

``delta.zip`` is a table of delta-rs 1.6: 8 rows in partitions of a day and a text, of which rows 1 and 4 were deleted,
a checkpoint, and the column ``late`` that the last two rows brought.
"""

from __future__ import annotations

import datetime as dt
import json
import random
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import CorruptFileError, PaimonError, SchemaError, SecurityError, UnsupportedError
from support.oracle import Oracle, requires_java_oracle
from support.values import lines


def _unpacked(path: Path) -> Path:
    with zipfile.ZipFile(Path(__file__).with_name("delta.zip")) as packed:
        packed.extractall(path)
    return path


def test_live_files(tmp_path: Path) -> None:
    done = pp.migrate(str(_unpacked(tmp_path / "s")), str(tmp_path / "t"), format="delta")
    assert (done.kind, done.rows, done.files.num_rows) == ("delta", 6, 6)
    table = pp.Table.open(tmp_path / "t")
    assert [f"{f.name} {f.type}" for f in table.schema.fields] == [
        "k INT", "at TIMESTAMP(6) WITH LOCAL TIME ZONE", "price DECIMAL(9, 2)", "tags ARRAY<ROW<t BIGINT>>", "day DATE",
        "name STRING", "late DOUBLE",
    ]  # fmt: skip
    rows = table.scan().to_arrow().sort_by("k").to_pylist()
    assert [row["k"] for row in rows] == [0, 2, 3, 5, 6, 7]
    for row in rows:
        k = row["k"]
        assert row["at"] == dt.datetime(2024, 2, 29, 12, 0, k, tzinfo=dt.UTC)
        assert (row["day"], row["name"]) == (dt.date(2024, 1, 1 + k % 2), None if k == 3 else f"a/b:{k}")
        assert (float(row["price"]), row["tags"], row["late"]) == (k / 4, [{"t": k}], {6: 0.5, 7: 1.5}.get(k))
    assert table.scan("name = 'a/b:7'").count() == 1
    assert table.maintenance.verify(deep=True).ok


@pytest.mark.java
@requires_java_oracle
def test_java_reads_it(oracle: Oracle, tmp_path: Path) -> None:
    pp.migrate(str(_unpacked(tmp_path / "s")), str(tmp_path / "db.db/t"))
    with oracle.batch() as batch:
        rows = batch.read(tmp_path, "db.t")
        some = batch.read(tmp_path, "db.t", filter={"op": "eq", "field": "k", "literals": [6]})
    table = pp.Table.open(tmp_path / "db.db/t")
    assert rows.lines == lines(table.scan().to_arrow())
    assert some.lines == lines(table.scan("k = 6").to_arrow())


_COLUMN = {"name": "a", "type": "long", "nullable": True, "metadata": {}}


def _table(path: Path, *, add: dict[str, Any], configuration: dict[str, str], protocol: dict[str, Any]) -> str:
    """A table of one file, with more said of it."""
    (path / "_delta_log").mkdir(parents=True)
    pq.write_table(pa.table({"a": [1]}), path / "a.parquet")
    size = (path / "a.parquet").stat().st_size
    schema = json.dumps({"type": "struct", "fields": [{**_COLUMN, **add.pop("column", {})}]})
    actions = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2, **protocol}},
        {"metaData": {"schemaString": schema, "partitionColumns": [], "configuration": configuration}},
        {"add": {"path": "a.parquet", "size": size, "partitionValues": {}, **add}},
    ]
    text = "\n".join(map(json.dumps, actions))
    (path / "_delta_log" / f"{add.pop('version', 0):020}.json").write_text(text)
    return str(path)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"add": {"deletionVector": {"storageType": "u"}}}, "deletion vectors"),
        ({"configuration": {"delta.columnMapping.mode": "name"}}, "column mapping"),
        ({"protocol": {"minReaderVersion": 3, "readerFeatures": ["variantType"]}}, "variantType"),
        ({"protocol": {"minReaderVersion": 4}}, "reader version 4"),
        ({"add": {"path": "gone.parquet"}}, "missing"),
        ({"add": {"path": None}}, "damaged"),
        ({"add": {"size": 7}}, "a.parquet"),
        ({"add": {"version": 3}}, "versions are missing"),
        ({"add": {"column": {"type": "variant"}}}, "'variant'"),
        ({"add": {"column": {"type": "string"}}}, "BIGINT in this file, and STRING"),
    ],
)
def test_refused(tmp_path: Path, said: dict[str, Any], message: str) -> None:
    given = {"add": {}, "configuration": {}, "protocol": {}, **{k: dict(v) for k, v in said.items()}}
    source = _table(tmp_path / "s", **given)
    with pytest.raises(PaimonError, match=message):
        pp.migrate(source, str(tmp_path / "t"))
    assert not (tmp_path / "t").exists()


def test_files_are_not_moved_away(tmp_path: Path) -> None:
    source = _table(tmp_path / "s", add={}, configuration={}, protocol={})
    with pytest.raises(PaimonError, match="without its files"):
        pp.migrate(source, str(tmp_path / "t"), mode="move")
    assert pp.migrate(source, str(tmp_path / "t"), mode="link").rows == 1


@pytest.mark.parametrize("size", ["9", None, -1])
def test_sizes_of_another_kind(tmp_path: Path, size: object) -> None:
    source = _table(tmp_path / "s", add={"size": size}, configuration={}, protocol={})
    with pytest.raises(CorruptFileError, match="is no size"):
        pp.migrate(source, str(tmp_path / "t"))


@pytest.mark.parametrize("type_", ["string", "long", "double", "date", "timestamp", "timestamp_ntz", "decimal(5,2)"])
@pytest.mark.parametrize(
    "values",
    [{"p": 5}, {"p": 1.5}, {"p": True}, {"p": [1]}, {"p": {"a": "1"}}, {"p": "\ud800"}, {"q": "1"}, {},
     {"p": "1", "q": "1"}],
    ids=str,
)  # fmt: skip
def test_partition_values_that_do_not_fit(tmp_path: Path, type_: str, values: dict[str, Any]) -> None:
    source = _table(tmp_path / "s", add={"partitionValues": values}, configuration={}, protocol={})
    log = tmp_path / "s" / "_delta_log" / f"{0:020}.json"
    protocol, metadata, add = map(json.loads, log.read_text().splitlines())
    fields = [_COLUMN, {**_COLUMN, "name": "p", "type": type_}]
    metadata["metaData"] |= {
        "partitionColumns": ["p"],
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
    }
    log.write_text("\n".join(map(json.dumps, (protocol, metadata, add))))
    with pytest.raises(PaimonError, match="partition") as caught:
        pp.migrate(source, str(tmp_path / "t"))
    assert isinstance(caught.value, CorruptFileError | SchemaError | UnsupportedError)
    assert not (tmp_path / "t").exists()


def test_hexadecimal_partitions_are_no_numbers(tmp_path: Path) -> None:
    """Arrow reads them as numbers, Spark as NULL."""
    (tmp_path / "s" / "p=0x10").mkdir(parents=True)
    pq.write_table(pa.table({"a": [1]}), tmp_path / "s" / "p=0x10" / "a.parquet")
    with pytest.raises(SchemaError, match="p='0x10' is no value of INT"):
        pp.migrate(tmp_path / "s", tmp_path / "t", partition_by={"p": "INT"})


def test_a_file_is_removed_by_its_path_in_another_encoding(tmp_path: Path) -> None:
    """Spark and delta-rs encode different characters: its rows would come back."""
    source = _table(tmp_path / "s", add={}, configuration={}, protocol={})
    pq.write_table(pa.table({"a": [2]}), tmp_path / "s" / "b c.parquet")
    size = (tmp_path / "s" / "b c.parquet").stat().st_size
    for version, action in (
        (1, {"add": {"path": "b%20c.parquet", "size": size, "partitionValues": {}}}),
        (2, {"remove": {"path": "b c.parquet"}}),
    ):
        (tmp_path / "s" / "_delta_log" / f"{version:020}.json").write_text(json.dumps(action))
    assert pp.migrate(source, str(tmp_path / "t")).rows == 1


_VECTOR = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4, "sizeInBytes": 40}


def _add(path: Path, version: int, *actions: dict[str, Any]) -> None:
    (path / "_delta_log" / f"{version:020}.json").write_text("\n".join(map(json.dumps, actions)))


def test_deletion_vectors_that_are_gone(tmp_path: Path) -> None:
    """REORG TABLE … APPLY (PURGE) writes files without the deleted rows; the log still tells of the vectors."""
    source = tmp_path / "s"
    _table(source, add={}, configuration={}, protocol={})
    size = (source / "a.parquet").stat().st_size
    named = {"path": "a.parquet", "size": size, "partitionValues": {}}
    _add(source, 1, {"add": {**named, "deletionVector": _VECTOR}}, {"remove": {"path": "a.parquet"}})
    with pytest.raises(PaimonError, match="deletion vectors"):  # the file is live, whichever action comes first
        pp.migrate(str(source), str(tmp_path / "t"))
    pq.write_table(pa.table({"a": [5]}), source / "b.parquet")
    size = (source / "b.parquet").stat().st_size
    _add(
        source,
        2,
        {"remove": {"path": "a.parquet", "deletionVector": {**_VECTOR, "cardinality": 1}}},
        {"add": {"path": "b.parquet", "size": size, "partitionValues": {}}},
    )
    pp.migrate(str(source), str(tmp_path / "t"))
    assert pp.Table.open(tmp_path / "t").scan().to_arrow().to_pylist() == [{"a": 5}]


@pytest.mark.parametrize("text", ["2024-01-01 00:00:00", "2024-01-01T00:00:00Z"])
def test_partitions_by_instants(tmp_path: Path, text: str) -> None:
    """Older writers tell them on the clock of their session, which nobody knows afterwards."""
    source = tmp_path / "s"
    column = {"name": "at", "type": "timestamp", "nullable": True, "metadata": {}}
    add = {"partitionValues": {"at": text}}
    _table(source, add=add, configuration={}, protocol={})
    log = source / "_delta_log" / f"{0:020}.json"
    protocol, metadata, added = map(json.loads, log.read_text().splitlines())
    schema = {"type": "struct", "fields": [_COLUMN, column]}
    metadata["metaData"] |= {"schemaString": json.dumps(schema), "partitionColumns": ["at"]}
    _add(source, 0, protocol, metadata, added)
    if text.endswith("Z"):
        pp.migrate(str(source), str(tmp_path / "t"))
        (row,) = pp.Table.open(tmp_path / "t").scan().to_arrow().to_pylist()
        assert row["at"] == dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    else:
        with pytest.raises(PaimonError, match=r"without its time zone.*'TIMESTAMP\(6\)'} for a clock's time"):
            pp.migrate(str(source), str(tmp_path / "t"))
        for number, zone in enumerate((None, dt.UTC)):
            type_ = "TIMESTAMP(6) WITH LOCAL TIME ZONE" if zone else "TIMESTAMP(6)"
            pp.migrate(str(source), str(tmp_path / f"t{number}"), partition_by={"at": type_})
            (row,) = pp.Table.open(tmp_path / f"t{number}").scan().to_arrow().to_pylist()
            assert row["at"] == dt.datetime(2024, 1, 1, tzinfo=zone)


def test_columns_in_another_case(tmp_path: Path) -> None:
    """Files of a table that was converted: by the exact name the column would be NULL."""
    source = _table(tmp_path / "s", add={"column": {"name": "A"}}, configuration={}, protocol={})
    with pytest.raises(PaimonError, match="differ in case only"):
        pp.migrate(source, str(tmp_path / "t"))


_OUTSIDE = ("{}/other/x.parquet", "file:{}/other/x.parquet", "file://{}/other/x.parquet", "../other/x.parquet")


@pytest.mark.parametrize("path", [*_OUTSIDE, "%2E%2E/other/x.parquet", "b/../../other/x.parquet"])
@pytest.mark.parametrize("mode", ["copy", "link"])
def test_files_outside_of_the_table(tmp_path: Path, path: str, mode: Any) -> None:
    """Who can write a log would get files that only whoever migrates may read."""
    source = tmp_path / "s"
    _table(source, add={}, configuration={}, protocol={})
    (tmp_path / "other").mkdir()
    pq.write_table(pa.table({"a": [5]}), tmp_path / "other/x.parquet")
    size = (tmp_path / "other/x.parquet").stat().st_size
    named = path.format(tmp_path)
    _add(source, 1, {"add": {"path": named, "size": size, "partitionValues": {}}})
    with pytest.raises(
        SecurityError, match=r"path with \.\." if ".." in named or "%" in named else "external-paths.allow"
    ):
        pp.migrate(str(source), str(tmp_path / "t"), mode=mode)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["other", "s"]
    assert (tmp_path / "other/x.parquet").stat().st_nlink == 1
    if named.endswith(f"{tmp_path}/other/x.parquet"):
        allowed = {"external-paths.allow": str(tmp_path / "other")}
        assert pp.migrate(str(source), str(tmp_path / "t"), mode=mode, storage_options=allowed).rows == 2
    _add(source, 2, {"remove": {"path": named}})
    assert pp.migrate(str(source), str(tmp_path / "u"), mode=mode).rows == 1


def test_whole_paths_of_files_in_the_table(tmp_path: Path) -> None:
    source = tmp_path / "s"
    _table(source, add={"path": f"file:{source}/a.parquet"}, configuration={}, protocol={})
    assert pp.migrate(str(source), str(tmp_path / "t")).rows == 1


_DEEP = "[" * 100_000


def _deep_type() -> Any:
    found: Any = "long"
    for _ in range(400):
        found = {"type": "array", "elementType": found, "containsNull": True}
    return found


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ({"path": "a%00.parquet"}, ""),
        ({"column": {"name": 5}}, ""),
        ({"column": {"type": _deep_type()}}, ""),
        ({}, _DEEP),
        ({}, json.dumps({"add": None})[:-1] + f', "other": {_DEEP}'),
    ],
    ids=["NUL in a path", "a name that is none", "types in types", "deep", "a deep member"],
)
def test_logs_that_no_writer_makes(tmp_path: Path, said: dict[str, Any], line: str) -> None:
    source = _table(tmp_path / "s", add=said, configuration={}, protocol={})
    if line:
        (tmp_path / "s" / "_delta_log" / f"{1:020}.json").write_text(line)
    with pytest.raises(CorruptFileError, match="the log is damaged"):
        pp.migrate(source, str(tmp_path / "t"))
    assert not (tmp_path / "t").exists()


def test_damaged_checkpoints(tmp_path: Path) -> None:
    """Cut or changed anywhere: an error of ours."""
    source = str(_unpacked(tmp_path / "s"))
    (path,) = Path(source, "_delta_log").glob("*.checkpoint.parquet")
    data, rng = path.read_bytes(), random.Random(0)
    for _ in range(40):
        at = rng.randrange(len(data))
        path.write_bytes(data[:at] + rng.choice([b"", b"\xff" * 8 + data[at + 8 :], rng.randbytes(4) + data[at + 4 :]]))
        with suppress(PaimonError):
            pp.migrate(source, str(tmp_path / "t"), dry_run=True)
