"""A canary secret in every option, address and credential appears in nothing that people, tasks or files get."""

from __future__ import annotations

import json
import logging
import pickle
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from obstore.store import LocalStore

import paimon_pyds as pp
from paimon_pyds.base.options import option_of
from paimon_pyds.base.secrets import RedactedDict, names_secret
from paimon_pyds.catalog import Catalog
from paimon_pyds.cli.main import main
from paimon_pyds.errors import OptionError, PaimonError, StorageError
from paimon_pyds.ops.system.tables import SYSTEM_TABLES
from paimon_pyds.storage import object_requests, object_store, open_file_io, store_clients
from paimon_pyds.storage.store_options import is_known
from support.canary import (
    ADDRESSES,
    CANARY,
    STORAGE_OPTIONS,
    TABLE_OPTIONS,
    bytes_of_files,
    failure,
    is_clean,
    texts_of,
    trace_of,
)

ROWS = pa.table({"id": [1, 2, 3, 4], "color": ["red", "blue", None, "red"], "part": [1, 1, 2, 2]})
OPTIONS = {"file-index.bitmap.columns": "color", "deletion-vectors.enabled": "true"}
S3_ONLY = {k: v for k, v in STORAGE_OPTIONS.items() if k.startswith(("s3", "fs.s3a"))}


@pytest.fixture(autouse=True)
def clean_log(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.DEBUG)
    yield
    assert is_clean(caplog.text)


def _made(path: Path) -> pp.Table:
    """A table whose writer was given credentials, with a file of deletion vectors and an index."""
    made = pp.Table.create(path, ROWS.schema, partition_by=["part"], options=OPTIONS, storage_options=STORAGE_OPTIONS)
    made.append(ROWS)
    made.delete("id = 2")
    return made


def _made_elsewhere(path: Path) -> pp.Table:
    """The same with secrets in its options, as other writers store them."""
    table = _made(path)
    _edit_options(table, lambda options: options | {k: v for k, v in TABLE_OPTIONS.items() if option_of(k) is None})
    return pp.Table.open(table.path, storage_options=STORAGE_OPTIONS)


@pytest.fixture
def table(tmp_path: Path) -> pp.Table:
    """See `_made`."""
    return _made(tmp_path / "wh" / "db.db" / "t")


@pytest.fixture
def java_table(tmp_path: Path) -> pp.Table:
    """See `_made_elsewhere`."""
    return _made_elsewhere(tmp_path / "t")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> pp.Table:
    """See `_made`; for tests that change nothing."""
    return _made(tmp_path_factory.mktemp("kept") / "wh" / "db.db" / "t")


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> pp.Table:
    """See `_made_elsewhere`; for the command line, whatever it does to it."""
    return _made_elsewhere(tmp_path_factory.mktemp("used") / "t")


def _edit_options(table: pp.Table, edit: Callable[[dict[str, str]], dict[str, str]]) -> None:
    path = Path(table.path) / "schema" / "schema-0"
    schema = json.loads(path.read_text())
    schema["options"] = edit(schema["options"])
    path.write_text(json.dumps(schema))


# ------------------------------------------------------------------------------------------------------- addresses


@pytest.mark.parametrize("address", ADDRESSES)
def test_no_address_is_shown_when_it_fails(address: str, tmp_path: Path) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: pp.Table.open(address, storage_options=STORAGE_OPTIONS),
        lambda: Catalog(address, STORAGE_OPTIONS).table("db.t"),
        lambda: Catalog(tmp_path, STORAGE_OPTIONS).table(address),
    ]
    if "://" in address and not address.startswith("file"):
        calls.append(lambda: open_file_io(address, STORAGE_OPTIONS))
        calls.append(lambda: pp.Table.create(address, ROWS.schema, storage_options=STORAGE_OPTIONS))
    for call in calls:
        assert is_clean(trace_of(failure(call)))


