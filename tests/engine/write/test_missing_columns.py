"""Columns that are left out of rows never replace values by NULL, unless the write says so: all engines and writers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.cli.main import main
from paimon_pyds.engine.write import TableWriter
from paimon_pyds.errors import OptionError, SchemaError
from support.effort import sampled

_AGGREGATION = {"merge-engine": "aggregation"}
_PARTIAL = {"merge-engine": "partial-update"}
_GROUP = {**_PARTIAL, "fields.s.sequence-group": "v"}
_TYPES = {
    "bool_and": "BOOLEAN", "bool_or": "BOOLEAN", "collect": "ARRAY<INT>", "merge_map": "MAP<INT, INT>",
    "merge_map_with_keytime": "MAP<INT, ROW<n INT, t STRING>>", "nested_update": "ARRAY<ROW<n INT>>",
    "nested_partial_update": "ARRAY<ROW<n INT>>", "listagg": "STRING", "rbm32": "BYTES", "rbm64": "BYTES",
    "theta_sketch": "BYTES", "hll_sketch": "BYTES",
}  # fmt: skip
_PRESENT: dict[str, Any] = {
    "BOOLEAN": True, "ARRAY<INT>": [1], "MAP<INT, INT>": [(1, 2)], "MAP<INT, ROW<n INT, t STRING>>": [(1, (2, "3"))],
    "ARRAY<ROW<n INT>>": [{"n": 1}], "STRING": "one", "INT": 7,
}  # fmt: skip


def _table(path: Path, options: dict[str, str], columns: str = "id INT, s INT, v INT, w INT") -> pp.Table:
    return pp.Table.create(path, columns, primary_key=["id"], options={"bucket": "1", **options})


def _rows(table: pp.Table) -> list[dict[str, Any]]:
    return table.compact(full=True) and table.to_arrow().sort_by("id").to_pylist()


_WHOLE = {"id": [1], "s": [1], "v": [7], "w": [8]}


@pytest.mark.parametrize("options", [{}, {"merge-engine": "first-row"}, {"bucket": "-1"}], ids=["last", "first", "dyn"])
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_rows_that_replace_others_need_all_columns(tmp_path: Path, options: dict[str, str], file_format: str) -> None:
    table = _table(tmp_path / "t", {**options, "file.format": file_format})
    table.append(_WHOLE)
    before = table.snapshots.latest()
    with pytest.raises(SchemaError, match=r"columns 'v', 'w' are missing from the data.*missing-columns=null"):
        table.append({"id": [1, 2], "s": [3, 4]})
    assert table.snapshots.latest() == before
    table.append({"id": [1, 2], "s": [3, 4]}, missing_columns="null")
    first = "merge-engine" in options
    one = {"id": 1, "s": 1, "v": 7, "w": 8} if first else {"id": 1, "s": 3, "v": None, "w": None}
    assert _rows(table) == [one, {"id": 2, "s": 4, "v": None, "w": None}]


def test_a_column_with_a_default_may_be_left_out(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", {})
    table.alter(column_defaults={"v": "5", "w": "6"})
    table.append(_WHOLE)
    table.append({"id": [1], "s": [3]})
    assert _rows(table) == [{"id": 1, "s": 3, "v": 5, "w": 6}]


def test_tables_without_a_key_take_missing_columns_unless_the_write_refuses_them(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", "id INT, v INT")
    table.append({"id": [1]})
    with pytest.raises(SchemaError, match="column 'v' is missing from the data, and missing-columns is refuse"):
        table.append({"id": [2]}, missing_columns="refuse")
    with pytest.raises(OptionError, match="missing-columns is null or refuse, not 'nul'"):
        table.append({"id": [2]}, options={"missing-columns": "nul"})
    with pytest.raises(OptionError, match="missing-columns is given twice"):
        table.append({"id": [2]}, missing_columns="null", options={"missing-columns": "null"})
    assert table.to_arrow().to_pylist() == [{"id": 1, "v": None}]


def test_a_table_may_keep_the_option(tmp_path: Path) -> None:
    taking = _table(tmp_path / "t", {"missing-columns": "null"})
    taking.append(_WHOLE)
    taking.append({"id": [1]})
    assert _rows(taking) == [{"id": 1, "s": None, "v": None, "w": None}]
    with pytest.raises(SchemaError, match="missing-columns is refuse"):
        taking.append({"id": [1]}, missing_columns="refuse")
    taking.alter({"missing-columns": "refuse"})
    with pytest.raises(SchemaError, match="missing-columns is refuse"):
        taking.append({"id": [1]})


def test_a_delete_needs_no_values(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", {})
    table.append({"id": [1, 2], "s": [1, 1], "v": [7, 7], "w": [8, 8]})
    table.append({"id": [1], "op": ["-D"]}, options={"rowkind-column": "op"})
    with pytest.raises(SchemaError, match=r"'v'.*first in row 2 of the data"):
        table.append({"id": [1, 2], "s": [1, 1], "op": ["-D", "+U"]}, options={"rowkind-column": "op"})
    assert [row["id"] for row in _rows(table)] == [2]


def test_an_overwrite_takes_missing_columns_as_nothing_stays(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", "p INT, id INT, v INT", ["p", "id"], ["p"], {"bucket": "1"})
    table.append({"p": [1, 2], "id": [1, 1], "v": [7, 7]})
    table.overwrite({"p": [1], "id": [2]}, {"p": 1})
    table.overwrite({"p": [2], "id": [2]}, dynamic=True)
    assert table.to_arrow().sort_by("p").to_pylist() == [
        {"p": 1, "id": 2, "v": None},
        {"p": 2, "id": 2, "v": None},
    ]
    with pytest.raises(SchemaError, match="missing-columns is refuse"):
        table.overwrite({"p": [1], "id": [3]}, options={"missing-columns": "refuse"})


def test_keys_that_move_into_an_overwritten_partition_need_all_columns(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", "p INT, id INT, v INT", ["id"], ["p"])
    table.append({"p": [1, 2], "id": [1, 2], "v": [7, 7]})
    with pytest.raises(SchemaError, match="'v'"):
        table.append({"p": [1], "id": [2]})
    with pytest.raises(SchemaError, match="'v'"):
        table.overwrite({"p": [1], "id": [2]}, {"p": 1})
    assert sorted(table.to_arrow()["v"].to_pylist()) == [7, 7]
    table.overwrite({"p": [1], "id": [3]})
    assert table.to_arrow().to_pylist() == [{"p": 1, "id": 3, "v": None}]


# ---------------------------------------------------------------------------------------------------------- engines


def _functions() -> list[str]:
    from paimon_pyds.keys.merge.aggregates import _FUNCTIONS, PRIMARY_KEY

    return sorted(set(_FUNCTIONS) - {PRIMARY_KEY})


def _present(kind: str, function: str) -> Any:
    if kind != "BYTES":
        return _PRESENT[kind]
    if function in ("rbm32", "rbm64"):
        from pyroaring import BitMap

        from paimon_pyds.index.roaring.codec import encode_bitmap
        from paimon_pyds.index.roaring.java64 import encode_java64

        return encode_bitmap(BitMap([1])) if function == "rbm32" else encode_java64({0: BitMap([1])})
    library = pytest.importorskip("datasketches")
    made = library.update_theta_sketch(12) if function == "theta_sketch" else library.hll_sketch(12)
    made.update(1)
    return bytes(made.compact().serialize() if function == "theta_sketch" else made.serialize_compact())


@pytest.mark.parametrize("function", sampled(_functions(), 6))
@pytest.mark.parametrize("grouped", [False, True], ids=["aggregation", "group"])
def test_aggregates_that_null_changes_need_their_column(tmp_path: Path, function: str, grouped: bool) -> None:
    """What is taken without the column leaves its value as it is: on time, late, and before the first value."""
    kind = _TYPES.get(function, "INT")
    options = {**(_GROUP if grouped else _AGGREGATION), "fields.v.aggregate-function": function}
    if function == "nested_partial_update":
        options["fields.v.nested-key"] = "n"
    table = _table(tmp_path / "t", options, f"id INT, s INT, v {kind}, w INT")
    value = pa.array([_present(kind, function)], table.arrow_schema.field("v").type)
    whole = {"id": [1], "s": [5], "v": value, "w": [8]}
    table.append(whole)
    refused = set[str]()
    for way, rows in (
        ("on time", {"id": [1], "s": [6]}),
        ("late", {"id": [1], "s": [4]}),
        ("new", {"id": [2], "s": [4]}),
    ):
        try:
            table.append(rows)
        except SchemaError as error:
            assert "'v'" in str(error)
            refused.add(way)
    table.append({**whole, "id": [2]})
    found = table.to_arrow().sort_by("id")["v"].to_pylist()
    unsafe = {"last_value", "first_value", *(("first_non_null_value", "first_not_null_value") if grouped else ())}
    assert refused == ({"on time", "late", "new"} if function in unsafe else set())
    assert found == value.to_pylist() * 2


@pytest.mark.parametrize("function", ["last_value", "first_value", "first_non_null_value", None])
def test_aggregates_that_are_refused_would_have_changed(tmp_path: Path, function: str | None) -> None:
    """The other side of the test above: of each function that is refused, NULL changes what there is or comes."""
    own = {} if function is None else {"fields.v.aggregate-function": function}
    table = _table(tmp_path / "t", {**_GROUP, **own})
    table.append({"id": [1], "s": [5], "v": [7], "w": [8]})
    for row in ({"id": [1], "s": [6]}, {"id": [1], "s": [5]}, {"id": [1], "s": [4]}, {"id": [2], "s": [6]}):
        table.append(row, missing_columns="null")
    table.append({"id": [2], "s": [5], "v": [7], "w": [8]})
    assert table.to_arrow().sort_by("id")["v"].to_pylist() != [7, 7]


def test_partial_update_takes_what_it_is_made_for(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", _GROUP)
    table.append(_WHOLE)
    table.append({"id": [1], "w": [9]})
    assert _rows(table) == [{"id": 1, "s": 1, "v": 7, "w": 9}]
    with pytest.raises(SchemaError, match=r"column 'v' is missing.*sequence group's s"):
        table.append({"id": [1], "s": [2]})
    table.append({"id": [1], "v": [9]})  # without its sequence field a group does not change
    table.append({"id": [1], "s": [2], "v": [5]})
    assert _rows(table) == [{"id": 1, "s": 2, "v": 5, "w": 9}]
    with pytest.raises(SchemaError, match="missing-columns is refuse"):
        table.append({"id": [1], "w": [9]}, missing_columns="refuse")


def test_a_group_with_two_sequence_fields_needs_both(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", {**_PARTIAL, "fields.s,w.sequence-group": "v"})
    table.append(_WHOLE)
    with pytest.raises(SchemaError, match=r"column 'w' is missing.*sequence group's s, w"):
        table.append({"id": [1], "s": [2], "v": [5]})
    assert _rows(table) == [{"id": 1, "s": 1, "v": 7, "w": 8}]


def test_aggregation_takes_columns_that_null_does_not_change(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", {**_AGGREGATION, "fields.v.aggregate-function": "sum", "sequence.field": "s"})
    table.append(_WHOLE)
    table.append({"id": [1], "s": [2]})
    with pytest.raises(SchemaError, match="column 's' is missing"):
        table.append({"id": [1], "v": [2]})
    assert _rows(table) == [{"id": 1, "s": 2, "v": 7, "w": 8}]


# --------------------------------------------------------------------------------------------------- single rows


_LISTS: dict[str, Callable[[list[dict[str, Any]]], Any]] = {
    "list": lambda rows: rows,
    "iterable": iter,
    "of lists": lambda rows: [[row] for row in rows],
    "generator": lambda rows: (row for row in rows),
}


@pytest.mark.parametrize("form", _LISTS)
def test_a_row_that_lacks_a_column_others_have_is_refused(tmp_path: Path, form: str) -> None:
    table = _table(tmp_path / "t", {})
    table.append(_WHOLE)
    rows = [{"id": 2, "s": 1, "v": 7, "w": None}, {"id": 1, "s": 3, "w": 4}]
    row = "" if form == "of lists" else ".*first in row 2 of the data"
    with pytest.raises(SchemaError, match=f"column 'v' is missing{row}"):
        table.append(_LISTS[form](rows))
    assert _rows(table) == [{"id": 1, "s": 1, "v": 7, "w": 8}]
    table.append(_LISTS[form](rows), missing_columns="null")
    assert [row["v"] for row in _rows(table)] == [None, 7]


def test_a_row_that_lacks_a_column_is_taken_where_nothing_is_replaced(tmp_path: Path) -> None:
    rows = [{"id": 1, "v": 7}, {"id": 2}]
    assert pp.Table.create(tmp_path / "a", rows).count("v IS NULL") == 1
    assert pp.Table.create(tmp_path / "k", rows, primary_key=["id"]).count("v IS NULL") == 1
    partial = _table(tmp_path / "p", _PARTIAL)
    partial.append(_WHOLE)
    partial.append([{"id": 1, "s": 3}, {"id": 1, "v": 4}])
    assert _rows(partial) == [{"id": 1, "s": 3, "v": 4, "w": 8}]
    deleting = _table(tmp_path / "d", {})
    deleting.append(_WHOLE)
    changes = [{"op": "+I", "id": 2, "s": 1, "v": 1, "w": 1}, {"op": "-D", "id": 1}]
    deleting.append(changes, options={"rowkind-column": "op"})
    assert [row["id"] for row in _rows(deleting)] == [2]


def test_a_row_that_has_a_sequence_field_needs_its_group(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", _GROUP)
    table.append(_WHOLE)
    table.append([{"id": 1, "s": 3, "v": 4}, {"id": 1, "w": 5}])
    with pytest.raises(SchemaError, match=r"column 'v' is missing.*first in row 2 of the data"):
        table.append([{"id": 1, "s": 4, "v": 4}, {"id": 1, "s": 5}])
    assert _rows(table) == [{"id": 1, "s": 3, "v": 4, "w": 5}]


# --------------------------------------------------------------------------------------------------------- members


_STRUCT = "id INT, r ROW<a INT, b ROW<c INT, d INT>>, l ARRAY<ROW<e INT, f INT>>"


def _nested(id_: int, **changes: Any) -> dict[str, Any]:
    return {"id": id_, "r": {"a": 1, "b": {"c": 2, "d": 3}}, "l": [{"e": 4, "f": 5}], **changes}


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"r": {"b": {"c": 2, "d": 3}}}, "r.a"),
        ({"r": {"a": 1, "b": {"c": 2}}}, "r.b.d"),
        ({"l": [{"e": 4}]}, "l.element.f"),
    ],
)
@pytest.mark.parametrize("alone", [True, False], ids=["all", "one"])
def test_a_missing_member_is_a_missing_column(tmp_path: Path, changes: dict[str, Any], path: str, alone: bool) -> None:
    table = _table(tmp_path / "t", {}, _STRUCT)
    table.append([_nested(1)])
    rows = [_nested(1, **changes)] if alone else [_nested(2), _nested(1, **changes)]
    before = _rows(table)
    with pytest.raises(SchemaError) as refused:
        table.append(rows)
    column, _, member = path.rpartition(".")
    assert (f"column {column} has no field {member!r}" if alone else f"column '{path}' is missing") in str(
        refused.value
    )
    assert "missing-columns=null" in str(refused.value)
    assert _rows(table) == before
    table.append(rows, missing_columns="null")
    found: Any = next(row for row in _rows(table) if row["id"] == 1)
    for name in path.split("."):
        found = found[0] if name == "element" else found[name]
    assert found is None


# ---------------------------------------------------------------------------------------------------- other writers


def test_writers_on_other_machines_refuse_them_too(tmp_path: Path) -> None:
    table = _table(tmp_path / "t", {})
    rows = pa.table({"id": pa.array([1], pa.int32())})
    with pytest.raises(SchemaError, match="missing"), TableWriter(table.write_context(), 1) as writer:
        writer.write(rows)
    for context in (table.write_context({"missing-columns": "null"}), table.write_context(overwrite=True)):
        with TableWriter(context, 1) as writer:
            writer.write(rows)
            table.commit([writer.prepare_commit()])
    assert _rows(table) == [{"id": 1, "s": None, "v": None, "w": None}]


_INPUTS = {
    "csv": "id,s,w\n1,3,4\n",
    "jsonl": '{"id": 1, "s": 3, "w": 4}\n',
    "one.jsonl": '{"id": 2, "s": 3, "v": 7, "w": 4}\n\n{"id": 3, "v": null, "s": 0, "w": 1}\n{"id": 1, "s": 1, "w": 1}',
}


@pytest.mark.parametrize("name", _INPUTS)
def test_the_command_line_refuses_them(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    table = _table(tmp_path / "t", {})
    table.append(_WHOLE)
    file = tmp_path / f"rows.{name}"
    file.write_text(_INPUTS[name])
    assert main(["append", table.path, str(file)]) == 1
    error = capsys.readouterr().err
    assert "column 'v' is missing from the data" in error
    assert "--missing-columns null" in error
    assert _rows(table) == [{"id": 1, "s": 1, "v": 7, "w": 8}]
    assert main(["append", table.path, str(file), "--missing-columns", "null"]) == 0
    assert next(_rows_of(table, 1))["v"] is None
    assert main(["append", str(tmp_path / "new"), str(file), "--create", "--primary-key", "id"]) == 0


def _rows_of(table: pp.Table, id_: int) -> Iterator[dict[str, Any]]:
    return (row for row in _rows(table) if row["id"] == id_)


def test_nested_members_of_json_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = _table(tmp_path / "t", {}, _STRUCT)
    file = tmp_path / "rows.jsonl"
    rows = [_nested(2, r=None), _nested(3, l=[]), _nested(1, r={"a": 1, "b": {"d": 1}})]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["append", table.path, str(file)]) == 1
    assert "column 'r.b.c' is missing from the data" in capsys.readouterr().err
    file.write_text("".join(json.dumps(row) + "\n" for row in rows[:2]))
    assert main(["append", table.path, str(file)]) == 0


@pytest.mark.parametrize(("engine", "kind"), [*product(("deduplicate", "first-row"), ("pandas", "polars", "arrow"))])
def test_frames_of_all_libraries(tmp_path: Path, engine: str, kind: str) -> None:
    table = _table(tmp_path / "t", {"merge-engine": engine})
    table.append(_WHOLE)
    rows = pa.table({"ID": [1], "S": [2], "v": [3]})
    if kind == "arrow":
        data: Any = rows
    else:
        library = pytest.importorskip(kind)
        data = rows.to_pandas() if kind == "pandas" else library.from_arrow(rows)
    with pytest.raises(SchemaError, match="column 'w' is missing"):
        table.append(data)
