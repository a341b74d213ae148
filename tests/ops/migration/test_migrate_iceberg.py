"""Iceberg tables: their live files, and what is refused.

``iceberg.zip`` has two tables of PyIceberg 0.12, made at ``/wh``. ``t`` has 8 rows in partitions of a day and a text;
rows 1 and 4 were deleted. Before rows 6 and 7 the column ``old`` was renamed, ``gone`` dropped and made anew, ``k``
widened, and ``late`` added. ``e`` has partitions by the day of ``at``, for its first two files by ``city`` as well.
"""

from __future__ import annotations

import datetime as dt
import gzip
import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import PaimonError, SecurityError
from support.oracle import Oracle, requires_java_oracle
from support.values import lines


def _unpacked(path: Path, name: str = "t") -> Path:
    with zipfile.ZipFile(Path(__file__).with_name("iceberg.zip")) as packed:
        packed.extractall(path)
    return path / name


def _metadata(table: Path) -> Path:
    (found,) = (table / "metadata").glob("*.metadata.json")
    return found


def test_live_files(tmp_path: Path) -> None:
    done = pp.migrate(str(_unpacked(tmp_path / "s")), str(tmp_path / "t"), format="iceberg")
    assert (done.kind, done.rows, done.files.num_rows) == ("iceberg", 6, 6)
    table = pp.Table.open(tmp_path / "t")
    assert table.schema.partition_keys == ("day", "name")
    assert [f"{f.name} {f.type}" for f in table.schema.fields] == [
        "k BIGINT NOT NULL", "at TIMESTAMP(6) WITH LOCAL TIME ZONE", "price DECIMAL(9, 2)", "tags ARRAY<ROW<t BIGINT>>",
        "day DATE", "name STRING", "renamed INT", "late DOUBLE", "gone DOUBLE",
    ]  # fmt: skip
    assert table.schema.fields[1].description == "when"
    rows = table.scan().to_arrow().sort_by("k").to_pylist()
    assert [row["k"] for row in rows] == [0, 2, 3, 5, 6, 7]
    for row in rows:
        k = row["k"]
        assert row["at"] == dt.datetime(2024, 2, 29, 12, 0, k, tzinfo=dt.UTC)
        assert (row["day"], row["name"]) == (dt.date(2024, 1, 1 + k % 2), None if k == 3 else f"a/b:{k // 2}")
        assert (float(row["price"]), row["tags"], row["renamed"]) == (k / 4, [{"t": k}], k * 10)
        assert (row["late"], row["gone"]) == ((k / 2, float(k)) if k > 5 else (None, None))
    counts = {"name = 'a/b:3'": 2, "renamed = 20": 1, "gone IS NULL": 4, "gone = 6.0": 1, "k > 4": 3}
    for where, count in counts.items():
        assert table.scan(where).count() == count, where
    assert table.maintenance.verify(deep=True).ok


def test_transforms_leave_columns_in_files(tmp_path: Path) -> None:
    """Only some files have partitions by city, and none by the time itself."""
    source = _unpacked(tmp_path / "s", "e")
    assert pp.migrate(str(_metadata(source)), str(tmp_path / "t")).rows == 4
    table = pp.Table.open(tmp_path / "t")
    assert table.schema.partition_keys == ()
    rows = table.scan().to_arrow().sort_by("k").to_pylist()
    assert rows == [{"k": k, "at": dt.datetime(2024, 1, 1 + k), "city": "ab"[k % 2]} for k in range(4)]
    assert table.scan("at >= TIMESTAMP '2024-01-04 00:00:00'").count() == 1


@pytest.mark.java
@requires_java_oracle
def test_java_reads_them(oracle: Oracle, tmp_path: Path) -> None:
    _unpacked(tmp_path / "s")
    for name in "te":
        pp.migrate(str(tmp_path / "s" / name), str(tmp_path / "db.db" / name))
    tables = {name: pp.Table.open(tmp_path / "db.db" / name) for name in "te"}
    with oracle.batch() as batch:
        reads = {name: batch.read(tmp_path, f"db.{name}") for name in tables}
        some = batch.read(tmp_path, "db.t", filter={"op": "eq", "field": "renamed", "literals": [20]})
        none = batch.read(tmp_path, "db.t", filter={"op": "isnull", "field": "gone", "literals": []})
        batch.compact(tmp_path, "db.t")
        after = batch.read(tmp_path, "db.t")
    for name, table in tables.items():
        assert reads[name].lines == lines(table.scan(snapshot=1).to_arrow()), name
    assert some.lines == lines(tables["t"].scan("renamed = 20").to_arrow())
    assert none.lines == lines(tables["t"].scan("gone IS NULL").to_arrow())
    assert after.lines == reads["t"].lines


def _changed_json(table: Path, change: Callable[[Any], None]) -> None:
    metadata = json.loads(_metadata(table).read_text())
    change(metadata)
    _metadata(table).write_text(json.dumps(metadata))


