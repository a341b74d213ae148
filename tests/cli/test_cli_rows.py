"""Rows in and out of the command line: forms, files, pipes, NULL in CSV, types."""

from __future__ import annotations

import datetime
import decimal
import io
import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import paimon_pyds as pp
from paimon_pyds.base.types.sql_columns import parse_columns
from paimon_pyds.cli.inputs import InputFormat, open_inputs
from paimon_pyds.cli.main import main
from paimon_pyds.cli.output import RowOutput
from support.effort import sampled

DAY, MOMENT = datetime.date(2026, 11, 22), datetime.datetime(2026, 11, 22, 12, 30, 0, 250_000)
ROWS = pa.table(
    {
        "i": pa.array([1, None, 3], pa.int32()),
        "code": ["007", "", None],
        "text": ['a,"b"', "c\nd|e", "NULL"],
        "day": pa.array([DAY, None, datetime.date(9999, 12, 31)]),
        "at": pa.array([MOMENT, None, MOMENT], pa.timestamp("us")),
        "zoned": pa.array([MOMENT, None, MOMENT], pa.timestamp("us", "UTC")),
        "price": pa.array([decimal.Decimal("1.50"), None, decimal.Decimal("-0.01")], pa.decimal128(10, 2)),
        "share": [1.5, float("nan"), None],
        "good": [True, None, False],
    }
)


@pytest.fixture
def path(tmp_path: Path) -> str:
    table = pp.Table.create(tmp_path / "t", ROWS.schema)
    table.append(ROWS)
    return table.path


def _run(*arguments: str, given: bytes = b"", status: int = 0) -> bytes:
    done = subprocess.run(
        [sys.executable, "-m", "paimon_pyds", *arguments], input=given, capture_output=True, check=False
    )
    assert done.returncode == status, done.stderr.decode()
    return done.stdout if status == 0 else done.stderr


def _same(table: pa.Table, other: pa.Table) -> bool:
    return str(table.to_pylist()) == str(other.to_pylist())  # NaN is no value that equals itself