def test_an_address_that_is_a_path_is_shown_without_its_signature(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / f"t?sig={CANARY.replace('/', '')}", ROWS.schema)
    table.append(ROWS)
    shown = texts_of(table, table._store, table.scan(), table.explain("id = 1"), Catalog(table.path))
    assert is_clean(shown) and is_clean(json.dumps(table.explain().as_dict()))


@pytest.mark.parametrize(
    ("address", "given"),
    [
        ("s3://bucket/t", [("s3.secret-key", CANARY)]), ("/nowhere/t", f"s3.secret-key={CANARY}"),
        ("/nowhere/t", CANARY), ("/nowhere/t", [CANARY]), ("s3://bucket/t", {"s3.acces-key": CANARY}),
        ("s3://bucket/t", {"s3.request-timeout": CANARY}), ("s3://bucket/t", {"s3.anonymous": CANARY}),
        ("gs://bucket/t", {"gs.acces-token": CANARY}), ("abfss://c@acc/t", {"azure.account.key": CANARY}),
    ],
)  # fmt: skip
def test_storage_options_that_are_none(address: str, given: Any) -> None:
    error = failure(lambda: pp.Table.open(address, storage_options=given))
    assert isinstance(error, PaimonError) and is_clean(trace_of(error))


# ------------------------------------------------------------------------------------------------- storage that fails


class _FailingStore:
    """A client whose errors have all that they could have."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def fail(*_: Any, **__: Any) -> Any:
            raise self.error

        return fail

    def __init__(self, error: OSError) -> None:
        self.error = error


@pytest.mark.parametrize(
    "error",
    [
        OSError(f"GetProperties failed for 'https://acc.blob.core.windows.net/c?sv=1&sig={CANARY}&se=2'"),
        OSError(5, f"AWS Error ACCESS_DENIED: the key {CANARY} does not exist in our records"),
        FileNotFoundError(2, f"no {CANARY}", f"https://b.s3.amazonaws.com/t?X-Amz-Signature={CANARY}"),
        PermissionError(13, f"Authorization: Bearer {CANARY}"),
        OSError(f"{CANARY} is not welcome"),
    ],
)
@pytest.mark.parametrize("root", ["s3://bucket/t", "gs://bucket/t", "abfss://c@acc.dfs.core.windows.net/t"])
def test_what_a_store_says_is_not_repeated(root: str, error: OSError, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_store, "obstore", _FailingStore(error))
    options = {key: text for key, text in STORAGE_OPTIONS.items() if "account" not in key}  # refused: not base64
    io, _ = open_file_io(root, options)
    path = f"{root}/f"
    calls: list[Callable[[], Any]] = [
        lambda: io.read_bytes(path), lambda: io.read_range(path, 0, 1), lambda: io.open_input(path),
        lambda: io.size(path), lambda: io.make_dir(path), lambda: io.replace(path, b"x"),
        lambda: pp.Table.open(root, storage_options=options),
    ]  # fmt: skip
    if not isinstance(error, FileNotFoundError):
        calls += [lambda: io.exists(path), lambda: io.list(path), lambda: io.write_bytes(path, b"x")]
        calls += [lambda: io.rename(path, f"{root}/g")]
    for call in calls:
        assert is_clean(trace_of(failure(call)))


@pytest.mark.parametrize("kind", [ValueError, TypeError])
def test_a_library_that_does_not_take_its_options(kind: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: str, **arguments: Any) -> None:
        raise kind(f"no store takes {arguments['config']}")

    monkeypatch.setattr(store_clients, "S3Store", refuse)
    error = failure(lambda: pp.Table.open("s3://bucket/t", storage_options={"s3.secret-key": CANARY}))
    assert isinstance(error, OptionError) and is_clean(trace_of(error))


# ------------------------------------------------------------------------------------------------------------ options


@pytest.mark.parametrize("key", TABLE_OPTIONS)
def test_a_table_option_that_is_a_secret_is_refused(key: str, kept: pp.Table, tmp_path: Path) -> None:
    given = {key: TABLE_OPTIONS[key]}
    calls: list[Callable[[], Any]] = [
        lambda: pp.Table.create(tmp_path / "u", ROWS.schema, options=given),
        lambda: Catalog(Path(kept.path).parents[1]).create_table("db.u", ROWS.schema, options=given),
        lambda: kept.alter(set_options=given),
    ]
    for call in calls:
        error = failure(call)
        assert isinstance(error, OptionError) and "secret" in str(error) and key in str(error)
        assert "storage_options" in str(error) and is_clean(trace_of(error))
    assert not (tmp_path / "u" / "schema").exists() and is_clean(bytes_of_files(Path(kept.path).parents[1]))
    if option_of(key) is None:
        for call in (
            lambda: kept.append(ROWS, options=given),
            lambda: kept.write_context(given),
            lambda: kept.scan(options=given),
            lambda: kept.delete("id = 1", options=given),
            lambda: kept.compact(options=given),
            lambda: kept.index.cost(given),
        ):
            error = failure(call)
            assert isinstance(error, OptionError) and is_clean(trace_of(error))
            assert ("is a secret" in str(error)) is names_secret(key)


def _all_answers(table: pp.Table) -> Iterator[Any]:
    """What the calls of a table's API give."""
    scan = table.scan("color = 'red' AND id < 4", columns=["id", "__paimon_file_path"])
    yield from (table, table._store, table._store.paths, table.schema, table.options, table.schema.options)
    yield from (
        table._store.schemas(),
        table.snapshots.list(),
        table.tags.list(),
        table.branches.list(),
        table.arrow_schema,
    )
    yield from (
        table.system.describe_options().to_pylist(),
        table.write_context(),
        table.write_context({"bucket": "-1"}),
    )
    yield from (table.write_context().options, table.write_context().paths, scan, scan.plan(), scan.plan().spec)
    yield from (list(scan.plan().splits), scan.to_arrow().to_pylist(), scan.request)
    for analyze in (False, True):
        explanation = table.explain("color = 'red'", analyze=analyze)
        yield from (explanation, explanation.text, explanation.page, explanation.as_dict())
        yield from (explanation.to_arrow().to_pylist(), explanation.files_to_arrow().to_pylist())
    for name in SYSTEM_TABLES:
        yield table.system.read(name).to_pylist()
    for rows in (table.system.audit_log(), table.system.binlog(), table.snapshots.diff(1)):
        yield from (rows, rows.to_arrow().to_pylist())
    yield from (
        table.snapshots.diff(1).summary(),
        table.maintenance.statistics(),
        table.index.layout(),
        table.maintenance.remove_orphan_files(dry_run=True),
    )
    verification = table.maintenance.verify(deep=True)
    yield from (verification, verification.repair_plan(), table.maintenance.repair(dry_run=True))
    yield from (table.count(), table.scan("id = 1").answer.count(), table.top_n("id, 1").to_pylist())
    yield from (table.index.dump(), table.index.verify(), table.index.cost(), table.index.advise(["color = 'red'"]))


