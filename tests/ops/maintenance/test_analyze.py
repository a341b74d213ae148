"""Statistics by `analyze`: what they say, that Java reads them, and what is refused."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.cli.main import main
from paimon_pyds.errors import (
    CommitConflictError,
    CorruptFileError,
    SchemaError,
    SnapshotNotFoundError,
    UnsupportedError,
)
from paimon_pyds.metadata.manifest_store import METADATA_CACHE
from paimon_pyds.metadata.snapshot import CommitKind
from paimon_pyds.metadata.statistics import parse_statistics, statistics_to_json
from paimon_pyds.ops.maintenance import analyze as module
from support.maintenance import is_exact
from support.oracle import Oracle, requires_java_oracle

_COLUMNS: dict[str, tuple[Any, list[Any], tuple[Any, ...]]] = {
    # name: type, values, (distinct, min, max, NULLs, average length, greatest length)
    "bool": (pa.bool_(), [True, False, None, True], (2, "false", "true", 1, 1, 1)),
    "tiny": (pa.int8(), [1, -1, -1, None], (2, "-1", "1", 1, 1, 1)),
    "small": (pa.int16(), [5, 5, 5, 5], (1, "5", "5", 0, 2, 2)),
    "int": (pa.int32(), [None] * 4, (0, None, None, 4, 4, 4)),
    "big": (pa.int64(), [2**62, -(2**62), 0, 1], (4, str(-(2**62)), str(2**62), 0, 8, 8)),
    "float": (pa.float32(), [0.0, -0.0, float("nan"), -1.5], (3, "-1.5", "NaN", 0, 4, 4)),
    "double": (pa.float64(), [1e10, 0.1, None, 0.1], (2, "0.1", "1.0E10", 1, 8, 8)),
    "decimal": (pa.decimal128(10, 2), [Decimal("1.50"), Decimal("-2.00"), None, None],
                (2, "-2.00", "1.50", 2, 8, 8)),
    "wide": (pa.decimal128(30, 3), [Decimal("1e20"), Decimal("1"), Decimal("1"), None],
             (2, "1.000", "100000000000000000000.000", 1, 16, 16)),
    "date": (pa.date32(), [dt.date(2026, 1, 1), dt.date(1969, 1, 1), None, None], (2, "-365", "20454", 2, 4, 4)),
    "time": (pa.timestamp("us"), [dt.datetime(2026, 1, 1, 12, 30, 5, 120000), None, None, None],
             (1, "2026-01-01 12:30:05.120000", "2026-01-01 12:30:05.120000", 3, 8, 8)),
    "text": (pa.string(), ["", "日本", "abcd", "abcd"], (3, None, None, 0, 3, 4)),
    "none": (pa.string(), [None] * 4, (0, None, None, 4, 20, 20)),
    "bytes": (pa.binary(), [b"123", None, b"1", b""], (3, None, None, 1, 2, 3)),
    "list": (pa.list_(pa.int32()), [[1], [], None, [2]], ()),
}  # fmt: skip


def _table(path: Path) -> pp.Table:
    table = pp.Table.create(path, pa.schema([(name, type_) for name, (type_, _, _) in _COLUMNS.items()]))
    for rows in (slice(0, 3), slice(3, 4)):
        table.append(pa.table({n: pa.array(values[rows], t) for n, (t, values, _) in _COLUMNS.items()}))
    return table


def test_every_type(tmp_path: Path) -> None:
    table = _table(tmp_path / "t")
    assert table.maintenance.statistics() is None
    found = table.maintenance.analyze()
    assert found is not None
    assert found == table.maintenance.statistics()
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    assert (snapshot.commit_kind, snapshot.delta_record_count) == (CommitKind.ANALYZE, 0)
    assert (found.snapshot_id, found.schema_id, found.merged_record_count) == (2, 0, 4)
    sizes = table.system.read("files")["file_size_in_bytes"].to_pylist()
    assert found.merged_record_size == sum(sizes)
    for name, (_, _, wanted) in _COLUMNS.items():
        if wanted:
            c = found.columns[name]
            assert (c.distinct_count, c.min, c.max, c.null_count, c.avg_length, c.max_length) == wanted, name
    assert "list" not in found.columns
    is_exact(table)
    assert not table.maintenance.verify().findings
    table.append(table.head(1))
    assert table.maintenance.statistics() == found, "they stay until the schema changes"
    table.alter(add_columns={"more": "INT"})
    table.append(table.head(1))
    assert table.maintenance.statistics() is None


def test_columns_that_are_named_and_merged_rows(tmp_path: Path) -> None:
    assert pp.Table.create(tmp_path / "empty", pa.schema([("id", pa.int64())])).maintenance.analyze() is None
    schema = pa.schema([pa.field("k", pa.int32(), nullable=False), ("v", pa.int64())])
    table = pp.Table.create(tmp_path / "t", schema, primary_key=["k"], options={"bucket": "1"})
    for number in range(2):
        table.append(pa.table({"k": [1, 2], "v": [number, number]}, schema))
    found = table.maintenance.analyze(["v"])
    assert found is not None
    assert (found.merged_record_count, list(found.columns)) == (2, ["v"])
    assert (found.columns["v"].min, found.columns["v"].column_id) == ("1", 1)
    counted = table.maintenance.analyze([])
    assert counted is not None
    assert (counted.merged_record_count, counted.columns) == (2, {})
    with pytest.raises(SchemaError, match="no column 'w'"):
        table.maintenance.analyze(["w"])
    nested = pp.Table.create(tmp_path / "n", {"l": [[1]]})
    with pytest.raises(UnsupportedError, match="'l' of type ARRAY"):
        nested.maintenance.analyze(["l"])


def test_very_many_values(tmp_path: Path) -> None:
    numbers = np.arange(300_000)
    table = pp.Table.create(tmp_path / "t", {"id": numbers, "text": pa.array(numbers).cast(pa.string())})
    found = table.maintenance.analyze()
    assert found is not None
    for column in found.columns.values():
        assert column.distinct_count == pytest.approx(300_000, rel=0.03)


def test_changes_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, commit = _table(tmp_path / "t"), module.commit

    def meanwhile(change: Any) -> None:
        def late(*arguments: Any) -> Any:
            change()
            return commit(*arguments)

        monkeypatch.setattr(module, "commit", late)

    meanwhile(lambda: table.append(table.head(1)))
    found = table.maintenance.analyze()
    assert found is not None
    assert (found.snapshot_id, table.count()) == (2, 5)
    changes = [lambda: table.alter(add_columns={"more": "INT"}), lambda: None]
    meanwhile(lambda: changes.pop(0)())
    found = table.maintenance.analyze()
    assert found is not None
    assert "more" in found.columns
    names = map(str, range(99))
    meanwhile(lambda: table.alter(add_columns={next(names): "INT"}))
    with pytest.raises(CommitConflictError, match="altered or rolled back while it was analyzed"):
        table.maintenance.analyze(options={"commit.max-retries": 1})
    is_exact(table)


def test_a_dry_run_gives_what_is_found(tmp_path: Path) -> None:
    table = _table(tmp_path / "t")
    found = table.maintenance.analyze(["big"], dry_run=True)
    assert found is not None
    assert (list(found.columns), found.merged_record_count) == (["big"], 4)
    assert (table.maintenance.statistics(), len(table.snapshots.list())) == (None, 2)


def test_damaged_files() -> None:
    text = '{"snapshotId": 1, "schemaId": 0, "mergedRecordCount": 3, "colStats": {"a": {"colId": 1, "avgLen": 2}}}'
    found = parse_statistics(text.encode(), "x")
    assert parse_statistics(statistics_to_json(found).encode(), "x") == found
    for wrong in ("", "[]", text.replace("1,", '"1",'), text.replace('{"colId"', '[{"colId"').replace("2}", "2}]")):
        with pytest.raises(CorruptFileError):
            parse_statistics(wrong.encode(), "x")


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = _table(tmp_path / "t")
    assert main(["maintenance", "analyze", table.path, "--columns", "big,text"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "4 rows", f"  big: 4 distinct, 0 NULL, {-(2**62)} to {2**62}", "  text: 3 distinct, 0 NULL",
    ]  # fmt: skip
    assert main(["maintenance", "analyze", table.path, "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["columns"]["small"]["distinct_count"] == 1


@pytest.mark.java
@requires_java_oracle
def test_java_reads_them(oracle: Oracle, tmp_path: Path) -> None:
    """Java gives them back from its own classes, and its next commit keeps them."""
    table = _table(tmp_path / "db.db/t")
    found = table.maintenance.analyze()
    with oracle.batch() as batch:
        read = batch.read(tmp_path, "db.t$statistics")
        batch.write(tmp_path, "db.t", table.head(1))
    (row,) = read.values
    assert row["mergedRecordCount"] == 4
    java = json.dumps({**dict.fromkeys(("snapshotId", "schemaId"), 0), "colStats": json.loads(row["colstat"])})
    assert found is not None
    assert parse_statistics(java.encode(), "x").columns == found.columns
    snapshot = table.snapshots.latest()
    assert snapshot is not None
    assert snapshot.commit_kind is CommitKind.APPEND
    assert table.maintenance.statistics() == found


def test_statistics_that_are_gone(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", pa.schema([("a", pa.int64())]))
    table.append(pa.table({"a": [1]}))
    table.maintenance.analyze()
    for path in Path(table.path, "statistics").iterdir():
        path.unlink()
    for read in (table.maintenance.statistics, lambda: table.system.read("statistics")):
        with pytest.raises(SnapshotNotFoundError, match="is gone"):
            read()


# ------------------------------------------------------------------------------------------------- what uses them


def _known(path: Path, key: list[str]) -> pp.Table:
    schema = pa.schema([("id", pa.int64()), ("d", pa.date32()), ("m", pa.decimal128(9, 2)), ("n", pa.int32())])
    options = {"bucket": "1", "write-only": "true"} if key else {}
    table = pp.Table.create(path, schema, primary_key=key, options={"metadata.stats-mode": "none", **options})
    for first in (0, 5):
        days = [dt.date(2024, 1, 1 + n) for n in range(10)]
        money = [Decimal(n) for n in range(10)]
        table.append(pa.table([range(first, first + 10), days, money, pa.nulls(10, pa.int32())], schema=schema))
    return table


@pytest.mark.parametrize("key", [[], ["id"]])
def test_a_filter_that_keeps_nothing_reads_no_manifest(tmp_path: Path, key: list[str]) -> None:
    table = _known(tmp_path / "t", key)
    filters = {
        "id > 14": 0, "id >= 14": 1, "d < DATE '2024-01-01'": 0, "year(d) = 2023": 0, "m > 9.00": 0, "n = 1": 0,
        "n IS NULL": 15 if key else 20, "id = 3 AND m < 0": 0, "id = 3 OR m < 0": 1, "m + 1 > 100": 0,
    }  # fmt: skip
    before = {text: table.scan(text).to_arrow().sort_by("id") for text in filters}
    found = table.maintenance.analyze()
    assert found is not None
    for text, rows in filters.items():
        assert table.scan(text).to_arrow().sort_by("id").equals(before[text]), text
        assert before[text].num_rows == rows, text
    manifests = sorted((tmp_path / "t/manifest").iterdir())
    for file in manifests:
        file.rename(file.with_suffix(".away"))
    METADATA_CACHE.clear()
    assert table.count("id > 14") == table.scan("d < DATE '2024-01-01'").to_arrow().num_rows == 0
    if key:
        assert table.count() == 15
    else:
        with pytest.raises(SnapshotNotFoundError):
            table.count()


def test_rows_that_are_merged_are_counted_once(tmp_path: Path) -> None:
    table = _known(tmp_path / "t", ["id"])
    table.maintenance.analyze([])
    answer = table.scan().answer.count()
    assert (answer.value, answer.files_read) == (15, 0)
    assert table.scan(limit=4).count() == 4
    assert table.scan(options={"read-optimized": "true"}).count() == 0
    table.delete("id = 3")
    assert table.count() == 14, "statistics of an older state are not asked"


def test_statistics_that_are_damaged_or_of_others_are_not_asked(tmp_path: Path) -> None:
    table = _known(tmp_path / "t", ["id"])
    table.maintenance.analyze()
    (file,) = (tmp_path / "t/statistics").iterdir()
    file.write_bytes(file.read_bytes().replace(b'"mergedRecordCount" : 15', b'"mergedRecordCount" : 14'))
    assert table.count() == 15
    file.unlink()
    assert table.count() == 15
    snapshot = tmp_path / "t/snapshot/snapshot-3"
    plain = json.loads(snapshot.read_bytes())
    assert plain["properties"]
    table.maintenance.analyze()
    table.alter({"comment": "another schema"})
    assert table.count() == 15


def test_a_state_that_was_rolled_back_meanwhile_is_analyzed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = _known(tmp_path / "t", ["id"])
    real, done = module.commit, []

    def later(*given: Any) -> Any:
        if not done:
            done.append(table.snapshots.rollback(1))
            table.append(table.scan("id = 1").to_arrow())
        return real(*given)

    monkeypatch.setattr(module, "commit", later)
    found = table.maintenance.analyze()
    assert found is not None
    assert (found.merged_record_count, table.count()) == (10, 10)