@pytest.mark.parametrize("form", ["json", "csv", "parquet", "arrow"])
def test_what_is_written_is_read_again(
    path: str, tmp_path: Path, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    copy, file = str(tmp_path / "copy"), str(tmp_path / f"rows.{form}")
    rows = ROWS.drop_columns(["share"]) if form == "json" else ROWS  # JSON has no NaN: it is a text there
    assert main(["scan", path, "--out", file, "--columns", ",".join(rows.column_names)]) == 0
    pp.Table.create(copy, rows.schema)
    assert main(["append", copy, file]) == 0
    assert _same(pp.Table.open(copy).scan().to_arrow(), rows), "types come from the table, as in 007"
    assert capsys.readouterr().out.startswith("3 rows written")


@pytest.mark.parametrize("form", sampled(["csv", "parquet", "arrow"], 1))
def test_pipes(path: str, tmp_path: Path, form: str) -> None:
    copy = pp.Table.create(tmp_path / "copy", ROWS.schema)
    piped = _run("scan", path, "--output", form, "--out", "-")
    assert b"3 rows written" in _run("append", copy.path, "-", "--input-format", form, given=piped)
    assert _same(copy.scan().to_arrow(), ROWS)


def test_csv_as_it_looks(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    columns = ("--columns", "i,code,text,day,at,zoned,price,share,good")
    assert main(["scan", path, "--output", "csv", *columns]) == 0
    assert capsys.readouterr().out == (
        "i,code,text,day,at,zoned,price,share,good\n"
        '1,007,"a,""b""",2026-11-22,2026-11-22 12:30:00.250000,2026-11-22 12:30:00.250000Z,1.50,1.5,true\n'
        ',"","c\nd|e",,,,,nan,\n'
        "3,,NULL,9999-12-31,2026-11-22 12:30:00.250000,2026-11-22 12:30:00.250000Z,-0.01,,false\n"
    )
    how = ("--null", "NULL", "--delimiter", r"\t", "--no-header", "--columns", "i,code,text")
    assert main(["scan", path, "--output", "csv", *how]) == 0
    assert capsys.readouterr().out == '1\t007\t"a,""b"""\nNULL\t\t"c\nd|e"\n3\tNULL\t"NULL"\n'


def test_markdown(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scan", path, "--output", "markdown", "--columns", "i,text"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "| i | text |", "| --- | --- |", '| 1 | a,"b" |', r"| NULL | c\nd\|e |", "| 3 | NULL |",
    ]  # fmt: skip


def test_values_that_csv_has_no_form_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    far = pa.array([300_000_000_000_000_000], pa.timestamp("us"))
    rows = pa.table({"tags": [["a", None]], "bytes": [b"ab"], "far": far})
    table = pp.Table.create(tmp_path / "t", rows)
    assert main(["scan", table.path, "--output", "csv"]) == 0
    text = capsys.readouterr().out
    assert text == 'tags,bytes,far\n"[""a"", null]",YWI=,11476-08-15T05:20:00.000000\n'
    (tmp_path / "in.csv").write_text(text)
    assert main(["append", table.path, str(tmp_path / "in.csv")]) == 1
    assert "CSV conversion to list<element: string> is not supported" in capsys.readouterr().err
    (tmp_path / "in.csv").write_text("bytes\nYWI=\n")
    assert main(["append", table.path, str(tmp_path / "in.csv")]) == 1
    assert "column 'bytes' holds bytes, which CSV has no form for — give them as Parquet" in capsys.readouterr().err


texts = st.text(st.characters(exclude_characters="\r", exclude_categories=["Cs"]), max_size=5)


@given(
    rows=st.lists(
        st.tuples(texts | st.none(), texts | st.none(), st.integers(-9, 9) | st.none()), min_size=1, max_size=5
    ),
    null=st.sampled_from(["", "NULL", "x", " "]),
    delimiter=st.sampled_from([",", ";", "\t", "|"]),
    columns=st.integers(1, 3),
)
def test_csv_loses_nothing(
    tmp_path_factory: pytest.TempPathFactory, rows, null: str, delimiter: str, columns: int
) -> None:
    types = [("a", pa.string()), ("b", pa.string()), ("c", pa.int64())][:columns]
    table = pa.table(
        [pa.array(values, t) for values, (_, t) in zip(list(zip(*rows, strict=True))[:columns], types, strict=True)],
        schema=pa.schema(types),
    )
    file = str(tmp_path_factory.getbasetemp() / "rows.csv")
    RowOutput(out=file, null=null, delimiter=delimiter).show(table.schema, table.to_batches())
    _, batches = open_inputs([file], InputFormat(delimiter=delimiter, null=null, types=table.schema))
    assert pa.Table.from_batches(batches, table.schema).to_pylist() == table.to_pylist()


def test_types_of_csv_and_of_a_new_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rows.txt").write_text("007;1.5;N\n008;N;x\n")
    path = str(tmp_path / "t")
    csv = ("--input-format", "csv", "--delimiter", ";", "--null", "N", "--no-header")
    assert main(["append", path, str(tmp_path / "rows.txt"), "--create", *csv]) == 1
    assert "say them with --types" in capsys.readouterr().err
    types = ("--types", "code STRING, price DECIMAL(5, 2), note STRING")
    assert main(["append", path, str(tmp_path / "rows.txt"), "--create", *csv, *types]) == 0
    table = pp.Table.open(path)
    assert [str(f.type) for f in table.schema.fields] == ["STRING", "DECIMAL(5, 2)", "STRING"]
    expected = [("007", decimal.Decimal("1.50"), None), ("008", None, "x")]
    assert [tuple(row.values()) for row in table.scan().to_arrow().to_pylist()] == expected
    (tmp_path / "bad.csv").write_text("code,price\n1,cheap\n")
    assert main(["append", path, str(tmp_path / "bad.csv")]) == 1
    message = capsys.readouterr().err
    assert "column 'price': " in message and "'cheap'" in message
    assert len(message.splitlines()) == 1
    assert table.count() == 2


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("300,1,1,,a", "column 'id': CSV conversion error to int8: invalid value '300'"),
        ("3,1e39,1,,a", "column 'f': too large for a float of 32 bits"),
        ("3,1,1.555,,a", "column 'd': Rescaling Decimal"),
        ('3,1,1,"2020-01-02 03:00:00",a', "column 't': CSV conversion error to date32[day]: invalid value '2020-01-02"),
        ("\n3,1,1,,\xff", "column 's': CSV conversion error to string: invalid UTF8 data — at PATH — it is no UTF-8"),
        ('3,1,"",,a', "column 'd': Empty string cannot be converted to decimal128 — at PATH — a text in quotes is a"),
        ("3,1,1,", "Expected 5 columns, got 4: 3,1,1,"),
        (
            f"3,1,1,,{'a' * 100_000}\n" * 12 + "x,,,,",
            "column 'id': CSV conversion error to int8: invalid value 'x', after",
        ),
    ],
)
@pytest.mark.parametrize("piped", [False, True])
def test_errors_in_csv_name_the_column(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, line: str, message: str,
    piped: bool,
) -> None:  # fmt: skip
    table = pp.Table.create(tmp_path / "t", parse_columns("id TINYINT, f FLOAT, d DECIMAL(4, 2), t DATE, s STRING"))
    path, data = tmp_path / "rows.csv", ('id,f,d,t,s\n1,1.5,1.25,2020-01-01,"a\nb"\n' + line + "\n").encode("latin-1")
    path.write_bytes(data)
    if piped:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(data))))  # type: ignore[arg-type]
    assert main(["append", table.path, *(["-", "--input-format", "csv"] if piped else [str(path)])]) == 1
    assert message.replace("PATH", "-" if piped else str(path)) in capsys.readouterr().err
    assert table.snapshots.latest() is None