def _all_failures(table: pp.Table) -> Iterator[Callable[[], Any]]:
    """Calls that fail, each at another place."""
    yield lambda: table.scan("nope = 1").to_arrow()
    yield lambda: table.scan("id = = 1")
    yield lambda: table.scan(snapshot=99)
    yield lambda: table.scan(tag="none")
    yield lambda: table.scan(options={"bukket": "1"})
    yield lambda: table.append(pa.table({"other": [1]}))
    yield lambda: table.append(ROWS, options={"bucket": "7"})
    yield lambda: table.alter(drop_columns=["nope"])
    yield lambda: table.alter(set_options={"bucket": "0"})
    yield lambda: table.update({"nope": "1"})
    yield lambda: table.delete("cast('x' AS INT) = id")
    yield lambda: table.merge(ROWS, ["nope"], when_matched="update")
    yield lambda: table.compact(order_by="nope")
    yield lambda: table.lookup([{"nope": 1}])
    yield lambda: table.system.audit_log("nope = 1").to_arrow()
    yield lambda: table.snapshots.diff("none").to_arrow()
    yield lambda: table.snapshots.rollback("none")
    yield lambda: table.maintenance.analyze(["nope"])
    yield lambda: table.maintenance.clone(table.path, storage_options=STORAGE_OPTIONS)
    yield lambda: table.system.read("nope")
    yield lambda: pp.Table.create(table.path, ROWS.schema, storage_options=STORAGE_OPTIONS)
    yield lambda: pp.Table.open(table.path, branch="nope", storage_options=STORAGE_OPTIONS)
    yield lambda: pp.Table.open(f"{table.path}x", storage_options=STORAGE_OPTIONS)


