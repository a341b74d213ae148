"""Format tables: directories of files of other writers, which a catalog gives columns."""

from __future__ import annotations

import csv
import gzip
import json
import random
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import CorruptFileError, PaimonError, SecurityError, UnsupportedError
from support.effort import LONG, SEED, sampled
from support.format_tables import format_table
from support.values import lines

COLUMNS = "id INT, big BIGINT, f DOUBLE, t STRING, b BOOLEAN, d DATE, ts TIMESTAMP(3), m DECIMAL(9, 2), p STRING, q INT"

CONDITIONS = ("p = 'x'", "q > 1 AND b", "p IS NULL OR f < 1", "id % 3 = 1 AND q = 1", "t LIKE 'a%'", "m > 0")


def _row(rng: random.Random, number: int) -> dict[str, Any]:
    values: Mapping[str, Any] = {
        "big": rng.randint(-(2**63), 2**63 - 1), "f": rng.choice([0.5, -1e300, 3.0, 1e-7]),
        "t": rng.choice(["a", 'x "y" z', "a,b", "ä;ö", " blank ", "back\\slash", "{}"]), "b": rng.random() < 0.5,
        "d": date(rng.randint(1900, 2100), 5, 6), "ts": datetime(rng.randint(1900, 2100), 1, 2, 3, 4, 5, 678000),
        "m": Decimal(rng.randint(-999_999_999, 999_999_999)) / 100,
    }  # fmt: skip
    return {"id": number, **{name: None if rng.random() < 0.2 else value for name, value in values.items()}}


def _text(value: Any) -> Any:
    return value.isoformat(" ", "milliseconds") if isinstance(value, datetime) else value


def _write_csv(path: Path, rows: Sequence[Mapping[str, Any]], header: bool) -> None:
    with path.open("w", newline="") as file:
        out = csv.writer(file, quoting=csv.QUOTE_MINIMAL, lineterminator="\n")
        if header:
            out.writerow(rows[0])
        for row in rows:
            texts = ["" if v is None else _text(v) for v in row.values()]
            out.writerow([t.replace("\\", "\\\\") if isinstance(t, str) else t for t in texts])
    path.write_text(path.read_text().replace("back\\\\slash", '"back\\\\slash"'))


def _write_json(path: Path, rows: Sequence[Mapping[str, Any]], as_texts: bool) -> None:
    with path.open("w") as file:
        for row in rows:
            plain = {k: v if isinstance(v, int | float | bool | None) else str(_text(v)) for k, v in row.items()}
            if as_texts:  # as Java Paimon does
                plain = {k: None if v is None else str(v).lower() if k == "b" else str(v) for k, v in plain.items()}
            file.write(json.dumps({**plain, "unknown": [1]}) + "\n")


