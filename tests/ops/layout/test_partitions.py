"""Advice on a partition column: what partitions would hold, counted from the rows, and what is refused by numbers."""

from __future__ import annotations

import datetime
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.cli.main import main
from paimon_pyds.errors import OptionError
from paimon_pyds.ops.index_tools.recorded_filters import RecordedFilter
from paimon_pyds.ops.layout.partitions import PartitionAdvice, PartitionChoice

_START = datetime.datetime(2024, 1, 30)
_SCHEMA = pa.schema([
    ("id", pa.int64()), ("at", pa.timestamp("us")), ("day", pa.date32()), ("region", pa.string()),
    ("flag", pa.bool_()), ("price", pa.float64()), ("note", pa.string()),
])  # fmt: skip


def _rows(count: int, days: int) -> pa.Table:
    """Rows of so many days, in order, six regions of unequal size."""
    chance = random.Random(3)
    at = [_START + datetime.timedelta(days=days * i / count) for i in range(count)]
    return pa.table(
        {
            "id": range(count),
            "at": at,
            "day": [moment.date() for moment in at],
            "region": [chance.choice("aaabbcdef") for _ in range(count)],
            "flag": [i % 100 > 0 for i in range(count)],
            "price": [chance.random() for _ in range(count)],
            "note": ["".join(chance.choices("abcdefgh", k=40)) for _ in range(count)],
        },
        _SCHEMA,
    )


def _table(path: Path, rows: pa.Table, full: str = "4 kb", **create: Any) -> pp.Table:
    """A table whose full files are small."""
    table = pp.Table.create(path, rows.schema, options={"target-file-row-num": "500"}, **create)
    table.append(rows)
    table.alter(set_options={"target-file-size": full})
    return table


def _choices(advice: PartitionAdvice) -> dict[str, PartitionChoice]:
    return {choice.name: choice for choice in advice.choices}


def test_partitions_are_counted_as_they_would_be(tmp_path: Path) -> None:
    rows = _rows(6000, 60)
    table = _table(tmp_path / "t", rows)
    advice = table.index.advise_partition(files=100)
    found = _choices(advice)
    assert (advice.files, advice.rows, advice.sampled_files) == (12, 6000, 12)
    assert "price" not in found  # nobody partitions by a float
    for name, values in {
        "id": rows["id"].to_pylist(),
        "day": rows["day"].to_pylist(),
        "region": rows["region"].to_pylist(),
        "flag": rows["flag"].to_pylist(),
        "month(day)": [d.month for d in rows["day"].to_pylist()],
        "year(at)": [0] * 6000,
        "day(at)": rows["day"].to_pylist(),
        "hour(at)": [(d.date(), d.hour) for d in rows["at"].to_pylist()],
    }.items():
        counts, choice = Counter(values), found[name]
        assert choice.partitions == pytest.approx(len(counts), rel=0.01), name
        assert choice.rows == round(6000 / choice.partitions), name
        assert choice.largest_rows == pytest.approx(max(counts.values()), rel=0.25), name
        assert choice.bytes == round(advice.bytes / choice.partitions), name
    assert advice.recommended is not None
    assert advice.recommended.name in ("day", "day(at)")
    assert advice.text.splitlines()[0].startswith(f"Partition {table.path} by day")
    assert "all rows would be in one partition" in found["year(at)"].reason
    assert "too uneven: one partition would have 99% of the rows" in found["flag"].reason
    assert advice.to_arrow()["suits"].to_pylist()[0] is True


def test_tiny_partitions_are_refused_with_their_numbers(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", _rows(6000, 60), "128 mb")
    advice = table.index.advise_partition()
    assert advice.recommended is None
    assert advice.text.splitlines()[0] == f"No column of {table.path} suits as its partition"
    region = _choices(advice)["region"]
    assert region.reason.startswith("too small: ")
    assert region.reason.endswith("each make no full file of 89.6 MiB")
    assert (region.partitions, region.files) == (6, 1)


def test_recorded_filters_choose(tmp_path: Path) -> None:
    rows = _rows(6000, 60)
    table = _table(tmp_path / "t", rows)
    filters = [
        RecordedFilter("region = 'a'", 3),
        RecordedFilter("day >= DATE'2024-03-01' AND price < 0.5"),
        RecordedFilter("nowhere = 1"),
    ]
    advice = table.index.advise_partition(filters, files=100)
    found = _choices(advice)
    assert advice.recommended is not None
    assert advice.recommended.name == "region"
    share = Counter(rows["region"].to_pylist())["a"] / 6000
    assert found["region"].rows_left == pytest.approx((3 * share + 2) / 5)
    late = sum(day >= datetime.date(2024, 3, 1) for day in rows["day"].to_pylist()) / 6000
    assert found["day"].rows_left == pytest.approx((late + 4) / 5)
    assert (found["region"].uses, found["day"].uses, found["day(at)"].uses, advice.filters) == (3, 1, 0, 5)
    assert found["day(at)"].reason == "no recorded filter uses it"
    assert any("nowhere" in note for note in advice.notes)
    by_day = table.index.advise_partition("day >= DATE'2024-03-25'").recommended
    assert by_day is not None
    assert by_day.name == "day"


def test_few_rows_of_a_sample_stand_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from paimon_pyds.ops.layout import partitions

    monkeypatch.setattr(partitions, "SAMPLED_ROWS", 300)
    found = _choices(_table(tmp_path / "t", _rows(6000, 60)).index.advise_partition(files=4))
    assert found["id"].partitions == 6000
    assert found["note"].partitions > 5000
    assert 6 <= found["region"].partitions <= 7


@pytest.mark.parametrize("options", [{"fields.day.stats-mode": "none", "fields.at.stats-mode": "none"}, {}])
def test_dates_without_statistics_and_empty_tables(tmp_path: Path, options: dict[str, str]) -> None:
    rows = _rows(2000, 20)
    rows = rows.set_column(2, "day", pa.array([None if i % 2 else d for i, d in enumerate(rows["day"].to_pylist())]))
    table = pp.Table.create(tmp_path / "t", rows.schema, options=options)
    empty = table.index.advise_partition()
    assert (empty.choices, empty.recommended) == ((), None)
    table.append(rows)
    assert _choices(table.index.advise_partition(files=9))["day"].partitions == (21 if options else 20)


def test_keys_and_partitions_that_are_there_are_said(tmp_path: Path) -> None:
    table = _table(tmp_path / "p", _rows(600, 6), partition_by=["region"])
    found = _choices(table.index.advise_partition())
    assert found["region"].reason.startswith("the table is partitioned by it; ")
    table = pp.Table.create(
        tmp_path / "k", _SCHEMA, primary_key=["id"], options={"bucket": "1", "target-file-size": "1 kb"}
    )
    table.append(_rows(600, 6))
    assert "primary key" in _choices(table.index.advise_partition())["region"].reason


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = _table(tmp_path / "t", _rows(6000, 60))
    recorded = tmp_path / "filters"
    recorded.write_text('{"filter": "region = \'b\'", "count": 4}\n', encoding="utf-8")
    assert main(["index", "advise-partition", table.path, "--filters", str(recorded), "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["recommended"] == "region"
    assert main(["index", "advise-partition", table.path, "--files", "1"]) == 0
    assert capsys.readouterr().out.startswith(f"Partition {table.path} by ")
    with pytest.raises(OptionError, match="at least one file"):
        table.index.advise_partition(files=0)
