"""The harness itself: JSON values of the fixtures to Arrow and back, and Java Paimon reading what it wrote."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pyarrow as pa
import pytest

from paimon_pyds.base.types import arrow_schema
from paimon_pyds.base.types.kinds import REFUSED_KINDS
from support.effort import sampled
from support.fixtures import ARCHIVE, DEV, fixture_dir, fixture_names, meta, requires_shared, table_fields, table_path
from support.oracle import Oracle, OracleError, requires_java_oracle
from support.v2_fixtures import ARCHIVE as ARCHIVE_2
from support.values import arrow_rows, dumps, expected_lines, json_lines, lines

NAMES = fixture_names()


def _full_reads() -> list[str]:
    """Fixtures whose whole rows Arrow can hold: no type that is refused by name."""
    names = []
    for name in NAMES:
        fields = table_fields(table_path(name))
        if not any(f.type.kind in REFUSED_KINDS for f in fields):
            names.append(name)
    return names


@pytest.mark.parametrize("name", sampled(_full_reads(), 12))
def test_expected_rows_survive_arrow(name: str) -> None:
    path = fixture_dir(name) / next(r["expected"] for r in meta(name)["reads"] if r["name"] == "full")
    schema = arrow_schema(table_fields(table_path(name)))
    rows = [{k: v for k, v in row.items() if k in schema.names} for row in json_lines(path)]
    assert lines(arrow_rows(rows, schema)) == sorted(map(dumps, rows), key=str.encode)


def test_values_of_every_form() -> None:
    schema = pa.schema(
        [
            pa.field("f", pa.float32()),
            pa.field("d", pa.float64()),
            pa.field("n", pa.timestamp("ns", "UTC")),
            pa.field("t", pa.time32("ms")),
            pa.field("m", pa.map_(pa.string(), pa.list_(pa.int32()))),
            pa.field("r", pa.struct([pa.field("x", pa.decimal128(38, 10)), pa.field("b", pa.binary())])),
        ]
    )
    row = {
        "f": "3.3999999521443642e+38",
        "d": "-0.0",
        "n": "1969-12-31T23:59:59.999999999Z",
        "t": "23:59:59.999000",
        "m": [["", None], ["a", [1, None]]],
        "r": {"x": "-0.0000000001", "b": "00ff"},
    }
    empty = dict.fromkeys(schema.names)
    table = arrow_rows([row, empty, {**row, "d": "nan"}], schema)
    assert lines(table) == sorted([dumps(row), dumps(empty), dumps({**row, "d": "nan"})], key=str.encode)
    sliced = pa.concat_tables([table.slice(1), table]).slice(1, 2)
    assert lines(sliced) == sorted([dumps({**row, "d": "nan"}), dumps(row)], key=str.encode)


@requires_java_oracle
def test_oracle_reads_what_it_wrote(oracle: Oracle, warehouse: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("s", pa.string())])
    rows = pa.table({"id": [1, 2, 3], "s": ["a", None, "ü"]}, schema)
    with oracle.batch() as batch:
        batch.create(warehouse, "db.t", schema, options={"bucket": "-1", "file-index.bitmap.columns": "s"})
        batch.write(warehouse, "db.t", rows)
        full = batch.read(warehouse, "db.t")
        one = batch.read(warehouse, "db.t", filter={"op": "eq", "field": "s", "literals": ["ü"]}, columns=["id"])
        files = batch.files(warehouse, "db.t", embedded=True)
        refused = batch.read(warehouse, "db.missing", allow_fail=True)
    assert full.lines == lines(rows)
    assert one.values == [{"id": 3}]
    assert not refused.ok
    container = warehouse / "index"
    container.write_bytes(bytes.fromhex(files.values[0]["embeddedIndex"]))
    predicates = [{"op": "eq", "field": "s", "literals": ["a"]}, {"op": "isnull", "field": "s", "literals": []}]
    with oracle.batch() as batch:
        answers = batch.index_eval(container, schema, predicates, 3)
    assert answers.values == [[0], [1]]


@requires_java_oracle
def test_oracle_failure_is_an_error(oracle: Oracle, warehouse: Path) -> None:
    with pytest.raises(OracleError, match="TableNotExist"), oracle.batch() as batch:
        batch.read(warehouse, "db.missing")


def test_expected_lines_are_sorted_as_the_oracle_sorts() -> None:
    if not NAMES:
        pytest.skip("no Java-written tables")
    path = fixture_dir(NAMES[0]) / meta(NAMES[0])["reads"][0]["expected"]
    assert expected_lines(path) == [dumps(v) for v in json_lines(path)]


@requires_shared
def test_the_compact_set_is_what_java_wrote() -> None:
    """Every packed file is byte for byte that of ../shared; `python tools/pack_fixtures.py` packs anew."""
    assert DEV is not None
    with tarfile.open(ARCHIVE) as tar:
        packed = {m.name: tar.extractfile(m).read() for m in tar}
    assert packed
    for name, data in packed.items():
        assert ((DEV.parent if name.startswith("jvm21/") else DEV) / name).read_bytes() == data, name


@requires_shared
def test_the_set_of_paimon_2_is_whole() -> None:
    assert DEV is not None
    newer = DEV.parent / "v2"
    with tarfile.open(ARCHIVE_2) as tar:
        packed = {m.name: tar.extractfile(m).read() for m in tar}
    tables = [meta.parent for meta in newer.glob("*/meta.json")]
    files = {p.relative_to(newer).as_posix(): p for table in tables for p in table.rglob("*") if p.is_file()}
    assert packed == {name: path.read_bytes() for name, path in files.items()}
