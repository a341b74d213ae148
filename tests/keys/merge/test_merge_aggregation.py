"""The merge engine aggregation: which versions of a key a column's function is given, in which order."""

from __future__ import annotations

from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_pyds.base.types import from_arrow_schema
from paimon_pyds.errors import UnsupportedError
from paimon_pyds.keys.merge.merger import RowMerger
from paimon_pyds.metadata.schema import TableSchema
from support.aggregate_model import FUNCTIONS, aggregator
from support.engine_model import (
    DELETE,
    INSERT,
    KIND,
    SEQ,
    UPDATE_AFTER,
    UPDATE_BEFORE,
    Order,
    RefusedError,
    Row,
    merged,
)
from support.partial_update_model import aggregation

_TABLE = pa.schema([("k", pa.int32()), ("s", pa.int32()), ("v", pa.int64()), ("w", pa.int64())])
_FILE = pa.schema([("_KEY_k", pa.int32()), (SEQ, pa.int64()), (KIND, pa.int8()), *_TABLE])


def _rows() -> st.SearchStrategy[list[Row]]:
    kinds = st.sampled_from([INSERT, INSERT, UPDATE_AFTER, UPDATE_BEFORE, DELETE])
    numbers = st.none() | st.integers(-5, 5)
    row = st.fixed_dictionaries(
        {"_KEY_k": st.integers(0, 3), SEQ: st.integers(0, 9), KIND: kinds, "s": numbers, "v": numbers, "w": numbers}
    )
    return st.lists(row.map(lambda found: {**found, "k": found["_KEY_k"]}), max_size=20)


def _merger(options: dict[str, str]) -> RowMerger:
    fields = from_arrow_schema(_TABLE)
    options = {"merge-engine": "aggregation", **options}
    return RowMerger(TableSchema(0, fields, len(fields), primary_keys=("k",), options=options))


@given(
    rows=_rows(),
    functions=st.tuples(st.sampled_from([*FUNCTIONS, None]), st.sampled_from([*FUNCTIONS, None])),
    ignore_retract=st.booleans(),
    remove=st.booleans(),
    sequence=st.booleans(),
)
def test_every_column_has_a_function(
    rows: list[Row], functions: tuple[str | None, str | None], ignore_retract: bool, remove: bool, sequence: bool
) -> None:
    v, default = functions
    ignore_retract = ignore_retract and not remove
    options = {"aggregation.remove-record-on-delete": str(remove).lower()}
    if v is not None:
        options["fields.v.aggregate-function"] = v
    if default is not None:
        options["fields.default-aggregate-function"] = default
    if ignore_retract:
        options |= {f"fields.{name}.ignore-retract": "true" for name in "svw"}
    if sequence:
        options["sequence.field"] = "s"
    last = default or "last_non_null_value"
    named = {"s": "last_value" if sequence else last, "v": v or last, "w": last}
    made = {name: partial(aggregator, function, ignore_retract) for name, function in named.items()}
    merger, batch = _merger(options), pa.RecordBatch.from_pylist(rows, schema=_FILE)
    try:
        expected = merged(
            rows, ["_KEY_k"], Order(("s",) if sequence else ()), aggregation(made, remove_on_delete=remove)
        )
    except RefusedError:
        with pytest.raises(UnsupportedError, match="take back"):
            merger.merge(batch)
        return
    found: list[dict[str, Any]] = merger.merge(batch).to_pylist()
    assert found == [{name: row[name] for name in _FILE.names} for row in expected]
    assert merger.merge(merger.needed(batch)).to_pylist() == found


def test_the_example_of_max_and_sum() -> None:
    """Documentation: price by max, sales by sum."""
    merger = _merger({"fields.v.aggregate-function": "max", "fields.w.aggregate-function": "sum"})
    rows = [
        {"_KEY_k": 1, "k": 1, SEQ: 0, KIND: INSERT, "s": 7, "v": 23, "w": 15},
        {"_KEY_k": 1, "k": 1, SEQ: 1, KIND: UPDATE_AFTER, "s": None, "v": 30, "w": 20},
    ]
    found = merger.merge(pa.RecordBatch.from_pylist(rows, schema=_FILE))
    assert found.to_pylist() == [{**rows[1], KIND: INSERT, "s": 7, "v": 30, "w": 35}]
