"""The sections of many small buckets are merged together: the same rows, in the same order, as section by section."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.engine.read import small_files, small_sections
from paimon_pyds.engine.read.live_rows import FileTrace
from paimon_pyds.engine.read.small_files import joined_files
from paimon_pyds.engine.read.split_read import read_splits
from paimon_pyds.engine.write import key_writer, small_key_files
from paimon_pyds.errors import CorruptFileError
from paimon_pyds.keys.merge.merger import RowMerger
from paimon_pyds.metadata.split import sections
from support.effort import LONG, SEED, sampled

_ENGINES: list[dict[str, str]] = [
    {},
    {"sequence.field": "v"},
    {"merge-engine": "partial-update"},
    {"merge-engine": "partial-update", "fields.v.sequence-group": "s"},
    {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum", "fields.s.aggregate-function": "listagg"},
    {"merge-engine": "deduplicate", "changelog-producer": "lookup"},
    {"merge-engine": "deduplicate", "ignore-delete": "true"},
    {"deletion-vectors.enabled": "true", "deletion-vectors.merge-on-read": "true"},
    {"file-index.bloom-filter.columns": "v"},
    {"file-index.bitmap.columns": "k", "file-index.in-manifest-threshold": "1 b"},
    {"merge-engine": "partial-update", "fields.v.sequence-group": "s", "fields.s.aggregate-function": "listagg"},
    {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
    {
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "max",
        "aggregation.remove-record-on-delete": "true",
    },
    {"sequence.field": "v,s", "sequence.field.sort-order": "descending"},
]
_COLUMNS = {"p": "INT NOT NULL", "k": "BIGINT NOT NULL", "v": "INT", "s": "STRING"}
_FILTERS = (None, "v > 2", "s = 'a' AND p <> 1", "k < 30 AND v IS NOT NULL", "k = 7", "k % 2 = 0 AND k <> 4", "v < 0")


def _alone(table: pp.Table, where: str | None, **scan: Any) -> pa.Table:
    with mock.patch.object(small_files, "MOST_ROWS", 0):
        return table.scan(where, **scan).to_arrow()


@pytest.mark.parametrize("options", sampled(_ENGINES, 8), ids=lambda options: ",".join(options) or "plain")
@pytest.mark.parametrize("seed", range(12 if LONG else 1))
def test_random_tables_are_merged_as_section_by_section(tmp_path: Path, options: dict[str, str], seed: int) -> None:
    choose = random.Random(seed)
    options = {"bucket": choose.choice(["1", "3"]), "write-only": "true", **options}
    table = pp.Table.create(tmp_path / "t", _COLUMNS, primary_key=["p", "k"], partition_by="p", options=options)
    by_default = options.get("merge-engine", "deduplicate") == "deduplicate" and "ignore-delete" not in options
    deletes = by_default or any("remove-record-on-delete" in name for name in options)
    for step in range(4):
        ids = {choose.randrange(80) for _ in range(choose.randint(1, 60))}
        rows = [
            {"p": i % 9, "k": i, "v": choose.choice([None, step, -step]), "s": choose.choice(["a", None, "bc"])}
            for i in ids
        ]
        table.append(pa.Table.from_pylist(rows, table.arrow_schema))
        if deletes and choose.random() < 0.5:
            table.delete(f"k % 7 = {step}")
        if step == 2:
            if choose.random() < 0.5:
                pp.Table.open(table.path).compact(where="p < 4", full=choose.random() < 0.5)
            table.alter(add_columns={"more": "DATE"})
    plan = table.scan().plan()
    spec, files = plan.splits[0].spec, list(plan.files)
    assert any(file.merged for file in files)
    groups = [len(sections(group)) for group in joined_files(spec, sections(files))]
    assert max(groups) > 1 or seed > 0  # others may have no neighbours of one schema
    some = random.Random(f"{SEED} {seed} {options}")
    for where in _FILTERS if LONG else some.sample(_FILTERS, 2):
        columns, limit = choose.choice([None, ["s"], ["k", "v"], []]), choose.choice([None, None, 3])
        expected = _alone(table, where, columns=columns, limit=limit)
        assert table.scan(where, columns=columns, limit=limit).to_arrow().equals(expected)
    everything = _alone(table, None)
    assert table.scan().to_arrow().equals(everything)
    for bound in ("MOST_BYTES", "_MOST_DECODED"):
        with mock.patch.object(small_sections, bound, 1):
            assert table.scan().to_arrow().equals(everything)


@pytest.fixture
def table(tmp_path: Path) -> pp.Table:
    """Twelve partitions of two files each."""
    made = pp.Table.create(
        tmp_path / "t",
        _COLUMNS,
        primary_key=["p", "k"],
        partition_by="p",
        options={"bucket": "1", "write-only": "true"},
    )
    for step in range(2):
        rows = [{"p": i % 12, "k": i, "v": step, "s": f"s{i}"} for i in range(0, 120, 1 + step)]
        made.append(pa.Table.from_pylist(rows, made.arrow_schema))
    return made


def test_traces_have_what_happened_to_each_section(table: pp.Table) -> None:
    plan = table.scan("v = 1").plan()
    traces: list[FileTrace] = []
    batches = list(read_splits(plan.splits[0].spec, list(plan.files), on_file=traces.append))
    assert sum(batch.num_rows for batch in batches) == 60
    assert len(traces) == len(plan.files)
    notes = {id(trace.section): trace.section for trace in traces if trace.section is not None}
    assert sum(note.rows_returned for note in notes.values()) == 60
    assert sum(note.versions for note in notes.values()) == sum(trace.rows_returned for trace in traces)
    assert "its files are small" in {note.reason for note in notes.values()}
    assert all(note.rows >= note.versions >= note.rows_returned for note in notes.values())


class _Reversed(RowMerger):
    """A writer of rows in descending order."""

    def merge(self, rows: pa.Table | pa.RecordBatch, columns: Any = None) -> pa.RecordBatch:
        merged = super().merge(rows, columns)
        return merged.take(pa.array(range(merged.num_rows)[::-1]))


def test_a_file_that_is_not_sorted_is_named(table: pp.Table) -> None:
    before = {file.name for file in table.scan().plan().files}
    with (
        mock.patch.object(key_writer, "RowMerger", _Reversed),
        mock.patch.object(small_key_files, "RowMerger", _Reversed),
    ):
        table.append(pa.Table.from_pylist([{"p": 5, "k": i, "v": 9} for i in (5, 17, 29)], table.arrow_schema))
    (name,) = {file.name for file in table.scan().plan().files} - before
    with pytest.raises(CorruptFileError, match="not sorted by its keys") as caught:
        table.scan().to_arrow()
    assert name in str(caught.value)


def test_damage_never_gives_other_rows(table: pp.Table) -> None:
    expected = table.scan().to_arrow()
    path = Path(sorted(table.scan().plan().files, key=lambda file: file.path)[7].path)
    whole = path.read_bytes()
    for at in sampled(range(len(whole)), 9):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        try:
            found = table.scan().to_arrow()
        except CorruptFileError as error:
            assert path.name in str(error)
        else:
            assert found.equals(expected), at


def test_files_without_a_live_row_are_left_out(tmp_path: Path) -> None:
    options = {"bucket": "1", "write-only": "true", "file-index.bitmap.columns": "k"}
    options["file-index.in-manifest-threshold"] = "1 b"
    table = pp.Table.create(tmp_path / "t", _COLUMNS, primary_key=["p", "k"], partition_by="p", options=options)
    for step in range(3):  # each key is in the middle file, or in the others
        rows = [{"p": p, "k": 2 * k + step % 2, "v": step, "s": "a"} for p in range(12) for k in range(10)]
        table.append(pa.Table.from_pylist(rows, table.arrow_schema))
    for where in ("k = 4", "k = 5", "k IN (3, 7, 100)", "k % 2 = 0 AND k <> 4"):
        found = table.scan(where).to_arrow()
        assert found.num_rows > 0 and found.equals(_alone(table, where)), where
