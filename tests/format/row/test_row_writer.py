"""Files of the format row that are written here: the same blocks as pypaimon's, tables that others read, and keys."""

from __future__ import annotations

import random
import re
import warnings
from decimal import Decimal
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import CorruptFileError, OptionError
from paimon_pyds.format import ReadCounters, ReadHints
from paimon_pyds.format.avro.compression import decompressor
from paimon_pyds.format.row.reader import RowReader
from paimon_pyds.storage import open_file_io
from support.effort import LONG, SEED
from support.peers import Pypaimon, Rust
from support.row_files import random_rows
from support.values import lines

ROW = {"file.format": "row"}
EVOLVING = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
_KEY = pa.schema(
    [pa.field("p", pa.int32(), nullable=False), pa.field("id", pa.int32(), nullable=False), ("v", pa.string())]
)


@pytest.fixture
def other(tmp_path: Path) -> Pypaimon:
    return Pypaimon(tmp_path / "others")


def _blocks(path: Path) -> list[bytes]:
    """The blocks of a table's one file, not compressed."""
    (file,) = path.rglob("*.row")
    io, name = open_file_io(str(file))
    reader = RowReader(io, name, file.stat().st_size, ReadCounters(), ReadHints())
    data, unpack = file.read_bytes(), decompressor("zstandard", name)
    places = zip(reader._offsets.tolist(), reader._packed.tolist(), reader._sizes.tolist(), strict=True)
    return [unpack(data[at : at + packed], size) for at, packed, size in places]


def test_blocks_are_those_of_pypaimon(tmp_path: Path, other: Pypaimon) -> None:
    rows = random_rows(random.Random(SEED), 2_000 if LONG else 300)
    theirs = other.create("t", rows.schema, [], [], ROW)
    other.append("t", rows)
    ours = pp.Table.create(tmp_path / "ours", rows, options=ROW)
    found = _blocks(tmp_path / "ours")
    assert len(found) > 1
    assert found == _blocks(theirs)
    pp.Table.open(theirs).append(rows.slice(3, 50))
    both = lines(pa.concat_tables([rows, rows.slice(3, 50)]))
    assert lines(other.read("t")) == both
    ours.append(rows.slice(3, 50), options={"file.block-size": "1 b"})
    assert lines(ours.to_arrow()) == both


@pytest.mark.parametrize("count", [1, 8, 9])
def test_bits_of_nulls_fill_bytes(count: int, tmp_path: Path) -> None:
    rng = random.Random(SEED)
    values = [None, [], [None] * count, list(range(count)), [rng.choice([None, n]) for n in range(count)]]
    rows = pa.table({f"c{n}": pa.array(rng.choices(values, k=40), pa.list_(pa.int32())) for n in range(count)})
    table = pp.Table.create(tmp_path / "t", rows, options=ROW)
    assert lines(table.to_arrow()) == lines(rows)
    last = rows.column_names[-1:]
    assert lines(table.scan(columns=last).to_arrow()) == lines(rows.select(last))


def test_types_that_pypaimon_does_not_write(tmp_path: Path) -> None:
    types = {
        "v": "VARIANT", "vs": "ARRAY<VARIANT>", "e": "VECTOR<FLOAT, 2>", "n": "TIMESTAMP(9)", "z": "TIMESTAMP(0)",
        "t": "TIME(3)", "d": "DECIMAL(18, 2)", "l": "TIMESTAMP(6) WITH LOCAL TIME ZONE", "x": "INT",
    }  # fmt: skip
    table = pp.Table.create(tmp_path / "t", types, options=ROW)
    schema = table.arrow_schema
    variants = pp.variant_array([{"a": 1}, None, [True, "x"]])
    rows = pa.table(
        [
            variants, pa.ListArray.from_arrays([0, 2, 2, 3], variants).cast(schema.field("vs").type),
            pa.array([[0.5, float("nan")], None, [-0.0, 1e30]], schema.field("e").type),
            pa.array([-1, 10**18 + 123_456_789, None], schema.field("n").type),
            pa.array([-1, None, 7], schema.field("z").type),
            pa.array([1, None, 86_399_999], schema.field("t").type),
            pa.array([-(Decimal(10) ** 15), None, Decimal("0.01")], schema.field("d").type),
            pa.array([-1, None, 10**15 + 1], schema.field("l").type), pa.array([1, 2, 3], pa.int32()),
        ], schema=schema,
    )  # fmt: skip
    table.append(rows)
    assert lines(table.to_arrow()) == lines(rows)
    assert table.scan("v IS NULL", columns=["x"]).to_arrow()["x"].to_pylist() == [2]
    assert table.scan("variant_get(v, '$.a', 'int') = 1", columns=["x", "e"]).to_arrow()["x"].to_pylist() == [1]


