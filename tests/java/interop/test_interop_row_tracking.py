"""Row ids and sequence numbers of our appends, as Java Paimon sees them: those that it would have given itself."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

import paimon_pyds as pp
from support.oracle import Batch, Oracle, Reply
from support.values import lines

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string())])
OPTIONS = {"bucket": "-1", "row-tracking.enabled": "true"}
WRITERS = ["ours", "java", "ours", "ours"]
PARTS = [
    pa.table([range(10 * n, 11 * n + 1), ["a" if n % 2 else "b"] * (n + 1)], schema=SCHEMA) for n in range(len(WRITERS))
]


def ask(batch: Batch, warehouse: Path) -> tuple[Reply, Reply]:
    found = {"op": "ge", "field": "id", "literals": [20]}
    return batch.read(warehouse, "db.t$row_tracking"), batch.read(warehouse, "db.t$row_tracking", filter=found)


def test_row_ids_go_on_from_writer_to_writer(oracle: Oracle, tmp_path: Path) -> None:
    shared, javas = tmp_path / "shared", tmp_path / "javas"
    keys: dict[str, list[str]] = {"plain": [], "parted": ["p"]}
    tables = {
        name: pp.Table.create(shared / name / "db.db" / "t", SCHEMA, partition_by=by, options=OPTIONS)
        for name, by in keys.items()
    }
    for number, part in enumerate(PARTS[:-1]):
        if WRITERS[number] == "ours":
            for name in keys:
                snapshot = pp.Table.open(tables[name].path).append(part)
                assert snapshot is not None
                assert snapshot.next_row_id == sum(p.num_rows for p in PARTS[: number + 1])
            continue
        with oracle.batch() as batch:
            for name in keys:
                batch.write(shared / name, "db.t", part)
    for name in keys:
        pp.Table.open(tables[name].path).append(PARTS[-1])
    with oracle.batch() as batch:
        for name, by in keys.items():
            batch.create(javas / name, "db.t", SCHEMA, partition_keys=by, options=OPTIONS)
            for part in PARTS:
                batch.write(javas / name, "db.t", part)
        replies = {name: (ask(batch, shared / name), ask(batch, javas / name)) for name in keys}
        plain = {name: batch.read(shared / name, "db.t") for name in keys}
    for name, (found, wanted) in replies.items():
        assert [r.lines for r in found] == [r.lines for r in wanted]
        assert sorted(row["_ROW_ID"] for row in found[0].values) == list(range(sum(p.num_rows for p in PARTS)))
        rows = lines(pp.Table.open(tables[name].path).scan().to_arrow())
        assert plain[name].lines == rows == lines(pa.concat_tables(PARTS))
