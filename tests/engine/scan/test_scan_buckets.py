"""Pruning by buckets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.types import DataField, parse_type


@pytest.mark.parametrize(
    ("before", "after", "prunes"),
    [
        ("INT", "BIGINT", False),
        ("INT", "INT NOT NULL", True),
        ("BIGINT", "STRING", False),
        ("VARCHAR(9)", "STRING", True),
        ("CHAR(3)", "VARCHAR(5)", True),
        ("STRING", "VARCHAR(2)", False),
    ],
)
def test_bucket_keys_whose_type_was_changed(before: str, after: str, prunes: bool, tmp_path: Path) -> None:
    """As Java allows it: old rows stay in the bucket of their old hash, also when their file is rewritten."""
    numbers = before in ("INT", "BIGINT")
    values = list(range(-8, 8)) if numbers else [f"{n:03}" for n in range(16)]
    fields = [DataField(0, "k", parse_type(before))]
    table = pp.Table.create(tmp_path / "t", fields, options={"bucket": "4", "bucket-key": "k"})
    table.append(pa.table({"k": values}, table.arrow_schema))
    old = table.schema
    retyped = replace(old, id=1, fields=(replace(old.fields[0], type=parse_type(after)),))
    assert table._store.try_create_schema(retyped)
    for _ in range(2):
        shown = table.scan(columns=["k"]).to_arrow().column("k").to_pylist()
        assert len(shown) == len(values)
        for value in set(shown):
            text = f"'{value}'" if isinstance(value, str) else str(value)
            assert table.scan(f"k = {text}").to_arrow().num_rows == shown.count(value)
        text = f"'{shown[0]}'" if isinstance(shown[0], str) else str(shown[0])
        steps = [step.name for step in table.scan(f"k = {text}").plan().steps if step.name == "buckets"]
        assert bool(steps) is prunes
        table.compact(full=True)
