"""primary-key.nullable: NULL is a value of key columns like others, and the least."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import paimon_pyds as pp
from support.answer_world import examples

_WAYS: dict[str, dict[str, str]] = {
    "fixed": {"bucket": "2"},
    "dynamic": {"bucket": "-1"},
    "waiting": {"bucket": "-2"},
    "with vectors": {"bucket": "1", "deletion-vectors.enabled": "true"},
    "with changes": {"bucket": "1", "changelog-producer": "lookup"},
    "indexed": {"bucket": "1", "file.format": "avro", "file-index.bitmap.columns": "v", "write-only": "true"},
}
_A, _B = st.sampled_from([None, -5, 0, 1]), st.sampled_from([None, "", "x", "yy"])
_ROWS = st.lists(st.tuples(_A, _B), min_size=1, max_size=6)
_STEPS = st.lists(st.just("compact") | st.just("delete") | _ROWS, max_size=8)
_FILTERS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "a IS NULL": lambda row: row["a"] is None,
    "v = 1": lambda row: row["v"] == 1,
    "b = 'x' AND a < 1": lambda row: row["b"] == "x" and row["a"] is not None and row["a"] < 1,
}


@examples(6)
@given(st.sampled_from([*_WAYS]), _STEPS)
def test_rows_with_null_in_their_keys(
    tmp_path_factory: pytest.TempPathFactory, way: str, steps: list[str | list[Any]]
) -> None:
    options = {**_WAYS[way], "primary-key.nullable": "true"}
    table = pp.Table.create(
        tmp_path_factory.mktemp("n") / "t", "a INT, b STRING, v INT", primary_key="a, b", options=options
    )
    model: dict[tuple[Any, Any], int] = {}
    for number, step in enumerate(steps):
        if step == "compact":
            table.compact(full=True)
        elif step == "delete":
            table.delete("a IS NULL AND b <> 'x'")
            model = {key: v for key, v in model.items() if key[0] is not None or key[1] in (None, "x")}
        else:
            table.append([{"a": a, "b": b, "v": number} for a, b in step])
            model.update(dict.fromkeys(step, number))
    rows = [{"a": a, "b": b, "v": v} for (a, b), v in model.items()]

    def sorted_rows(found: list[dict[str, Any]]) -> list[str]:
        return sorted(map(repr, found))

    assert sorted_rows(table.to_arrow().to_pylist()) == sorted_rows(rows)
    for where, keep in _FILTERS.items():
        some = list(filter(keep, rows))
        assert sorted_rows(table.scan(where).to_arrow().to_pylist()) == sorted_rows(some)
        assert table.count(where) == len(some)
    keys = [(a, b) for a in (None, -5, 1) for b in (None, "x", "no")]
    assert table.lookup(keys).to_pylist() == [{"a": a, "b": b, "v": model[a, b]} for a, b in keys if (a, b) in model]
    assert not table.maintenance.verify(deep=True).findings
