"""What Java wrote, written here again from the same rows: Java reads our tables and finds rows, files, statistics and
index answers as in its own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import paimon_pyds as pp
from paimon_pyds.base.types import arrow_schema
from paimon_pyds.errors import UnsupportedError
from support.effort import sampled
from support.fixtures import fixture_dir, fixture_names, json_lines, meta, table_fields, table_path
from support.oracle import Batch, Oracle, Reply
from support.values import PER_SECOND, arrow_rows, dumps, expected_lines, in_order, lines

pytestmark = pytest.mark.filterwarnings("ignore:the bsi index:DeprecationWarning")

FILTERS = 8
"""Filters asked of each table: Java evaluates them with our statistics and indexes."""

FILE_KEYS = ("partition", "bucket", "totalBuckets", "level", "rowCount", "schemaId", "deleteRowCount", "fileSource")
STATISTICS = ("valueStatsCols", "valueStats")
SEQUENCES = ("minSequenceNumber", "maxSequenceNumber")


def _writes_only(name: str) -> bool:
    """Append tables that only ever were created and written."""
    schema = json.loads((fixture_dir(name) / "schema.json").read_text("utf-8"))
    plain = all(s["op"] in ("create", "write") and not s.get("write_columns") for s in meta(name)["steps"])
    return plain and not schema["primary_keys"]


FAR_ORC = "append_orc"
"""Its rows have timestamps that our ORC writer refuses; Java judges our ORC files without them, below."""

ZONED = "part_timestamp6_ltz"
"""Java named its directories by the clocks of its zone: we read it, and do not write such tables."""

NAMES = sampled([name for name in fixture_names() if _writes_only(name) and name not in (FAR_ORC, ZONED)], 18)
WITH_FILES = [n for n in NAMES if any(o["cmd"] == "files" and not o["args"] for o in meta(n)["others"])]

SPILLING_WRITERS = 10
"""Beyond so many partitions in one write, Java's files of unaware buckets start at numbers above 0; they order nothing
there (seen in all five such fixtures; presumably write-max-writers-to-spill)."""


@dataclass(slots=True)
class Replay:
    """One table written by us, and what Java says of it."""

    path: Path
    error: Exception | None = None
    full: Reply | None = None
    files: Reply | None = None
    filters: list[tuple[dict[str, Any], Reply]] = field(default_factory=list)
    indexes: list[tuple[str, Reply]] = field(default_factory=list)


def _rows(name: str, step: Mapping[str, Any], schema: pa.Schema) -> pa.Table:
    return arrow_rows(json_lines(fixture_dir(name) / step["rows"]), schema)


def _write(name: str, path: Path) -> None:
    """The steps of a fixture, by the public API."""
    description = json.loads((fixture_dir(name) / "schema.json").read_text("utf-8"))
    fields = table_fields(table_path(name), 0)
    table = pp.Table.create(path, fields, partition_by=description["partition_keys"], options=description["options"])
    for step in meta(name)["steps"]:
        if step["op"] != "write":
            continue
        rows = _rows(name, step, arrow_schema(fields))
        if "overwrite_partition" in step:
            partition = dict(part.split("=", 1) for part in step["overwrite_partition"].split(","))
            table.overwrite(rows, partition=partition)
        elif step.get("overwrite"):
            static = step.get("options", {}).get("dynamic-partition-overwrite") == "false"
            table.overwrite(rows, dynamic=not static and bool(description["partition_keys"]))
        else:
            table.append(rows)


def _ask(batch: Batch, name: str, warehouse: Path, replay: Replay) -> None:
    replay.full = batch.read(warehouse, "db.t")
    replay.files = batch.files(warehouse, "db.t", embedded=True)
    file = meta(name).get("filters")
    for case in list(json_lines(fixture_dir(name) / file))[:FILTERS] if file else []:
        if "java_pushdown_wrong" not in case:
            reply = batch.read(warehouse, "db.t", filter=case["filter"], columns=case["projection"])
            replay.filters.append((case, reply))
    if not meta(name)["index"]:
        return
    fields = table_fields(replay.path)
    for task in pp.Table.open(replay.path).scan().plan().files:
        container = Path(f"{task.path}.index")
        reply = batch.index_eval(container, fields, meta(name)["index_predicates"], task.row_count)
        replay.indexes.append((container.name, reply))


@pytest.fixture(scope="module")
def replays(oracle: Oracle, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Replay]:
    """Every table, written; Java asked about all of them in one process."""
    root = tmp_path_factory.mktemp("replay")
    found: dict[str, Replay] = {}
    with oracle.batch() as batch:
        for name in NAMES:
            warehouse = root / name
            replay = found[name] = Replay(warehouse / "db.db" / "t")
            try:
                _write(name, replay.path)
                _ask(batch, name, warehouse, replay)
            except Exception as error:  # noqa: BLE001 - told by the tests of this table, not by all
                replay.error = error
        for reply in batch.replies:
            reply.allow_fail = True
    return found


def _replay(replays: Mapping[str, Replay], name: str) -> Replay:
    replay = replays[name]
    if replay.error is not None:
        raise replay.error
    return replay


def _output(reply: Reply | None) -> Reply:
    assert reply is not None
    assert reply.ok, reply.error[:3000]
    return reply


def _expected_full(name: str) -> list[str]:
    return expected_lines(fixture_dir(name) / next(r["expected"] for r in meta(name)["reads"] if r["name"] == "full"))


@pytest.mark.parametrize("name", NAMES)
def test_java_reads_our_rows(replays: Mapping[str, Replay], name: str) -> None:
    replay = _replay(replays, name)
    expected = _expected_full(name)
    assert lines(pp.Table.open(replay.path).scan().to_arrow()) == expected
    assert _output(replay.full).lines == expected


@pytest.mark.parametrize("name", WITH_FILES)
def test_java_sees_the_same_files(replays: Mapping[str, Replay], name: str) -> None:
    """Partitions, buckets, row counts, sequence numbers and statistics are those of Java's own files."""
    if name == "append_large_files":
        pytest.skip("where a file rolls over is each writer's own")
    ours = _output(_replay(replays, name).files).values
    javas = list(json_lines(fixture_dir(name) / _files_of(name)))
    many = len({dumps(f["partition"]) for f in javas}) > SPILLING_WRITERS
    keys = (*FILE_KEYS, *STATISTICS, *(() if many else SEQUENCES))

    def told(files: list[dict[str, Any]], keys: tuple[str, ...]) -> list[str]:
        return in_order(dumps({k: f[k] for k in keys}) for f in files)

    assert told(ours, FILE_KEYS) == told(javas, FILE_KEYS)
    assert told(ours, keys) == told(javas, keys)
    if "row-tracking" not in str(pp.Table.open(replays[name].path).options):
        assert all(f["maxSequenceNumber"] - f["minSequenceNumber"] + 1 == f["rowCount"] for f in ours)


