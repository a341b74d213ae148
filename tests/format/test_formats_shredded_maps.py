"""MAP columns whose keys many rows share (map.storage-layout=shared-shredding): the file says so, not the options."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import paimon_pyds as pp
from paimon_pyds.engine.write import rolling
from paimon_pyds.errors import CorruptFileError, OptionError, PaimonError, UnsupportedError
from paimon_pyds.format.parquet import shared_map_writer, writer
from support.data_files import fields_of, read_file
from support.effort import LONG
from support.peers import Pypaimon, Rust
from support.v2_fixtures import Read, read_id, v2_copy, v2_reads, v2_table
from support.values import lines

_FIELDS = fields_of("INT", {"type": "MAP", "key": "STRING", "value": "BIGINT"})
_LAYOUT = "paimon.map.storage-layout"
_PREFIX = "paimon.map.shared-shredding."
Map = dict[str, int | None] | None


def _metadata(names: dict[str, int], columns: int, compression: str = "zstd", **changed: str) -> dict[str, str]:
    data = json.dumps(names).encode()
    packed = data
    if compression == "zstd":
        packed = bytes(pa.Codec("zstd").compress(data))
    elif compression == "lz4":
        block = bytes(pa.Codec("lz4_raw").compress(data))
        packed = len(block).to_bytes(4, "little") + len(data).to_bytes(4, "little") + block
    found = {
        "version": "1", "field-dict": packed.decode("latin-1"), "field-dict-compression": compression,
        "field-dict-original-size": str(len(data)), "num-columns": str(columns),
    }  # fmt: skip
    return {_LAYOUT: "shared-shredding", **{_PREFIX + key: value for key, value in {**found, **changed}.items()}}


def _stored(maps: list[Map], columns: int, names: dict[str, int]) -> pa.Array:
    """The column as Paimon stores it: the first keys of a row in columns, the others in the overflow."""
    rows: list[Any] = []
    for each in maps:
        if each is None:
            rows.append(None)
            continue
        inside, outside = list(each.items())[:columns], list(each.items())[columns:]
        row: dict[str, Any] = {"__field_mapping": [names[k] for k, _ in inside] + [-1] * (columns - len(inside))}
        row |= {f"__col_{i}": inside[i][1] if i < len(inside) else None for i in range(columns)}
        rows.append({**row, "__overflow": [(names[k], v) for k, v in outside] or None})
    values = {f"__col_{i}": pa.int64() for i in range(columns)}
    members = {"__field_mapping": pa.list_(pa.int32()), **values, "__overflow": pa.map_(pa.int32(), pa.int64())}
    return pa.array(rows, pa.struct(list(members.items())))


def _write(path: Path, maps: list[Map], columns: int, metadata: dict[str, str], names: dict[str, int]) -> None:
    field = pa.field("c1", _stored([], columns, names).type, metadata=metadata)
    schema = pa.schema([pa.field("c0", pa.int32()), field])
    table = pa.table([pa.array(range(len(maps)), pa.int32()), _stored(maps, columns, names)], schema)
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=3)
        return
    orc.write_table(table, path)
    text = base64.b64encode(schema.serialize())
    _with_user_metadata(path, b"ARROW:schema", text)


def _with_user_metadata(path: Path, name: bytes, value: bytes) -> None:
    """Add an entry to the footer of an ORC file without compression, as pyarrow can't."""
    from paimon_pyds.format.orc.tail import parse_tail

    data = path.read_bytes()
    tail = parse_tail(lambda offset, length: data[offset : offset + length], len(data))
    footer, postscript = tail.messages

    def varint(number: int) -> bytes:
        return bytes([number & 127 | 128]) + varint(number >> 7) if number > 127 else bytes([number])

    def member(number: int, content: bytes) -> bytes:
        return bytes([number << 3 | 2]) + varint(len(content)) + content

    grown = footer + member(5, member(1, name) + member(2, value))
    assert postscript[0] == 8  # footerLength comes first
    at = 1
    while postscript[at] > 127:
        at += 1
    script = b"\x08" + varint(len(grown)) + postscript[at + 1 :]
    head = data[: len(data) - 1 - len(postscript) - len(footer)]
    path.write_bytes(head + grown + script + bytes([len(script)]))


