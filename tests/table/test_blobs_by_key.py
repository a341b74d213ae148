"""Random operations on tables with a primary key that have BLOB columns, and the same on plain rows in memory."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.format.blob.references import BlobDescriptor, decode_descriptor, encode_descriptor
from support.effort import LONG, SEED

COLUMNS = "p INT NOT NULL, id INT NOT NULL, v STRING, b BLOB, c BLOB, d BLOB"
AS_DESCRIPTORS = {"blob-as-descriptor": "true"}
PICTURE = bytes(range(256))
Row = dict[str, Any]


class Model:
    """A table whose values of ``b`` and ``c`` are in packs and whose ``d`` refers to a file, and its rows by key.

    ``snapshots``: of each snapshot that has not expired, the rows that the table had. ``gone``: keys that were deleted
    and don't come back, as with partial-update new rows would begin with the values of the delete, as in Java.
    """

    def __init__(self, path: Path, rng: random.Random) -> None:
        self.rng, self.rows, self.done = rng, dict[int, Row](), list[str]()
        self.snapshots = dict[int, dict[int, Row]]()
        self.gone, self.keeps_null = set[int](), rng.random() < 0.6
        options = {
            "bucket": rng.choice(["1", "2", "-1"]),
            "file.format": rng.choice(["parquet", "orc", "avro"]),
            "blob.target-file-size": rng.choice(["1 b", "20 b", "1 mb"]),
            "blob-descriptor-field": "d",
            "write-only": rng.choice(["true", "false"]),
            "merge-engine": "deduplicate" if self.keeps_null else "partial-update",
        }
        if self.keeps_null and rng.random() < 0.4:
            options |= {"deletion-vectors.enabled": "true", "write-only": "false"}  # else new rows are not seen yet
        if not self.keeps_null:
            options["partial-update.remove-record-on-delete"] = "true"
        parts = ["p"] if rng.random() < 0.5 else []
        self.done.append(f"{options} {parts}")
        self.table = pp.Table.create(path, COLUMNS, primary_key=[*parts, "id"], partition_by=parts, options=options)
        self.picture = path / "picture"
        self.picture.write_bytes(PICTURE)

    def step(self) -> None:
        """One random operation."""
        does = [self.append, self.append, self.append, self.update, self.merge, self.delete, self.compact, self.expire]
        do = self.rng.choice(does if self.rows else [self.append])
        self.done.append(do.__name__)
        do()
        snapshot = self.table.snapshots.latest()
        assert snapshot is not None
        self.snapshots[snapshot.id] = deepcopy(self.rows)

    def bytes_or_null(self) -> bytes | None:
        return None if self.rng.random() < 0.3 else self.rng.randbytes(self.rng.randrange(12))

    def some(self) -> list[int]:
        return self.rng.sample(sorted(self.rows), self.rng.randint(0, min(4, len(self.rows))))

    def among(self, ids: Sequence[int]) -> str:
        self.done[-1] += f" {list(ids)}"
        return f"id IN ({', '.join(map(str, ids))})" if ids else "FALSE"

    def append(self) -> None:
        """New rows, and new versions of rows; in partial-update a NULL leaves the value that is there."""
        stored, ids = list[Row](), self.rng.sample(sorted({*range(25)} - self.gone), self.rng.randint(1, 6))
        for i in ids:
            values = {"v": self.rng.choice([None, "x", f"v{i}"]), "b": self.bytes_or_null(), "c": self.bytes_or_null()}
            at, length = self.rng.randrange(200), self.rng.randrange(50)
            place = None if self.rng.random() < 0.3 else BlobDescriptor(str(self.picture), at, length)
            new = {"p": i % 2, "id": i, **values, "d": None if place is None else PICTURE[at : at + length]}
            stored.append(new | {"d": None if place is None else encode_descriptor(place)})
            if i in self.rows and not self.keeps_null:
                new = self.rows[i] | {name: value for name, value in new.items() if value is not None}
            self.rows[i] = new
        self.done[-1] += f" {ids}"
        self.table.append(pa.Table.from_pylist(stored, self.table.arrow_schema))

    def update(self) -> None:
        ids = self.some()
        self.table.update({"v": "concat(coalesce(v, ''), '!')"}, self.among(ids))
        for i in ids:
            self.rows[i]["v"] = (self.rows[i]["v"] or "") + "!"

    def merge(self) -> None:
        ids = self.some()
        self.done[-1] += f" {ids}"
        types = pa.schema([self.table.arrow_schema.field(name) for name in ("p", "id", "v")])
        source = pa.Table.from_pylist([{"p": i % 2, "id": i, "v": f"m{i}"} for i in ids], types)
        self.table.merge(source, on=["p", "id"], when_matched=[pp.Update({"v": "source.v"})])
        for i in ids:
            self.rows[i]["v"] = f"m{i}"

    def delete(self) -> None:
        ids = self.some()
        self.table.delete(self.among(ids))
        for i in ids:
            del self.rows[i]
        self.gone.update([] if self.keeps_null else ids)

    def compact(self) -> None:
        self.table.compact(full=self.rng.random() < 0.6)

    def expire(self) -> None:
        """Old snapshots go, and files that nothing names."""
        self.table.snapshots.expire(retain_max=self.rng.randint(1, 3), retain_min=1)
        for file in Path(self.table.path).rglob("*"):
            if file.is_file() and file != self.picture:
                os.utime(file, (0, 1))
        self.table.maintenance.remove_orphan_files()
        left = {snapshot.id for snapshot in self.table.snapshots.list()}
        self.snapshots = {number: rows for number, rows in self.snapshots.items() if number in left}

    def check(self) -> None:
        """The table has the model's rows, by any way to read them."""
        how, table = "\n".join(self.done), pp.Table.open(self.table.path)
        wanted = [self.rows[i] for i in sorted(self.rows)]
        assert table.to_arrow().sort_by("id").to_pylist() == wanted, how
        for name in ("b", "c", "d"):
            null = table.scan(f"{name} IS NULL", columns=["id"]).to_arrow()["id"].to_pylist()
            assert sorted(null) == [row["id"] for row in wanted if row[name] is None], how
        i = self.rng.randrange(25)
        one = table.scan(f"id = {i}").to_arrow().to_pylist()
        assert one == [row for row in wanted if row["id"] == i], how
        stored = table.scan(columns=["id", "b", "d"], options=AS_DESCRIPTORS).to_arrow().sort_by("id").to_pylist()
        found = [{name: _resolved(row[name]) for name in ("b", "d")} for row in stored]
        assert found == [{name: row[name] for name in ("b", "d")} for row in wanted], how
        number = self.rng.choice(sorted(self.snapshots))
        rows = self.snapshots[number]
        before = table.scan(snapshot=number).to_arrow().sort_by("id").to_pylist()
        assert before == [rows[i] for i in sorted(rows)], f"snapshot {number}\n{how}"


def _resolved(stored: bytes | None) -> bytes | None:
    """The bytes that a descriptor refers to."""
    if stored is None:
        return None
    place = decode_descriptor(stored)
    return Path(place.uri).read_bytes()[place.offset :][: place.length]


@pytest.mark.parametrize("number", range(80 if LONG else 2))
def test_random_operations(tmp_path: Path, number: int) -> None:
    model = Model(tmp_path / "t", random.Random(f"{SEED}-{number}"))
    for _ in range(12):
        model.step()
        model.check()
    report = model.table.maintenance.verify(deep=True)
    assert not report.findings, f"{report}\n" + "\n".join(model.done)
