"""Extreme arguments of public calls: an error of ours or an answer, soon and in bounded memory."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.types.model import parse_type
from paimon_pyds.errors import (
    OptionError,
    PaimonError,
    PredicateError,
    SchemaError,
    SnapshotNotFoundError,
    StorageError,
    redact,
)
from paimon_pyds.storage.faults import storage_faults

ROWS = pa.table({"id": range(50), "s": [f"text {i}" for i in range(50)]})
HALF = "\ud800"
NINES = "9" * 5_000


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> pp.Table:
    made = pp.Table.create(tmp_path_factory.mktemp("bounds") / "t", ROWS.schema)
    made.append(ROWS)
    return made


REFUSED: dict[str, Callable[[pp.Table], Any]] = {
    "rows of top_n": lambda t: t.top_n("id, 99999999999999999999"),
    "digits of top_n": lambda t: t.top_n(f"id, {NINES}"),
    "columns of top_n": lambda t: t.top_n(", ".join(["id"] * 20_000) + ", 1"),
    "limit": lambda t: t.scan(limit=10**30),
    "limit of 64 bits": lambda t: t.scan(limit=2**63),
    "digits of a limit": lambda t: t.scan(limit=10**5_000),
    "snapshot": lambda t: t.scan(snapshot=2**70),
    "digits of a snapshot": lambda t: t.scan(snapshot=-(10**5_000)),
    "timestamp": lambda t: t.scan(timestamp=10**5_000),
    "option": lambda t: t.scan(options={"scan.snapshot-id": 10**5_000}),
    "tag": lambda t: t.scan(tag=HALF).to_arrow(),
    "length of a tag": lambda t: t.scan(tag="x" * 100_000).to_arrow(),
    "path": lambda t: pp.Table.open(f"/tmp/{HALF}"),
    "length of a path": lambda t: pp.Table.open("/tmp/" + "x" * 100_000),
    "branch": lambda t: pp.Table.open(t.path, branch=HALF),
    "column": lambda t: t.scan(columns=[HALF]),
    "filter": lambda t: t.scan(f"s = '{HALF}'").to_arrow(),
    "option of a table": lambda t: t.alter(set_options={"owner": HALF}),
    "key of an option": lambda t: t.alter(set_options={f"my.{HALF}": "1"}),
    "commit user": lambda t: t.append(ROWS, options={"commit.user-prefix": HALF}),
    "wildcards": lambda t: t.scan(f"s LIKE '{'%a' * 100_000}'").to_arrow(),
    "single wildcards": lambda t: t.count(f"s NOT LIKE '{'_' * 100_000}'"),
    "wildcards of an expression": lambda t: t.update({"s": f"if(s ILIKE '{'%a_' * 100_000}', '', s)"}),
    "no rows in a file": lambda t: t.append(ROWS, options={"target-file-row-num": "0"}),
    "fewer rows in a file": lambda t: t.append(ROWS, options={"target-file-row-num": "-1"}),
    "digits of a type": lambda t: t.update({"s": f"cast(cast(id as decimal({NINES}, 0)) as string)"}),
    "length of an option": lambda t: t.append(ROWS, options={"metadata.stats-mode": NINES}),
    "name of a new tag": lambda t: t.tags.create(HALF),
    "name of a new branch": lambda t: t.branches.create(HALF),
    "name of a renamed column": lambda t: t.alter(rename_columns={"s": HALF}),
    "name of a column within another": lambda t: t.alter(add_columns={"n": f"ROW<`{HALF}` INT>"}),
    "name of a column of a new table": lambda t: pp.Table.create(f"{t.path}x", {f"a{HALF}": [1]}),
    "name of an appended column": lambda t: t.append({"id": [1], HALF: [1]}),
    "appended text": lambda t: t.append({"id": [1, 2], "s": ["a", HALF]}),
    "appended row": lambda t: t.append([{"id": 1, "s": "a"}, {"id": 2, "s": HALF}]),
    "appended text of pandas": lambda t: t.append(_objects(["a", HALF])),
    "merged row": lambda t: t.merge([{"id": 1, "s": HALF}], ["id"], when_matched="update"),
    "key that is looked up": lambda t: _other(t, primary_key=["s"]).lookup(HALF),
    "partition that is dropped": lambda t: _other(t, partition_by=["s"]).maintenance.drop_partitions([{"s": HALF}]),
    "partition that is overwritten": lambda t: _other(t, partition_by=["s"]).overwrite(ROWS, {"s": HALF}),
    "partition that is done": lambda t: _other(t, partition_by=["s"]).maintenance.mark_partitions_done([{"s": HALF}]),
    "digits of an option": lambda t: t.append(ROWS, options={"target-file-size": 10**5_000}),
    "digits of a state": lambda t: t.snapshots.diff(10**5_000),
    "digits of a filter": lambda t: t.scan(10**5_000),
    "digits of a name": lambda t: t.scan(columns=[10**5_000]),
    "list with digits": lambda t: t.scan(options={"scan.snapshot-id": [10**5_000]}),
    "clause of a merge": lambda t: t.merge(ROWS, ["id"], when_matched=[10**5_000]),
    "order of a compaction": lambda t: t.compact(order_by="id", order=10**5_000),
}


def _objects(texts: list[str]) -> Any:
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame({"id": range(len(texts)), "s": pandas.Series(texts, dtype=object)})


def _other(table: pp.Table, **arguments: Any) -> pp.Table:
    """A table of the same columns with keys or partitions."""
    path = Path(f"{table.path}-{next(iter(arguments))}")
    if path.exists():
        return pp.Table.open(path)
    made = pp.Table.create(
        path, ROWS.schema, options={"bucket": "1"} if "primary_key" in arguments else None, **arguments
    )
    made.append(ROWS)
    return made


@pytest.mark.parametrize("what", REFUSED)
def test_what_goes_too_far_is_refused_by_an_error_of_ours(table: pp.Table, what: str) -> None:
    with pytest.raises(PaimonError) as caught:
        REFUSED[what](table)
    assert 0 < len(str(caught.value)) < 21_000
    assert table.count() == 50


@pytest.mark.parametrize("count", [9223372036854775807, 10**17])
def test_more_rows_than_there_are(table: pp.Table, count: int) -> None:
    assert table.scan(limit=count).to_arrow().num_rows == 50
    assert table.top_n(f"id, {min(count, 10**17)}").num_rows == 50


def test_texts_and_lists_of_megabytes_are_read(table: pp.Table) -> None:
    assert table.count(f"s = '{'x' * 15_000_000}'") == 0
    assert table.count(f"s = '{'its ' * 100_000}' OR `id` = 3") == 1
    assert table.count(f"id IN ({','.join(map(str, range(20_000)))})") == 50


@pytest.mark.parametrize(
    "text", [f"DECIMAL({NINES}, 0)", f"DECIMAL(5, {NINES})", f"VARCHAR({NINES})", f"TIME({NINES})"]
)
def test_types_of_thousands_of_digits(text: str) -> None:
    with pytest.raises(SchemaError, match="not a Paimon type"):
        parse_type(text)


@pytest.mark.parametrize("format_", ["parquet", "orc", "avro"])
def test_a_data_file_that_is_gone_is_named_when_indexes_are_built(tmp_path: Path, format_: str) -> None:
    table = pp.Table.create(tmp_path / "t", ROWS.schema, options={"file.format": format_})
    table.append(ROWS)
    table.alter(set_options={"file-index.bitmap.columns": "id"})
    (gone,) = Path(table.path).rglob("data-*")
    os.unlink(gone)
    with pytest.raises(SnapshotNotFoundError, match=gone.name):
        table.index.build()


def test_a_key_of_azure_that_is_not_base64_is_told_without_the_key() -> None:
    pytest.importorskip("pyarrow.fs", reason="no file systems")
    with pytest.raises(OptionError, match=r"azure\.account-key is not base64") as caught:
        options = {"azure.account-name": "acc", "azure.account-key": "not base64 !!"}
        pp.Table.open("abfss://c@acc.dfs.core.windows.net/t", storage_options=options)
    assert "not base64 !!" not in str(caught.value)


def test_errors_of_a_storage_client_that_are_no_os_errors_become_ours() -> None:
    with pytest.raises(StorageError, match="can't read: strange"), storage_faults("read", "s3://b/k"):
        raise pa.ArrowException("strange\nand long")


def test_long_texts_are_cut_and_stay_without_secrets() -> None:
    assert redact("x" * 1_000_000) == "x" * 1_000_000
    assert "abc" not in redact("a secret=abc " + "y" * 1_000_000)
    assert "abc" not in redact("-" * 5_000 + "my.secret-key = abc")
    told = PredicateError("x" * 1_000_000).message
    assert told.endswith("…") and len(told) < 11_000