_KEYS = st.sampled_from(["a", "b", "é;x", "", "long key", "z"])
_MAPS = st.lists(st.none() | st.dictionaries(_KEYS, st.none() | st.integers(-5, 5), max_size=5), min_size=1, max_size=9)


@pytest.mark.parametrize("suffix", ["parquet", "orc"])
@given(_MAPS, st.integers(0, 3), st.sampled_from(["zstd", "lz4", "none"]))
def test_maps_are_put_together(
    tmp_path_factory: pytest.TempPathFactory, suffix: str, maps: list[Map], columns: int, compression: str
) -> None:
    names = {key: 3 * number for number, key in enumerate(dict.fromkeys(key for each in maps for key in each or {}))}
    path = tmp_path_factory.mktemp("f") / f"data.{suffix}"
    _write(path, maps, columns, _metadata(names, columns, compression), names)
    found = read_file(path, _FIELDS)
    found.validate(full=True)
    assert found["c0"].to_pylist() == list(range(len(maps)))
    assert [None if each is None else dict(each) for each in found["c1"].to_pylist()] == maps
    assert [None if each is None else len(each) for each in found["c1"].to_pylist()] == [
        None if each is None else len(each) for each in maps
    ]
    assert read_file(path, _FIELDS[:1]).num_columns == 1


_TWO: list[Map] = [{"a": 1, "b": 2}, None, {"b": 3}]


@pytest.mark.parametrize("suffix", ["parquet", "orc"])
@pytest.mark.parametrize(
    ("names", "columns", "changed", "error", "message"),
    [
        ({"a": 0, "b": 1}, 2, {"version": "2"}, UnsupportedError, "of a version that is not known"),
        ({"a": 0, "b": 1}, 2, {"num-columns": "3"}, CorruptFileError, "it has the fields __field_mapping, __col_0"),
        ({"a": 0, "b": 1}, 2, {"num-columns": "x"}, CorruptFileError, "its keys can't be read"),
        ({"a": 0, "b": 1}, 2, {"field-dict": "not zstd"}, CorruptFileError, "its keys can't be read"),
        ({"a": 0, "b": 1}, 2, {"field-dict-compression": "snappy"}, CorruptFileError, "its keys can't be read"),
        ({"a": 0, "b": 1}, 2, {"field-dict-original-size": str(1 << 40)}, CorruptFileError, "its keys can't be read"),
        ({"a": 0, "b": 1}, 2, {"field-dict-original-size": "-1"}, CorruptFileError, "its keys can't be read"),
        ({"a": 0}, 2, {}, CorruptFileError, "no key has the number"),
        ({"a": 0, "b": 0}, 2, {}, CorruptFileError, "the same number"),
        ({"a": -7, "b": 1}, 2, {}, CorruptFileError, "the same number, or one has none"),
    ],
)
def test_damage_is_told(
    tmp_path: Path,
    suffix: str,
    names: dict[str, int],
    columns: int,
    changed: dict[str, str],
    error: type[PaimonError],
    message: str,
) -> None:
    path = tmp_path / f"data.{suffix}"
    _write(path, _TWO, columns, _metadata(names, columns, **changed), {"a": 0, "b": 1})
    with pytest.raises(error, match=message):
        read_file(path, _FIELDS)


@pytest.mark.parametrize(("mapping", "message"), [([0, 0], "a key twice"), ([0], "does not say of each field")])
def test_rows_that_contradict_themselves(tmp_path: Path, mapping: list[int], message: str) -> None:
    path = tmp_path / "data.parquet"
    names = {"a": 0, "b": 1}
    rows = [{"__field_mapping": mapping, "__col_0": 1, "__col_1": 2, "__overflow": None}]
    own = pa.field("c1", _stored([], 2, names).type, metadata=_metadata(names, 2))
    schema = pa.schema([pa.field("c0", pa.int32()), own])
    pq.write_table(pa.table([pa.array([1], pa.int32()), pa.array(rows, own.type)], schema), path)
    with pytest.raises(CorruptFileError, match=message):
        read_file(path, _FIELDS)


def test_a_file_that_does_not_have_the_keys(tmp_path: Path) -> None:
    names = {"a": 0, "b": 1}
    for suffix, error in (("parquet", UnsupportedError), ("orc", CorruptFileError)):
        path = tmp_path / f"data.{suffix}"
        table = pa.table({"c0": pa.array([1, 2, 3], pa.int32()), "c1": _stored(_TWO, 2, names)})
        (pq if suffix == "parquet" else orc).write_table(table, path)
        assert read_file(path, _FIELDS[:1]).num_rows == 3
        with pytest.raises(error, match="'c1' is a MAP whose keys many rows share"):
            read_file(path, _FIELDS)


