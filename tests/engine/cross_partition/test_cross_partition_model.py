"""Keys that move between partitions: after each write the table holds what a model holds that takes row after row."""

from __future__ import annotations

import tempfile
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_pyds.engine.cross_partition import key_places
from support.effort import LONG, sampled
from support.engine_model import KIND, Row
from support.moving_keys import ENGINES, OP, Model, create, data, fitting, found

_ROW = st.fixed_dictionaries(
    {
        KIND: st.integers(0, 9),
        "p": st.sampled_from([None, 0, 1]),
        "q": st.sampled_from(["x", "y"]),
        "id": st.integers(0, 12),
        "a": st.none() | st.integers(-5, 5),
        "b": st.none() | st.sampled_from(["x", "y"]),
        "l": st.none() | st.integers(-(2**40), 2**40),
    }
)
_STEPS = st.lists(
    st.tuples(st.sampled_from(["append"] * 5 + ["overwrite", "compact"]), st.lists(_ROW, max_size=16)),
    min_size=1, max_size=4,
)  # fmt: skip
_LAYOUTS = st.sampled_from(
    [{}, {"write-only": "true"}, {"write-buffer-size": "1 b"}, {"target-file-row-num": "2"}, {"file.format": "orc"},
     {"data-file.thin-mode": "true", "file.format": "avro"}, {"dynamic-bucket.max-buckets": "2"},
     {"num-sorted-run.compaction-trigger": "2", "dynamic-bucket.target-row-num": "1"}]
)  # fmt: skip


@pytest.mark.parametrize("name", sampled(ENGINES, 3))
@settings(max_examples=1000 if LONG else 2, deadline=None)
@given(steps=_STEPS, layout=_LAYOUTS, whole=st.booleans(), few=st.sampled_from([0, 1024]))
def test_a_table_is_its_model_after_each_step(
    name: str, steps: list[tuple[str, list[Row]]], layout: dict[str, str], whole: bool, few: int
) -> None:
    """Whether keys are looked up or joined."""
    engine = ENGINES[name]
    if layout.get("write-only") and name in ("vectors", "first-row"):
        layout = {}  # readers would not see the rows
    key = ("id",) if whole else ("id", "q")
    with tempfile.TemporaryDirectory() as directory, mock.patch.object(key_places, "FEW_KEYS", few):
        table, model = create(f"{directory}/t", engine, key, **layout), Model(engine, key)
        for step, rows in steps:
            rows = fitting(rows, engine)
            if step == "append":
                table.append(data(rows), options=OP)
                model.write(rows)
            elif step == "overwrite":
                table.overwrite(data(rows), options=OP)
                model.overwrite(rows)
            else:
                table.compact(full=True)
            assert found(table) == model.rows()
            buckets = table.scan(columns=["id", "q", "__paimon_bucket"]).to_arrow()["__paimon_bucket"].to_pylist()
            assert all(0 <= bucket < int(layout.get("dynamic-bucket.max-buckets", 1 << 20)) for bucket in buckets)
