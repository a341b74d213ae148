"""Aggregate functions by columns against the same by rows; what is refused; what belongs to which function."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.types import AtomicType, arrow_type, parse_type
from paimon_pyds.errors import OptionError, SchemaError, UnsupportedError
from paimon_pyds.keys.merge.aggregates import aggregate, configured_aggregate, resolve_aggregate
from support.single_value_model import DivisionError, LimitError, Model

pytestmark = pytest.mark.smoke

Groups = list[list[tuple[Any, bool]]]

_FLOATS = [0.0, -0.0, 1.5, -1.5, math.nan, math.inf, -math.inf, 1e30, 0.1]
_WIDE = [float(np.float32(value)) for value in (0.1, 3.3e38, 1e-45)]
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "TINYINT": st.sampled_from([-128, -1, 0, 1, 2, 3, 127]),
    "SMALLINT": st.sampled_from([-32768, -1, 0, 1, 7, 32767]),
    "INT": st.sampled_from([-(2**31), -1, 0, 1, 7, 2**31 - 1]),
    "BIGINT": st.sampled_from([-(2**63), -1, 0, 1, 7, 2**63 - 1]),
    "FLOAT": st.sampled_from([*_FLOATS[:7], *_WIDE]),
    "DOUBLE": st.sampled_from(_FLOATS),
    "DECIMAL(3, 1)": st.integers(-999, 999).map(lambda v: Decimal(v).scaleb(-1)),
    "DECIMAL(18, 0)": st.sampled_from([-(10**18) + 1, -1, 0, 1, 10**18 - 1]).map(Decimal),
    "DECIMAL(20, 2)": st.sampled_from([-(10**20) + 1, -100, 0, 5, 10**20 - 1]).map(lambda v: Decimal(v).scaleb(-2)),
    "DECIMAL(38, 10)": st.sampled_from([1 - 10**38, -(10**10), 0, 3, 10**10, 10**38 - 1]).map(lambda v: _scaled(v)),
    "STRING": st.sampled_from(["", "a", "ab", "b", "é", "\U0001f600", "￿"]),
    "BYTES": st.sampled_from([b"", b"\x00", b"\x7f", b"\x80", b"\x80\x00", b"\xff"]),
    "BOOLEAN": st.booleans(),
    "DATE": st.dates(),
    "TIMESTAMP(3)": st.datetimes().map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000)),
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": st.datetimes(timezones=st.none()),
}
_WRAPS = {"aggregation-rules": "1.4"}
_NUMBERS = [name for name in _VALUES if name.endswith("INT") or name.startswith(("FLOAT", "DOUBLE", "DECIMAL"))]
_CHOICES = ("last_value", "last_non_null_value", "first_value", "first_non_null_value", "primary-key")
_ORDERED = [name for name in _VALUES if name != "BOOLEAN"]
_TYPES = {
    "sum": _NUMBERS, "product": _NUMBERS, "max": _ORDERED, "min": _ORDERED,
    "bool_and": ["BOOLEAN"], "bool_or": ["BOOLEAN"],
    **{name: list(_VALUES) for name in _CHOICES},
}  # fmt: skip
_RETRACT = {"sum", "product", "last_value", "last_non_null_value", "primary-key"}


def _scaled(unscaled: int) -> Decimal:
    return Decimal((int(unscaled < 0), tuple(int(d) for d in str(abs(unscaled))), -10))


def _groups(value: st.SearchStrategy[Any], retracts: bool) -> st.SearchStrategy[Groups]:
    row = st.tuples(st.none() | value, st.booleans() if retracts else st.just(False))
    return st.lists(st.lists(row, min_size=1, max_size=9), max_size=6)


def _cases(only: str | None = None) -> st.SearchStrategy[tuple[str, str, Groups]]:
    names = [only] if only else list(_TYPES)
    pairs = st.sampled_from([(name, type_) for name in names for type_ in _TYPES[name]])
    return pairs.flatmap(
        lambda pair: st.tuples(st.just(pair[0]), st.just(pair[1]), _groups(_VALUES[pair[1]], pair[0] in _RETRACT))
    )


def run(
    name: str, type_: str, groups: Groups, options: dict[str, str] | None = None, *, chunked: bool = False
) -> pa.Array:
    """The aggregate of groups, as the kernels give it."""
    parsed = parse_type(type_)
    rows = [row for group in groups for row in group]
    values = pa.array([value for value, _ in rows], arrow_type(parsed))
    starts = np.cumsum([0, *(len(group) for group in groups)], dtype=np.int64)[:-1]
    retract = np.array([retract for _, retract in rows], np.bool_)
    function = resolve_aggregate(name, parsed, "c", _WRAPS if options is None else options)
    if chunked:
        return aggregate(function, pa.chunked_array([values[:1], values[1:]]), starts, retract)
    return aggregate(function, values, starts, retract)


def _shown(values: Sequence[Any]) -> list[str]:
    """Texts that tell NaN from NaN, -0.0 from 0.0 and 1 from True."""
    return [repr(value) for value in values]


_FOUND: list[tuple[str, str, Groups]] = [
    ("sum", "DECIMAL(38, 10)", [[(_scaled(10**38 - 1), False)] * 2 + [(_scaled(3), False)]]),
    ("sum", "DECIMAL(18, 0)", [[(Decimal(10**18 - 1), False)] * 9]),
    ("sum", "DECIMAL(18, 0)", [[(Decimal(10**18 - 1), False)] * 10]),
    ("product", "TINYINT", [[(-128, False), (-1, True)]]),
    ("max", "DOUBLE", [[(-0.0, False), (0.0, False)], [(math.nan, False), (math.inf, False)]]),
]


@pytest.mark.parametrize("name", _TYPES)
@given(st.data())
def test_kernels_do_what_rows_one_by_one_do(name: str, data: st.DataObject) -> None:
    _assert_as_modelled(data.draw(_cases(name)))


@pytest.mark.parametrize("rules", [None, "2.1"])
@pytest.mark.parametrize("name", ["sum", "product"])
@given(st.data())
def test_integers_outside_of_their_type_are_refused(name: str, rules: str | None, data: st.DataObject) -> None:
    _assert_as_modelled(data.draw(_cases(name)), {} if rules is None else {"aggregation-rules": rules})


def test_the_step_that_overflows_is_named() -> None:
    tell = "aggregation-rules=1.4"
    for name, rows, step in (
        ("sum", [(1, False), (126, False), (1, False), (-5, False)], r"127 \+ 1"),
        ("sum", [(-128, True)], "0 - -128"), ("product", [(64, False), (-3, False)], r"64 \* -3"),
        ("product", [(-128, False), (-1, True)], "-128 / -1"),
    ):  # fmt: skip
        with pytest.raises(SchemaError, match=f"column c: a {name} leaves the range of TINYINT: {step}") as refused:
            run(name, "TINYINT", [[(1, False)], rows], {})
        assert tell in str(refused.value)


@pytest.mark.parametrize("case", _FOUND)
def test_values_at_the_limits(case: tuple[str, str, Groups]) -> None:
    _assert_as_modelled(case)
    _assert_as_modelled(case, {})


def _assert_as_modelled(case: tuple[str, str, Groups], options: dict[str, str] = _WRAPS) -> None:
    name, type_, groups = case
    parsed = parse_type(type_)
    assert isinstance(parsed, AtomicType)
    model = Model(name, parsed, wraps=options == _WRAPS)
    as_stored = [pa.array([value for value, _ in group], arrow_type(parsed)).to_pylist() for group in groups]
    rows = [
        [(v, retract) for v, (_, retract) in zip(*pair, strict=True)] for pair in zip(as_stored, groups, strict=True)
    ]
    try:
        expected = [model.fold(group) for group in rows]
    except (DivisionError, LimitError):
        with pytest.raises(SchemaError, match="column c"):
            run(name, type_, groups, options)
        return
    found = run(name, type_, groups, options)
    assert found.type == arrow_type(parsed)
    assert len(found) == len(groups)
    assert _shown(found.to_pylist()) == _shown(expected)


@given(_cases().filter(lambda case: case[0] != "product"), st.data())
def test_an_earlier_result_takes_the_place_of_its_rows(case: tuple[str, str, Groups], data: st.DataObject) -> None:
    """Additions only: what was merged in an older level is merged again with newer rows."""
    name, type_, groups = case
    if type_ in ("FLOAT", "DOUBLE") and name == "sum":
        return  # rounded at each step
    added = [[(value, False) for value, _ in group] for group in groups]
    if type_.startswith("DECIMAL") and name == "sum":
        return  # overflow on the way makes the sum begin anew
    cuts = [data.draw(st.integers(1, len(group))) for group in added]
    older = run(name, type_, [group[:cut] for group, cut in zip(added, cuts, strict=True)]).to_pylist()
    again = [[(value, False), *group[cut:]] for value, group, cut in zip(older, added, cuts, strict=True)]
    assert _shown(run(name, type_, again).to_pylist()) == _shown(run(name, type_, added).to_pylist())


@given(_cases())
def test_ignore_retract_passes_rows_over_that_take_back(case: tuple[str, str, Groups]) -> None:
    name, type_, groups = case
    marked = [[(value, index % 3 == 1) for index, (value, _) in enumerate(group)] for group in groups]
    kept = [[(value, False) for value, retract in group if not retract] for group in marked]
    found = run(name, type_, marked, {**_WRAPS, "fields.c.ignore-retract": "true"})
    assert _shown(found.to_pylist()) == _shown(run(name, type_, kept).to_pylist())


def test_a_group_may_have_nothing_but_rows_that_are_ignored() -> None:
    groups: Groups = [[(1, True)], [(2, False), (3, True)]]
    for name in _TYPES:
        if "INT" in _TYPES[name]:
            found = run(name, "INT", groups, {"fields.c.ignore-retract": "true"})
            assert found.to_pylist() == [None, 2], name


@pytest.mark.parametrize("name", sorted(set(_TYPES) - _RETRACT))
def test_a_function_that_cannot_retract_says_so(name: str) -> None:
    type_ = _TYPES[name][0]
    value: Any = True if type_ == "BOOLEAN" else 1
    with pytest.raises(UnsupportedError, match=rf"column c: the aggregate function {name} can't take back") as refused:
        run(name, type_, [[(value, False), (value, True)]])
    assert "fields.c.ignore-retract" in str(refused.value)


def test_long_groups_and_chunks() -> None:
    numbers = np.random.default_rng(1).normal(size=10_000)
    groups = [[(float(v), False) for v in numbers[:7000]], [(float(v), False) for v in numbers[7000:]]]
    model = Model("sum", AtomicType(parse_type("DOUBLE").kind))
    assert run("sum", "DOUBLE", groups, chunked=True).to_pylist() == [model.fold(group) for group in groups]
    assert run("max", "DOUBLE", groups, chunked=True).to_pylist() == [max(numbers[:7000]), max(numbers[7000:])]


def test_sliced_arrays() -> None:
    for type_, values in (("INT", [9, 1, 2, None, 4]), ("DOUBLE", [9.0, 1.0, 2.0, None, 4.0]),
                          ("DECIMAL(20, 0)", [Decimal(v) for v in (9, 1, 2)] + [None, Decimal(4)])):  # fmt: skip
        parsed = parse_type(type_)
        array = pa.array(values, arrow_type(parsed))[1:]
        for name, expected in (("sum", [3, 4]), ("product", [2, 4]), ("max", [2, 4]), ("min", [1, 4])):
            function = resolve_aggregate(name, parsed, "c", {})
            found = aggregate(function, array, np.array([0, 2]), np.zeros(4, np.bool_))
            assert found.to_pylist() == expected, (name, type_)


@pytest.mark.parametrize(
    ("name", "type_"),
    [("sum", "STRING"), ("sum", "DATE"), ("product", "BOOLEAN"), ("bool_and", "INT"), ("bool_or", "STRING"),
     ("max", "BOOLEAN"), ("min", {"type": "ARRAY", "element": "INT"})],
)  # fmt: skip
def test_types_that_java_refuses_are_refused_by_name(name: str, type_: Any) -> None:
    with pytest.raises(SchemaError, match=rf"column c: the aggregate function {name} takes"):
        resolve_aggregate(name, parse_type(type_), "c", {})


@pytest.mark.parametrize("name", ["count", "avg", "", "SUM"])
def test_functions_that_java_does_not_have_are_refused_by_name(name: str) -> None:
    with pytest.raises(UnsupportedError, match=f"there is no aggregate function '{name}'"):
        resolve_aggregate(name, parse_type("INT"), "c", {})


def test_options_that_contradict_each_other_are_refused() -> None:
    options = {"fields.c.ignore-retract": "true", "aggregation.remove-record-on-delete": "true"}
    with pytest.raises(OptionError, match="contradict"):
        resolve_aggregate("sum", parse_type("INT"), "c", options)
    resolve_aggregate("sum", parse_type("INT"), "other", options)


def test_the_function_that_options_name() -> None:
    options = TableOptions({"fields.a.aggregate-function": "sum", "fields.default-aggregate-function": "max"})
    assert configured_aggregate("a", options) == "sum"
    assert configured_aggregate("b", options) == "max"
    assert configured_aggregate("b", TableOptions({})) is None
