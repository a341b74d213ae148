"""What indexes would cost and bring, and which ones recorded filters call for."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.cli.main import main
from paimon_pyds.errors import OptionError, PredicateError, SnapshotNotFoundError, UnknownColumnError
from paimon_pyds.metadata.partition import PartitionBucket
from paimon_pyds.metadata.planned_file import PlannedFile
from paimon_pyds.ops.index_tools.advise import Advice, AdviceReport
from paimon_pyds.ops.index_tools.cost import sample_files
from paimon_pyds.ops.index_tools.recorded_filters import RecordedFilter, read_recorded

ROWS = 20_000
SCHEMA = pa.schema(
    [
        ("sorted", pa.int64()), ("color", pa.string()), ("user", pa.string()), ("price", pa.float64()),
        ("flag", pa.bool_()), ("amount", pa.decimal128(12, 2)), ("m", pa.map_(pa.string(), pa.string())),
        ("day", pa.int32()),
    ]
)  # fmt: skip


def _rows(number: int) -> pa.Table:
    """One file's rows: users differ from file to file, colors don't, the flag is nearly always true."""
    rng = np.random.default_rng(number)
    ids = np.arange(number * ROWS, (number + 1) * ROWS)
    columns = {
        "sorted": ids,
        "color": [f"color {c}" for c in rng.integers(0, 50, ROWS)],
        "user": [f"user {u}" for u in rng.permutation(ids)],
        "price": rng.random(ROWS) * 1000,
        "flag": rng.random(ROWS) < 0.95,
        "amount": pa.array([int(a) for a in rng.integers(0, 40, ROWS)]).cast(pa.decimal128(21, 2)),
        "m": [[("kind", f"k{i % 20}")] for i in range(ROWS)],
        "day": np.full(ROWS, number % 2),
    }
    arrays = [c.cast(f.type) if isinstance(c := columns[f.name], pa.Array) else pa.array(c, f.type) for f in SCHEMA]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> pp.Table:
    table = pp.Table.create(tmp_path_factory.mktemp("advise") / "t", SCHEMA, partition_by=["day"])
    for number in range(4):
        table.append(_rows(number))
    return table


@pytest.fixture
def table(base: pp.Table) -> pp.Table:
    """The same files, without options of indexes."""
    base.alter(unset_options=[k for k in base.options if k.startswith("file-index.")])
    return base


def _advise(table: pp.Table, *filters: str, **more: Any) -> AdviceReport:
    return table.index.advise(filters, **more)


def _only(report: AdviceReport) -> Advice:
    (advice,) = report.advice
    return advice


# ------------------------------------------------------------------------------------------------------------ rules


@pytest.mark.parametrize(("filter_", "action", "index_type", "because"), [
    ("color = 'color 7'", "add", "bitmap", "50 values in 20,000 rows"),
    ("color IN ('color 1', 'color 2') OR color IS NULL", "add", "bitmap", "names the rows"),
    ("color > 'color 48'", "add", "range-bitmap", "filters have ranges"),
    ("color LIKE 'color 4%'", "add", "range-bitmap", "ranges"),
    ("price BETWEEN 10 AND 11", "add", "range-bitmap", "20,000 values"),
    ("user = 'user 25000'", "add", "bloom-filter", "in 25% of the files"),
    ("amount = 7", "add", "range-bitmap", "names the rows"),
    ("m['kind'] = 'k3'", "add", "bitmap", "20 values"),
    ("NOT flag", "add", "bitmap", "2 values"),
    ("flag", "none", None, "95% of the rows"),
    ("sorted BETWEEN 5 AND 100", "none", None, "statistics leave"),
    ("sorted = 25000", "none", None, "statistics leave"),
    ("day = 1", "none", None, "partition column"),
])  # fmt: skip
def test_each_rule(table: pp.Table, filter_: str, action: str, index_type: str | None, because: str) -> None:
    report = _advise(table, filter_, files=4)
    advice = _only(report)
    assert (advice.action, advice.index_type) == (action, index_type), advice
    assert because in advice.reason
    assert report.notes == ()
    if action == "add":
        assert advice.bytes > 0
        # what is advised can be set, and narrows the filter down
        try:
            table.alter(dict(report.set_options))
            again = _only(_advise(table, filter_, files=4))
            assert (again.action, again.index_type) == ("keep", index_type)
            cost = table.index.cost(filters=[filter_], files=4).filters[0]
            assert cost.rows_kept <= cost.rows / 2
        finally:
            table.alter(unset_options=[k for k in table.options if k.startswith("file-index.")])


@pytest.mark.parametrize("filter_", [
    "color <> 'color 1'", "color NOT IN ('color 1')", "color LIKE '%7'", "contains(color, '7')", "color IS NOT NULL",
    "color = 'color 1' OR contains(user, '9')",
])  # fmt: skip
def test_what_no_index_can_narrow_down(table: pp.Table, filter_: str) -> None:
    report = _advise(table, filter_)
    assert report.advice == ()
    assert report.notes == (f"{filter_}: no index can narrow it down",)


def test_values_that_are_in_every_file_need_their_rows(table: pp.Table) -> None:
    """A bloom filter would skip nothing: the values asked for are everywhere, few rows each."""
    users = " OR ".join(f"user = 'user {ROWS * i + 5}'" for i in range(4))
    advice = _only(_advise(table, users.replace(" OR user = ", ", ").replace("user = ", "user IN (", 1) + ")", files=4))
    assert (advice.action, advice.index_type) == ("add", "range-bitmap")


def test_what_is_configured_is_kept_made_smaller_or_dropped(table: pp.Table) -> None:
    table.alter({
        "file-index.bitmap.columns": "color,user", "file-index.bloom-filter.columns": "user,color,m[kind]",
        "file-index.bloom-filter.m.items": "50", "file-index.range-bitmap.columns": "amount,sorted",
        "file-index.bitmap.color.version": "1"})  # fmt: skip
    report = table.index.advise(
        [RecordedFilter("color = 'color 7' AND amount < 3", 5), RecordedFilter("user = 'user 7'", 2),
         RecordedFilter("nothing = 1"), RecordedFilter("sorted > ")], files=4)  # fmt: skip
    assert {(a.action, a.column, a.index_type) for a in report.advice} == {
        ("keep", "color", "bitmap"), ("drop", "color", "bloom-filter"), ("keep", "amount", "range-bitmap"),
        ("drop", "sorted", "range-bitmap"), ("drop", "m[kind]", "bloom-filter"),
        ("drop", "user", "bitmap"), ("change", "user", "bloom-filter"),
    }  # fmt: skip
    assert [a.uses for a in report.advice[:2]] == [5, 5]
    assert all(a.bytes > 0 for a in report.advice)
    assert dict(report.set_options) == {
        "file-index.bitmap.columns": "color", "file-index.bloom-filter.columns": "user",
        "file-index.bloom-filter.user.items": "24000", "file-index.range-bitmap.columns": "amount",
    }  # fmt: skip
    assert report.unset_options == ("file-index.bloom-filter.m.items",)
    assert [note.split(":")[0] for note in report.notes] == ["nothing = 1", "sorted > "]
    table.alter(dict(report.set_options), report.unset_options)
    after = _advise(table, "color = 'color 7' AND amount < 3", "user = 'user 7'", files=4)
    assert {a.action for a in after.advice} == {"keep"}
    assert (after.set_options, after.unset_options) == ({}, ())
    assert json.loads(json.dumps(after.to_dict()))["filters"] == 2


def test_an_exact_index_that_is_there_will_do(table: pp.Table) -> None:
    table.alter({"file-index.range-bitmap.columns": "color"})
    advice = _only(_advise(table, "color = 'color 7'"))
    assert (advice.action, advice.index_type) == ("keep", "range-bitmap")
    assert "it exists" in advice.reason


def test_without_files_or_filters(tmp_path: Path, table: pp.Table) -> None:
    empty = pp.Table.create(tmp_path / "t", SCHEMA, options={"file-index.bitmap.columns": "color"})
    report = _advise(empty, "color = 'x'")
    assert (report.sampled_files, _only(report).action) == (0, "keep")
    assert _only(report).reason == "there is no file to look at yet"
    assert (report.set_options, report.unset_options) == ({}, ())
    table.alter({"file-index.bitmap.columns": "color"})
    assert [(a.action, a.reason) for a in _advise(table).advice] == [("drop", "no recorded filter uses it")]


def test_partitions_to_sample_from(table: pp.Table) -> None:
    assert _advise(table, "color = 'color 1'", where="day = 1").files == 2
    with pytest.raises(OptionError, match="index advise takes conditions on partition columns"):
        _advise(table, where="color = 'x'")


# ------------------------------------------------------------------------------------------------- recorded filters


def test_recorded_filters_are_lines_or_json() -> None:
    lines = ["# of last week", "", "a = 1", '{"filter": "b > 2", "count": 7}', "  a = 1  ", "-- end", '{"filter": "c"}']
    assert read_recorded(lines) == [RecordedFilter("a = 1", 2), RecordedFilter("b > 2", 7), RecordedFilter("c", 1)]


@pytest.mark.parametrize(
    "line", ['{"filter": 1}', '{"filter": "a", "count": 0}', '{"filter": "a", "count": true}', "{"]
)
def test_recorded_filters_that_are_none(line: str) -> None:
    with pytest.raises(OptionError, match="line 2"):
        read_recorded(["a = 1", line])


# ------------------------------------------------------------------------------------------------------------- cost


def test_cost_of_indexes_that_are_not_there(table: pp.Table) -> None:
    options = {
        "file-index.bitmap.columns": "color", "file-index.range-bitmap.columns": "price",
        "file-index.bloom-filter.columns": "user", "file-index.bloom-filter.user.items": str(ROWS),
    }  # fmt: skip
    filters = ["color = 'color 7'", "price < 10 AND color = 'color 7'", "user = 'user 25000'", "sorted = 7", "true"]
    report = table.index.cost(options, filters, files=2)
    assert (report.files, report.rows, report.sampled_files, report.sampled_rows) == (4, 4 * ROWS, 2, 2 * ROWS)
    assert (report.embedded, report.side) == (0, 2)
    sizes = {(c.column, c.index_type): c for c in report.indexes}
    assert set(sizes) == {("color", "bitmap"), ("price", "range-bitmap"), ("user", "bloom-filter")}
    assert all(
        c.projected_bytes == 2 * c.bytes > 0 and c.projected_seconds > 0 and c.files == 2 for c in report.indexes
    )
    assert report.sampled_index_bytes > sum(c.bytes for c in report.indexes)
    assert report.projected_bytes == 2 * report.sampled_index_bytes
    bitmap, both, bloom, none, all_ = report.filters
    rows = {f: table.scan(f).to_arrow().num_rows for f in filters[:2]}
    assert bitmap.rows_kept == bitmap.rows_matching
    assert 0 < both.rows_matching == both.rows_kept < bitmap.rows_kept < rows[filters[0]]
    assert (bitmap.exact, both.exact, bitmap.files_kept) == (True, True, 2)
    assert bloom.files_matching <= bloom.files_kept < 2
    assert (none.rows_kept, none.exact, none.rows_matching) == (2 * ROWS, False, none.files_matching)
    assert all_.rows_matching == all_.rows_kept == 2 * ROWS
    assert 0 < bitmap.index_bytes < report.sampled_index_bytes
    assert table.schema.options.get("file-index.bitmap.columns") is None, "nothing was changed"
    assert json.loads(json.dumps(report.to_dict()))["projected_bytes"] == report.projected_bytes


def test_cost_of_what_is_configured(table: pp.Table) -> None:
    table.alter({"file-index.bitmap.columns": "flag", "file-index.in-manifest-threshold": "1mb"})
    report = table.index.cost(files=4)
    assert (report.embedded, report.side, [c.column for c in report.indexes]) == (4, 0, ["flag"])
    assert table.index.cost({"file-index.in-manifest-threshold": "1b"}).indexes == []
    table.alter(rename_columns={"color": "hue"})
    try:
        report = table.index.cost({"file-index.bitmap.columns": "hue"}, ["hue = 'color 3'"], files=1)
        assert [c.column for c in report.indexes] == ["hue"]
        assert report.filters[0].rows_kept == report.filters[0].rows_matching > 0
    finally:
        table.alter(rename_columns={"hue": "color"})


def test_cost_of_what_is_wrong(table: pp.Table) -> None:
    with pytest.raises(UnknownColumnError, match="no column colour"):
        table.index.cost({"file-index.bitmap.columns": "colour"})
    with pytest.raises(PredicateError, match="nothing"):
        table.index.cost(filters=["nothing = 1"])
    with pytest.raises(OptionError, match="at least one file"):
        table.index.cost(files=0)


def test_samples_are_spread_and_stable() -> None:
    files = [PlannedFile(f"/t/f{i:02}", 10, 5 if i else 0, 0, PartitionBucket(b"", 0)) for i in range(20)]
    assert sample_files(files, 30) == files[1:]
    chosen = sample_files(files, 4)
    assert len(chosen) == 4 == len({f.path for f in chosen})
    assert chosen == sample_files(files[::-1], 4)


def test_an_index_larger_than_the_data_is_noted(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    values = [f"{v:04d}{'wide' * 60}" for v in range(6_000)]
    table = pp.Table.create(tmp_path / "t", pa.schema([("wide", pa.string())]))
    for _ in range(3):
        table.append(pa.table({"wide": [values[i] for i in rng.permutation(6_000)]}))
    report = table.index.advise([f"wide = '{values[77]}'"])
    (advice,) = report.advice
    assert (advice.action, advice.index_type) == ("add", "range-bitmap")
    data = sum(table.system.read("files").column("file_size_in_bytes").to_pylist())
    assert advice.bytes > 2 * data
    assert [note.split(":")[0] for note in report.notes] == ["range-bitmap of wide"]


def test_cost_foretells_what_a_rebuild_does(tmp_path: Path) -> None:
    built = pp.Table.create(tmp_path / "t", SCHEMA, options={"file-index.in-manifest-threshold": "1b"})
    for number in range(3):
        built.append(_rows(number))
    indexes = {
        "file-index.bitmap.columns": "color",
        "file-index.range-bitmap.columns": "price,amount",
        "file-index.bloom-filter.columns": "user",
        "file-index.bloom-filter.user.items": str(ROWS),
    }
    filters = ["color = 'color 7'", "price < 0.5", "amount IN (3, 5) AND color <> 'color 1'", "user = 'user 25000'"]
    cost = built.index.cost(indexes, filters, files=3)
    built.alter(indexes)
    summary = built.index.build()
    sizes: dict[tuple[str, str], int] = {}
    for item in built.index.dump():
        sizes[item.column, item.index_type] = sizes.get((item.column, item.index_type), 0) + item.size
    assert {(c.column, c.index_type): c.bytes for c in cost.indexes} == sizes
    assert summary.built == 12
    for asked in cost.filters:
        (step,) = [s for s in built.explain(asked.filter).steps if s.name == "side index"]
        assert (step.files, step.rows) == (asked.files_kept, asked.rows_kept), asked.filter


def test_indexes_that_outgrow_the_data_are_told_once_and_before(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = pa.table({"id": range(1000), "s": [f"s{i % 7}" for i in range(1000)]})
    options = {"file-index.bloom-filter.columns": "s"}
    table = pp.Table.create(tmp_path / "t", rows.schema)
    table.append(rows)
    advice = "file-index.bloom-filter.s.items is 1,000,000, and a file has 1,000 rows: set it to the distinct values"
    assert advice in table.index.cost(options).size_advice
    assert not table.index.cost({**options, "file-index.bloom-filter.s.items": "7"}).size_advice
    assert main(["index", "cost", table.path, "--option", "file-index.bloom-filter.columns=s"]) == 0
    assert f"the indexes are larger than the data: {advice}" in capsys.readouterr().out
    assert not caplog.messages
    table.alter(options)
    table.append(rows)
    table.append(rows)
    (message,) = caplog.messages
    assert message.startswith(f"{table.path}: the indexes of a file take 58") and advice in message
    sized = pp.Table.create(tmp_path / "sized", rows.schema, options={**options, "file-index.bloom-filter.s.items": 7})
    sized.append(rows)
    assert len(caplog.messages) == 1
    rewritten = pp.Table.create(tmp_path / "rewritten", rows.schema)
    rewritten.append(rows)
    rewritten.alter(options)
    rewritten.index.build()
    assert [m.startswith(f"{rewritten.path}: the indexes of a file take 58") for m in caplog.messages] == [False, True]
    both = table.index.cost({"file-index.bloom-filter.columns": "id,s"}).size_advice
    assert "bloom-filter.id.items is 1,000,000, file-index.bloom-filter.s.items is 1,000,000, and" in both
    bitmap = table.index.cost({"file-index.bitmap.columns": "id"}).size_advice
    assert bitmap.endswith("from file-index.bitmap.columns (it is id) to file-index.bloom-filter.columns")
    others = table.index.cost({"file-index.bsi.columns": "id", "file-index.range-bitmap.columns": "id"}).size_advice
    assert others.endswith("no filter uses from file-index.bsi.columns and file-index.range-bitmap.columns")


@pytest.mark.parametrize(
    "sample",
    [
        lambda table: table.index.cost(options={"file-index.bitmap.columns": "id"}),
        lambda table: table.index.advise("id = 3"),
        lambda table: table.index.advise_partition("id"),
    ],
)
def test_a_data_file_that_is_gone(sample: Callable[[pp.Table], object], tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", {"id": [1, 2, 3], "s": ["a", "b", "c"]})
    Path(table.system.read("files")["file_path"][0].as_py()).unlink()
    with pytest.raises(SnapshotNotFoundError, match="a file of the table is gone"):
        sample(table)