def test_hexadecimal_texts_are_no_integers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Arrow would read them as the bits of integers: 0xFFFFFFFF as -1."""
    file, path = tmp_path / "rows.csv", str(tmp_path / "new")
    file.write_text("id,text\n0xFFFFFFFF,0xFF\n")
    table = pp.Table.create(tmp_path / "t", "id INT, text STRING")
    for arguments in ([table.path], [path, "--create"]):
        assert main(["append", *arguments[:1], str(file), *arguments[1:]]) == 1
        assert "column 'id': CSV conversion error to int" in capsys.readouterr().err
    assert main(["append", path, str(file), "--create", "--types", "id STRING, text STRING"]) == 0
    assert pp.Table.open(path).to_arrow().to_pylist() == [{"id": "0xFFFFFFFF", "text": "0xFF"}]


def test_errors_in_csv_of_a_merge(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = pp.Table.create(tmp_path / "t", parse_columns("id INT, t TIMESTAMP(6) WITH LOCAL TIME ZONE"))
    (tmp_path / "rows.csv").write_text("id,t\n1,2026-01-31 12:30:00Z\n2,2026-01-31 12:30:00\n")
    merge = ["merge", table.path, "--source", str(tmp_path / "rows.csv"), "--on", "id", "--when-not-matched", "insert"]
    assert main(merge) == 1
    assert "column 't': " in (message := capsys.readouterr().err)
    assert "expected a zone offset in '2026-01-31 12:30:00'" in message


_CSV = "id,color,price,day\n1,red,1.50,2026-01-01\n2,blue,2.50,2026-01-02\n"


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        (_CSV, ["--create", "--types", "prize DECIMAL(10, 2)"], "--types has a column 'prize' that the input does not"),
        (_CSV, ["--types", "prize DECIMAL(10, 2)"], "have — did you mean price?"),
        ('{"price": "1.5"}', ["--types", "prize DECIMAL(10, 2)", "--input-format", "json"], "did you mean price?"),
        (_CSV.replace("2.50", "cheap"), [], "correct the value, or give the column another type"),
        (_CSV.replace(",", ";"), [], "the only column is 'id;color;price;day', with ',' between columns"),
        (_CSV.replace(",", "\t"), ["--create"], r"say --delimiter '\t'"),
        ("", [], "the file is empty: there is no data — at "),
        ("", ["--input-format", "parquet"], "the file is empty: there is no data — at "),
    ],
)
def test_inputs_that_were_meant_otherwise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, arguments: list[str], message: str
) -> None:
    table = pp.Table.create(tmp_path / "t", parse_columns("id INT, color STRING, price DECIMAL(10, 2), day DATE"))
    (tmp_path / "rows.csv").write_text(text)
    path = str(tmp_path / "new") if "--create" in arguments else table.path
    assert main(["append", path, str(tmp_path / "rows.csv"), *arguments]) == 1
    assert message.replace("PATH", path) in capsys.readouterr().err
    assert not (tmp_path / "new").exists() and table.snapshots.latest() is None


@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("rows.csv", b"id,id\n1,2\n", "two columns have the same name: id — at "),
        ("rows.csv", "id,name\n1,x\n".encode("utf-16"), "it is in UTF-16 — at PATH — convert it to UTF-8"),
        ("rows.csv", b"id,name\n1,x\n2,caf\xe9\n", "column 'name' — at PATH — it is no UTF-8: con"),
        ("rows.csv", b"id,caf\xe9\n1,x\n", "it is no UTF-8"),
        ("rows.jsonl", b'[{"id": 1}, {"id": 2}]', "is one array, and a line is wanted for each object"),
        ("rows.jsonl", b' [\n {"id": 1}]', "is one array, and a line is wanted for each object"),
        ("rows.jsonl", b'{"id": 1, "id": 2}\n', "id"),
    ],
)  # fmt: skip
def test_inputs_that_can_not_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], exists: bool, name: str, data: bytes, message: str
) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    table = pp.Table.create(tmp_path / "t", parse_columns("id INT, name STRING")) if exists else None
    command = ["append", str(tmp_path / "t"), str(path), *([] if exists else ["--create"])]
    assert main(command) == 1
    told = capsys.readouterr().err
    assert "unexpected" not in told
    if not (exists and b"caf" in data):
        assert message.replace("PATH", str(path)) in told
    assert table is None or table.snapshots.latest() is None
    assert exists == (tmp_path / "t").exists()


@pytest.mark.parametrize("text", ["1\n99999999999999999999\n", "1.5\n9007199254740993\n", "1.5\n1e300\n"])
def test_csv_guesses_no_doubles_that_may_have_lost_digits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (tmp_path / "rows.csv").write_text(f"id\n{text}")
    write = ["append", str(tmp_path / "t"), str(tmp_path / "rows.csv"), "--create"]
    assert main(write) == 1
    assert "column 'id' has numbers of 2^53 or more, which may lose digits as a DOUBLE" in capsys.readouterr().err
    assert not (tmp_path / "t").exists()
    assert main([*write, "--types", "id DOUBLE"]) == 0
    assert float(pp.Table.open(tmp_path / "t").max("id")) == max(map(float, text.split()))


@pytest.mark.parametrize("text", ["1,99999999999999999999", "1.5,9007199254740993"])
def test_json_refuses_integers_that_would_lose_digits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    first, second = text.split(",")
    lines = f'{{"f": 1e300, "id": {first}}}\n{{"f": 1, "id": {second}}}\n'
    (tmp_path / "rows.jsonl").write_text(lines)
    write = ["append", str(tmp_path / "t"), str(tmp_path / "rows.jsonl"), "--create"]
    assert main(write) == 1
    message = f"column 'id': {second} would lose digits as a DOUBLE, in line 2"
    assert message in (error := capsys.readouterr().err)
    assert f"--types 'id DECIMAL({len(second)}, 0)'" in error
    (tmp_path / "rows.jsonl").write_text(
        lines.replace("99999999999999999999", "100000000000000000000").replace("993", "992")
    )
    assert main(write) == 0
    assert float(pp.Table.open(tmp_path / "t").max("id")) in (1e20, 2.0**53)


def test_a_table_whose_first_rows_fail_is_not_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "one.csv").write_text("id\n1\n")
    (tmp_path / "two.csv").write_text("id\nx\n")
    (tmp_path / "head.csv").write_text("id,name\n")
    new = ["append", str(tmp_path / "t"), str(tmp_path / "one.csv")]
    assert main([*new, str(tmp_path / "two.csv"), "--create"]) == 1
    assert not (tmp_path / "t").exists()
    assert main(["append", str(tmp_path / "t"), str(tmp_path / "head.csv"), "--create"]) == 1
    assert "column 'id' has no value, which leaves its type open — say it with --types" in capsys.readouterr().err
    assert not (tmp_path / "t").exists()
    assert main([*new, "--create"]) == 0
    assert main([*new, str(tmp_path / "two.csv"), "--create"]) == 1
    assert pp.Table.open(tmp_path / "t").count() == 1


def test_dates_of_json_are_dates_of_a_new_table(tmp_path: Path) -> None:
    lines = ('"d": "2026-11-22", "at": "2026-11-22 12:30:00", "s": "2026-11-22"', '"d": null, "at": "2026-11-23"')
    (tmp_path / "rows.jsonl").write_text("".join(f"{{{line}}}\n" for line in lines))
    assert main(["append", str(tmp_path / "t"), str(tmp_path / "rows.jsonl"), "--create", "--types", "s STRING"]) == 0
    table = pp.Table.open(tmp_path / "t")
    assert [str(f.type) for f in table.schema.fields] == ["DATE", "TIMESTAMP(0)", "STRING"]
    assert table.scan(columns=["d", "s"]).to_arrow().to_pylist() == [{"d": DAY, "s": str(DAY)}, {"d": None, "s": None}]


def test_json_keeps_texts_that_look_like_times(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = pp.Table.create(tmp_path / "t", pa.schema([("s", pa.string()), ("d", pa.date32()), ("n", pa.int64())]))
    (tmp_path / "rows.jsonl").write_text('{"s": "2026-11-22", "d": "2026-11-22"}\n')
    assert main(["append", table.path, str(tmp_path / "rows.jsonl")]) == 0
    assert table.scan().to_arrow().to_pylist() == [{"s": "2026-11-22", "d": DAY, "n": None}]
    for text, at in (("2026-13-22", "x"), ("2026-11-22 10:00:00", "2026-11-22")):
        (tmp_path / "rows.jsonl").write_text(f'{{"d": "2026-11-22", "s": "{at}"}}\n{{"d": "{text}"}}\n')
        assert main(["append", table.path, str(tmp_path / "rows.jsonl")]) == 1
        message = f"'{text}' does not fit column 'd', which is DATE, first in row 2 of the data"
        assert message in capsys.readouterr().err


def test_rows_of_lookup_system_and_distinct(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = pp.Table.create(
        tmp_path / "t", pa.schema([("id", pa.int64()), ("n", pa.int64())]), ["id"], (), {"bucket": "1"}
    )
    table.append({"id": [1, 2], "n": [5, 5]})
    assert main(["lookup", table.path, '{"id": 2}', "--output", "csv"]) == 0
    assert main(["distinct", table.path, "n", "--output", "csv", "--how"]) == 0
    captured = capsys.readouterr()
    assert captured.out == "id,n\n2,5\nvalue,count\n5,2\n" and captured.err.startswith("(by ")
    assert main(["system", "read", table.path, "snapshots", "--out", str(tmp_path / "s.parquet")]) == 0
    assert pq.read_table(tmp_path / "s.parquet").column("snapshot_id").to_pylist() == [1]


def test_a_lookup_needs_a_primary_key(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lookup", path, "1"]) == 1
    message = f"no primary key to look rows up by — at {path} — use paimon-pyds scan {path} --where '…'"
    assert message in capsys.readouterr().err


def test_files_that_say_nothing_of_their_form(path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, message in (
        (["scan", path, "--out", "rows.xls"], "can't tell the form of 'rows.xls' — add --output"),
        (["scan", path, "--out", str(tmp_path / "none" / "rows.csv")], "can't write the output: No such file"),
        (["scan", path, "--output", "csv", "--delimiter", "::"], "--delimiter takes one character"),
        (["scan", path, "--output", "csv", "--null", "a,b"], "--null takes no quotes"),
        (["append", path, "-"], "can't tell the format of standard input"),
        (["append", path, "-", "-", "--input-format", "csv"], "standard input can be read once only"),
    ):
        assert main(arguments) == 1
        assert message in capsys.readouterr().err
    assert main(["scan", path, "--filter", "CAST(text AS INT) = 1", "--out", str(tmp_path / "rows.csv")]) == 1
    assert not (tmp_path / "rows.csv").exists(), "half a file is no file"


def test_binary_forms_are_not_for_terminals(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.TextIOWrapper):
        def isatty(self) -> bool:
            return True

    error = io.StringIO()
    monkeypatch.setattr("sys.stdout", Terminal(io.BytesIO()))
    monkeypatch.setattr("sys.stderr", error)
    assert main(["scan", path, "--output", "parquet"]) == 1
    assert "a terminal can't show parquet" in error.getvalue()


def test_errors_of_json_have_the_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also behind the first block of Arrow's reader, which is a MiB."""
    table = pp.Table.create(tmp_path / "t", {"i": [1]})
    long = '{"i": 1, "s": "' + "x" * 500 + '"}\n'
    for before in (0, 1, 5000):
        (tmp_path / "rows.jsonl").write_text(long * before + '{"i": 1}\n{"i": "x"}\n' + '{"i": 2}\n' * 9)
        assert main(["append", table.path, str(tmp_path / "rows.jsonl")]) == 1
        said = f"column 'i' changed from number to string, in line {before + 2} — at "
        assert said in capsys.readouterr().err
        (tmp_path / "rows.jsonl").write_text(long * before + '{"i: 1}\n')
        assert main(["append", table.path, str(tmp_path / "rows.jsonl")]) == 1
        assert f", in line {before + 1} — at " in capsys.readouterr().err