def test_values_of_variant_columns_that_change(tmp_path: Path) -> None:
    """Columns of VARIANT in files of their own, behind added, renamed and dropped columns, and after a compaction."""
    rng = random.Random(SEED)
    given = [rng.choice([None, {"a": i, "b": [i, None]}, i, "text" * i, [], {"a": "x"}]) for i in range(40)]
    table = pp.Table.create(tmp_path / "t", "id INT, v VARIANT, n INT", options=ROW | EVOLVING)
    ids = pa.array(range(40), pa.int32())
    table.append(pa.table([ids, pp.variant_array(given), ids], schema=table.arrow_schema))
    rows = [{"id": i, "v": value, "n": i} for i, value in enumerate(given)]
    table.update({"n": "variant_get(v, '$.a', 'int')"}, "id < 20 AND try_variant_get(v, '$.a', 'int') IS NOT NULL")
    table.update({"v": "parse_json(concat('{\"new\": ', CAST(id AS STRING), '}'))"}, "id BETWEEN 5 AND 24")
    table.alter(add_columns={"w": "VARIANT"}, rename_columns={"v": "u"})
    table.update({"w": "u", "u": "NULL"}, "id % 7 = 3")
    for row in rows:
        i, value = row["id"], row.pop("v")
        if i < 20 and isinstance(value, dict) and isinstance(value["a"], int):
            row["n"] = value["a"]
        value = {"new": i} if 5 <= i <= 24 else value
        row |= {"u": None, "w": value} if i % 7 == 3 else {"u": value, "w": None}
    for _ in range(2):
        found = table.to_arrow()
        stored = {name: pp.variant_values(found[name]) for name in ("u", "w")}
        columns = (found["id"].to_pylist(), found["n"].to_pylist(), stored["u"], stored["w"])
        read = sorted(zip(*columns, strict=True), key=itemgetter(0))
        assert read == [tuple(row[name] for name in ("id", "n", "u", "w")) for row in rows]
        new = table.scan("variant_get(u, '$.new', 'int') > 20", columns=["id"]).to_arrow()["id"].to_pylist()
        assert sorted(new) == [21, 22, 23]
        table.compact(full=True)
    table.alter(drop_columns=["u"])
    assert table.scan("w IS NOT NULL").count() == sum(row["w"] is not None for row in rows)


@pytest.mark.parametrize("scale", [0, 10, 38])
def test_decimals_of_all_digits(tmp_path: Path, scale: int) -> None:
    """Also as keys, by which a reader finds out which columns a file has."""
    types = {"id": f"DECIMAL(38, {scale}) NOT NULL", "v": "STRING"}
    table = pp.Table.create(tmp_path / "t", types, primary_key="id", options=ROW | {"bucket": "1"})
    values = [Decimal(f"{sign}{'9' * 38}e-{scale}") for sign in "+-"]
    table.append({"id": values, "v": ["a", "b"]})
    assert dict(zip(*table.to_arrow().to_pydict().values(), strict=True)) == dict(zip(values, "ab", strict=True))


@pytest.mark.parametrize("keys", [["id"], ["p", "id"]])
def test_tables_with_a_primary_key(keys: list[str], other: Pypaimon) -> None:
    """Java and pypaimon have the key once more in each row, whatever ``data-file.thin-mode`` says."""
    options = ROW | {"bucket": "1", "data-file.thin-mode": "true"}
    path = other.create("t", _KEY, keys, keys[:-1], options)
    other.append("t", pa.table({"p": [0, 0, 1], "id": [1, 2, 3], "v": ["a", None, "c"]}, _KEY))
    table = pp.Table.open(path)
    table.append({"p": [1, 1], "id": [3, 4], "v": ["ccc", "d"]})
    table.delete("id = 2")
    expected = lines(pa.table({"p": [0, 1, 1], "id": [1, 3, 4], "v": ["a", "ccc", "d"]}, _KEY))
    for _ in range(2):
        assert lines(table.to_arrow()) == lines(other.read("t")) == expected
        assert table.scan("id = 3", columns=["v"]).to_arrow()["v"].to_pylist() == ["ccc"]
        table.compact(full=True)
        assert all(file.path.endswith(".row") for file in table.scan().plan().files)


