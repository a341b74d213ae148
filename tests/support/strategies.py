"""Hypothesis strategies: Paimon columns of every type and Arrow data for them."""

from __future__ import annotations

import datetime
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from paimon_pyds.base.types import DataField, arrow_schema, arrow_type, parse_type

INT_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
DAY = 86_400

ATOMS = [
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(4, 2)", "DECIMAL(18, 0)",
    "DECIMAL(38, 10)", "CHAR(4)", "VARCHAR(20)", "STRING", "BINARY(4)", "BYTES", "DATE", "TIME(3)", "TIMESTAMP(3)",
    "TIMESTAMP(6)", "TIMESTAMP(9)", "TIMESTAMP(3) WITH LOCAL TIME ZONE", "TIMESTAMP(6) WITH LOCAL TIME ZONE",
]  # fmt: skip

NESTED: list[Any] = [
    {"type": "ARRAY", "element": "INT"},
    {"type": "MAP", "key": "STRING NOT NULL", "value": "BIGINT"},
    {"type": "ROW", "fields": [{"id": 100, "name": "x", "type": "INT"}, {"id": 101, "name": "y", "type": "STRING"}]},
    {"type": "ARRAY", "element": {"type": "ROW", "fields": [{"id": 102, "name": "z", "type": "DOUBLE"}]}},
]


def values(text: str) -> st.SearchStrategy[Any]:
    """Values of an atomic type, in the form that `pyarrow.array` takes for its Arrow type; no NULL."""
    name = text.split("(")[0]
    if name in INT_BITS:
        bits = INT_BITS[name]
        return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    if name == "BOOLEAN":
        return st.booleans()
    if name in ("FLOAT", "DOUBLE"):
        return st.floats(width=32 if name == "FLOAT" else 64)
    if name == "DECIMAL":
        precision, scale = (int(p) for p in text[8:-1].split(","))
        whole = st.integers(-(10**precision) + 1, 10**precision - 1)
        return whole.map(lambda v: Decimal(v).scaleb(-scale, Context(prec=60)))
    if name in ("CHAR", "VARCHAR"):
        return st.text(st.characters(exclude_categories=["Cs"]), max_size=int(text.split("(")[1][:-1]))
    if name == "STRING":
        return st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
    if name == "BINARY":
        return st.binary(min_size=4, max_size=4)
    if name == "BYTES":
        return st.binary(max_size=30)
    if name == "DATE":
        return st.dates(datetime.date(1600, 1, 1))
    if name == "TIME":
        return st.integers(0, DAY * 1000 - 1)
    unit = {"3": 10**3, "6": 10**6, "9": 10**9}[text.split("(")[1][0]]
    return st.integers(-9_000_000_000 * unit, 9_000_000_000 * unit)


def column(text: str, *, nullable: bool = True, size: int) -> st.SearchStrategy[pa.Array]:
    """An Arrow array of an atomic type; a fifth of the values NULL when nullable."""
    type_ = arrow_type(parse_type(text))
    value = st.one_of(st.none(), *[values(text)] * 4) if nullable else values(text)
    return st.lists(value, min_size=size, max_size=size).map(lambda v: pa.array(v, type_))


def nested_column(json: Any, *, size: int) -> st.SearchStrategy[pa.Array]:
    """An Arrow array of one of the nested types."""
    type_ = parse_type(json)
    return st.lists(_nested_value(json), min_size=size, max_size=size).map(lambda v: pa.array(v, arrow_type(type_)))


def _nested_value(json: Any) -> st.SearchStrategy[Any]:
    if isinstance(json, str):
        plain = values(json.removesuffix(" NOT NULL"))
        return plain if json.endswith("NOT NULL") else st.none() | plain
    kind = json["type"].split()[0]
    if kind == "ARRAY":
        inner: st.SearchStrategy[Any] = st.lists(_nested_value(json["element"]), max_size=4)
    elif kind == "MAP":
        inner = st.dictionaries(_nested_value(json["key"]), _nested_value(json["value"]), max_size=4).map(
            lambda d: list(d.items())
        )
    else:
        inner = st.fixed_dictionaries({f["name"]: _nested_value(f["type"]) for f in json["fields"]})
    return st.none() | inner


@st.composite
def tables(
    draw: st.DrawFn, *, types: list[Any] | None = None, max_rows: int = 40, max_columns: int = 6
) -> tuple[tuple[DataField, ...], pa.Table]:
    """Columns of random types with random rows, the first column a NOT NULL BIGINT counter ``id``."""
    chosen = draw(st.lists(st.sampled_from(types or [*ATOMS, *NESTED]), min_size=1, max_size=max_columns))
    rows = draw(st.integers(0, max_rows))
    fields = [DataField(0, "id", parse_type("BIGINT NOT NULL"))]
    arrays = [pa.array(range(rows), pa.int64())]
    for i, json in enumerate(chosen, 1):
        fields.append(DataField(1000 * i, f"c{i}", parse_type(_renumbered(json, 1000 * i))))
        arrays.append(draw(column(json, size=rows) if isinstance(json, str) else nested_column(json, size=rows)))
    return tuple(fields), pa.Table.from_arrays(arrays, schema=arrow_schema(fields))


def _renumbered(json: Any, base: int) -> Any:
    if isinstance(json, dict):
        return {k: base + v if k == "id" else _renumbered(v, base) for k, v in json.items()}
    return [_renumbered(v, base) for v in json] if isinstance(json, list) else json
