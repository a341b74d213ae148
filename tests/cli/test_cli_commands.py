"""Every command, in text and in JSON, without Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import paimon_pyds as pp
from paimon_pyds.cli.main import main


@pytest.fixture
def path(tmp_path: Path) -> str:
    options = {"file-index.bitmap.columns": "color", "file-index.in-manifest-threshold": "1b"}
    schema = pa.schema([("id", pa.int64()), ("color", pa.string()), ("price", pa.float64())])
    table = pp.Table.create(tmp_path / "t", schema, options=options)
    table.append(pa.table({"id": [1, 2, 3], "color": ["red", "blue", None], "price": [1.5, float("nan"), None]}))
    table.append(pa.table({"id": [4], "color": ["red"], "price": [2.0]}))
    return str(tmp_path / "t")


def _run(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    assert main(arguments) == status
    captured = capsys.readouterr()
    assert (captured.err == "") is (status == 0), captured.err
    return captured.out if status == 0 else captured.err


def _json(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[object]:
    return [json.loads(line) for line in _run(capsys, *arguments, "--output", "json").splitlines()]


def test_read(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _json(capsys, "read", path, "--filter", "color = 'red'") == [
        {"id": 1, "color": "red", "price": 1.5},
        {"id": 4, "color": "red", "price": 2.0},
    ]
    assert _json(capsys, "read", path, "--columns", "price", "--limit", "3") == [
        {"price": 1.5},
        {"price": "nan"},
        {"price": None},
    ]
    text = _run(capsys, "read", path, "--snapshot", "1", "--columns", "id,color")
    assert text.splitlines() == ["id  color", "--  -----", "1   red", "2   blue", "3   NULL"]


def test_count_explain_snapshots_describe(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(capsys, "count", path).strip() == "4"
    assert _json(capsys, "count", path, "--filter", "color IS NULL") == [{"count": 1}]
    text = _run(capsys, "explain", path, "--filter", "color = 'blue'")
    assert "embedded index" in text or "side index" in text
    assert "bitmap" in text
    (explained,) = _json(capsys, "explain", path, "--filter", "color = 'blue'")
    assert isinstance(explained, dict)
    assert explained["steps"][-1]["rows"] == 1
    assert sorted(f["rows_kept"] for f in explained["files"])[-1] == 1
    (listed,) = _json(capsys, "snapshots", path)
    assert isinstance(listed, dict)
    assert [s["rows"] for s in listed["snapshots"]] == [3, 4]
    assert "APPEND" in _run(capsys, "snapshots", path)
    (described,) = _json(capsys, "describe", path)
    assert isinstance(described, dict)
    assert [c["type"] for c in described["columns"]] == ["BIGINT", "STRING", "DOUBLE"]
    assert "file-index.bitmap.columns" in _run(capsys, "describe", path)
    assert "target-file-size" in _run(capsys, "describe", path, "--all-options")


def test_write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pq.write_table(pa.table({"a": [1, 2], "p": ["x", "y"]}), tmp_path / "in.parquet")
    (tmp_path / "in.jsonl").write_text('{"a": 3, "p": "x"}\n', encoding="utf-8")
    (tmp_path / "in.csv").write_text("a,p\n4,z\n", encoding="utf-8")
    table = str(tmp_path / "t")
    assert "--create" in _run(capsys, "write", table, str(tmp_path / "in.parquet"), status=1)
    created = _run(capsys, "write", table, str(tmp_path / "in.parquet"), "--create", "--partition-by", "p")
    assert created == "2 rows written, snapshot 1\n"
    both = [str(tmp_path / "in.jsonl"), str(tmp_path / "in.csv")]
    assert _json(capsys, "write", table, *both) == [{"rows": 2, "snapshot": 2}]
    assert _json(capsys, "write", table, both[0], "--mode", "overwrite", "--partition", "p=x") == [
        {"rows": 1, "snapshot": 3}
    ]
    rows = _json(capsys, "read", table)
    assert sorted((r["a"], r["p"]) for r in rows) == [(2, "y"), (3, "x"), (4, "z")]  # type: ignore[index,call-overload]


def test_index_eval(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    containers = sorted(Path(path).rglob("*.index"))
    answers = []
    for container in containers:
        rows = "3" if _rows(container) == 3 else "1"
        arguments = ("index", "eval", str(container), "--table", path, "--rows", rows)
        answers.append(_json(capsys, *arguments, "--filter", "color = 'red'")[0])
        assert _json(capsys, *arguments, "--filter", "price > 1") == ["REMAIN"]
        assert _json(capsys, *arguments, "--filter", "color = 'green'") == [[]]
    assert answers == [[0], [0]]


def _rows(container: Path) -> int:
    return int(pq.read_metadata(str(container).removesuffix(".index")).num_rows)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["read", "/no/such/table"], "no Paimon table is here"),
        (["read", "TABLE", "--filter", "colour = 'red'"], "colour"),
        (["read", "TABLE", "--filter", "color = "], "color = "),
        (["read", "TABLE", "--columns", "nope"], "no column 'nope'"),
        (["read", "TABLE", "--snapshot", "9"], "snapshot 9"),
        (["read", "TABLE", "--option", "bad"], "KEY=VALUE"),
        (["write", "TABLE", "/no/such/file.parquet"], "can't read the input"),
        (["write", "TABLE", "x.txt"], "can't tell the format"),
    ],
)
def test_errors_are_one_clear_message(
    path: str, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    error = _run(capsys, *[path if a == "TABLE" else a for a in arguments], status=1)
    assert message in error
    assert "Traceback" not in error


def test_it_runs_as_a_program_without_pyspark(path: str) -> None:
    code = (
        "import sys; sys.modules['pyspark'] = None; from paimon_pyds.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "count", path], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "4\n"), done.stderr


def test_texts_that_a_terminal_would_obey_are_escaped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = pp.Table.create(tmp_path / "t", pa.schema([("s", pa.string())]))
    table.append(pa.table({"s": ["a\x1b[31m\tb\nc\x9b"]}))
    assert _run(capsys, "read", table.path).splitlines()[2] == r"a\x1b[31m\tb\nc\x9b"
    assert _run(capsys, "max", table.path, "s") == r"a\x1b[31m\tb\nc\x9b" + "\n"
    assert _json(capsys, "read", table.path) == [{"s": "a\x1b[31m\tb\nc\x9b"}]


def test_years_that_python_does_not_have(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    moments = pa.array([300_000_000_000_000_000, -100_000_000_000_000_000, 0], pa.timestamp("us"))
    days = pa.array([5_000_000, None, -1_000_000], pa.int32()).view(pa.date32())
    nested = pa.StructArray.from_arrays([moments, pa.array([1, 2, None])], names=["a", "b"])
    table = pp.Table.create(tmp_path / "t", pa.schema({"t": moments.type, "d": days.type, "n": nested.type}))
    table.append(pa.table({"t": moments, "d": days, "n": nested}))
    first = "11476-08-15T05:20:00.000000"
    assert _json(capsys, "read", table.path)[0] == {"t": first, "d": "15659-07-15", "n": {"a": first, "b": 1}}
    assert first in _run(capsys, "read", table.path).splitlines()[2]
    assert _run(capsys, "max", table.path, "t").strip() == first
    assert _run(capsys, "min", table.path, "d").strip() == "-768-02-04"
    assert "-768-02-04" in _run(capsys, "distinct", table.path, "d")
    assert str(table.max("d")) == "15659-07-15"


def test_options_that_nothing_knows(path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pq.write_table(pa.table({"id": [5]}), tmp_path / "more.parquet")
    for command in (
        ["write", path, str(tmp_path / "more.parquet")],
        ["count", path],
        ["delete", path, "--where", "TRUE"],
    ):
        assert "unknown option bukcet — did you mean bucket" in _run(capsys, *command, "--option", "bukcet=3", status=1)
    assert _run(capsys, "count", path) == "4\n"


def test_a_table_that_was_never_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pp.Table.create(tmp_path / "t", pa.schema([("a", pa.int32())]))
    assert _run(capsys, "snapshots", str(tmp_path / "t")) == "no snapshots: nothing was written yet\n"


def test_an_unexpected_error_is_one_line_without_secrets(
    path: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("s3://me:hunter2@bucket is odd\nand more")

    monkeypatch.setattr("paimon_pyds.cli.commands.open_table", fail)
    message = _run(capsys, "count", path, status=1)
    assert message == (
        "paimon-pyds: unexpected ValueError: s3://***@bucket is odd — run it with --verbose to see where\n"
    )
    with pytest.raises(ValueError, match="odd"):
        main(["count", path, "--verbose"])


@pytest.mark.parametrize(("shell", "found"), [("PYTHONIOENCODING=ascii {}", "r\\xf6t"), ("{} >&-", "")])
def test_output_that_takes_little_or_nothing(tmp_path: Path, shell: str, found: str) -> None:
    table = pp.Table.create(tmp_path / "t", pa.schema([("a", pa.string())]))
    table.append(pa.table({"a": ["röt"]}))
    command = shell.format(f"{sys.executable} -m paimon_pyds.cli.main read {table.path}")
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert found in done.stdout
