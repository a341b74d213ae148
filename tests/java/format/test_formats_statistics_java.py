"""Our statistics against those that Java Paimon stored in its manifests, recomputed from its data files."""

from __future__ import annotations

import datetime
import decimal
import json
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paimon_pyds.base.types import DataField, Kind, arrow_schema, field_from_json
from paimon_pyds.format.statistics import StatsCollector, stats_modes
from support.effort import sampled
from support.fixtures import DEV, json_lines, requires_shared

_EPOCH_DAY = 719162  # days from 0001-01-01 to 1970-01-01


def _fixtures() -> list[str]:
    if DEV is None:
        return []
    kinds = ("append_", "part_", "evolve_append", "evolve_index", "manifest_")
    return [folder.name for folder in sorted(DEV.iterdir()) if folder.is_dir() and folder.name.startswith(kinds)]


def _schema(table: Path, number: int) -> tuple[list[DataField], dict[str, str]]:
    raw = json.loads((table / "schema" / f"schema-{number}").read_text(encoding="utf-8"))
    return [field_from_json(f) for f in raw["fields"]], raw["options"]


def _canonical(value: Any, field: DataField) -> Any:
    """The oracle's JSON form of an internal value."""
    kind = field.type.kind
    if value is None or kind in (Kind.BOOLEAN, Kind.CHAR, Kind.VARCHAR):
        return value
    if kind in (Kind.FLOAT, Kind.DOUBLE):
        return float(value)
    if kind is Kind.DECIMAL:
        return decimal.Decimal(value)
    return int(value)


def _expected(value: Any, field: DataField) -> Any:
    kind = field.type.kind
    if value is None:
        return None
    if kind in (Kind.FLOAT, Kind.DOUBLE):
        return float(value)
    if kind is Kind.DECIMAL:
        return decimal.Decimal(value)
    if kind is Kind.DATE:
        y, m, d = map(int, value.split("-"))
        return datetime.date(y, m, d).toordinal() - _EPOCH_DAY - 1
    if kind is Kind.TIME:
        h, m, s = value.split(":")
        return round((int(h) * 3600 + int(m) * 60 + float(s)) * 1000)
    if kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ):
        unit = arrow_schema([field]).field(0).type.unit
        return pa.scalar(value.rstrip("Z"), pa.string()).cast(pa.timestamp("us")).cast(pa.timestamp(unit)).value
    return value


def _same(ours: Any, java: Any) -> bool:
    if isinstance(ours, float) and isinstance(java, float):
        return (math.isnan(ours) and math.isnan(java)) or ours == java
    return type(ours) is type(java) and ours == java


@requires_shared
@pytest.mark.parametrize("name", sampled(_fixtures(), 15))
def test_equal_java(name: str) -> None:
    folder = DEV / name
    listing = next(iter((folder / "expected").glob("files.jsonl*")), None)
    if listing is None:
        pytest.skip("no listing of files")
    table = folder / "table" / "db.db" / "t"
    compared = 0
    for entry in json_lines(listing):
        if not entry["fileName"].endswith(".parquet") or "valueStats" not in entry:
            continue
        path = next(iter(table.rglob(entry["fileName"])), None)
        if path is None:
            continue
        fields, options = _schema(table, entry["schemaId"])
        if any(f.type.kind is Kind.VARIANT for f in fields):
            continue
        if entry["writeCols"]:
            fields = [f for f in fields if f.name in entry["writeCols"]]
        collector = StatsCollector(fields, stats_modes(fields, options))
        for batch in pq.ParquetFile(path, coerce_int96_timestamp_unit="us").iter_batches(batch_size=7):
            collector.update(batch.select([f.name for f in fields]))
        stats = collector.finish()
        columns = entry["valueStatsCols"]
        dense = options.get("metadata.stats-dense-store", "true") == "true"
        kept = [c for c in stats if not c.is_none or not dense]
        assert [c.field.name for c in kept] == (columns if columns is not None else [f.name for f in fields])
        java = entry["valueStats"]
        for i, c in enumerate(kept):
            column = c.field.name
            assert c.null_count == java["nullCounts"][i], column
            if not c.field.type.nullable and c.minimum is None:
                continue  # the listing prints the zero in the slot of a null when the type is NOT NULL
            for ours, theirs in ((c.minimum, java["min"][column]), (c.maximum, java["max"][column])):
                assert _same(_canonical(ours, c.field), _expected(theirs, c.field)), (path, column, ours, theirs)
                compared += 1
    if compared == 0:
        pytest.skip("no Parquet file with statistics")
