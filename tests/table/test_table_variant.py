"""Tables with VARIANT columns: what is written is read again, whatever happens to its rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import paimon_pyds as pp
from paimon_pyds.base.types.arrow import ARROW_VARIANT
from paimon_pyds.errors import OptionError, SchemaError, UnsupportedError
from support.variants import VALUES, pair, same

_COLUMNS = {"id": "BIGINT NOT NULL", "n": "INT", "v": "VARIANT"}
_VALUES = [{"a": 1, "b": [1, "x", None]}, "text", None, 2.5, [], {"a": {"c": b"1"}}]


def _rows(table: pp.Table, where: str | None = None) -> dict[int, tuple[Any, Any]]:
    found = table.scan(where).to_arrow()
    values = map(same, pp.variant_values(found["v"]))
    return dict(zip(found["id"].to_pylist(), zip(found["n"].to_pylist(), values, strict=True), strict=True))


def _of_values(values: list[Any]) -> dict[str, Any]:
    return {"id": list(range(len(values))), "n": [0] * len(values), "v": values}


FORMS: dict[str, Callable[[list[Any]], Any]] = {
    "columns": _of_values,
    "rows": lambda values: [{"id": i, "n": 0, "v": value} for i, value in enumerate(values)],
    "array": lambda values: _of_values(values) | {"v": pp.variant_array(values)},
    "pairs": lambda values: _of_values([None if value is None else pair(value) for value in values]),
    "arrow": lambda values: pa.table(_of_values(values) | {"v": pp.variant_array(values)}),
    "polars": lambda values: pl.DataFrame(pa.table(_of_values(values) | {"v": pp.variant_array(values)})),
    "pandas": lambda values: pa.table(_of_values(values) | {"v": pp.variant_array(values)}).to_pandas(),
    "parts": lambda values: iter([{"id": i, "n": 0, "v": value} for i, value in enumerate(values)]),
}


@pytest.mark.parametrize("form", FORMS)
def test_rows_of_any_form_are_taken(tmp_path: Path, form: str) -> None:
    table = pp.Table.create(tmp_path / "t", _COLUMNS)
    table.append(FORMS[form](_VALUES))
    assert _rows(table) == {i: (0, same(value)) for i, value in enumerate(_VALUES)}
    assert table.count("v IS NULL") == 1
    assert table.arrow_schema.field("v").type.equals(ARROW_VARIANT, check_metadata=True)
    again = pp.Table.create(tmp_path / "again", table.scan().to_arrow())
    assert again.schema.field("v").type == table.schema.field("v").type
    assert _rows(again) == _rows(table)


_STEPS = st.one_of(
    st.tuples(st.just("append"), st.dictionaries(st.integers(0, 9), st.none() | VALUES, min_size=1, max_size=5)),
    st.tuples(st.just("update"), st.integers(0, 9)),
    st.tuples(st.just("delete"), st.integers(0, 9)),
    st.tuples(st.just("compact"), st.booleans()),
)


@pytest.mark.parametrize("kind", ["append", "vectors", "key", "partial-update", "aggregation"])
@settings(max_examples=8)
@given(steps=st.lists(_STEPS, min_size=2, max_size=6))
def test_values_stay_what_they_are(tmp_path_factory: pytest.TempPathFactory, kind: str, steps: list[Any]) -> None:
    options = {"deletion-vectors.enabled": "true"} if kind == "vectors" else {}
    keyed = kind not in ("append", "vectors")
    if keyed:
        options = {"bucket": "1"} | ({} if kind == "key" else {"merge-engine": kind})
        options |= {"fields.v.aggregate-function": "last_value"} if kind == "aggregation" else {}
    root = tmp_path_factory.mktemp("t")
    table = pp.Table.create(root / "t", _COLUMNS, primary_key="id" if keyed else None, options=options)
    model: dict[int, tuple[Any, Any]] = {}
    for what, given_ in steps:
        if what == "append":
            rows = {i: value for i, value in given_.items() if keyed or i not in model}
            if rows:
                table.append([{"id": i, "n": 1, "v": value} for i, value in rows.items()])
            for i, value in rows.items():
                keeps = kind == "partial-update" and value is None and i in model
                model[i] = (1, model[i][1] if keeps else same(value))
        elif what == "update" and kind != "aggregation":
            table.update({"n": "n + 1"}, f"id >= {given_}")
            model = {i: (n + 1 if i >= given_ else n, v) for i, (n, v) in model.items()}
        elif what == "delete" and kind in ("append", "vectors", "key"):
            table.delete(f"id = {given_}")
            model.pop(given_, None)
        elif what == "compact":
            table.compact(full=given_)
    assert _rows(table) == model
    assert _rows(table, "id > 4") == {i: row for i, row in model.items() if i > 4}


def test_rows_of_a_merge(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", _COLUMNS)
    table.append(_of_values(_VALUES))
    source = pa.table({"id": [1, 9], "n": [7, 9], "v": pp.variant_array([{"new": 1}, [2]])})
    table.merge(source, on="id", when_matched="update", when_not_matched="insert")
    assert _rows(table, "id IN (1, 9)") == {1: (7, same({"new": 1})), 9: (9, same([2]))}
    for each, id_ in ((source, 1), (table.scan("id = 9", columns=["id", "n", "v"]).to_arrow(), 9)):
        table.update({"v": "parse_json('0')"}, f"id = {id_}")
        table.merge(each, on="id", when_matched=[pp.Update({"v": "source.v", "n": "source.n + 1"})])
    assert _rows(table, "id IN (1, 9)") == {1: (8, same({"new": 1})), 9: (10, same([2]))}


def test_values_inside_of_other_columns(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", "id INT, r ROW<y VARIANT>, l ARRAY<VARIANT>, m MAP<STRING, VARIANT>")
    one, two = pair({"a": 1}), pair("x")
    rows = [{"id": 1, "r": {"y": one}, "l": [one, None, two], "m": [("k", two)]}, {"id": 2}]
    table.append(pa.Table.from_pylist(rows, table.arrow_schema))
    table.update({"id": "id + 1"})
    found = table.scan("id = 2").to_arrow()
    assert pp.variant_values(found["r"].combine_chunks().flatten()[0]) == [{"a": 1}]
    assert pp.variant_values(found["l"].combine_chunks().flatten()) == [{"a": 1}, None, "x"]
    assert table.count("r.y IS NULL") == 1


REFUSED: dict[str, tuple[Any, str]] = {
    "text": (pa.array(["[1]"]), "column v is string in the data and VARIANT in the table.*parse_json"),
    "number": (pa.array([1]), "column v is int64 in the data and VARIANT.*variant_array"),
    "struct": (pa.array([{"a": 1}]), "column v is struct<a: int64> in the data and VARIANT"),
    "damaged": (pa.array([{"value": b"\x03", "metadata": b"\1\0\0"}]), "column v: a VARIANT is longer"),
    "metadata": (pa.array([{"value": b"\0", "metadata": b"\2\0\0"}]), "column v: the metadata of a VARIANT is of vers"),
    "half": (pa.array([{"value": None, "metadata": b"\1\0\0"}], ARROW_VARIANT), "column v.value is NOT NULL"),
    "object": ([object()], "column 'v': VARIANT takes no value of type object"),
}


@pytest.mark.parametrize("values", REFUSED)
def test_what_is_no_variant_is_refused(tmp_path: Path, values: str) -> None:
    given_, message = REFUSED[values]
    table = pp.Table.create(tmp_path / "t", _COLUMNS)
    with pytest.raises(SchemaError, match=message):
        table.append({"id": [1], "n": [1], "v": given_})
    assert table.count() == 0


@pytest.mark.parametrize("format_", ["orc", "avro"])
def test_other_formats_hold_none(tmp_path: Path, format_: str) -> None:
    with pytest.raises(UnsupportedError, match=f"column v: neither .* writes VARIANT into {format_} files"):
        pp.Table.create(tmp_path / "t", _COLUMNS, options={"file.format": format_})
    table = pp.Table.create(tmp_path / "t", _COLUMNS)
    with pytest.raises(UnsupportedError, match=f"writes VARIANT into {format_} files"):
        table.append(_of_values(_VALUES), options={"file.format": format_})


def test_there_are_no_indexes_and_no_statistics_of_it(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="VARIANT"):
        pp.Table.create(tmp_path / "t", _COLUMNS, options={"file-index.bloom-filter.columns": "v"})
    table = pp.Table.create(tmp_path / "t", _COLUMNS)
    table.append(_of_values(_VALUES))
    assert table.system.read("files")["min_value_stats"][0].as_py() == "{id=0, n=0, v=null}"


@pytest.mark.parametrize("engine", ["partial-update", "aggregation"])
def test_merged_rows_without_a_row_are_written(tmp_path: Path, engine: str) -> None:
    """Below a NULL row there is NULL in NOT NULL members as well."""
    table = pp.Table.create(
        tmp_path / "t",
        "id BIGINT NOT NULL, r ROW<x INT NOT NULL>, l ARRAY<ROW<x INT NOT NULL>>, q ROW<y ROW<x INT NOT NULL>>",
        primary_key="id",
        options={"bucket": "1", "merge-engine": engine},
    )
    rows = [
        {"id": 1, "r": None, "l": [None, {"x": 1}], "q": None},
        {"id": 2, "r": {"x": 2}, "l": None, "q": {"y": None}},
    ]
    for _ in range(2):
        table.append(pa.Table.from_pylist(rows, table.arrow_schema))
    table.compact(full=True)
    assert table.scan().to_arrow().to_pylist() == rows
