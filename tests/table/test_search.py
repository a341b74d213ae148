"""Searches for vectors and texts: what indexes give is what all rows give, whoever built them, whatever they cover."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.cli.main import main
from paimon_pyds.errors import CorruptFileError, OptionError, SchemaError, UnknownColumnError, UnsupportedError
from support.effort import LONG, SEED
from support.peers import Pypaimon

pytest.importorskip("paimon_vindex")
pytest.importorskip("paimon_ftindex")

OPTIONS = {
    "row-tracking.enabled": "true", "data-evolution.enabled": "true", "deletion-vectors.enabled": "true",
    "global-index.column-update-action": "IGNORE", "global-index.row-count-per-shard": "40",
    "fields.v.distance.metric": "l2",
}  # fmt: skip
COLUMNS = "id INT, v VECTOR<FLOAT, 3>, s STRING"
SCORE = "__paimon_search_score"
WORDS = ("fox", "dog", "bird", "lazy", "quick")


def rows(start: int, stop: int, rng: random.Random) -> list[dict[str, Any]]:
    def vector() -> list[float]:
        return [float(rng.randrange(-3, 4)) for _ in range(3)]

    def text() -> str:
        return " ".join(rng.choices(WORDS, k=rng.randrange(1, 4)))

    return [
        {"id": i, "v": None if rng.random() < 0.1 else vector(), "s": None if rng.random() < 0.1 else text()}
        for i in range(start, stop)
    ]


def append(table: pp.Table, some: list[dict[str, Any]]) -> None:
    table.append(pa.Table.from_pylist(some, table.arrow_schema))


@pytest.fixture
def table(tmp_path: Path) -> pp.Table:
    made = pp.Table.create(str(tmp_path / "t"), COLUMNS, options=OPTIONS)
    append(made, rows(0, 100, random.Random(7)))
    return made


def similar(stored: list[float], vector: list[float], metric: str) -> float:
    a, b = np.array(stored), np.array(vector)
    if metric == "l2":
        return float(1 / (1 + ((a - b) ** 2).sum()))
    length = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) if metric == "inner_product" else float(a @ b) / length if length else 0.0


def nearest(
    table: pp.Table, condition: str | None, vector: list[float], k: int, metric: str
) -> list[tuple[float, int]]:
    """By all rows: scores and ids, the best first."""
    found = [
        (similar(row["v"], vector, metric), row["_ROW_ID"])
        for row in table.scan(condition, columns=["v", "_ROW_ID"]).to_arrow().to_pylist()
        if row["v"] is not None
    ]
    return sorted(found, key=lambda one: (-one[0], one[1]))[:k]


def matching(table: pp.Table, condition: str | None, word: str) -> set[int]:
    found = table.scan(condition, columns=["s", "_ROW_ID"]).to_arrow().to_pylist()
    return {row["_ROW_ID"] for row in found if word in (row["s"] or "").split()}


@pytest.mark.parametrize("number", range(100 if LONG else 2))
def test_searches_of_a_table_that_changes_find_what_all_rows_give(table: pp.Table, number: int) -> None:
    rng = random.Random(f"{SEED} {number}")
    last = 100
    for _ in range(10 if LONG else 6):
        match rng.choice(["append", "build", "build", "update", "delete"]):
            case "append":
                append(table, rows(last, last := last + rng.randrange(1, 60), rng))
            case "build":
                column, kind = rng.choice([("v", "ivf-flat"), ("v", "ivf-flat"), ("s", "full-text")])
                # one list: the index leaves nothing out
                table.index.build_global(column, kind=kind, rebuild=rng.random() < 0.3, options={"ivf-flat.nlist": "1"})
            case "update":
                new = {"v": "array(1, id % 3, 2)"} if rng.random() < 0.5 else {"s": "'quick bird'"}
                table.update(new, f"id % 17 = {rng.randrange(17)}")
            case _:
                table.delete(f"id % 13 = {rng.randrange(13)}")
        condition = rng.choice([None, None, f"id < {rng.randrange(1, last)}", "s LIKE '%fox%'"])
        vector, k = [float(rng.randrange(-3, 4)) for _ in range(3)], rng.choice([1, 5, 30, 1000])
        metric = rng.choice(["l2", "cosine", "inner_product"])
        scan = table.scan(condition, columns=["id"])
        for exact in (True, False):
            found = scan.search(column="v", vector=vector, k=k, metric=metric, exact=exact)
            wanted = nearest(table, condition, vector, k, metric)
            assert found.column_names == ["id", "_ROW_ID", SCORE]
            assert np.allclose(found[SCORE].to_numpy(), [score for score, _ in wanted], rtol=1e-6)
            if metric != "cosine" and (exact or k == 1000):  # of rows that score as the last one, an index gives any
                assert found["_ROW_ID"].to_pylist() == [id_ for _, id_ in wanted]
        word = rng.choice(WORDS)
        hits = scan.search(column="s", text=word, k=1000)
        assert set(hits["_ROW_ID"].to_pylist()) == matching(table, condition, word)
        assert sorted(hits[SCORE].to_pylist(), reverse=True) == hits[SCORE].to_pylist()


def files_of(table: pp.Table, kind: str) -> list[Path]:
    return sorted(Path(table.path, "index").glob(f"*{kind}-global-index-*"))


def test_indexes_within_a_file_cover_it_together(table: pp.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    assert table.index.build_global("v", kind="ivf-flat").built == 3
    assert table.index.build_global("v", kind="ivf-flat").built == 0
    opened: list[str] = []
    reads = []
    from paimon_pyds.engine.query import search

    asked, read = search.nearest, search.read_splits

    def note(kind: str, source: Any, *rest: Any) -> Any:
        opened.append(source.name)
        return asked(kind, source, *rest)

    def count(*args: Any, **how: Any) -> Iterator[pa.RecordBatch]:
        for batch in read(*args, **how):
            reads.append(batch.num_rows)
            yield batch

    monkeypatch.setattr(search, "nearest", note)
    monkeypatch.setattr(search, "read_splits", count)
    assert table.scan().search(column="v", vector=[1, 2, 3], k=2).num_rows == 2
    assert sorted(opened) == [str(path) for path in files_of(table, "ivf-flat")]
    assert sum(reads) == 3 * 2 + 2  # two of each index, then the rows
    table.update({"v": "array(0, 0, 0)"}, "id = 3")
    opened.clear()
    assert table.scan("id = 3").search(column="v", vector=[0, 0, 0], k=1)[SCORE].to_pylist() == [1.0]
    assert not opened  # the column of the file was written since


@pytest.mark.parametrize("kind", ["ivf-flat", "ivf-sq", "ivf-rq", "ivf-pq", "diskann"])
def test_every_kind_of_index_gives_true_scores(tmp_path: Path, kind: str) -> None:
    options = {**OPTIONS, "global-index.row-count-per-shard": "100000"}
    table = pp.Table.create(str(tmp_path / "t"), "id INT, v ARRAY<FLOAT>", options=options)
    vectors = np.random.default_rng(3).standard_normal((400, 8)).astype(np.float32)
    append(table, [{"id": i, "v": vector} for i, vector in enumerate(vectors.tolist())])
    assert table.index.build_global("v", kind=kind).rows == 400
    found = table.scan().search(column="v", vector=vectors[77].tolist(), k=10).to_pylist()
    assert (found[0]["id"], found[0][SCORE]) == (77, 1.0)
    assert all(row[SCORE] == np.float32(similar(row["v"], vectors[77].tolist(), "l2")) for row in found)
    best = table.scan().search(column="v", vector=vectors[77].tolist(), k=10, exact=True)["id"].to_pylist()
    assert len({row["id"] for row in found} & set(best)) >= 7
    assert table.index.drop_global("v", kind=kind).dropped == 1


def test_tables_without_row_ids_are_searched_by_all_rows(tmp_path: Path) -> None:
    table = pp.Table.create(
        str(tmp_path / "t"), "id INT, v ARRAY<DOUBLE>, s STRING", primary_key=["id"], options={"bucket": "1"}
    )
    append(table, [{"id": i, "v": [0.1 * i, 1.0], "s": f"word{i % 3}"} for i in range(10)])
    append(table, [{"id": 4, "v": [9.0, 9.0], "s": "word9"}])
    found = table.scan("id <> 5", columns=["s"]).search(column="v", vector=[0.4, 1.0], k=2, metric="l2").to_pylist()
    assert [row["s"] for row in found] == ["word0", "word2"]  # 3 and 2: 4 has another vector now
    assert [row[SCORE] for row in found] == pytest.approx([1 / 1.01, 1 / 1.04])
    assert table.scan(columns=["id"]).search(column="s", text="word9", k=9)["id"].to_pylist() == [4]


def test_without_the_packages(table: pp.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    table.index.build_global("v", kind="ivf-flat")
    wanted = table.scan().search(column="v", vector=[1, 2, 3], exact=True)
    monkeypatch.setitem(sys.modules, "paimon_vindex", None)
    monkeypatch.setitem(sys.modules, "paimon_ftindex", None)
    assert table.scan().search(column="v", vector=[1, 2, 3]) == wanted
    with pytest.raises(UnsupportedError, match="paimon-ftindex"):
        table.scan().search(column="s", text="fox")
    with pytest.raises(UnsupportedError, match="paimon-vindex"):
        table.index.build_global("v", kind="ivf-flat")


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Pypaimon:
    return Pypaimon(tmp_path_factory.mktemp("peer") / "warehouse")


QUERY = json.dumps({"match": {"query": "quick"}})


def test_pypaimon_and_this_package_find_rows_by_indexes_of_each_other(peer: Pypaimon) -> None:
    schema = pa.schema([("id", pa.int32()), ("v", pa.list_(pa.float32(), 3)), ("s", pa.string())])
    path = peer.create("searched", schema, [], [], OPTIONS | {"deletion-vectors.enabled": "false"})
    table, rng = pp.Table.open(path), random.Random(5)
    append(table, [row for row in rows(0, 300, rng) if row["v"] is not None])  # pypaimon can't write NULL
    peer.index("searched", "v", "ivf-flat")
    peer.index("searched", "s", "full-text")
    theirs = len(files_of(table, "ivf-flat"))
    assert theirs == len(files_of(table, "full-text")) > 1
    assert table.index.build_global("v", kind="ivf-flat").built == 0  # it is there
    for _ in range(2):
        for column, wanted, mine in (
            ("v", [1.0, 2.0, 0.0], {"vector": [1.0, 2.0, 0.0]}),
            ("s", QUERY, {"text": "quick"}),
        ):
            found = table.scan(columns=[]).search(column=column, k=1000, **mine)
            ours = dict(zip(found["_ROW_ID"].to_pylist(), found[SCORE].to_pylist(), strict=True))
            assert ours == pytest.approx(peer.search("searched", column, wanted, 1000), rel=1e-5)
        table.index.build_global("v", kind="ivf-flat", rebuild=True)
        table.index.build_global("s", kind="full-text", rebuild=True)
    append(table, [{"id": 1000, "v": [1.0, 2.0, 0.0], "s": "quick newcomer"}])
    assert 1000 in table.scan().search(column="v", vector=[1, 2, 0], k=30)["id"].to_pylist()
    assert 1000 in table.scan().search(column="s", text={"match_phrase": {"query": "quick newcomer"}})["id"].to_pylist()
    phrase = json.dumps({"match_phrase": {"query": "quick newcomer"}})
    assert not peer.search("searched", "s", phrase, 10)  # which is why ours reads what no index covers


def test_a_damaged_index_is_an_error_or_gives_true_rows(table: pp.Table) -> None:
    table.index.build_global("v", kind="ivf-flat")
    table.index.build_global("s", kind="full-text")
    rng = random.Random(SEED)
    for kind in ("ivf-flat", "full-text"):
        path = files_of(table, kind)[0]
        data, failed = path.read_bytes(), 0
        for _ in range(60 if LONG else 6):
            at = rng.randrange(len(data))
            damaged = rng.choice([data[:at], data[:at] + bytes(rng.choices(range(256), k=8)) + data[at + 8 :]])
            path.write_bytes(damaged)
            try:
                if kind == "ivf-flat":
                    found = table.scan().search(column="v", vector=[1, 2, 3], k=5).to_pylist()
                    assert all(row[SCORE] == np.float32(similar(row["v"], [1, 2, 3], "l2")) for row in found)
                else:
                    table.scan().search(column="s", text="fox", k=5)
            except CorruptFileError as error:
                assert error.path == str(path)
                failed += 1
        path.write_bytes(data)
        assert failed


def test_wrong_questions_are_refused_by_name(table: pp.Table) -> None:
    def refused(kind: type[Exception], match: str, **wanted: Any) -> None:
        with pytest.raises(kind, match=match):
            table.scan().search(**{"column": "v", **wanted})

    refused(OptionError, "give one", vector=[1, 2, 3], text="a")
    refused(OptionError, "give one")
    refused(OptionError, "by 3 finite numbers", vector=[1, 2])
    refused(OptionError, "finite numbers", vector=[1, 2, float("nan")])
    refused(OptionError, "k must be", vector=[1, 2, 3], k=0)
    refused(OptionError, "metric must be", vector=[1, 2, 3], metric="l1")
    refused(UnknownColumnError, "nosuch", vector=[1], column="nosuch")
    refused(UnsupportedError, "can't be searched for vectors", vector=[1], column="s")
    refused(UnsupportedError, "can't be searched for texts", text="a")
    refused(OptionError, "not a query", text={"no such": 1}, column="s")
    with pytest.raises(OptionError, match="limit"):
        table.scan(limit=3).search(column="v", vector=[1, 2, 3])
    with pytest.raises(OptionError, match="kind must be one of"):
        table.index.build_global("v", kind="hnsw")
    with pytest.raises(UnsupportedError, match="type full-text"):
        table.index.build_global("v", kind="full-text")
    with pytest.raises(OptionError, match="can't be built"):
        table.index.build_global("v", kind="ivf-flat", options={"ivf-flat.distance.metric": "l1"})
    append(table, [{"id": 1, "v": [float("inf"), 0, 0], "s": ""}])
    with pytest.raises(UnsupportedError, match="not finite"):
        table.index.build_global("v", kind="ivf-flat")


def test_the_command_line_searches(table: pp.Table, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["index", "build-global", table.path, "s", "--kind", "full-text"]) == 0
    capsys.readouterr()
    for given in (
        ["v", "--vector", "[1, 2, 3]"],
        ["s", "--text", "fox"],
        ["s", "--text", '{"match": {"query": "fox"}}'],
    ):
        assert main(["search", table.path, *given, "-k", "2", "--columns", "id", "--output", "json"]) == 0
        found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [set(row) for row in found] == [{"id", "_ROW_ID", SCORE}] * 2
    assert main(["search", table.path, "v", "--vector", "1, 2"]) == 1
    assert "--vector is no JSON" in capsys.readouterr().err


def test_vectors_of_several_lengths_are_refused(tmp_path: Path) -> None:
    table = pp.Table.create(str(tmp_path / "t"), "v ARRAY<FLOAT>")
    append(table, [{"v": [1.0, 2.0]}, {"v": [1.0]}])
    with pytest.raises(SchemaError, match="elements"):
        table.scan().search(column="v", vector=[1, 2])
