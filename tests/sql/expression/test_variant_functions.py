"""Functions of VARIANT in filters and new values of rows. `test_variant_spark` compares their values with Spark's."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import paimon_pyds as pp
from paimon_pyds.errors import PredicateError
from support.variants import same

_VALUES: list[Any] = [{"a": {"b": 5}, "l": [1, "x"]}, {"a": {"b": "7"}, "it's": 2}, None, [None], {"a": 2.5}]
_TEXTS = ['{"q": 1.5}', "[1", None, "null", "[]"]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> pp.Table:
    made = pp.Table.create(tmp_path_factory.mktemp("v") / "t", "id BIGINT, v VARIANT, s STRING")
    made.append({"id": [0, 1, 2, 3, 4], "v": _VALUES, "s": _TEXTS})
    return made


FOUND: dict[str, list[int]] = {
    "variant_get(v, '$.a.b', 'int') = 5": [0],
    "v:a.b::int > 5": [1],
    "v:a.b::int IN (5, 6, 7)": [0, 1],
    "v:l[1]::string = 'x'": [0],
    "CAST(v:`it's` AS BIGINT) = 2": [1],
    "v:l['x'] IS NOT NULL OR v:l[0] IS NOT NULL": [0],
    "is_variant_null(variant_get(v, '$[0]'))": [3],
    "is_variant_null(v:a)": [],
    "NOT is_variant_null(v) AND v IS NULL": [2],
    "to_json(v) LIKE '%x%'": [0],
    "schema_of_variant(v) = 'OBJECT<a: OBJECT<b: BIGINT>, l: ARRAY<VARIANT>>'": [0],
    "schema_of_variant(v) = 'ARRAY<VOID>' OR schema_of_variant(v:a.b) = 'STRING'": [1, 3],
    'to_json(struct(v AS w)) = \'{"w":{"a":2.5}}\'': [4],
    "try_variant_get(v, '$.a', 'int') IS NOT NULL": [4],
    "try_cast(v AS STRING) = '[null]'": [3],
    "variant_get(v, '$.a.b', 'decimal(4,1)') = 7.0": [1],
    "array_contains(variant_get(v, '$.l', 'array<string>'), 'x')": [0],
    "try_variant_get(v, '$.a', 'struct<b bigint, c array<struct<d int>>>').b = 7": [1],
    "try_variant_get(v, '$', 'map<string, string>')['a'] = '2.5'": [4],
    "try_parse_json(s):q::double > 1": [0],
    "is_variant_null(try_parse_json(s))": [3],
    "try_parse_json(s) IS NULL": [1, 2],
    "typeof(v) = 'variant' AND coalesce(try_variant_get(v, '$.a.b', 'int'), 9) = 9": [2, 3, 4],
    "to_json(CAST(id AS VARIANT)) = '3'": [3],
}


@pytest.mark.parametrize("condition", FOUND)
def test_rows_are_found(table: pp.Table, condition: str) -> None:
    assert table.scan(condition, columns=["id"]).to_arrow()["id"].to_pylist() == FOUND[condition]


REFUSED = {
    "v = v": "values of VARIANT can't be compared; take a part with a type",
    "v:a IN (parse_json('1'))": "values of VARIANT can't be compared",
    "v:a.b = 5": "no common type|can't be compared",
    "variant_get(v, '$.a', 'int') = 1": 'the VARIANT {"b":5} can\'t be cast to INT',
    "variant_get(v, 'a') IS NULL": "'a' is no path",
    "variant_get(v, s, 'int') = 1": "the path is a text that is the same for all rows",
    "variant_get(v, '$.a', 'in') = 1": "expected a type",
    "variant_get(v, '$.a', 'int x') = 1": "expected the end of the type",
    "variant_get(s, '$.a', 'int') = 1": "a VARIANT is wanted, not a VARCHAR; parse_json makes one",
    "variant_get(v, '$', 'map<int,int>') IS NULL": "keys of a VARIANT are texts",
    "parse_json(s) IS NULL": r"'\[1' is no JSON",
    "v:a[-1] IS NULL": "expected",
    "CAST(array(1) AS VARIANT) IS NULL": "a ARRAY can't be cast to VARIANT",
}


@pytest.mark.parametrize("condition", REFUSED)
def test_what_can_not_be_answered_says_why(table: pp.Table, condition: str) -> None:
    with pytest.raises(PredicateError, match=REFUSED[condition]):
        table.count(condition)


def test_new_values(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", "id BIGINT, v VARIANT, s STRING, n INT")
    table.append({"id": [0, 1, 2, 3, 4], "v": _VALUES, "s": _TEXTS, "n": [0] * 5})
    table.update({"n": "coalesce(try_variant_get(v, '$.a.b', 'int'), -1)", "v": "coalesce(try_parse_json(s), v:a)"})
    rows = table.scan().to_arrow().sort_by("id")
    assert rows["n"].to_pylist() == [5, 7, -1, -1, -1]
    values = [{"q": Decimal("1.5")}, {"b": "7"}, None, None, []]
    assert [same(v) for v in pp.variant_values(rows["v"])] == [same(v) for v in values]
    table.update({"v": "CAST(n AS VARIANT)"}, "id < 2")
    table.update({"v": None}, "id = 4")
    rows = table.scan().to_arrow().sort_by("id")
    assert pp.variant_values(rows["v"]) == [5, 7, None, None, None]
    assert rows["v"].is_null().to_pylist() == [False, False, True, False, True]
