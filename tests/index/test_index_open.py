"""Indexes that stay open between queries: who gets which, what stays, and that answers are those of fresh ones."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import CorruptFileError
from paimon_pyds.index.evaluate import OPEN_INDEXES, open_embedded_index, open_side_index
from paimon_pyds.storage.local import LocalFileIO
from paimon_pyds.storage.object_store import ObjectStoreFileIO

pytestmark = pytest.mark.filterwarnings("ignore:the bsi index:DeprecationWarning")

INDEXED = {
    "file-index.bitmap.columns": "code",
    "file-index.range-bitmap.columns": "price",
    "file-index.bsi.columns": "day",
    "file-index.bloom-filter.columns": "name",
    "write-only": "true",
}
FILES, ROWS = 3, 2_000
FILTERS = [
    template.format(n)
    for n in (3, 7)
    for template in (
        "code = {}",
        "code IN ({}, 40, 41)",
        "code > 4{}",
        "price BETWEEN 0.{} AND 0.9",
        "day >= -2{}",
        "name = 'n{}' OR day = 5",
        "code IS NULL AND NOT price < 0.{}",
    )
]


@pytest.fixture(autouse=True)
def _nothing_open() -> Iterator[None]:
    OPEN_INDEXES.clear()
    yield
    OPEN_INDEXES.clear()


def batch(seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    code = rng.integers(0, 50, ROWS)
    return pa.table(
        {
            "id": rng.permutation(ROWS),
            "code": pa.array(code.astype(np.int32), mask=code == 49),
            "price": rng.random(ROWS),
            "day": rng.integers(-30, 30, ROWS).astype(np.int32),
            "name": [f"n{n}" for n in rng.integers(0, 2000, ROWS)],
        }
    )


def make(path: Path, options: dict[str, str]) -> pp.Table:
    table = pp.Table.create(path, batch(0).schema, options=options)
    for seed in range(FILES):
        table.append(batch(seed))
    return table


@pytest.fixture
def table(tmp_path: Path) -> pp.Table:
    return make(tmp_path / "t", INDEXED)


@pytest.mark.parametrize("options", [{}, {"file-index.in-manifest-threshold": "1 mb"}], ids=["side", "embedded"])
def test_answers_are_those_of_indexes_that_are_opened_anew(tmp_path: Path, options: dict[str, str]) -> None:
    table = make(tmp_path / "t", INDEXED | options)
    plain = {"file-index.read.enabled": "false"}
    expected = {text: table.scan(text, options=plain).to_arrow().to_pylist() for text in FILTERS}
    for text in [*FILTERS, *reversed(FILTERS)]:
        assert table.scan(text).answer.count().value == len(expected[text])
        assert table.scan(text).to_arrow().to_pylist() == expected[text]
        best = table.scan(text).answer.top_n("price desc, 5").value.column("price").to_pylist()
        assert best == sorted((row["price"] for row in expected[text]), reverse=True)[:5]
    assert OPEN_INDEXES.weight > 0


def test_a_second_query_reads_no_index_again(table: pp.Table) -> None:
    first = table.scan("code = 3").answer.count()
    again = pp.Table.open(table.path).scan("code = 3").answer.count()
    assert (first.value, first.files_read) == (again.value, again.files_read)
    assert first.bytes_read > 0
    assert again.bytes_read == 0
    read: list[int] = []
    for _ in table.scan("code = 3").to_batches(on_file=lambda trace: read.append(trace.counters.index_bytes)):
        pass
    assert read == [0] * FILES


def test_another_identity_reads_for_itself(table: pp.Table) -> None:
    class Wrapped(LocalFileIO):
        """Another storage, as it tells no one that it is equal."""

        __eq__ = object.__eq__
        __hash__ = object.__hash__

    path = table.scan().plan().files[0].index_path
    assert path is not None
    first, other = LocalFileIO(), Wrapped()
    with open_side_index(first, path) as index:
        assert index.bytes_read > 0
    for io, kept in ((LocalFileIO(), True), (other, False), (Wrapped(), False), (other, True)):
        with open_side_index(io, path) as index:
            assert (index.bytes_read == 0) is kept


def test_object_stores_are_known_by_what_they_are_reached_with(monkeypatch: pytest.MonkeyPatch) -> None:
    def io(**options: str) -> ObjectStoreFileIO:
        return ObjectStoreFileIO("s3://bucket/t", {f"s3.{k.replace('_', '-')}": v for k, v in options.items()})

    mine = io(access_key="me", secret_key="mine")
    assert mine == io(access_key="me", secret_key="mine")
    assert hash(mine) == hash(io(access_key="me", secret_key="mine"))
    assert mine not in (io(access_key="me", secret_key="yours"), io(), ObjectStoreFileIO("s3://other/t", {}))
    before = io()
    assert before == io()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "somebody else")
    assert before != io()


def test_an_index_in_use_is_not_shared(table: pp.Table) -> None:
    path = table.scan().plan().files[0].index_path
    assert path is not None
    with open_side_index(LocalFileIO(), path) as one, open_side_index(LocalFileIO(), path) as other:
        assert one is not other
    with ThreadPoolExecutor(8) as pool:
        counts = list(pool.map(lambda n: table.scan(FILTERS[n % 4]).answer.count().value, range(64)))
    assert counts == [table.scan(FILTERS[n % 4]).answer.count().value for n in range(64)]


def test_an_index_that_was_found_damaged_is_opened_again(table: pp.Table) -> None:
    path = table.scan().plan().files[0].index_path
    assert path is not None
    whole = Path(path).read_bytes()
    Path(path).write_bytes(whole[:200] + bytes(len(whole) - 200))
    with pytest.raises(CorruptFileError):
        table.scan("code = 3").answer.count()
    Path(path).write_bytes(whole)
    assert table.scan("code = 3").answer.count().value == table.scan("code = 3").to_arrow().num_rows
    with pytest.raises(CorruptFileError), open_embedded_index(b"no index", "data-0.parquet"):
        pass


def test_what_is_kept_is_bounded(table: pp.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in FILTERS:
        table.scan(text).answer.count()
    held = OPEN_INDEXES.weight
    side = [Path(task.index_path).stat().st_size for task in table.scan().plan().files if task.index_path]
    assert sum(side) // 4 < held < 20 * sum(side)
    OPEN_INDEXES.clear()
    monkeypatch.setattr(OPEN_INDEXES, "limit", held // 2)
    for text in FILTERS:
        table.scan(text).answer.count()
        assert OPEN_INDEXES.weight <= held // 2
    assert OPEN_INDEXES.weight > 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_opens_its_own(table: pp.Table) -> None:
    table.scan("code = 3").answer.count()
    assert OPEN_INDEXES.weight > 0
    child = os.fork()
    if not child:
        os._exit(0 if OPEN_INDEXES.weight == 0 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert OPEN_INDEXES.weight > 0