def _changed_records(path: Path, change: Callable[[Any], None]) -> None:
    with path.open("rb") as file:
        reader = fastavro.reader(file)
        records, schema = list(reader), reader.writer_schema
    for record in records:
        change(record)
    with path.open("wb") as file:
        fastavro.writer(file, schema, records)


def _in_lists(**values: Any) -> Callable[[Path], None]:
    def change(table: Path) -> None:
        for path in (table / "metadata").glob("snap-*.avro"):
            _changed_records(path, lambda record: record.update(values))

    return change


def _in_files(**values: Any) -> Callable[[Path], None]:
    def change(table: Path) -> None:
        for path in (table / "metadata").glob("*-m0.avro"):
            _changed_records(path, lambda record: record["data_file"].update(values))

    return change


def _in_metadata(**values: Any) -> Callable[[Path], None]:
    named = {name.replace("_", "-"): value for name, value in values.items()}
    return lambda table: _changed_json(table, lambda metadata: metadata.update(named))


def _column(place: int, **values: Any) -> Callable[[Path], None]:
    return lambda table: _changed_json(table, lambda m: m["schemas"][-1]["fields"][place].update(values))


def _rewritten(table: Path, *, without: str | None = None, ids: bool = True) -> None:
    """Make the data files anew, in their own table."""
    for path in (table / "data").rglob("*.parquet"):
        rows = pq.ParquetFile(path).read()
        if without in rows.column_names:
            rows = rows.drop_columns([without])
        if not ids:
            rows = pa.table({name: rows[name].combine_chunks() for name in rows.column_names})
        pq.write_table(rows, path)
    sizes = {path.name: path.stat().st_size for path in (table / "data").rglob("*.parquet")}

    def change(record: Any) -> None:
        file = record["data_file"]
        file["file_size_in_bytes"] = sizes[file["file_path"].rpartition("/")[2]]

    for path in (table / "metadata").glob("*-m0.avro"):
        _changed_records(path, change)


def _twice(table: Path) -> None:
    name = _metadata(table).name
    shutil.copy(_metadata(table), table / "metadata" / f"{name[:5]}-other.metadata.json")


def _nested(number: int, name: str) -> Callable[[Path], None]:
    """The field of ``tags`` has another id or name."""

    def change(metadata: Any) -> None:
        metadata["schemas"][-1]["fields"][3]["type"]["element"]["fields"][0].update(id=number, name=name)

    return lambda table: _changed_json(table, change)


def _deep() -> Any:
    found: Any = "long"
    for number in range(200):
        found = {"type": "list", "element-id": 1000 + number, "element": found, "element-required": False}
    return found


_REFUSED: dict[str, tuple[Callable[[Path], None], str]] = {
    "version": (_in_metadata(format_version=3), "format version 3"),
    "keys": (_in_metadata(encryption_keys=[{"key-id": "1"}]), "encrypted"),
    "key of a list": (_in_lists(key_metadata=b"k"), "encrypted"),
    "key of a file": (_in_files(key_metadata=b"k"), "encrypted"),
    "equality": (_in_files(content=2), "equality deletes"),
    "position": (_in_files(content=1), "position deletes"),
    "manifest of deletes": (_in_lists(content=1), "position deletes"),
    "orc": (_in_files(file_format="ORC"), "data files of ORC"),
    "elsewhere": (_in_files(file_path="s3://other/a.parquet"), "outside of the table"),
    "gone": (_in_files(file_path="/wh/t/data/gone.parquet"), "data file of the source is missing"),
    "size": (_in_files(file_size_in_bytes=7), "parquet"),
    "specification": (_in_lists(partition_spec_id=9), "metadata is damaged"),
    "list": (lambda t: [p.unlink() for p in (t / "metadata").glob("snap-*")] and None, "metadata file of the source"),
    "snapshot": (_in_metadata(current_snapshot_id=5), "snapshot 5 is missing"),
    "twice": (_twice, "both the newest metadata"),
    "hint": (lambda t: (t / "metadata/version-hint.text").write_text("7") and None, "metadata file of the source"),
    "renamed": (_nested(10, "u"), "field tags.t was renamed"),
    "made anew": (_nested(99, "t"), "field tags.t was renamed, or made anew"),
    "no fields": (_nested(99, "u"), "no field of tags"),
    "time": (_column(7, type="time"), "not supported: 'time'"),
    "types in types": (_column(7, type=_deep()), "nested deeper"),
    "a name that is none": (_column(7, name=5), "no name of a column"),
    "no ids": (lambda t: _rewritten(t, ids=False), "columns without ids: k, at"),
}


@pytest.mark.parametrize("name", _REFUSED)
def test_refused(tmp_path: Path, name: str) -> None:
    change, message = _REFUSED[name]
    change(_unpacked(tmp_path / "s"))
    with pytest.raises(PaimonError, match=message):
        pp.migrate(str(tmp_path / "s/t"), str(tmp_path / "t"))
    assert not (tmp_path / "t").exists()