def _files_of(name: str) -> str:
    return next(str(o["expected"]) for o in meta(name)["others"] if o["cmd"] == "files" and not o["args"])


@pytest.mark.parametrize("name", NAMES)
def test_java_filters_our_tables(replays: Mapping[str, Replay], name: str) -> None:
    """With pushdown: Java prunes by our statistics and indexes and loses nothing."""
    wrong = []
    for case, reply in _replay(replays, name).filters:
        rows = in_order(dumps(dict(zip(case["projection"], row, strict=True))) for row in case["rows"])
        if _output(reply).lines != rows:
            wrong.append(dumps(case["filter"]))
    assert not wrong, "\n".join(wrong)


def _no_row_is_skip(answers: Iterable[Any]) -> list[Any]:
    """With two indexes on a column, whichever lies first in the container decides between "SKIP" and no positions; the
    order there is arbitrary, and both skip the file."""
    return ["SKIP" if answer == [] else answer for answer in answers]


@pytest.mark.parametrize("name", [n for n in NAMES if meta(n)["index"]])
def test_java_answers_from_our_indexes_as_from_its_own(replays: Mapping[str, Replay], name: str) -> None:
    """The same rows in the same order: the same answers, position for position."""
    replay = _replay(replays, name)
    expected = sorted(
        dumps(_no_row_is_skip(json_lines(fixture_dir(name) / index["expected"]))) for index in meta(name)["index"]
    )
    assert sorted(dumps(_no_row_is_skip(_output(reply).values)) for _, reply in replay.indexes) == expected


RUST_CANNOT = {
    "part_other_types": "it has no FLOAT partitions",
}


@pytest.mark.parametrize("name", NAMES)
def test_pypaimon_rust_reads_our_rows(replays: Mapping[str, Replay], name: str) -> None:
    datafusion = pytest.importorskip("pypaimon_rust.datafusion", reason="needs pypaimon-rust")
    if name in RUST_CANNOT:
        pytest.skip(f"pypaimon-rust: {RUST_CANNOT[name]}")
    path = _replay(replays, name).path
    builder = datafusion.PaimonCatalog({"warehouse": str(path.parents[1])}).get_table("db.t").new_read_builder()
    batches = builder.new_read().read(builder.new_scan().plan().splits())
    schema = arrow_schema(table_fields(path))
    rows = pa.Table.from_batches(batches).cast(schema) if batches else schema.empty_table()
    assert lines(rows) == _expected_full(name)


def _orc_rows() -> tuple[pa.Schema, pa.Table]:
    schema = arrow_schema(table_fields(table_path(FAR_ORC)))
    steps = [s for s in meta(FAR_ORC)["steps"] if s["op"] == "write"]
    return schema, pa.concat_tables([_rows(FAR_ORC, step, schema) for step in steps])


def test_far_timestamps_are_refused_for_orc(tmp_path: Path) -> None:
    """ORC has no fractions of the last second before 1970; the refusal comes by name, and no file stays."""
    with pytest.raises(UnsupportedError, match="last second before 1970"):
        _write(FAR_ORC, tmp_path / "t")
    assert not list(tmp_path.glob("t/**/*.orc"))


def test_java_reads_our_orc(oracle: Oracle, warehouse: Path) -> None:
    schema, rows = _orc_rows()
    for i, column in enumerate(schema):
        if pa.types.is_timestamp(column.type):
            seconds = pc.divide(rows.column(i).cast(pa.int64()), pa.scalar(PER_SECOND[column.type.unit], pa.int64()))
            # what ORC can't hold: years outside 1677..2262, and fractions of the last second before 1970
            near_1970 = pc.and_(pc.greater_equal(seconds, -1), pc.less_equal(seconds, 0))
            far = pc.or_(pc.greater(pc.abs(seconds), 9_000_000_000), near_1970)
            rows = rows.set_column(i, column, pc.if_else(far, pa.scalar(None, column.type), rows.column(i)))
    assert rows.num_rows > 100
    path = warehouse / "db.db" / "t"
    table = pp.Table.create(path, table_fields(table_path(FAR_ORC)), options={"bucket": "-1", "file.format": "orc"})
    table.append(rows)
    with oracle.batch() as batch:
        read = batch.read(warehouse, "db.t")
        one = batch.read(warehouse, "db.t", filter={"op": "eq", "field": "id", "literals": [7]}, columns=["id"])
    assert lines(table.scan().to_arrow()) == lines(rows)
    assert read.lines == lines(rows)
    assert one.values == [{"id": 7}]
