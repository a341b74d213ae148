"""Operations on rows read small files together: what they leave is the same as file by file."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.engine.read import file as file_reading
from paimon_pyds.engine.read import row_places, small_files
from paimon_pyds.engine.rowlevel import key_rows, tasks
from paimon_pyds.errors import CorruptFileError
from support.effort import LONG, sampled

_COLUMNS = {"p": "INT NOT NULL", "k": "BIGINT NOT NULL", "v": "INT", "s": "STRING"}
_MODES: dict[str, dict[str, str]] = {
    "rewrite": {},
    "vectors": {"deletion-vectors.enabled": "true"},
    "index": {"deletion-vectors.enabled": "true", "file-index.bitmap.columns": "s"},
    "row ids": {"row-tracking.enabled": "true"},
    "buckets": {"bucket": "3", "bucket-key": "k"},
    "key": {"bucket": "1", "write-only": "true"},
    "keys of 2 buckets": {"bucket": "2", "write-only": "true"},
    "dynamic buckets": {"bucket": "-1", "write-only": "true"},
}


def _rows(keys: list[int], value: int) -> list[dict[str, Any]]:
    return [{"p": k % 9, "k": k, "v": value if k % 4 else None, "s": f"s{k % 5}"} for k in keys]


def _step(table: pp.Table, choose: random.Random) -> Any:
    where = choose.choice(["k % 3 = 0", "s = 's2' AND v > 0", "p = 4 OR k < 12", "v IS NULL", "p <> 2"])
    match choose.randrange(4):
        case 0:
            done = table.delete(where)
        case 1:
            done = table.update({"v": "coalesce(v, 0) + k", "s": "concat(s, 'x')"}, where)
        case 2:
            source = pa.Table.from_pylist(_rows(choose.sample(range(140), 40), 50), table.arrow_schema)
            matched = pp.Update({"v": "source.v"}, "target.k % 2 = 0"), pp.Delete("target.k % 5 = 1")
            done = table.merge(source, ["p", "k"], when_matched=matched, when_not_matched="insert")
        case _:
            rows = _rows(choose.sample(range(200, 300), 30), 7)
            table.append(pa.Table.from_pylist(rows, table.arrow_schema))
            return None
    return done.rows_deleted, done.rows_updated, done.rows_inserted


def _content(table: pp.Table) -> list[dict[str, Any]]:
    return table.scan().to_arrow().sort_by([("k", "ascending"), ("v", "ascending"), ("s", "ascending")]).to_pylist()


@pytest.mark.parametrize("mode", sampled(_MODES, 5))
@pytest.mark.parametrize("seed", range(8 if LONG else 1))
def test_the_same_rows_as_file_by_file(tmp_path: Path, mode: str, seed: int) -> None:
    key = ["p", "k"] if "key" in mode or "dynamic" in mode else None
    table = pp.Table.create(tmp_path / "t", _COLUMNS, primary_key=key, partition_by="p", options=_MODES[mode])
    for step in range(2):
        rows = _rows(list(range(step * 50, step * 50 + 90 if key else step * 50 + 50)), step)
        table.append(pa.Table.from_pylist(rows, table.arrow_schema))
        table.alter(add_columns={f"more{step}": "DATE"})
    shutil.copytree(table.path, tmp_path / "other")
    other = pp.Table.open(tmp_path / "other")
    read_alone = mock.Mock(side_effect=small_files.read_file)
    for step in range(5) if LONG else (1, 3, 4):  # a delete, an update and a merge
        expected = _step(other, random.Random(seed * 100 + step))
        with mock.patch.object(small_files, "MOST_ROWS", 0), mock.patch.object(small_files, "read_file", read_alone):
            assert _step(table, random.Random(seed * 100 + step)) == expected, step
        assert _content(table) == _content(other), step
    assert key or read_alone.call_count


def test_few_tasks_write_to_many_buckets(tmp_path: Path) -> None:
    options = {"bucket": "2", "write-only": "true", "source.split.open-file-cost": "16 mb"}
    table = pp.Table.create(tmp_path / "t", _COLUMNS, primary_key=["p", "k"], partition_by="p", options=options)
    table.append(pa.Table.from_pylist(_rows(list(range(90)), 1), table.arrow_schema))
    with mock.patch.object(key_rows, "_write", mock.Mock(side_effect=key_rows._write)) as write:
        assert table.update({"v": "9"}, "k % 2 = 0").rows_updated == 45
    assert 3 <= write.call_count <= 6  # 18 buckets of two numbers, 8 files a task
    assert set(table.scan("k % 2 = 0").to_arrow()["v"].to_pylist()) == {9}
    names = [(file.partition, file.bucket) for file in table.scan().plan().files]
    assert len(set(names)) == 18


@pytest.mark.parametrize("operation", ["delete", "update", "merge"])
def test_a_damaged_file_is_named(tmp_path: Path, operation: str) -> None:
    table = pp.Table.create(tmp_path / "t", _COLUMNS, partition_by="p")
    table.append(pa.Table.from_pylist(_rows(list(range(90)), 1), table.arrow_schema))
    path = Path(list(table.scan().plan().files)[5].path)
    data = bytearray(path.read_bytes())
    data[-20:-4] = bytes(16)
    path.write_bytes(data)
    source = pa.Table.from_pylist(_rows(list(range(90)), 3), table.arrow_schema)
    with pytest.raises(CorruptFileError) as caught:
        match operation:
            case "delete":
                table.delete("k % 2 = 0")
            case "update":
                table.update({"v": "1"}, "k % 2 = 0")
            case _:
                table.merge(source, "p, k", when_matched="update")
    assert path.name in str(caught.value)
    assert len(table.snapshots.list()) == 1


def test_files_are_opened_for_themselves_only_where_they_are_large(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", _COLUMNS, partition_by="p")
    table.append(pa.Table.from_pylist(_rows(list(range(90)), 1), table.arrow_schema))
    source = pa.Table.from_pylist(_rows(list(range(90)), 3), table.arrow_schema)
    refused = mock.Mock(side_effect=AssertionError)
    with mock.patch.object(file_reading, "open_data_file", refused), mock.patch.object(tasks, "matching_rows", refused):
        assert table.update({"v": "v + 1"}, "k % 2 = 0").rows_updated == 45
        assert table.merge(source, "p, k", when_matched="update").rows_updated == 90
        assert table.delete("k % 3 = 0").rows_deleted == 30


def test_places_are_put_together_and_taken_apart() -> None:
    rows = [row_places.BitMap(own) for own in ([0, 7], [], [2**32 - 1], [3])]
    places = row_places.places_in_files(rows)
    assert (places[1:] > places[:-1]).all()
    assert row_places.rows_of_files(places, 4) == rows
    assert not len(row_places.places_in_files([]))
