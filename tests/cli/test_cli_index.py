"""The verbs of ``paimon-pyds index``, and ``paimon-pyds system read``, in text and in JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.cli.main import main

OPTIONS = ("--option", "file-index.bitmap.columns=color", "--option", "file-index.range-bitmap.columns=id")


@pytest.fixture
def path(tmp_path: Path) -> str:
    options = {"file-index.bitmap.columns": "color", "file-index.in-manifest-threshold": "1b"}
    schema = pa.schema([("id", pa.int64()), ("color", pa.string())])
    table = pp.Table.create(tmp_path / "t", schema, options=options)
    for first in (0, 1000):
        ids = [(first + i) * 7919 % 2003 for i in range(1000)]
        table.append(pa.table({"id": ids, "color": [f"c{i % 11}" for i in range(1000)]}, schema=schema))
    return str(tmp_path / "t")


def _run(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    assert main(arguments) == status
    captured = capsys.readouterr()
    return captured.out or captured.err


def _json(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> list[Any]:
    return [json.loads(line) for line in _run(capsys, *arguments, "--output", "json", status=status).splitlines()]


def test_dump(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    side = next(Path(path).rglob("*.index"))
    text = _run(capsys, "index", "dump", str(side))
    assert f"{side.stat().st_size:,} bytes" in text
    assert "color   bitmap" in text
    assert "version 2, rows 1,000, values 11, has null False" in text
    text = _run(capsys, "index", "dump", path)
    assert text.count("(side file)") == 2
    found = _json(capsys, "index", "dump", path)
    assert [(d["column"], d["index"], d["values"], d["storage"]) for d in found] == [
        ("color", "bitmap", 11, "FILE")
    ] * 2
    assert "no file-index container" in _run(capsys, "index", "dump", __file__, status=1).replace("not a", "no")


def test_verify(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(capsys, "index", "verify", path) == "2 indexes of 2 files compared with 2,000 rows: no fault\n"
    sides = sorted(Path(path).rglob("*.index"))
    sides[0].write_bytes(sides[0].read_bytes()[:-9])
    text = _run(capsys, "index", "verify", path, status=1)
    assert text.startswith("FAULT corrupt")
    assert ": 1 fault\n" in text
    sides[1].unlink()
    (report,) = _json(capsys, "index", "verify", path, status=1)
    assert (report["faults"], sorted(f["kind"] for f in report["findings"])) == (2, ["corrupt", "missing"])


def test_rewrite(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(capsys, "index", "build", path).startswith("0 of 2 files changed")
    table = pp.Table.open(path)
    table.alter({"file-index.range-bitmap.columns": "id"})
    next(Path(path).rglob("*.index")).write_bytes(b"")
    text = _run(capsys, "index", "build", path)
    assert "snapshot 3, 2 of 2 files changed, 3 indexes built, 1 kept" in text
    assert "1 container repaired" in text
    (summary,) = _json(capsys, "index", "build", path, "--rebuild")
    assert (summary["snapshot_id"], summary["built"], summary["rows"]) == (4, 4, 2000)
    assert "not on id" in _run(capsys, "index", "build", path, "--where", "id = 1", status=1)


def test_cost(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    filters = ("--filter", "color = 'c3'", "--filter", "id BETWEEN 5 AND 9")
    text = _run(capsys, "index", "cost", path, *OPTIONS, *filters, "--files", "1")
    assert text.splitlines()[0] == "1 of 2 files sampled, 1,000 of 2,000 rows"
    assert "range-bitmap" in text
    assert "91 (9.10%)" in text
    (report,) = _json(capsys, "index", "cost", path, *OPTIONS, *filters)
    assert [(c["column"], c["index_type"]) for c in report["indexes"]] == [("color", "bitmap"), ("id", "range-bitmap")]
    assert [f["exact"] for f in report["filters"]] == [True, True]
    assert report["filters"][1]["rows_kept"] == report["filters"][1]["rows_matching"] == 5
    assert "name columns" in _run(capsys, "index", "cost", path, "--option", "file-index.in-manifest-threshold=1b")


def test_advise(path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded = tmp_path / "filters.txt"
    recorded.write_text("id BETWEEN 5 AND 9\n" + '{"filter": "id > 2000", "count": 3}\nid <> 7\n')
    text = _run(capsys, "index", "advise", path, "--filters", str(recorded))
    assert "5 recorded filters, 2 of 2 files sampled" in text
    assert "add     id      range-bitmap" in text
    assert "drop    color   bitmap" in text
    assert "note: id <> 7: no index can narrow it down" in text
    assert "file-index.range-bitmap.columns=id" in text
    assert "unset file-index.bitmap.columns" in text
    (report,) = _json(capsys, "index", "advise", path, "--filters", str(recorded))
    assert report["set_options"] == {"file-index.range-bitmap.columns": "id"}
    told = _run(capsys, "index", "advise", path, "--filters", str(tmp_path / "no"), status=1)
    assert told.startswith("paimon-pyds: can't read the recorded filters: No such file or directory")


def test_eval_of_another_number_of_rows(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    side = str(next(Path(path).rglob("*.index")))
    asked = ("index", "evaluate", path, side, "--filter", "color = 'c3'", "--rows")
    assert len(json.loads(_run(capsys, *asked, "1000"))) == 91
    assert "rows=7 is wrong: the bitmap index of color is of 1000 rows" in _run(capsys, *asked, "7", status=1)


def test_system(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows = _json(capsys, "system", "read", path, "file_indexes")
    assert [(r["column_name"], r["storage_type"], r["record_count"]) for r in rows] == [("color", "FILE", 1000)] * 2
    text = _run(capsys, "system", "read", path, "snapshots")
    assert text.splitlines()[0].startswith("snapshot_id  schema_id")
    assert len(text.splitlines()) == 4
    assert "did you mean" in _run(capsys, "system", "read", path, "file_index", status=1)
