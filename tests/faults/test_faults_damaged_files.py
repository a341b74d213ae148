"""Flipped bits and cut files in the formats of Paimon 2: an error or the right rows, in bounded memory."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import PaimonError
from support.effort import LONG, SEED
from support.values import lines

_EVOLVES = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
_IDS = range(40)


def _of(path: Path, types: dict[str, str], value: Callable[[int], Any], options: dict[str, str]) -> pp.Table:
    table = pp.Table.create(path, {"id": "INT"} | types, options=options)
    (name,) = types
    values = [value(i) for i in _IDS]
    column = (
        pp.variant_array(values) if "VARIANT" in types[name] else pa.array(values, table.arrow_schema.field(1).type)
    )
    table.append(pa.table([pa.array(_IDS, pa.int32()), column], schema=table.arrow_schema))
    return table


def _columns(path: Path) -> pp.Table:
    table = _of(path, {"n": "STRING"}, lambda i: f"n{i}", _EVOLVES)
    table.update({"n": "upper(n)"}, "id % 3 = 0")
    return table


def _packs(path: Path) -> pp.Table:
    table = pp.Table.create(path, "id INT NOT NULL, b BLOB", primary_key="id", options={"bucket": "1"})
    table.append([{"id": i, "b": bytes([i]) * i} for i in _IDS])
    return table


def _indexed(kind: str) -> Callable[[Path], pp.Table]:
    def made(path: Path) -> pp.Table:
        table = _of(path, {"n": "STRING"}, lambda i: f"n{i % 7}", _EVOLVES)
        table.index.build_global("n", kind=kind)
        return table

    return made


TABLES: dict[str, tuple[Callable[[Path], pp.Table], str]] = {
    "shredded VARIANT": (
        lambda path: _of(path, {"v": "VARIANT"}, lambda i: {"a": i, "b": [i, str(i)]} if i % 5 else None,
                         {"variant.inferShreddingSchema": "true"}), "*.parquet"),
    "VARIANT in row files": (
        lambda path: _of(path, {"v": "VARIANT"}, lambda i: {"a": i, "b": [None, "x" * i]}, {"file.format": "row"}),
        "*.row"),
    "vector files": (
        lambda path: _of(path, {"v": "VECTOR<FLOAT, 3>"}, lambda i: [i, i / 2, -i] if i % 4 else None,
                         _EVOLVES | {"vector.file.format": "parquet"}), "*.vector.parquet"),
    "shared maps": (
        lambda path: _of(path, {"m": "MAP<STRING, INT>"}, lambda i: [(f"k{k}", i) for k in range(i % 4)],
                         {"fields.m.map.storage-layout": "shared-shredding"}), "*.parquet"),
    "BLOB files": (
        lambda path: _of(path, {"b": "BLOB"}, lambda i: bytes([i]) * i, _EVOLVES), "*.blob"),
    "column files": (_columns, "*.parquet"),
    "packs of BLOBs": (_packs, "*.managed.blob"),
    "btree": (_indexed("btree"), "*.index"),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_an_error_or_the_right_rows(name: str, tmp_path: Path) -> None:
    make, pattern = TABLES[name]
    table = make(tmp_path / "t")
    scans: list[Callable[[], pa.Table]] = [lambda: table.to_arrow(), lambda: table.scan("id IN (3, 17)").to_arrow()]
    if name == "btree":
        scans = [lambda: table.scan("n = 'n3'").to_arrow(), lambda: table.scan("n >= 'n5'").to_arrow()]
    expected = [lines(scan()) for scan in scans]
    rng, refused = random.Random(SEED), 0
    files = sorted((tmp_path / "t").rglob(pattern))
    for _ in range(600 if LONG else 8):
        file = rng.choice(files)
        whole = file.read_bytes()
        hostile = bytearray(whole)
        for _ in range(rng.choice([1, 1, 2])):
            at = rng.choice([rng.randrange(len(whole)), max(0, len(whole) - 1 - rng.randrange(60))])
            hostile[at] = rng.choice([hostile[at] ^ 1 << rng.randrange(8), 0, 0x7F, 0xFF])
        cut = len(whole) if rng.random() < 0.8 else rng.randrange(len(whole))
        file.write_bytes(hostile[:cut])
        tracemalloc.start()
        try:
            for scan, right in zip(scans, expected, strict=True):
                try:
                    assert lines(scan()) == right, (file.name, cut, bytes(hostile).hex())
                except PaimonError:
                    refused += 1
            assert tracemalloc.get_traced_memory()[1] < 64 << 20
        finally:
            tracemalloc.stop()
            file.write_bytes(whole)
    assert refused
