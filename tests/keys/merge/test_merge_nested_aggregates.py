"""listagg, collect and the functions of maps and lists of rows against the same by rows, one after the other."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import paimon_pyds as pp
from paimon_pyds.base.types import arrow_type, parse_type
from paimon_pyds.errors import OptionError, SchemaError, UnsupportedError
from paimon_pyds.keys.merge.aggregates import aggregate, resolve_aggregate
from paimon_pyds.keys.merge.equal_values import equality_codes
from support.effort import examples
from support.nested_aggregate_model import NestedModel, key_of, unordered
from support.v2_fixtures import Read, read_id, v2_copy, v2_reads
from support.values import lines

pytestmark = pytest.mark.smoke

Groups = list[list[tuple[Any, bool]]]

_ROW = {"type": "ROW", "fields": [
    {"id": 1, "name": "k", "type": "INT"}, {"id": 2, "name": "l", "type": "STRING"},
    {"id": 3, "name": "v", "type": "DOUBLE"},
]}  # fmt: skip
_TIMED = {"type": "ROW", "fields": [{"id": 1, "name": "v", "type": "INT"}, {"id": 2, "name": "t", "type": "STRING"}]}
_ROWS = st.fixed_dictionaries(
    {"k": st.none() | st.integers(0, 2), "l": st.none() | st.sampled_from("ab"), "v": st.sampled_from([None, 0.5, 1.5])}
)
_TIMES = st.sampled_from([None, "", "2024", "2025", "￿", "\U0001f600"])
_TIMED_ROWS = st.fixed_dictionaries({"v": st.integers(0, 3), "t": _TIMES})


def _lists(element: st.SearchStrategy[Any], most: int = 4) -> st.SearchStrategy[Any]:
    return st.none() | st.lists(st.none() | element, max_size=most)


def _maps(value: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | st.dictionaries(st.sampled_from("abc"), st.none() | value, max_size=3).map(
        lambda d: list(d.items())
    )


def _array(element: Any) -> Any:
    return {"type": "ARRAY", "element": element}


def _map(value: Any, key: str = "STRING NOT NULL") -> Any:
    return {"type": "MAP", "key": key, "value": value}


class Case:
    """A function, its options, its column, and strategies of values."""

    def __init__(
        self, name: str, type_: Any, value: st.SearchStrategy[Any], model: dict[str, Any], *, retracts: bool = False
    ) -> None:
        self.name, self.type, self.value, self.model, self.retracts = name, type_, value, model, retracts
        names = {"distinct": "distinct", "delimiter": "list-agg-delimiter", "time": "ts-field", "limit": "count-limit"}
        self.options = {
            f"fields.c.{names[k]}": str(v).lower() if k == "distinct" else str(v)
            for k, v in model.items()
            if k in names
        }
        if "rules" in model:
            self.options["aggregation-rules"] = model["rules"]
        for of, name in (("key", "nested-key"), ("sequence", "nested-sequence-field")):
            if of in model:
                self.options[f"fields.c.{name}"] = ", ".join(model[of])
        if "null_keys" in model:
            self.options["fields.c.nested-key-null-strategy"] = model["null_keys"]

    def __repr__(self) -> str:
        return f"{self.name} {self.type} {self.options}"


_TEXTS = st.none() | st.text("ab|, ", max_size=4)
_BLANKS = st.none() | st.text("ab|, \t\u00a0\u2003\u2007", max_size=4)
_FLOATS = st.sampled_from([0.0, -0.0, math.nan, 1.0])
_CASES = [
    Case("listagg", "STRING", _TEXTS, {}),
    Case("listagg", "STRING", _TEXTS, {"delimiter": "|"}),
    *(Case("listagg", "STRING", _TEXTS, {"delimiter": d, "distinct": True}) for d in (",", "|", "||", "", "ab", " ")),
    Case("collect", _array("INT"), _lists(st.integers(0, 2)), {}, retracts=True),
    Case("collect", _array("INT"), _lists(st.integers(0, 2)), {"distinct": True}, retracts=True),
    Case("collect", _array("DOUBLE"), _lists(_FLOATS), {}, retracts=True),
    Case("collect", _array("DOUBLE"), _lists(_FLOATS), {"distinct": True}, retracts=True),
    Case("collect", _array("BYTES"), _lists(st.sampled_from([b"", b"a"])), {"distinct": True}, retracts=True),
    Case("collect", _array(_ROW), _lists(_ROWS), {"distinct": True}, retracts=True),
    Case("collect", _array(_array("INT")), _lists(_lists(st.integers(0, 1))), {"distinct": True}, retracts=True),
    Case("collect", _array(_map("INT")), _lists(_maps(st.integers(0, 1))), {}, retracts=True),
    Case("merge_map", _map("INT"), _maps(st.integers(0, 3)), {}, retracts=True),
    Case("merge_map_with_keytime", _map(_TIMED), _maps(_TIMED_ROWS), {"time": "t"}),
    Case("nested_update", _array(_ROW), _lists(_ROWS), {}, retracts=True),
    Case("nested_update", _array(_ROW), _lists(_ROWS), {"limit": 3}, retracts=True),
    Case("nested_update", _array(_ROW), _lists(_ROWS), {"key": ["k"]}, retracts=True),
    Case("nested_update", _array(_ROW), _lists(_ROWS), {"key": ["l", "k"]}, retracts=True),
    Case("nested_update", _array(_ROW), _lists(_ROWS, 2), {"key": ["k"], "limit": 2}, retracts=True),
    Case("nested_update", _array(_ROW), _lists(_ROWS), {"limit": 0}, retracts=True),
    Case("nested_partial_update", _array(_ROW), _lists(_ROWS), {"key": ["k"]}),
    *(
        Case("nested_update", _array(_ROW), _lists(_ROWS), {"key": ["k"], **more}, retracts=True)
        for more in (
            {"sequence": ["v"]}, {"sequence": ["l", "v"]}, {"sequence": ["v"], "limit": 2}, {"null_keys": "ignore"},
            {"sequence": ["l"], "null_keys": "ignore", "limit": 1},
        )
    ),
    Case("nested_partial_update", _array(_ROW), _lists(_ROWS), {"key": ["k", "l"], "null_keys": "ignore"}),
    *(
        Case(case.name, case.type, case.value, {**case.model, "rules": "2.1"}, retracts=case.retracts)
        for case in (
            Case("listagg", "STRING", _BLANKS, {}),
            *(Case("listagg", "STRING", _BLANKS, {"delimiter": d, "distinct": True}) for d in (",", "||", "", "\t")),
            Case("nested_update", _array(_ROW), _lists(_ROWS), {}, retracts=True),
            Case("nested_update", _array(_ROW), _lists(_ROWS), {"limit": 3}, retracts=True),
            Case("nested_update", _array(_ROW), _lists(_ROWS), {"key": ["k"]}, retracts=True),
            Case("nested_update", _array(_ROW), _lists(_ROWS, 2), {"key": ["k"], "limit": 2}, retracts=True),
            Case("nested_update", _array(_ROW), _lists(_ROWS), {"key": ["l", "k"], "limit": 0}, retracts=True),
            Case("nested_partial_update", _array(_ROW), _lists(_ROWS), {"key": ["k"]}),
        )
    ),
]  # fmt: skip
_ORDERED = {"listagg", "collect"}


def _groups(case: Case, retracts: bool) -> st.SearchStrategy[Groups]:
    row = st.tuples(case.value, st.booleans() if retracts and case.retracts else st.just(False))
    return st.lists(st.lists(row, min_size=1, max_size=6), max_size=5)


def run(case: Case, groups: Groups, options: dict[str, str] | None = None) -> pa.Array:
    parsed = parse_type(case.type)
    rows = [row for group in groups for row in group]
    values = pa.array([value for value, _ in rows], arrow_type(parsed))
    starts = np.cumsum([0, *(len(group) for group in groups)], dtype=np.int64)[:-1]
    function = resolve_aggregate(case.name, parsed, "c", case.options if options is None else options)
    return aggregate(function, values, starts, np.array([retract for _, retract in rows], np.bool_))


def _comparable(case: Case) -> Callable[[Any], Any]:
    # Sets keep no order in Java: ours is the order in which elements came.
    ordered = case.name in _ORDERED and not (case.name == "collect" and "distinct" in case.model)
    return key_of if ordered else unordered


_SOME = st.sampled_from(_CASES).flatmap(lambda case: st.tuples(st.just(case), _groups(case, True)))
_BLURRED: Groups = [[("a|", False), ("b", False), ("b", False), ("c", False)], [("x", False), ("x||y", False)]]


_FULL: Groups = [[([None], False), ([], False)], [([{"k": 1, "l": "a", "v": 0.5}] * 3, False), ([None], False)]]


@pytest.mark.parametrize("case", _CASES, ids=[f"{case.name}-{i}" for i, case in enumerate(_CASES)])
@settings(max_examples=examples(6))
@given(st.data())
def test_kernels_do_what_rows_one_by_one_do(case: Case, data: st.DataObject) -> None:
    _assert_as_modelled(case, data.draw(_groups(case, True)))


@pytest.mark.parametrize(
    ("options", "groups"),
    [({"fields.c.count-limit": "0"}, _FULL), ({"fields.c.count-limit": "2", "fields.c.nested-key": "k"}, _FULL),
     ({"fields.c.list-agg-delimiter": "||", "fields.c.distinct": "true"}, _BLURRED)],
)  # fmt: skip
def test_lists_that_are_full_and_texts_that_run_together(options: dict[str, str], groups: Groups) -> None:
    (case,) = [case for case in _CASES if case.options == options]
    _assert_as_modelled(case, groups)


def _assert_as_modelled(case: Case, groups: Groups) -> None:
    model = NestedModel(case.name, case.model)
    expected = [model.fold(group) for group in groups]
    found = run(case, groups)
    assert found.type == arrow_type(parse_type(case.type))
    found.validate(full=True)
    compare = _comparable(case)
    if case.name == "listagg":
        assert found.to_pylist() == expected
    else:
        assert [compare(value) for value in found.to_pylist()] == [compare(value) for value in expected]


@given(_SOME)
def test_ignore_retract_passes_rows_over_that_take_back(drawn: tuple[Case, Groups]) -> None:
    case, groups = drawn
    marked = [[(value, index % 3 == 1) for index, (value, _) in enumerate(group)] for group in groups]
    kept = [[(value, False) for value, retract in group if not retract] for group in marked]
    found = run(case, marked, {**case.options, "fields.c.ignore-retract": "true"})
    assert [key_of(v) for v in found.to_pylist()] == [key_of(v) for v in run(case, kept).to_pylist()]


_ASSOCIATIVE = [
    case for case in _CASES
    if case.name != "merge_map_with_keytime" and "limit" not in case.model
    and case.model.get("delimiter") not in ("", "||")
]  # fmt: skip


@given(st.sampled_from(_ASSOCIATIVE).flatmap(lambda case: st.tuples(st.just(case), _groups(case, False))), st.data())
def test_an_earlier_result_takes_the_place_of_its_rows(drawn: tuple[Case, Groups], data: st.DataObject) -> None:
    case, groups = drawn
    cuts = [data.draw(st.integers(1, len(group))) for group in groups]
    older = run(case, [group[:cut] for group, cut in zip(groups, cuts, strict=True)]).to_pylist()
    again = [[(value, False), *group[cut:]] for value, group, cut in zip(older, groups, cuts, strict=True)]
    compare = _comparable(case) if case.name != "listagg" else repr
    assert [compare(v) for v in run(case, again).to_pylist()] == [compare(v) for v in run(case, groups).to_pylist()]


def test_arrays_that_are_parts_of_others() -> None:
    for case, values, expected in (
        (_CASES[8], [[9], [1, None], None, [2]], [1, None, 2]),
        (next(c for c in _CASES if c.name == "merge_map"), [[("a", 9)], [("b", 1)], [("b", 2)], None], [("b", 2)]),
    ):
        parsed = parse_type(case.type)
        function = resolve_aggregate(case.name, parsed, "c", case.options)
        part = pa.array(values, arrow_type(parsed))[1:]
        assert aggregate(function, part, np.array([0]), np.zeros(3, np.bool_)).to_pylist() == [expected]


@given(st.lists(_lists(_lists(_ROWS, 2), 2), max_size=8))
def test_equal_values_have_equal_codes_and_no_others(values: list[Any]) -> None:
    codes = equality_codes(pa.array(values, arrow_type(parse_type(_array(_array(_ROW))))))
    keys = [key_of(value) for value in values]
    assert [[a == b for a in keys] for b in keys] == [[a == b for a in codes.tolist()] for b in codes.tolist()]


@pytest.mark.parametrize(
    ("name", "type_", "wanted"),
    [("listagg", "VARCHAR(9)", "takes STRING"), ("listagg", "CHAR(3)", "takes STRING"),
     ("collect", "INT", "takes ARRAY"),
     ("merge_map", _array("INT"), "takes MAP"), ("merge_map", {"type": "MULTISET", "element": "INT"}, "takes MAP"),
     ("merge_map_with_keytime", _map("INT"), "takes MAP of ROW"), ("nested_update", _array("INT"), "takes ARRAY<ROW>"),
     ("nested_partial_update", _map("INT"), "takes ARRAY<ROW>")],
)  # fmt: skip
def test_types_that_java_refuses_are_refused_by_name(name: str, type_: Any, wanted: str) -> None:
    with pytest.raises(SchemaError, match=f"column c: the aggregate function {name} {wanted}"):
        resolve_aggregate(name, parse_type(type_), "c", {})


def test_options_of_nested_functions_are_checked() -> None:
    rows, timed = parse_type(_array(_ROW)), parse_type(_map(_TIMED))
    with pytest.raises(OptionError, match="names x, which is no field"):
        resolve_aggregate("nested_update", rows, "c", {"fields.c.nested-key": "k,x"})
    with pytest.raises(OptionError, match="nested_partial_update needs a key"):
        resolve_aggregate("nested_partial_update", rows, "c", {})
    with pytest.raises(OptionError, match="ts-field names x"):
        resolve_aggregate("merge_map_with_keytime", timed, "c", {"fields.c.ts-field": "x"})
    with pytest.raises(SchemaError, match="field v is INT"):
        resolve_aggregate("merge_map_with_keytime", timed, "c", {"fields.c.ts-field": "v"})
    for name, value in (("nested-sequence-field", "v"), ("nested-key-null-strategy", "error")):
        with pytest.raises(OptionError, match=f"{name} needs a key"):
            resolve_aggregate("nested_update", rows, "c", {f"fields.c.{name}": value})
    keyed = {"fields.c.nested-key": "k"}
    with pytest.raises(OptionError, match="nested-sequence-field names x"):
        resolve_aggregate("nested_update", rows, "c", {**keyed, "fields.c.nested-sequence-field": "v,x"})
    with pytest.raises(OptionError, match="must be one of merge, ignore, error, not 'drop'"):
        resolve_aggregate("nested_update", rows, "c", {**keyed, "fields.c.nested-key-null-strategy": "drop"})
    listed = parse_type(_array({"type": "ROW", "fields": [
        {"id": 1, "name": "k", "type": "INT"}, {"id": 2, "name": "s", "type": _array("INT")}]}))  # fmt: skip
    with pytest.raises(UnsupportedError, match="nested-sequence-field names s, whose type ARRAY<INT> has no order"):
        resolve_aggregate("nested_update", listed, "c", {**keyed, "fields.c.nested-sequence-field": "s"})


@pytest.mark.parametrize("name", ["nested_update", "nested_partial_update"])
def test_a_null_in_a_nested_key_is_refused_where_the_option_says_so(name: str) -> None:
    case = Case(name, _array(_ROW), _lists(_ROWS), {"key": ["k", "l"], "null_keys": "error"})
    good = {"k": 1, "l": "a", "v": 0.5}
    assert run(case, [[([good, None], False), (None, False)]]).to_pylist() == [[good]]
    with pytest.raises(SchemaError, match="a nested row has a NULL in its key"):
        run(case, [[([good], False), ([{"k": 1, "l": None, "v": 0.5}], False)]])


@pytest.mark.parametrize("read", v2_reads("nested_sequence"), ids=read_id)
def test_the_nested_rows_that_spark_reads(read: Read, tmp_path: Path) -> None:
    table = pp.Table.open(v2_copy("nested_sequence", tmp_path))
    assert lines(table.to_arrow()) == read.rows
    nested = [{"k": 1, "s": 4, "v": "four"}, {"k": 2, "s": None, "v": "new"}]
    table.append([{"id": 1, "n": nested}, {"id": 2, "n": [{"k": 1, "s": 0, "v": "old"}]}])
    after = {1: {1: "five", 2: "new"}, 2: {1: "y"}, 3: {1: "zero"}}
    for _ in range(2):
        rows = table.to_arrow().to_pylist()
        assert {row["id"]: {each["k"]: each["v"] for each in row["n"]} for row in rows} == after
        table.compact(full=True)


def test_what_belongs_to_a_function() -> None:
    assert resolve_aggregate("listagg", parse_type("STRING"), "c", {}).options == (
        "list-agg-delimiter", "distinct", "ignore-retract",
    )  # fmt: skip
    assert resolve_aggregate("collect", parse_type(_array("INT")), "c", {}).keeps_arrival_order
