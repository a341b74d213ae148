"""Chain tables: partitions of one branch are whole, those of the other hold what changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import paimon_pyds as pp
from paimon_pyds.errors import UnsupportedError
from support.answer_world import examples
from support.chains import BRANCHES, chain_table
from support.fixtures import ROOT, unpacked
from support.values import lines

_DAYS = ("20250130", "20250131", "20250201", "20250203")


_ROW = st.fixed_dictionaries({
    "op": st.sampled_from(["+I", "+I", "-D"]), "g": st.sampled_from("ab"), "dt": st.sampled_from(_DAYS),
    "k": st.integers(0, 4), "v": st.none() | st.sampled_from("xyz"), "w": st.none() | st.sampled_from("xyz"),
})  # fmt: skip
_WRITES = st.lists(
    st.tuples(
        st.sampled_from(["whole", "changes", "changes", "changes", "main"]), st.lists(_ROW, min_size=1, max_size=6)
    ),
    min_size=1, max_size=6,
)  # fmt: skip
_FILTERS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "true": lambda row: True, "k = 1": lambda row: row["k"] == 1, "v = 'x'": lambda row: row["v"] == "x",
    "dt > '20250131' AND g = 'a'": lambda row: row["dt"] > "20250131" and row["g"] == "a",
    "dt = '20250201' OR k > 2": lambda row: row["dt"] == "20250201" or row["k"] > 2,
    "w IS NULL AND dt <= '20250201'": lambda row: row["w"] is None and row["dt"] <= "20250201",
}  # fmt: skip


def _newest(versions: list[dict[str, Any]], engine: str) -> list[dict[str, Any]]:
    """What the versions of each key become, deletes among them, row by row."""
    found: dict[int, dict[str, Any]] = {}
    for row in sorted(versions, key=lambda row: row["s"]):
        old = found.get(row["k"])
        if engine == "deduplicate" or old is None or row["op"] == "-D":
            found[row["k"]] = row
        else:  # NULLs stay as they were, in the values of a delete too
            given = {name: row[name] if row[name] is not None else old[name] for name in ("v", "w")}
            found[row["k"]] = {**row, **given}
    return [*found.values()]


def _merged(versions: list[dict[str, Any]], engine: str) -> list[dict[str, Any]]:
    return [row for row in _newest(versions, engine) if row["op"] != "-D"]


def _expected(writes: list[tuple[str, list[dict[str, Any]]]], engine: str, *, compacted: bool) -> list[dict[str, Any]]:
    held: dict[str, dict[tuple[str, str], list[dict[str, Any]]]] = {name: {} for name in BRANCHES}
    for name, rows in writes:
        for place in {(row["g"], row["dt"]) for row in rows}:  # a write merges its own rows
            own = [row for row in rows if (row["g"], row["dt"]) == place]
            held[name].setdefault(place, []).extend(_newest(own, engine))
    if compacted:  # deletes are gone, and partitions in which nothing is left
        left = {place: _merged(versions, engine) for place, versions in held["whole"].items()}
        held["whole"] = {place: versions for place, versions in left.items() if versions}
    found: list[dict[str, Any]] = []
    for place in {place for of_branch in held.values() for place in of_branch}:
        group, day = place
        if place in held["main"] or place in held["whole"]:
            versions = held["main"].get(place) or held["whole"][place]
        else:
            before = max((dt for g, dt in held["whole"] if g == group and dt < day), default="")
            days = sorted(dt for g, dt in held["changes"] if g == group and before < dt <= day)
            versions = [*held["whole"].get((group, before), ())]
            versions += [row for dt in days for row in held["changes"][group, dt]]
        rows = _merged(versions, engine)
        found += [{**{n: row[n] for n in ("k", "s", "v", "w")}, "g": group, "dt": day} for row in rows]
    return sorted(found, key=lambda row: (row["g"], row["dt"], row["k"]))


@examples(4)
@given(st.sampled_from(["deduplicate", "partial-update"]), _WRITES, st.sampled_from([*_FILTERS]), st.booleans(),
       st.randoms(use_true_random=False))  # fmt: skip
def test_each_partition_is_merged_from_the_whole_one_before_it(
    tmp_path_factory: pytest.TempPathFactory, engine: str, writes: Any, where: str, compacts: bool, random: Any
) -> None:
    numbers = list(range(sum(len(rows) for _, rows in writes)))
    random.shuffle(numbers)
    numbered = [(name, [{**row, "s": numbers.pop()} for row in rows]) for name, rows in writes]

    def write(branches: Mapping[str, pp.Table]) -> None:
        for name, rows in numbered:
            branches[name].append(rows, rowkind_column="op")
        if compacts:
            branches["whole"].compact(full=True)

    options = {"merge-engine": engine}
    if engine == "partial-update":
        options["partial-update.remove-record-on-delete"] = "true"
    table = chain_table(tmp_path_factory.mktemp("c") / "t", options, write)
    rows = _expected(numbered, engine, compacted=compacts)
    some = list(filter(_FILTERS[where], rows))
    order = [("g", "ascending"), ("dt", "ascending"), ("k", "ascending")]

    def found(**scan: Any) -> list[dict[str, Any]]:
        return table.scan(**scan).to_arrow().sort_by(order).to_pylist()

    names = table.scan().column_names
    in_order = [{name: row[name] for name in names} for row in some]
    assert found(where=where) == in_order
    assert found(where=where, columns=["g", "dt", "k", "w"]) == [{n: r[n] for n in ("g", "dt", "k", "w")} for r in some]
    assert (table.count(), table.count(where), table.exists(where)) == (len(rows), len(some), bool(some))
    assert table.max("s") == max((row["s"] for row in rows), default=None)
    best = sorted(some, key=lambda row: (-row["s"], row["g"], row["dt"], row["k"]))[:3]
    top = table.scan(where, columns=["k", "v"], top_n="s desc, g, dt, k, 3").to_arrow()
    assert top.to_pylist() == [{"k": row["k"], "v": row["v"]} for row in best]
    keys = [(g, day, k) for g in "ab" for day in _DAYS for k in range(6)]
    assert table.lookup(keys, columns=["s"])["s"].to_pylist() == [row["s"] for row in rows]
    assert table.scan(limit=2).to_arrow().num_rows == min(2, len(rows))
    assert table.explain(where, analyze=True).steps[-1].rows == len(some)


_JAVA = ROOT / "tests" / "fixtures" / "chain_tables.tar.xz"
"""Tables of Paimon's Spark connector 2.1, each with the rows that it reads."""