def _changed(table: pp.Table) -> Iterator[Any]:
    """What calls that change the table give."""
    yield table.append(ROWS)
    yield table.overwrite(ROWS.slice(0, 2), {"part": 1})
    yield table.update({"color": "'green'"}, "id = 1")
    yield table.merge(ROWS.slice(0, 1), ["id"], when_matched="update", when_not_matched="insert")
    yield table.index.build(rebuild=True)
    yield table.compact(full=True)
    yield from (
        table.maintenance.analyze(),
        table.maintenance.statistics(),
        table.maintenance.repair(),
        table.maintenance.compact_manifests(),
    )
    yield table.tags.create("kept")
    yield table.branches.create("other", "kept")
    yield table.maintenance.clone(f"{table.path}-copy", storage_options=STORAGE_OPTIONS)
    yield table.snapshots.expire(retain_max=1)
    yield table.alter(set_options={"target-file-size": "64 mb"}, add_columns={"more": "INT"})


@pytest.mark.parametrize("which", ["table", "java_table"])
def test_nothing_shows_secrets(which: str, request: pytest.FixtureRequest) -> None:
    table: pp.Table = request.getfixturevalue(which)
    for answer in _all_answers(table):
        assert is_clean(texts_of(answer)), type(answer)
    for call in _all_failures(table):
        assert is_clean(trace_of(failure(call)))
    for answer in _changed(table):
        assert is_clean(texts_of(answer)), type(answer)
    files = [p for p in Path(table.path).rglob("*") if p.is_file()]
    holding = {p.relative_to(table.path).parts[0] for p in files if not is_clean(p.read_bytes())}
    assert holding == ({"schema", "branch"} if which == "java_table" else set())
    assert is_clean(bytes_of_files(f"{table.path}-copy"))


@pytest.mark.parametrize("key", STORAGE_OPTIONS)
def test_every_spelling_of_a_secret_is_known_as_one(key: str) -> None:
    """Hence also those of options that come later: one spelling that is a secret makes all of them secrets."""
    assert is_known(key) and names_secret(key) and is_clean(repr(RedactedDict({key: CANARY})))


def test_lookups_show_no_secret(tmp_path: Path) -> None:
    table = pp.Table.create(
        tmp_path / "t", ROWS.schema, primary_key=["id"], options={"bucket": "1"}, storage_options=STORAGE_OPTIONS
    )
    table.append(ROWS)
    assert is_clean(texts_of(table.lookup([{"id": 2}]).to_pylist(), table))
    assert is_clean(trace_of(failure(lambda: table.lookup([{"nope": 1}])))) and is_clean(bytes_of_files(table.path))


def test_tables_of_others_keep_secrets_until_they_are_unset(java_table: pp.Table) -> None:
    before = dict(java_table.options)
    assert before["password"] == CANARY
    described = {row["key"]: row for row in java_table.system.describe_options().to_pylist()}
    assert described["password"]["value"] == "***" and "unset it" in described["password"]["why"]
    assert dict(java_table.alter(set_options={"target-file-size": "1 gb"}).options) == before | {
        "target-file-size": "1 gb"
    }
    after = java_table.alter(unset_options=[k for k, v in before.items() if CANARY in v]).options
    assert after == OPTIONS | {"target-file-size": "1 gb"}


def test_tasks_get_no_secret_that_they_do_not_need(java_table: pp.Table) -> None:
    plan = java_table.scan("color = 'red'").plan()
    top = java_table.scan(top_n="id, 1").top_n_query()
    for thing in (plan, plan.splits, top, java_table.write_context(), java_table._store):
        assert is_clean(pickle.dumps(thing))


