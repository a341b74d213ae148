"""Delta and Iceberg tables that their own libraries write: their libraries read the same rows as we do."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp

_NAMES = ["a b", "ü%/=", "plain", None]
_STEPS = 12


def _rows(rng: random.Random, first: int, more: bool) -> pa.Table:
    count = rng.randrange(1, 6)
    columns: dict[str, Any] = {
        "k": pa.array(range(first, first + count), pa.int64()),
        "name": pa.array([rng.choice(_NAMES) for _ in range(count)], pa.string()),
    }
    if more:
        columns["more"] = pa.array([rng.random() for _ in range(count)], pa.float64())
    return pa.table(columns)


def _sorted(rows: pa.Table) -> list[dict[str, Any]]:
    return sorted(rows.to_pylist(), key=lambda row: row["k"])


@pytest.mark.parametrize("seed", range(3))
def test_delta_tables(tmp_path: Path, seed: int) -> None:
    deltalake = pytest.importorskip("deltalake")
    rng, source = random.Random(seed), str(tmp_path / "s")
    deltalake.write_deltalake(source, _rows(rng, 0, False), partition_by=["name"])
    for step in range(1, _STEPS):
        table = deltalake.DeltaTable(source)
        match rng.choice(["append", "widen", "delete", "replace", "compact", "checkpoint"]):
            case "delete":
                table.delete(f"k % 3 = {rng.randrange(3)}")
            case "replace":
                rows = pa.table({"k": pa.array([step * 10], pa.int64()), "name": ["plain"]})
                deltalake.write_deltalake(
                    source, rows, mode="overwrite", predicate="name = 'plain'", schema_mode="merge"
                )
            case "compact":
                table.optimize.compact()
            case "checkpoint":
                table.create_checkpoint()
            case kind:
                rows = _rows(rng, step * 10, kind == "widen")
                deltalake.write_deltalake(source, rows, mode="append", schema_mode="merge")
        expected = deltalake.DeltaTable(source)
        done = pp.migrate(source, str(tmp_path / f"t{step}"))
        assert done.files.num_rows + done.empty == len(expected.file_uris())
        found = pp.Table.open(tmp_path / f"t{step}").scan().to_arrow()
        assert _sorted(found) == _sorted(expected.to_pyarrow_table())


@pytest.mark.filterwarnings("ignore:Delete operation did not match any records")
@pytest.mark.parametrize("seed", range(3))
def test_iceberg_tables(tmp_path: Path, seed: int) -> None:
    pytest.importorskip("pyiceberg")
    pytest.importorskip("sqlalchemy")
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.transforms import IdentityTransform
    from pyiceberg.types import DoubleType

    rng = random.Random(seed)
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/wh")
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", _rows(rng, 0, False).schema)
    for step in range(_STEPS):
        match rng.choice(["append", "append", "delete", "overwrite", "widen", "rename", "partition"]):
            case "append":
                rows = _rows(rng, step * 10, "more" in table.schema().column_names)
                table.append(rows.rename_columns(table.schema().column_names[: rows.num_columns]))
            case "delete":  # pyiceberg writes files anew
                table.delete(f"k >= {step * 5} and k < {step * 5 + 3}")
            case "overwrite":
                rows = _rows(rng, step * 10, False)
                table.overwrite(rows.rename_columns(table.schema().column_names[:2]))
            case "widen" if "more" not in table.schema().column_names:
                with table.update_schema() as update:
                    update.add_column("more", DoubleType())
            case "rename":
                with table.update_schema() as update:
                    update.rename_column(table.schema().column_names[1], f"name{step}")
            case "partition" if not table.spec().fields:
                with table.update_spec() as update:
                    update.add_field(table.schema().column_names[1], IdentityTransform(), "part")
        done = pp.migrate(table.metadata_location.removeprefix("file://"), str(tmp_path / f"t{step}"))
        assert done.files.num_rows + done.empty == len(list(table.scan().plan_files()))
        found = pp.Table.open(tmp_path / f"t{step}").scan().to_arrow()
        assert _sorted(found) == _sorted(table.scan().to_arrow())
