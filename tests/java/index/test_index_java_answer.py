"""What `index eval` prints is what Java says of the same container, SKIP and no positions told apart."""

from __future__ import annotations

import json
from typing import Any

import pyarrow.parquet as pq
import pytest

from paimon_pyds.base.types import DataField, DataType, MapType
from paimon_pyds.cli.main import main
from paimon_pyds.index.evaluate import FileIndex
from paimon_pyds.storage.byte_source import BytesSource
from support.effort import sampled
from support.fixtures import DEV, fixture_names, json_lines, meta, table_fields, table_path
from support.java_quirks import is_coarse, is_java_bug, tells_zeros_apart
from support.oracle_sql import to_sql

pytestmark = pytest.mark.skipif(DEV is None, reason="needs tables written by Java Paimon")

NAMES = [name for name in fixture_names() if meta(name)["index"]]


def leaves(predicate: dict[str, Any]) -> list[dict[str, Any]]:
    return [leaf for p in predicate["args"] for leaf in leaves(p)] if "args" in predicate else [predicate]


def types_of(predicates: list[dict[str, Any]], fields: tuple[DataField, ...]) -> dict[str, DataType]:
    types = {f.name: f.type for f in fields}
    for name in {leaf["field"] for p in predicates for leaf in leaves(p)} - types.keys():
        outer = types[name.partition("[")[0]]
        assert isinstance(outer, MapType)
        types[name] = outer.value
    return types


def row_counts(name: str) -> dict[str, int]:
    """Rows of each data file, as Java lists them."""
    files = (f for listing in sorted((DEV / name / "expected").glob("files*")) for f in json_lines(listing))  # type: ignore[operator]
    return {f["fileName"]: f["rowCount"] for f in files if "rowCount" in f}


def cases(name: str) -> list[tuple[str, int, dict[str, Any], Any]]:
    """(container, rows, predicate, Java's answer) where Java is right and its answer is not a matter of chance."""
    predicates = meta(name)["index_predicates"]
    types = types_of(predicates, table_fields(table_path(name)))
    counts, found = row_counts(name), []
    for entry in meta(name)["index"]:
        path = DEV / name / entry["file"]  # type: ignore[operator]
        head = FileIndex.open(BytesSource(path.read_bytes())).head.columns
        rows = counts.get(path.name.removesuffix(".index")) or pq.read_metadata(path.with_suffix("")).num_rows
        for predicate, java in zip(predicates, json_lines(DEV / name / entry["expected"]), strict=True):  # type: ignore[operator]
            loses_rows = tells_zeros_apart(predicate, types) or is_coarse(predicate, types)
            both = any(len(head.get(leaf["field"], {})) > 1 for leaf in leaves(predicate))
            if not (loses_rows or is_java_bug(predicate, java, rows) or (both and java in ("SKIP", []))):
                found.append((str(path), rows, predicate, java))
    return found


@pytest.mark.parametrize("name", sampled(NAMES, 3))
def test_the_command_prints_them(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    fields = table_fields(table_path(name))
    plain = [c for c in cases(name) if all("[" not in leaf["field"] for leaf in leaves(c[2]))]
    for path, rows, predicate, java in plain[:: max(1, len(plain) // 12)]:
        arguments = [
            "index",
            "evaluate",
            str(table_path(name)),
            path,
            "--rows",
            str(rows),
            "--output",
            "json",
        ]
        assert main([*arguments, "--filter", to_sql(predicate, fields)]) == 0
        assert json.loads(capsys.readouterr().out) == java, (path, predicate)