@pytest.mark.parametrize(
    ("given", "kind"),
    [({"primary_key": "id"}, "with a primary key"), ({"options": EVOLVING}, "of data evolution"), ({}, None)],
    ids=["key", "data evolution", "append"],
)
def test_tables_that_other_readers_get_wrong_are_warned_of(given: Any, kind: str | None, tmp_path: Path) -> None:
    """Java Paimon 2.1 and pypaimon-rust 0.4 lose rows of such tables."""
    options = {**given.get("options", {}), "bucket": "1" if "primary_key" in given else "-1"}
    message = f"Java Paimon 2.1 .* of tables {kind} wrongly"
    for step in ("create", "alter", "no change"):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            if step == "create":
                pp.Table.create(
                    str(tmp_path / step), "id INT NOT NULL, v STRING", **{**given, "options": options | ROW}
                )
                plain = pp.Table.create(
                    str(tmp_path / "plain"), "id INT NOT NULL, v STRING", **{**given, "options": options}
                )
            elif step == "alter":
                plain.alter(set_options=ROW)
            else:
                plain.alter(comment="of rows")
        texts = [str(each.message) for each in found]
        if kind is None or step == "no change":
            assert texts == []
        else:
            assert len(texts) == 1
            assert re.search(message, texts[0])


def test_files_without_the_key_of_their_rows(tmp_path: Path) -> None:
    """Those of pypaimon-rust, which can't read them itself."""
    rust = Rust(tmp_path)
    path = rust.create("t", _KEY, ["id"], [], ROW | {"bucket": "1"})
    rng = random.Random(SEED)
    expected: dict[int, str | None] = {}
    for _ in range(6):
        given = {rng.randrange(40): rng.choice([None, "", "a", "\0\0", "b" * 300]) for _ in range(rng.randint(1, 30))}
        rust.append("t", pa.table({"p": [0] * len(given), "id": list(given), "v": list(given.values())}, _KEY))
        expected |= given
        table = pp.Table.open(path)
        assert dict(zip(*table.scan(columns=["id", "v"]).to_arrow().to_pydict().values(), strict=True)) == expected
    table.compact(full=True)
    assert table.count() == len(expected)


def test_row_ids(tmp_path: Path) -> None:
    rows = {"id": list(range(20)), "v": [f"v{n}" for n in range(20)]}
    table = pp.Table.create(tmp_path / "t", rows, options=ROW | {"row-tracking.enabled": "true"})
    table.alter(add_columns={"w": "INT"})
    for _ in range(2):  # by position, then in the file
        assert table.scan("_ROW_ID IN (3, 17)", columns=["id"]).to_arrow()["id"].to_pylist() == [3, 17]
        table.update({"w": "1"}, "id = 3")
    found = table.scan("w = 1", columns=["id", "v", "_ROW_ID"]).to_arrow()
    assert found.to_pylist() == [{"id": 3, "v": "v3", "_ROW_ID": 3}]


def test_statistics_and_indexes_answer(tmp_path: Path) -> None:
    options = ROW | {"file-index.bitmap.columns": "v", "target-file-row-num": "10"}
    rows = {"id": list(range(100)), "v": [n % 10 for n in range(100)]}
    table = pp.Table.create(tmp_path / "t", rows, options=options)
    assert len(table.scan("id = 55").plan().files) == 1
    assert table.scan("v = 11").to_arrow().num_rows == 0
    assert (table.max("id"), table.count("v = 3")) == (99, 10)


@pytest.mark.parametrize(("key", "value"), [("file.block-size", "0 b"), ("file.compression.zstd-level", "high")])
def test_options_are_checked_before_there_is_a_table(key: str, value: str, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=key):
        pp.Table.create(tmp_path / "t", "id INT", options=ROW | {key: value})
    assert not (tmp_path / "t").exists()


def test_flipped_bits_are_noticed(tmp_path: Path) -> None:
    """Blocks have checksums, unlike those of others."""
    rows = random_rows(random.Random(SEED), 60)
    table = pp.Table.create(tmp_path / "t", rows, options=ROW | {"file.block-size": "2 kb"})
    (file,) = (tmp_path / "t").rglob("*.row")
    whole, rng = file.read_bytes(), random.Random(SEED)
    for _ in range(400 if LONG else 40):
        at = rng.randrange(len(whole))
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << rng.randrange(8)]) + whole[at + 1 :])
        try:
            assert lines(table.to_arrow()) == lines(rows), at  # such as a bit that no reader looks at
        except CorruptFileError:
            continue