@pytest.mark.parametrize("format_", ["parquet", "orc", "csv", "json"])
@pytest.mark.parametrize("bare", sampled([False, True], 1), ids=str)
def test_random_rows_filters_and_projections(format_: str, bare: bool, tmp_path: Path) -> None:
    rng = random.Random(SEED)
    header = rng.random() < 0.5
    table = format_table(
        tmp_path / "t", COLUMNS, format_, ["p", "q"], csv__include_header=str(header).lower(),
        format_table__partition_path_only_value=str(bare).lower(),
    )  # fmt: skip
    expected: list[dict[str, Any]] = []
    schema = pa.schema(list(table.arrow_schema)[:-2])
    for p, q in [("x", 1), ("a=b/c", 2), (None, 3), ("x", None)]:
        names = [
            "__DEFAULT_PARTITION__" if v is None else str(v).replace("=", "%3D").replace("/", "%2F") for v in (p, q)
        ]
        folder = tmp_path / "t" / "/".join(names if bare else (f"p={names[0]}", f"q={names[1]}"))
        folder.mkdir(parents=True)
        (folder / "_SUCCESS").write_text("")
        for number in range(2):
            rows = [_row(rng, len(expected) + i) for i in range(rng.choice([1, 40]))]
            path = folder / f"part-{number}.{format_}"
            match format_:
                case "csv":
                    _write_csv(path, rows, header)
                case "json":
                    _write_json(path, rows, as_texts=number == 0)
                case "parquet":
                    pq.write_table(pa.Table.from_pylist(rows, schema), path)
                case "orc":
                    orc.write_table(pa.Table.from_pylist(rows, schema), path)
            if format_ in ("csv", "json") and number:
                packed = path.with_name(f"{path.name}.gz")
                packed.write_bytes(gzip.compress(path.read_bytes()))
                path.unlink()
            expected += [{**row, "p": p, "q": q} for row in rows]
    whole = pa.Table.from_pylist(expected, table.arrow_schema)
    assert lines(table.to_arrow()) == lines(whole)
    assert table.count() == len(expected)
    plain = pp.Table.create(tmp_path / "plain", table.arrow_schema)
    plain.append(whole)
    for _ in range(20 if LONG else 4):
        columns = rng.sample(whole.column_names, rng.randint(1, 4))
        where = rng.choice(
            ["p = 'x'", "q > 1 AND b", "p IS NULL OR f < 1", "id % 3 = 1 AND q = 1", "t LIKE 'a%'", "m > 0"]
        )
        assert lines(table.scan(where, columns=columns).to_arrow()) == lines(
            plain.scan(where, columns=columns).to_arrow()
        )
        assert table.count(where) == plain.count(where)
    assert len(table.scan("p = 'a=b/c'").plan().files) == 2
    assert table.scan("id = 3", limit=1).explain().to_arrow().num_rows


def test_lines_of_text(tmp_path: Path) -> None:
    table = format_table(tmp_path / "t", "line STRING", "text")
    assert table.count() == 0
    (tmp_path / "t" / "a.text").write_bytes(b"\xef\xbb\xbfone\r\ntwo\rthree\n\nfive")
    assert table.to_arrow()["line"].to_pylist() == ["one", "two", "three", "", "five"]


def test_large_files_are_read_in_parts(tmp_path: Path) -> None:
    table = format_table(tmp_path / "t", "id INT, t STRING", "csv")
    rows = 40_000
    (tmp_path / "t" / "a.csv").write_text("".join(f'{i},"{i} ""x"", {"y" * 300}"\n' for i in range(rows)))
    found = table.scan("id % 10000 = 7").to_arrow()
    assert found["t"].to_pylist() == [f'{i} "x", {"y" * 300}' for i in range(7, rows, 10_000)]
    assert table.count() == rows


@pytest.mark.parametrize(
    "line",
    [
        '1,"a" b',
        '1,a"b"c',
        '1,ab"',
        '1,"ab',
        "1,a\\b",
        '1,\\"a"',
        "1",
        "1,2,3",
        "x,a",
        "1.5,a",
        " 1,a",
        "0x10,a",
        "99999999999,a",
    ],
)
def test_lines_that_parsers_disagree_on_are_an_error(line: str, tmp_path: Path) -> None:
    table = format_table(tmp_path / "t", "id INT, t STRING", "csv")
    (tmp_path / "t" / "a.csv").write_text(f"7,ok\n{line}\n8,ok\n")
    with pytest.raises((UnsupportedError, CorruptFileError), match=r"a\.csv"):
        table.to_arrow()


@pytest.mark.parametrize("format_", ["csv", "json"])
def test_digits_that_a_type_lacks_are_an_error(format_: str, tmp_path: Path) -> None:
    time = "2020-01-02 03:04:05"
    values = {
        "TIMESTAMP(0)": f"{time}.6",
        "TIMESTAMP(4)": f"{time}.12345",
        "DECIMAL(4, 1)": "1.25",
        "SMALLINT": "40000",
    }
    for number, (type_, text) in enumerate(values.items()):
        table = format_table(tmp_path / f"t{number}", f"v {type_}", format_)
        line = text if format_ == "csv" else json.dumps({"v": text})
        (tmp_path / f"t{number}" / f"a.{format_}").write_text(line)
        with pytest.raises(CorruptFileError):
            table.to_arrow()
        if format_ == "json" and type_.startswith("DECIMAL"):
            (tmp_path / f"t{number}" / "a.json").write_text('{"v": 1.25}')
            with pytest.raises(CorruptFileError):
                table.to_arrow()


