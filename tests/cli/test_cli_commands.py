"""Every command, in text and in JSON, without Spark."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import paimon_pyds as pp
from paimon_pyds.cli.main import in_shell, main
from paimon_pyds.cli.target import Target
from support.fixtures import requires_shared, table_path


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
    assert _json(capsys, "scan", path, "--filter", "color = 'red'") == [
        {"id": 1, "color": "red", "price": 1.5},
        {"id": 4, "color": "red", "price": 2.0},
    ]
    assert _json(capsys, "scan", path, "--columns", "price", "--limit", "3") == [
        {"price": 1.5},
        {"price": "nan"},
        {"price": None},
    ]
    text = _run(capsys, "scan", path, "--snapshot", "1", "--columns", "id,color")
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
    (listed,) = _json(capsys, "snapshots", "list", path)
    assert isinstance(listed, dict)
    assert [s["rows"] for s in listed["snapshots"]] == [3, 4]
    assert "APPEND" in _run(capsys, "snapshots", "list", path)
    (described,) = _json(capsys, "describe", path)
    assert isinstance(described, dict)
    assert [c["type"] for c in described["columns"]] == ["BIGINT", "STRING", "DOUBLE"]
    assert "file-index.bitmap.columns" in _run(capsys, "describe", path)
    assert "target-file-size" in _run(capsys, "describe", path, "--all-options")


def test_keys_in_a_file_say_which_rows(path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ids = [row["id"] for row in _json(capsys, "scan", path)]  # type: ignore[index,call-overload]
    keys = tmp_path / "keys.csv"
    keys.write_text(f"ID,color\n{ids[0]},red\n{ids[1]},green\n99,red\n", encoding="utf-8")
    assert [row["id"] for row in _json(capsys, "scan", path, "--matching", str(keys))] == ids[:1]  # type: ignore[index,call-overload]
    assert _json(capsys, "count", path, "--matching", str(keys)) == [{"count": 1}]
    assert "(id, color) IN (" in _run(capsys, "explain", path, "--matching", str(keys))
    keys.write_text("id\n", encoding="utf-8")
    assert _json(capsys, "count", path, "--matching", str(keys)) == [{"count": 0}]
    keys.write_text(f'{{"id": {ids[0]}}}\n', encoding="utf-8")
    assert "no suffix says the format" in _run(
        capsys, "delete", path, "--matching", str(keys.rename(tmp_path / "keys")), status=1
    )
    jsonl = (tmp_path / "keys").rename(tmp_path / "keys.jsonl")
    assert _json(capsys, "delete", path, "--matching", str(jsonl))[0]["rows_deleted"] == 1  # type: ignore[index,call-overload]
    assert "--where or --matching is missing" in _run(capsys, "delete", path, status=1)


def test_write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pq.write_table(pa.table({"a": [1, 2], "p": ["x", "y"]}), tmp_path / "in.parquet")
    (tmp_path / "in.jsonl").write_text('{"a": 3, "p": "x"}\n', encoding="utf-8")
    (tmp_path / "in.csv").write_text("a,p\n4,z\n", encoding="utf-8")
    table = str(tmp_path / "t")
    assert "--create" in _run(capsys, "append", table, str(tmp_path / "in.parquet"), status=1)
    created = _run(capsys, "append", table, str(tmp_path / "in.parquet"), "--create", "--partition-by", "p")
    assert created == "2 rows written, snapshot 1\n"
    both = [str(tmp_path / "in.jsonl"), str(tmp_path / "in.csv")]
    assert _json(capsys, "append", table, *both) == [{"rows": 2, "snapshot": 2}]
    assert _json(capsys, "overwrite", table, both[0], "--partition", "p=x") == [{"rows": 1, "snapshot": 3}]
    rows = _json(capsys, "scan", table)
    assert sorted((r["a"], r["p"]) for r in rows) == [(2, "y"), (3, "x"), (4, "z")]  # type: ignore[index,call-overload]


def test_index_eval(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    containers = sorted(Path(path).rglob("*.index"))
    answers = []
    for container in containers:
        rows = "3" if _rows(container) == 3 else "1"
        arguments = ("index", "evaluate", path, str(container), "--rows", rows)
        answers.append(_json(capsys, *arguments, "--filter", "color = 'red'")[0])
        assert _json(capsys, *arguments, "--filter", "price > 1") == ["REMAIN"]
        assert _json(capsys, *arguments, "--filter", "color = 'green'") == [[]]
    assert answers == [[0], [0]]


def _rows(container: Path) -> int:
    return int(pq.read_metadata(str(container).removesuffix(".index")).num_rows)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["scan", "/no/such/table"], "no Paimon table is here"),
        (["scan", "TABLE", "--filter", "colour = 'red'"], "colour"),
        (["scan", "TABLE", "--filter", "color = "], "color = "),
        (["scan", "TABLE", "--columns", "nope"], "no column 'nope'"),
        (["scan", "TABLE", "--snapshot", "9"], "snapshot 9"),
        (["append", "TABLE", "/no/such/file.parquet"], "can't read the input"),
        (["append", "TABLE", "x.txt"], "can't tell the format"),
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
        [sys.executable, "-c", code, "count", path], capture_output=True, text=True, check=False, timeout=600
    )
    assert (done.returncode, done.stdout) == (0, "4\n"), done.stderr


def test_texts_that_a_terminal_would_obey_are_escaped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = pp.Table.create(tmp_path / "t", pa.schema([("s", pa.string())]))
    table.append(pa.table({"s": ["a\x1b[31m\tb\nc\x9b"]}))
    assert _run(capsys, "scan", table.path).splitlines()[2] == r"a\x1b[31m\tb\nc\x9b"
    assert _run(capsys, "max", table.path, "s") == r"a\x1b[31m\tb\nc\x9b" + "\n"
    assert _json(capsys, "scan", table.path) == [{"s": "a\x1b[31m\tb\nc\x9b"}]


def test_years_that_python_does_not_have(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    moments = pa.array([300_000_000_000_000_000, -100_000_000_000_000_000, 0], pa.timestamp("us"))
    days = pa.array([5_000_000, None, -1_000_000], pa.int32()).view(pa.date32())
    nested = pa.StructArray.from_arrays([moments, pa.array([1, 2, None])], names=["a", "b"])
    table = pp.Table.create(tmp_path / "t", pa.schema({"t": moments.type, "d": days.type, "n": nested.type}))
    table.append(pa.table({"t": moments, "d": days, "n": nested}))
    first = "11476-08-15T05:20:00.000000"
    assert _json(capsys, "scan", table.path)[0] == {"t": first, "d": "15659-07-15", "n": {"a": first, "b": 1}}
    assert first in _run(capsys, "scan", table.path).splitlines()[2]
    assert _run(capsys, "max", table.path, "t").strip() == first
    assert _run(capsys, "min", table.path, "d").strip() == "-768-02-04"
    assert "-768-02-04" in _run(capsys, "distinct", table.path, "d")
    assert str(table.max("d")) == "15659-07-15"


def test_options_that_nothing_knows(path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pq.write_table(pa.table({"id": [5]}), tmp_path / "more.parquet")
    for command in (
        ["append", path, str(tmp_path / "more.parquet")],
        ["count", path],
        ["delete", path, "--where", "TRUE"],
    ):
        assert "unknown option bukcet — did you mean bucket" in _run(capsys, *command, "--option", "bukcet=3", status=1)
    assert _run(capsys, "count", path) == "4\n"


def test_a_table_that_was_never_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "t")
    pp.Table.create(path, pa.schema([("a", pa.int32())]), options={"file-index.bitmap.columns": "a"})
    assert _run(capsys, "snapshots", "list", path) == "no snapshots: nothing was written yet\n"
    assert _run(capsys, "index", "dump", path) == "no file has an index\n"
    assert _run(capsys, "index", "build", path).startswith("0 of 0 files changed in ")
    assert "no file to build an index of" in _run(capsys, "index", "cost", path)
    (tmp_path / "filters").write_text("b = 1\n")
    pp.Table.create(tmp_path / "bare", pa.schema([("a", pa.int32())]))
    advice = _run(capsys, "index", "advise", str(tmp_path / "bare"), "--filters", str(tmp_path / "filters"))
    assert "no recorded filter uses a column" in advice and "because" not in advice


def test_explain_of_the_first_rows(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "First rows by: id desc nulls last, 2" in _run(capsys, "explain", path, "--top-n", "id desc, 2")
    (told,) = _json(capsys, "explain", path, "--top-n", "id desc, 2", "--limit", "1")
    assert isinstance(told, dict) and (told["order"], told["limit"]) == ("id desc nulls last, 2", 1)


def test_faults_come_with_what_mends_them(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    side = next(Path(path).glob("bucket-0/*.index"))
    side.write_bytes(b"PAR1" * 10)
    assert main(["index", "verify", path]) == 1
    assert capsys.readouterr().out.endswith(f"1 fault\n`paimon-pyds index build {path} --rebuild` builds them again\n")
    dumped = _run(capsys, "index", "dump", path)
    assert "this is not a file-index container" in dumped and ", values " in dumped
    _run(capsys, "index", "build", path, "--rebuild")
    assert "no fault" in _run(capsys, "index", "verify", path)


def test_advice_that_changes_an_index_says_to_rebuild(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = {"file-index.bloom-filter.columns": "id"}
    table = pp.Table.create(tmp_path / "t", pa.schema([("id", pa.string()), ("n", pa.int64())]), options=options)
    for part in range(3):
        table.append(pa.table({"id": [f"u{i * 7919 % 20_000}-{part}" for i in range(20_000)], "n": range(20_000)}))
    (tmp_path / "filters").write_text("id = 'u7-1'\n")
    advice = _run(capsys, "index", "advise", table.path, "--filters", str(tmp_path / "filters"))
    assert "change" in advice
    alter, rewrite = (shlex.split(line)[1:] for line in advice.splitlines()[-2:])
    assert alter[:2] == ["alter", table.path] and rewrite == ["index", "build", table.path, "--rebuild"]
    _run(capsys, *alter)
    assert "3 of 3 files" in _run(capsys, *rewrite)


def test_eval_asks_an_old_container_by_its_own_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = {"file-index.bitmap.columns": "color,size", "file-index.in-manifest-threshold": "1b"}
    schema = pa.schema([("id", pa.int64()), ("color", pa.string()), ("size", pa.int32())])
    table = pp.Table.create(tmp_path / "t", schema, options=options)
    table.append(pa.table({"id": [1, 2, 3], "color": ["red", "blue", "red"], "size": pa.array([1, 2, 3], pa.int32())}))
    old = str(next(Path(table.path).glob("bucket-0/*.index")))
    table.alter({"file-index.bitmap.columns": "size"})
    table.alter(rename_columns={"color": "hue"})
    table.alter(add_columns=pa.schema([("color", pa.string())]))
    table.alter(change_types={"size": pa.int64()})

    def ask(filter_: str, *more: str) -> str:
        return _run(capsys, "index", "evaluate", table.path, old, "--filter", filter_, *more).strip()

    assert ask("hue = 'red'") == "[0,2]"
    assert ask("hue = 'red'", "--rows", "3") == "[0,2]"
    assert ask("color = 'red'") == "SKIP", "a column that came later is NULL in all rows of an old file"
    assert ask("color IS NULL") == "REMAIN"
    assert ask("size = 2") == "[1]"
    assert ask("hue = 'red' AND id = 7") == "[0,2]"


def test_eval_needs_to_know_the_rows_of_a_strange_container(
    path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    strange = tmp_path / "strange.index"
    strange.write_bytes(next(Path(path).glob("bucket-0/*.index")).read_bytes())
    asked = ("index", "evaluate", path, str(strange), "--filter", "color = 'green'")
    assert "give rows" in _run(capsys, *asked, status=1)


def test_an_unexpected_error_is_one_line_without_secrets(
    path: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("s3://me:hunter2@bucket is odd\nand more")

    monkeypatch.setattr("paimon_pyds.cli.target.Target._opened", fail)
    message = _run(capsys, "count", path, status=1)
    assert message == (
        "paimon-pyds: unexpected ValueError: s3://***@bucket is odd — run it with --verbose to see where\n"
    )
    trace = _run(capsys, "count", path, "--verbose", status=1)
    assert "in fail" in trace and "ValueError: s3://***@bucket is odd\nand more" in trace and "hunter2" not in trace


def test_an_encoding_without_our_signs_gets_plain_ones(path: str) -> None:
    program = f"PYTHONIOENCODING=ascii {sys.executable} -m paimon_pyds.cli.main"
    for command in (f"explain {path} --filter \"color = 'blue'\"", "count /nowhere/at/all"):
        done = subprocess.run(["sh", "-c", f"{program} {command}"], capture_output=True, text=True, check=False)
        assert "\\u" not in done.stdout + done.stderr
    assert "no Paimon table is here" in done.stderr and " -- at /nowhere/at/all" in done.stderr


@pytest.mark.parametrize(("shell", "found"), [("PYTHONIOENCODING=ascii {}", "r\\xf6t"), ("{} >&-", "")])
def test_output_that_takes_little_or_nothing(tmp_path: Path, shell: str, found: str) -> None:
    table = pp.Table.create(tmp_path / "t", pa.schema([("a", pa.string())]))
    table.append(pa.table({"a": ["röt"]}))
    command = shell.format(f"{sys.executable} -m paimon_pyds.cli.main scan {table.path}")
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert found in done.stdout


@requires_shared
def test_tables_whose_rows_are_merged(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(table_path("pk_dedup_mor"))
    table = pp.Table.open(path)
    where = ("--filter", "id < 50 AND v > 3")
    rows = table.scan(where[1], ["id", "v"]).to_arrow()
    found = _json(capsys, "scan", path, *where, "--columns", "id,v", "--top-n", "id, 1000")
    assert found == rows.sort_by("id").to_pylist() != []
    assert _json(capsys, "count", path, *where) == [{"count": rows.num_rows}]
    assert _json(capsys, "max", path, "v", *where) == [{"max": max(rows.column("v").to_pylist())}]
    assert "3 sections merged (12 files, 12 sorted runs)" in _run(capsys, "explain", path, "--analyze")
    assert _json(capsys, "scan", path, "--option", "read-optimized=true") == []
    assert _json(capsys, "system", "read", path, "ro") == []


@requires_shared
def test_lookup(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(table_path("pk_partitioned"))
    table = pp.Table.open(path)
    rows = table.scan(columns=["id", "dt", "v"]).to_arrow().slice(3, 4).to_pylist()
    keys = [{"dt": row["dt"], "id": row["id"]} for row in rows]
    texts = [json.dumps(key) for key in keys]
    assert _json(capsys, "lookup", path, *texts) == rows
    pq.write_table(pa.Table.from_pylist(keys[1:]), tmp_path / "keys.parquet")
    found = _json(capsys, "lookup", path, texts[0], str(tmp_path / "keys.parquet"), "--columns", "v")
    assert found == [{"v": row["v"]} for row in rows]
    assert _json(capsys, "lookup", path, texts[0], "--snapshot", "1") == (
        table.scan(f"dt = '{rows[0]['dt']}' AND id = {rows[0]['id']}", snapshot=1).to_arrow().to_pylist()
    )
    assert _run(capsys, "lookup", path, texts[0]).splitlines()[0].split() == ["id", "dt", "v"]
    assert "no JSON object" in _run(capsys, "lookup", path, "{id: 7", status=1)
    assert "not of the primary key" in _run(capsys, "lookup", path, '{"v": 7}', status=1)


def test_a_table_with_a_primary_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, rows, changes = (str(tmp_path / name) for name in ("t", "rows.parquet", "changes.parquet"))
    pq.write_table(pa.table({"id": [1, 2, 3], "n": [10, 20, 30], "op": ["+I"] * 3}), rows)
    pq.write_table(pa.table({"id": [1, 2], "n": [11, 20], "op": ["+U", "-D"]}), changes)
    kinds = ("--option", "rowkind-column=op")
    made = ("append", path, rows, "--create", "--primary-key", "id", *kinds)
    assert "can't have bucket=0" in _run(capsys, *made, "--option", "bucket=0", status=1)
    assert not Path(path).exists()
    _run(capsys, *made, "--option", "bucket=1")
    table = pp.Table.open(path)
    assert (table.schema.primary_keys, table.schema.field_names) == (("id",), ("id", "n"))
    _run(capsys, "append", path, changes, *kinds)
    assert _json(capsys, "scan", path) == [{"id": 1, "n": 11}, {"id": 3, "n": 30}]
    said = _run(capsys, "describe", path)
    assert "Rows       at most 5, as several versions of one key may be stored: table.count() counts them\n" in said
    (listed,) = _json(capsys, "snapshots", "list", path)
    assert [(s["rows"], s["stored_rows"], s["stored_rows_added"]) for s in listed["snapshots"]] == [
        (None, 3, 3), (None, 5, 2),
    ]  # fmt: skip
    (described,) = _json(capsys, "describe", path)
    assert (described["rows"], described["stored_rows"]) == (None, 5)
    assert "1 row deleted, 1 file added, " in _run(capsys, "delete", path, "--where", "id = 3")
    assert main(["compact", path]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("nothing to do with 3 files in ")
    assert captured.err == "no compaction is due yet; --full does not wait\n"
    assert "3 files became 1 (" in (said := _run(capsys, "compact", path, "--full"))
    assert "1 row), 5 rows dropped in " in said
    assert _run(capsys, "compact", path, "--full").startswith("nothing to do with 1 file in ")
    assert "1 partition to 3 buckets, dry run: 1 file would be rewritten (" in _run(
        capsys, "maintenance", "rescale", path, "3", "--dry-run"
    )
    assert "1 partition to 3 buckets, 1 file became 1 (" in _run(capsys, "maintenance", "rescale", path, "3")
    assert "\nBuckets    3\n" in _run(capsys, "describe", path)
    table.alter({"bucket": "5"})
    assert "\nBuckets    5; partitions of 3\n" in _run(capsys, "describe", path)
    table.alter({"bucket": "3"})
    assert _run(capsys, "maintenance", "rescale", path).startswith("3 buckets already in ")
    assert "a key is JSON" in _run(capsys, "lookup", path, "x", status=1)
    for key in ('{"id": 1}', "1"):
        assert _json(capsys, "lookup", path, key) == [{"id": 1, "n": 11}]
    texts = pp.Table.create(tmp_path / "s", {"s": ["1", "b.c"]}, primary_key=["s"], options={"bucket": "1"})
    assert _json(capsys, "lookup", texts.path, "1", "b.c") == [{"s": "1"}, {"s": "b.c"}]
    assert "keys.csv" in _run(capsys, "lookup", texts.path, "keys.csv", status=1)


def test_an_option_may_name_the_key_of_a_created_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, rows = str(tmp_path / "t"), str(tmp_path / "rows.parquet")
    pq.write_table(pa.table({"id": [1], "n": [10]}), rows)
    made = ("append", path, rows, "--create", "--option", "primary-key=id")
    _run(capsys, *made)
    assert pp.Table.open(path).schema.primary_keys == ("id",)


def test_hints_are_in_the_words_of_the_command_line() -> None:
    target = Target("/t", {"branch": "b", "catalog": None, "storage_option": {}}).command_line
    assert in_shell("rescale it first, by table.maintenance.rescale(4); nothing was published", target) == (
        "rescale it first, by paimon-pyds maintenance rescale /t --branch b 4; nothing was published"
    )
    assert in_shell("compact the table first, with full=True: it drops them", target) == (
        "compact the table first, with --full: it drops them"
    )
    assert in_shell("""table.alter(change_types={"it's": …})""", target).endswith(
        """alter /t --branch b --change-type 'it'"'"'s=…'"""
    )
    assert in_shell("table.maintenance.rescale(4)", None) == "table.maintenance.rescale(4)"


@pytest.mark.parametrize("text", ["1_0", "١", "²", "\u20031", "1.0", ""])
def test_only_ascii_digits_are_numbers(text: str, path: str, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (
        ["scan", path, "--limit"],
        ["scan", path, "--snapshot"],
        ["snapshots", "expire", path, "--retain-min"],
    ):
        assert main([*command, text]) == 2
        assert f"'{command[-1]}': {text!r} is not a whole number" in capsys.readouterr().err


def test_a_hint_with_an_option_is_one_of_the_command_line() -> None:
    hint = "name the zone: options={'timezone': 'Europe/Berlin'}"
    assert in_shell(hint, None) == "name the zone: --option timezone=Europe/Berlin"