@pytest.mark.parametrize("name", ["c_dedup", "c_partial", "c_dv"])
def test_rows_that_java_merges(name: str) -> None:
    path = unpacked(_JAVA) / name
    table = pp.Table.open(path)
    rows = json.loads((path / "rows.json").read_text())
    for where, matches in _FILTERS.items():
        some = pa.Table.from_pylist(list(filter(matches, rows)), table.scan().arrow_schema)
        assert sorted(lines(table.scan(where).to_arrow())) == sorted(lines(some))
    with pytest.raises(UnsupportedError, match=r"chain-table\.enabled=true can't be written"):
        table.append(rows)


def test_what_is_no_chain_is_refused(tmp_path: Path) -> None:
    def write(branches: Mapping[str, pp.Table]) -> None:
        for name, day in (("whole", "20250101"), ("changes", "20250102"), ("changes", "20250132")):
            branches[name].append([{"g": "a", "dt": day, "k": 1, "s": 1, "v": name, "w": None}])

    table = chain_table(tmp_path / "t", {}, write)
    assert table.count("dt = '20250102'") == 1
    with pytest.raises(UnsupportedError, match=r"partition g=a/dt=20250132, which is no time by the options"):
        table.to_arrow()
    engine = {"merge-engine": "aggregation", "fields.v.aggregate-function": "max", "fields.w.aggregate-function": "max"}
    summed = chain_table(tmp_path / "s", engine, write)
    with pytest.raises(UnsupportedError, match="merge-engine=aggregation can't be read as a chain"):
        summed.to_arrow()
    assert pp.Table.open(tmp_path / "s", branch="whole").count() == 1
    for run in (lambda: table.scan(options={"incremental-between": "0,1"}), lambda: next(iter(table.follow()))):
        with pytest.raises(UnsupportedError):
            run()
