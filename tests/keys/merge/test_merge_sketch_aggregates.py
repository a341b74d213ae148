"""theta_sketch and hll_sketch: unions of serialized sketches, as good as Java's; refused without the library."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.types import DataField, parse_type
from paimon_pyds.errors import CorruptFileError, SchemaError, UnsupportedError
from paimon_pyds.keys.merge.aggregates import aggregate, resolve_aggregate
from support.oracle import Oracle, requires_java_oracle

NAMES = ["theta_sketch", "hll_sketch"]


@pytest.fixture
def library() -> Any:
    return pytest.importorskip("datasketches")


def sketch(library: Any, name: str, values: range, lg_k: int = 12) -> bytes:
    if name == "theta_sketch":
        made = library.update_theta_sketch(lg_k)
        for value in values:
            made.update(value)
        return bytes(made.compact().serialize())
    made = library.hll_sketch(lg_k)
    for value in values:
        made.update(value)
    return bytes(made.serialize_compact())


def estimate(library: Any, name: str, data: bytes) -> float:
    kind = library.compact_theta_sketch if name == "theta_sketch" else library.hll_sketch
    return float(kind.deserialize(data).get_estimate())


def union(name: str, groups: list[list[bytes | None]]) -> list[bytes | None]:
    function = resolve_aggregate(name, parse_type("BYTES"), "c", {})
    rows = [value for group in groups for value in group]
    starts = np.cumsum([0, *(len(group) for group in groups)], dtype=np.int64)[:-1]
    return aggregate(function, pa.array(rows, pa.binary()), starts, np.zeros(len(rows), np.bool_)).to_pylist()


@pytest.mark.parametrize("name", NAMES)
def test_unions(library: Any, name: str) -> None:
    parts = [sketch(library, name, range(start, start + 30)) for start in (0, 20, 40)]
    whole, alone, nothing = union(name, [[parts[0], None, *parts[1:]], [None, b"any"], [None]])
    assert whole is not None
    assert estimate(library, name, whole) == pytest.approx(70, rel=0.01)
    assert (alone, nothing) == (b"any", None)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("bad", [b"", b"\0", b"\xff" * 40, b"\x02\x01\x07\x0c"])
def test_other_bytes_are_errors(library: Any, name: str, bad: bytes) -> None:
    whole = sketch(library, name, range(5000))
    for damaged in (bad, whole[:7], whole[: len(whole) // 2]):
        with pytest.raises(CorruptFileError, match="column c: not a"):
            union(name, [[whole, damaged]])


@pytest.mark.parametrize("name", NAMES)
def test_without_the_library_they_are_refused_by_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasketches", None)
    with pytest.raises(UnsupportedError, match=f"{name} needs the package datasketches") as refused:
        resolve_aggregate(name, parse_type("BYTES"), "c", {})
    assert "pip install datasketches" in str(refused.value)


@requires_java_oracle
@pytest.mark.java
@pytest.mark.parametrize("name", NAMES)
def test_unions_are_those_of_java(oracle: Oracle, warehouse: Path, library: Any, name: str) -> None:
    sizes = [(0, 5), (3, 40), (0, 0), (10, 900), (500, 30_000), (7, 9)]
    made = [sketch(library, name, range(*size), lg_k) for size in sizes for lg_k in (10, 12, 13)]
    triples = [(made[i % 18], made[i * 5 % 18], made[(i * 7 + 3) % 18]) for i in range(18)]
    fields = [DataField(0, "id", parse_type("INT NOT NULL")), DataField(1, "c", parse_type("BYTES"))]
    options = {"bucket": "1", "merge-engine": "aggregation", "write-only": "true", "fields.c.aggregate-function": name}
    with oracle.batch() as batch:
        batch.create(warehouse, "db.t", fields, primary_keys=["id"], options=options)
        for place in range(3):
            batch.write(warehouse, "db.t", [{"id": i, "c": t[place].hex()} for i, t in enumerate(triples)])
        read = batch.read(warehouse, "db.t")
    found = union(name, [list(triple) for triple in triples])
    with oracle.batch() as batch:
        batch.write(warehouse, "db.t", [{"id": i, "c": (data or b"").hex()} for i, data in enumerate(found)])
        again = batch.read(warehouse, "db.t")
    assert len(read.values) == len(again.values) == len(triples)
    for row, more in zip(read.values, again.values, strict=True):
        ours, java = found[row["id"]], bytes.fromhex(row["c"])
        assert ours is not None
        expected = estimate(library, name, java)
        assert estimate(library, name, ours) == pytest.approx(expected, rel=1e-9 if name == "theta_sketch" else 0.005)
        both = union(name, [[ours, java]])[0]
        assert both is not None
        # Neither finds anything new in the other's. An HLL sketch is estimated by its history, too.
        assert estimate(library, name, both) == pytest.approx(expected, rel=0.05)
        assert estimate(library, name, bytes.fromhex(more["c"])) == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("name", NAMES)
def test_bytes_that_are_no_sketch_are_refused_by_the_write(library: Any, tmp_path: Path, name: str) -> None:
    """A second version of the key would make it unreadable for ever."""
    options = {"bucket": "1", "merge-engine": "aggregation", "fields.default-aggregate-function": name}
    table = pp.Table.create(tmp_path / "t", "id INT NOT NULL, s BYTES", primary_key="id", options=options)
    table.append([{"id": 1, "s": sketch(library, name, range(9))}, {"id": 2, "s": None}])
    with pytest.raises(SchemaError, match=rf"column 's'.*{name}.*first in row 2 of the data"):
        table.append([{"id": 1, "s": sketch(library, name, range(9))}, {"id": 2, "s": b"nothing"}])
    assert len(table.snapshots.list()) == 1