def test_another_escape_character_leaves_backslashes_alone(tmp_path: Path) -> None:
    table = format_table(tmp_path / "t", "id INT, t STRING", "csv")
    (tmp_path / "t" / "a.csv").write_text('1,C:\\new\n2,"a,\\b"\n')
    with pytest.raises(UnsupportedError, match=r"another csv\.escape-character"):
        table.to_arrow()
    for other in ("^", "\0"):
        found = table.scan(options={"csv.escape-character": other}).to_arrow()
        assert found["t"].to_pylist() == ["C:\\new", "a,\\b"]


@pytest.mark.parametrize("line", ["", "{", "[1]", '{"id": "x"}', '{"id": 1.5}', '{"id": 1, "t": 3}', '{"id": 1} {}'])
def test_lines_that_are_no_rows_are_an_error(line: str, tmp_path: Path) -> None:
    table = format_table(tmp_path / "t", "id INT, t STRING", "json")
    (tmp_path / "t" / "a.json").write_text(f'{{"id": 1, "t": "x"}}\n{line}\n')
    with pytest.raises((UnsupportedError, CorruptFileError), match=r"a\.json"):
        table.to_arrow()


def test_what_is_not_read_and_not_written(tmp_path: Path) -> None:
    table = format_table(tmp_path / "t", "id INT, raw BYTES", "csv")
    (tmp_path / "t" / "a.csv").write_text("1,AA==\n")
    assert table.scan(columns=["id"]).to_arrow()["id"].to_pylist() == [1]
    for call in (table.to_arrow, lambda: table.append([{"id": 1}]), lambda: next(iter(table.follow())),
                 lambda: table.compact(full=True), lambda: table.delete("id = 1")):  # fmt: skip
        with pytest.raises(UnsupportedError) as caught:
            call()
        assert caught.value.feature == "format-tables"
    with pytest.raises(UnsupportedError, match="type=format-table can't be written"):
        pp.Table.create(tmp_path / "new", "id INT", options={"type": "format-table"})
    (tmp_path / "t" / "b.parquet").write_text("")
    with pytest.raises(UnsupportedError, match="whose name does not end so"):
        table.count()
    (tmp_path / "t" / "b.parquet").unlink()
    (tmp_path / "t" / "link.csv").symlink_to(tmp_path / "t" / "a.csv")
    with pytest.raises(SecurityError, match="link"):
        table.count()
    kept = format_table(tmp_path / "kept", "id INT", "csv", metastore__partitioned_table="true")
    with pytest.raises(UnsupportedError, match="only its catalog knows"):
        kept.count()


def test_damaged_files_are_an_error(tmp_path: Path) -> None:
    table = format_table(tmp_path / "t", "id INT, t STRING", "csv")
    whole = gzip.compress(b"".join(b"%d,x\n" % i for i in range(1000)))
    rng = random.Random(SEED)
    for _ in range(20):
        hostile = bytearray(whole)
        hostile[rng.randrange(len(whole))] ^= rng.randint(1, 255)
        (tmp_path / "t" / "a.csv.gz").write_bytes(hostile[: rng.choice([len(whole), len(whole) // 2])])
        try:
            assert table.to_arrow()["id"].to_pylist() == list(range(1000))
        except PaimonError:
            continue


def test_a_file_that_is_written_anew_is_read_anew(tmp_path: Path) -> None:
    table = format_table(tmp_path / "t", "id INT, t STRING", "parquet")
    for text in ("aaaa", "bbbb"):
        pq.write_table(pa.table({"id": pa.array([1] * 9, pa.int32()), "t": [text] * 9}), tmp_path / "t" / "a.parquet")
        assert table.to_arrow()["t"].to_pylist() == [text] * 9