def test_json_keeps_the_order_of_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [
        {"z": 1, "day": "2026-11-22", "a": None, "at": "2026-11-22 10:00:00"}, {"late": 1, "a": 2, "day": "x"},
        {"early": 1, "z": 2, "at": "2026-11-23 10:00:00"},
    ]  # fmt: skip
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert main(["append", str(tmp_path / "t"), str(rows), "--create", "--types", "early INT, z BIGINT"]) == 0
    names = ["z", "day", "a", "at", "late", "early"]
    assert list(pp.Table.open(tmp_path / "t").schema.field_names) == names
    capsys.readouterr()
    assert main(["scan", str(tmp_path / "t"), "--output", "json"]) == 0
    assert list(json.loads(capsys.readouterr().out.splitlines()[0])) == names


@pytest.mark.parametrize("nested", [False, True])
def test_json_of_many_blocks_keeps_the_order_of_names(nested: bool, tmp_path: Path) -> None:
    """Arrow's threads take longer for the first block, whose lines are wide, than for the others."""
    wide = {f"c{n}": n for n in range(400)}
    line = '{"r": {"new%d": "%s"}}\n' if nested else '{"new%d": "%s"}\n'
    with open(tmp_path / "rows.jsonl", "w") as file:
        file.writelines([f"{json.dumps({'r': wide} if nested else wide)}\n"] * 300)
        file.writelines(line % (n // 4_000, "x" * 300) for n in range(20_000))
    threads = pa.cpu_count()
    pa.set_cpu_count(8)
    try:
        schema, _ = open_inputs([str(tmp_path / "rows.jsonl")])
    finally:
        pa.set_cpu_count(threads)
    names = [field.name for field in schema.field("r").type] if nested else schema.names
    assert names == [*wide, *(f"new{n}" for n in range(5))]


def test_jsonl_is_json(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scan", path, "--output", "jsonl", "--columns", "i"]) == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [{"i": 1}, {"i": None}, {"i": 3}]


def test_new_columns_of_files_join_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, first, second = str(tmp_path / "t"), tmp_path / "1.csv", tmp_path / "2.jsonl"
    first.write_text("id,v\n1,a\n")
    second.write_text('{"id": 2, "v": "b", "more": 7}\n')
    assert main(["append", path, str(first), "--create", "--primary-key", "id", "--option", "bucket=1"]) == 0
    assert main(["append", path, str(second)]) == 1
    assert "write.merge-schema=true" in capsys.readouterr().err
    assert main(["append", path, str(second), "--option", "write.merge-schema=true"]) == 0
    table = pp.Table.open(path)
    assert table.to_arrow().sort_by("id").to_pylist() == [
        {"id": 1, "v": "a", "more": None},
        {"id": 2, "v": "b", "more": 7},
    ]
    assert "write.merge-schema" not in table.options
    second.write_text('{"id": 3, "v": "c", "more": 8, "other": "x"}\n')
    assert main(["overwrite", path, str(second), "--option", "write.merge-schema=true"]) == 0
    assert table.to_arrow().to_pylist() == [{"id": 3, "v": "c", "more": 8, "other": "x"}]