def test_partition_columns_that_files_lack(tmp_path: Path) -> None:
    """As of files that other writers made: the values are in manifests, and partitions of the new table have them."""
    _rewritten(_unpacked(tmp_path / "s"), without="day")
    pp.migrate(str(tmp_path / "s/t"), str(tmp_path / "t"))
    assert pp.Table.open(tmp_path / "t").scan("day = DATE '2024-01-01'").count() == 3
    _rewritten(tmp_path / "s/e", without="city")
    with pytest.raises(PaimonError, match="lacks the partition columns city"):
        pp.migrate(str(tmp_path / "s/e"), str(tmp_path / "e"))


def test_names_of_metadata_files(tmp_path: Path) -> None:
    """Of file system tables: the hint, versions after it, compressed ones; and of those that moved in part."""
    source = _unpacked(tmp_path / "s", "e")
    whole = _metadata(source).read_bytes()
    _metadata(source).rename(source / "metadata" / "v4.metadata.json")
    (source / "metadata" / "v3.metadata.json").write_text("{}")
    (source / "metadata" / "version-hint.text").write_text("3\n")
    assert pp.migrate(str(source), str(tmp_path / "a"), dry_run=True).rows == 4
    (source / "metadata" / "v5.gz.metadata.json").write_bytes(gzip.compress(whole))
    assert pp.migrate(str(source), str(tmp_path / "a"), dry_run=True).rows == 4
    (source / "metadata" / "v6.metadata.json").write_bytes(gzip.compress(whole)[:-5])
    with pytest.raises(PaimonError, match="not whole"):
        pp.migrate(str(source), str(tmp_path / "a"), dry_run=True)
    (source / "metadata" / "version-hint.text").write_text("00007-x")
    (source / "metadata" / "00007-x.metadata.json").write_bytes(whole)
    assert pp.migrate(str(source), str(tmp_path / "a"), dry_run=True).rows == 4
    with pytest.raises(PaimonError, match="inside one another"):
        pp.migrate(str(source / "metadata/00007-x.metadata.json"), str(source / "new"))
    moved = tmp_path / "moved"
    shutil.move(source / "data", moved)

    def change(record: Any) -> None:
        record["data_file"]["file_path"] = record["data_file"]["file_path"].replace("file:///wh/e/data", str(moved))

    for path in (source / "metadata").glob("*-m0.avro"):
        _changed_records(path, change)
    with pytest.raises(SecurityError, match=r"outside of the table.*external-paths.allow"):
        pp.migrate(str(source), str(tmp_path / "a"), mode="link")
    allowed = {"external-paths.allow": str(moved)}
    assert pp.migrate(str(source), str(tmp_path / "a"), mode="link", storage_options=allowed).rows == 4


@pytest.mark.parametrize("place", ["{}/x.parquet", "file:{}/x.parquet", "file:///wh/e/../../x.parquet"])
@pytest.mark.parametrize("what", ["file", "manifest", "list"])
def test_files_outside_of_the_table(tmp_path: Path, place: str, what: str) -> None:
    """Who can write a manifest would get files that only whoever migrates may read."""
    source = _unpacked(tmp_path / "s", "e")
    named = place.format(tmp_path)
    if what == "file":
        shutil.copy(next((source / "data").rglob("*.parquet")), tmp_path / "x.parquet")
        size = (tmp_path / "x.parquet").stat().st_size
        _in_files(file_path=named, file_size_in_bytes=size)(source)
    elif what == "manifest":
        shutil.copy(next((source / "metadata").glob("*-m0.avro")), tmp_path / "x.parquet")
        _in_lists(manifest_path=named)(source)
    else:
        shutil.copy(next((source / "metadata").glob("snap-*.avro")), tmp_path / "x.parquet")
        _changed_json(source, lambda m: [s.update({"manifest-list": named}) for s in m["snapshots"]])
    before = (tmp_path / "x.parquet").stat().st_nlink
    with pytest.raises(SecurityError):
        pp.migrate(str(source), str(tmp_path / "t"), mode="link")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["s", "x.parquet"]
    assert (tmp_path / "x.parquet").stat().st_nlink == before


def test_tables_without_rows(tmp_path: Path) -> None:
    _in_metadata(current_snapshot_id=-1)(_unpacked(tmp_path / "s"))
    done = pp.migrate(str(tmp_path / "s/t"), str(tmp_path / "t"))
    assert (done.snapshot_id, done.schema.partition_keys) == (None, ("day", "name"))
    with pytest.raises(PaimonError, match="without its files"):
        pp.migrate(str(tmp_path / "s/t"), str(tmp_path / "u"), mode="move")


@pytest.mark.parametrize("pattern", ["*.metadata.json", "snap-*.avro", "*-m0.avro"])
def test_damaged(tmp_path: Path, pattern: str) -> None:
    """Cut anywhere, a metadata file is refused by an error of ours."""
    source = _unpacked(tmp_path / "s", "e")
    for path in (source / "metadata").glob(pattern):
        data = path.read_bytes()
        for length in range(0, len(data), max(1, len(data) // 8)):
            path.write_bytes(data[:length])
            with pytest.raises(PaimonError):
                pp.migrate(str(source), str(tmp_path / "t"), dry_run=True)
        path.write_bytes(data)