def test_beside_timestamps_of_96_bits(tmp_path: Path) -> None:
    """Such files are read by a footer without metadata."""
    names, path = {"a": 0, "b": 1}, tmp_path / "data.parquet"
    own = pa.field("c1", _stored([], 1, names).type, metadata=_metadata(names, 1))
    schema = pa.schema([pa.field("c0", pa.timestamp("ns")), own])
    pq.write_table(
        pa.table([pa.array([1, 2, None], pa.timestamp("ns")), _stored(_TWO, 1, names)], schema),
        path,
        use_deprecated_int96_timestamps=True,
    )
    found = read_file(path, fields_of("TIMESTAMP(9)", {"type": "MAP", "key": "STRING", "value": "BIGINT"}))
    assert [None if each is None else dict(each) for each in found["c1"].to_pylist()] == _TWO


@pytest.mark.parametrize("read", v2_reads("map_shredded"), ids=read_id)
def test_a_table_of_pypaimon_whose_option_was_changed(read: Read) -> None:
    table = pp.Table.open(v2_table("map_shredded"))
    found = table.scan(read.filter, columns=read.columns, snapshot=read.snapshot)
    assert lines(found.to_arrow()) == read.rows


@pytest.fixture(params=["rust", "pypaimon"])
def peer(request: pytest.FixtureRequest, tmp_path: Path) -> Rust | Pypaimon:
    return Rust(tmp_path) if request.param == "rust" else Pypaimon(tmp_path)


def test_what_is_written_here_all_read(tmp_path: Path, peer: Rust | Pypaimon) -> None:
    table = pp.Table.open(v2_copy("map_shredded", tmp_path))
    table.alter({"fields.m.map.storage-layout": "shared-shredding"})
    expected = {row["id"]: sorted(row["m"] or []) for row in table.to_arrow().to_pylist()}
    row = {"id": 10, "m": [("a", 1), ("new", None)]}
    table.append(pa.Table.from_pylist([row], table.scan().arrow_schema))
    table.delete("m['a'] = 10")
    table.update({"m": "map('u', id)"}, "m IS NULL")
    expected = {**expected, 10: [("a", 1), ("new", None)], 3: [("u", 3)]}
    del expected[2]
    for _ in range(2):
        for rows in (table.to_arrow(), peer.read("map_shredded")):
            assert {row["id"]: sorted(row["m"] or []) for row in rows.to_pylist()} == expected
        table.compact(full=True)
    assert not table.maintenance.verify(deep=True).findings
    assert _is_stored_so(table)


def _is_stored_so(table: pp.Table) -> bool:
    return all("__field_mapping" in str(pq.read_schema(file.path)) for file in table.scan().plan().files)


def _table(path: Path, value: str = "BIGINT", **more: str) -> pp.Table:
    options = {"fields.m.map.storage-layout": "shared-shredding"}
    options |= {f"fields.m.map.shared-shredding.{key.replace('_', '-')}": text for key, text in more.items()}
    return pp.Table.create(path, f"id INT, m MAP<STRING, {value}>", options=options)


@settings(max_examples=300 if LONG else 12)
@given(st.lists(_MAPS, max_size=3), st.integers(1, 4))
def test_random_maps_are_the_same_again(
    tmp_path_factory: pytest.TempPathFactory, parts: list[list[Map]], most: int
) -> None:
    table = _table(tmp_path_factory.mktemp("t") / "t", max_columns=str(most))
    expected = list[Map]()
    with monkeypatched_groups(3):
        for maps in parts:
            rows = [
                {"id": len(expected) + at, "m": None if m is None else list(m.items())} for at, m in enumerate(maps)
            ]
            table.append(pa.Table.from_pylist(rows, table.scan().arrow_schema))
            expected += maps
    found = table.to_arrow().sort_by("id")["m"].to_pylist()
    assert [None if each is None else dict(each) for each in found] == expected
    assert [None if each is None else len(each) for each in found] == [None if m is None else len(m) for m in expected]
    assert table.count("m IS NULL") == sum(m is None for m in expected)
    for path in Path(table.path).rglob("*.parquet"):
        shown = pq.read_schema(path).field("m").metadata
        assert int(shown[f"{_PREFIX}num-columns".encode()]) <= most
        assert shown[f"{_PREFIX}max-row-width".encode()] is not None