def test_tasks_get_the_credentials_of_their_store_alone(
    java_table: pp.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_requests, "_clients", {})
    monkeypatch.setattr(object_requests, "store_client", lambda *_: LocalStore(tmp_path / "bucket"))
    shutil.copytree(java_table.path, tmp_path / "bucket" / "t")
    others = {k: v for k, v in STORAGE_OPTIONS.items() if k not in S3_ONLY}
    away = pp.Table.open("s3://bucket/t", storage_options={**dict.fromkeys(S3_ONLY, "needed"), **others})
    for answer in _all_answers(away):
        assert is_clean(texts_of(answer)), type(answer)
    data = pickle.dumps((away.scan("id = 1").plan().splits, away.write_context(), away._store))
    assert is_clean(data) and b"needed" in data
    assert pickle.loads(data)[0][0].spec.io.read_bytes("s3://bucket/t/schema/schema-0")
    with_all = pp.Table.open("s3://bucket/t", storage_options=STORAGE_OPTIONS)
    for answer in _all_answers(with_all):
        assert is_clean(texts_of(answer)), type(answer)
    monkeypatch.setattr(object_store.obstore, "put", _FailingStore(PermissionError(f"not by {CANARY}")).put)
    for call in (lambda: with_all.append(ROWS), lambda: with_all.alter(set_options={"bucket": "-1", "owner": "me"})):
        assert is_clean(trace_of(failure(call)))
    shutil.rmtree(tmp_path / "bucket")
    error = failure(lambda: with_all.scan().to_arrow())
    assert not isinstance(error, StorageError) and is_clean(trace_of(error))


# ------------------------------------------------------------------------------------------------------- command line

_SECRETS = [text for key in STORAGE_OPTIONS for text in ("--storage-option", f"{key}={CANARY}")]


@pytest.mark.parametrize(
    "command",
    [
        ["scan", "T"], ["count", "T"], ["exists", "T"], ["distinct", "T", "color"], ["min", "T", "id", "--how"],
        ["explain", "T", "--filter", "color = 'red'", "--analyze"], ["describe", "T", "--all-options"],
        ["snapshots", "list", "T"], ["system", "read", "T", "options"], ["system", "read", "T", "schemas"],
        ["index", "dump", "T"], ["index", "verify", "T"], ["index", "cost", "T"], ["compact", "T", "--dry-run"],
        ["delete", "T", "--where", "id = 3"],
        ["scan", "T", "--filter", "nope = 1"], ["scan", "T", "--filter", "id = = 1"], ["scan", "T", "--columns", "x"],
        ["count", "T", "--option", f"s3.secret-key={CANARY}"],
        ["delete", "T", "--where", "1 = 1", "--option", f"token={CANARY}"],
        ["append", "T", "IN", "--option", f"password={CANARY}"],
        ["append", "T2", "IN", "--create", "--option", f"dlf.token={CANARY}"],
        ["append", "T", f"https://h/f.parquet?sig={CANARY}"], ["append", "T", f"x.txt?token={CANARY}"],
        ["scan", "T", "--storage-option", CANARY],
        ["scan", "T", "--storage-options", f"s3.secret-key={CANARY}"], ["scan", "T", f"--token={CANARY}"],
        *(["describe", address] for address in ADDRESSES),
    ],
)  # fmt: skip
@pytest.mark.parametrize("how", [[], ["--output", "json"], ["--verbose"]])
def test_the_command_line_shows_no_secret(
    command: list[str], how: list[str], used: pp.Table, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.jsonl").write_text('{"id": 9, "color": "x", "part": 1}\n')
    named = {"T": used.path, "T2": str(tmp_path / "new"), "IN": str(tmp_path / "in.jsonl")}
    assert main([*(named.get(word, word) for word in command), *_SECRETS, *how]) in (0, 1, 2)
    shown = capfd.readouterr()
    assert shown.out or shown.err
    assert is_clean(shown.out) and is_clean(shown.err), shown