def test_keys_that_are_too_many_for_a_footer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that begin with many are plain; those that get many end."""
    monkeypatch.setattr(shared_map_writer, "FEW_KEY_BYTES", 1_000)
    monkeypatch.setattr(writer, "MOST_NEW_KEY_BYTES", 2_000)
    monkeypatch.setattr(rolling, "MOST_UNCHECKED", 1_000)
    table, keys = _table(tmp_path / "t"), ["a", "b"] * 500 + [f"k{i}" for i in range(1000)] + ["c"] * 500
    rows = pa.Table.from_pylist([{"id": at, "m": [(key, 1)]} for at, key in enumerate(keys)], table.arrow_schema)
    with monkeypatched_groups(200):
        table.append(rows)
        table.append(rows.slice(1000, 1000))
    found = table.to_arrow()
    assert sorted((row["id"], *row["m"]) for row in found.to_pylist()) == sorted(
        (at, (key, 1)) for at, key in [*enumerate(keys), *[(at, keys[at]) for at in range(1000, 2000)]]
    )
    fields = [pq.read_schema(path).field("m") for path in Path(table.path).rglob("*.parquet")]
    shared = [field.metadata for field in fields if pa.types.is_struct(field.type)]
    assert 1 == len(shared) < len(fields)
    assert max(int(each[f"{_PREFIX}field-dict-original-size".encode()]) for each in shared) < 4_000
    monkeypatch.setattr(shared_map_writer, "MOST_KEY_BYTES", 1_000)
    monkeypatch.setattr(shared_map_writer, "FEW_KEY_BYTES", 10**6)
    with pytest.raises(UnsupportedError, match=r"fields\.m\.map\.storage-layout"):
        table.append(rows)


@contextmanager
def monkeypatched_groups(rows: int) -> Iterator[None]:
    """Row groups of few rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "GROUP_ROWS", rows)
        yield


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        ("STRING", ["x", None]),
        ("TIMESTAMP(9)", [datetime(1960, 1, 1), None]),
        ("ARRAY<INT>", [[1, None], None]),
        ("ROW<a INT, b STRING>", [{"a": 1, "b": None}, None]),
        ("INT NOT NULL", [1, 2]),
        ("DECIMAL(20, 3)", [Decimal("1.500"), None]),
    ],
)
def test_values_of_all_types(tmp_path: Path, type_: str, values: list[Any]) -> None:
    table = _table(tmp_path / "t", type_)
    maps = [{"a": values[0]}, {}, None, {"b": values[1], "a": values[0]}]
    rows = [{"id": at, "m": None if each is None else list(each.items())} for at, each in enumerate(maps)]
    table.append(pa.Table.from_pylist(rows, table.scan().arrow_schema))
    assert _is_stored_so(table)
    assert [None if each is None else dict(each) for each in table.to_arrow()["m"].to_pylist()] == maps


def test_what_has_no_columns_of_its_own(tmp_path: Path) -> None:
    for number, (columns, more) in enumerate(
        [("m MAP<INT, INT>", {}), ("m MAP<STRING, VARIANT>", {}), ("m MAP<STRING, INT>", {"file.format": "orc"})]
    ):
        options = {"fields.m.map.storage-layout": "shared-shredding", **more}
        table = pp.Table.create(tmp_path / f"t{number}", columns, options=options)
        table.append(pa.Table.from_pylist([{"m": []}], table.scan().arrow_schema))
        assert not any("__field_mapping" in str(pq.read_schema(p)) for p in Path(table.path).rglob("*.parquet"))
        assert table.to_arrow()["m"].to_pylist() == [[]]


def test_wrong_options_are_told(tmp_path: Path) -> None:
    for number, more in enumerate([{"storage-layout": "x"}, {"shared-shredding.max-columns": "0"}]):
        options = {"fields.m.map.storage-layout": "shared-shredding"}
        options |= {f"fields.m.map.{key}": value for key, value in more.items()}
        with pytest.raises(OptionError, match=r"fields\.m\.map"):
            pp.Table.create(tmp_path / f"t{number}", "m MAP<STRING, INT>", options=options)
