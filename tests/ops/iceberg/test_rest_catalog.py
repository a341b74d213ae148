"""A REST catalog of Iceberg's own handlers shows what Paimon's readers see."""

from __future__ import annotations

import hashlib
import hmac
import json
import random
import threading
import urllib.request
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.rest import RestCatalog

import paimon_pyds as pp
from paimon_pyds.base.json_http import Request
from paimon_pyds.base.retry import Pauses
from paimon_pyds.errors import OptionError, PaimonError, StorageError, UnsupportedError
from paimon_pyds.ops.iceberg import rest_client
from paimon_pyds.ops.iceberg.rest_client import IcebergCatalog
from support.effort import LONG, SEED, sampled
from support.iceberg_reader import IcebergReader, IcebergRestServer, texts
from support.iceberg_world import KINDS, made, shown, some_rows, step

REST = "metadata.iceberg.rest."
TOKEN, SECRET = "canary-token", "hush-hush"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IcebergRestServer]:
    server = IcebergRestServer(tmp_path_factory.mktemp("catalog"))
    yield server
    server.close()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IcebergRestServer]:
    server = IcebergRestServer(tmp_path_factory.mktemp("guarded"), TOKEN)
    yield server
    server.close()


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A catalog that is away stays away: waiting between tries shows nothing."""
    monkeypatch.setattr(Pauses, "after", lambda *_: 0.0)


@pytest.fixture
def database(request: pytest.FixtureRequest) -> str:
    """A namespace that no other test has."""
    return f"db{hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:10]}"


def shown_table(tmp_path: Path, server: IcebergRestServer, database: str, kind: str, **more: str) -> pp.Table:
    own = {"metadata.iceberg.storage": "rest-catalog", f"{REST}uri": server.uri}
    return made(tmp_path / f"{database}.db", kind, **own, **more)


def in_catalog(server: IcebergRestServer, database: str, name: str = "t") -> dict[str, Any]:
    with urllib.request.urlopen(f"{server.uri}/v1/namespaces/{database}/tables/{name}") as response:
        found: dict[str, Any] = json.load(response)
    return found


def sent(server: IcebergRestServer, method: str, path: str, body: Mapping[str, Any] | None = None) -> None:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    urllib.request.urlopen(urllib.request.Request(server.uri + path, data, headers, method=method)).close()


def check(server: IcebergRestServer, database: str, table: pp.Table, iceberg: IcebergReader) -> dict[str, Any]:
    """The catalog's table has the rows and the newest snapshot of Paimon's."""
    found = in_catalog(server, database)
    expected = shown(table)
    assert iceberg.rows(found["metadata-location"]) == texts(expected)
    if table.schema.options.get("metadata.iceberg.format-version") != "3":
        plain = expected.drop_columns("l")  # pyiceberg 0.12 reads a NULL list of ROWs as an empty one
        by_name = RestCatalog("c", uri=server.uri).load_table((database, "t")).scan().to_arrow()
        assert texts(by_name.select(plain.schema.names).cast(plain.schema)) == texts(plain)
    metadata: dict[str, Any] = found["metadata"]
    newest = table.snapshots.latest()
    assert newest is not None
    assert metadata["current-snapshot-id"] == newest.id
    return metadata


def numbers(metadata: Mapping[str, Any]) -> list[int]:
    return sorted(snapshot["snapshot-id"] for snapshot in metadata["snapshots"])


@pytest.mark.parametrize("seed", range(4 if LONG else 1))
@pytest.mark.parametrize("kind", sampled([*KINDS, "append-first-column"], 3))
def test_the_catalog_shows_each_state(
    kind: str, seed: int, tmp_path: Path, server: IcebergRestServer, iceberg: IcebergReader, database: str,
    recwarn: pytest.WarningsRecorder,
) -> None:  # fmt: skip
    draw = random.Random(f"{kind} {seed} {SEED}")
    table, done = shown_table(tmp_path, server, database, kind), list[str]()
    for number in range(30 if LONG else 6):
        done.append(step(table, draw, number))
        if table.snapshots.latest() is None:
            continue
        metadata = in_catalog(server, database)["metadata"]
        if len(metadata["schemas"]) == table.schema.id + 2:  # a changed schema is published with the next commit
            check(server, database, table, iceberg)
        there = {s.id for s in table.snapshots.list()}
        assert set(numbers(metadata)) <= there, done
        tags = {name: tag.id for name, tag in table.tags.list().items() if tag.id in numbers(metadata)}
        refs = {name: ref["snapshot-id"] for name, ref in metadata["refs"].items() if ref["type"] == "tag"}
        assert refs == tags, done
        [spec] = [s for s in metadata["partition-specs"] if s["spec-id"] == metadata["default-spec-id"]]
        keys = [] if "k" in table.partition_by else list(table.partition_by)  # as Java: a catalog gives no id 0
        assert [field["name"] for field in spec["fields"]] == keys
    assert not [str(w.message) for w in recwarn if "Iceberg" in str(w.message)], done


def test_a_catalog_that_was_not_there_catches_up(
    tmp_path: Path, server: IcebergRestServer, iceberg: IcebergReader, database: str
) -> None:
    table, draw = shown_table(tmp_path, server, database, "append"), random.Random(1)
    table.append(some_rows(table, draw))
    before = in_catalog(server, database)["metadata"]
    for _ in range(2):
        with pytest.warns(UserWarning, match=r"the change is made, don't make it again.*did not answer a GET"):
            table.append(some_rows(table, draw), options={f"{REST}uri": "http://127.0.0.1:9"})
    assert in_catalog(server, database)["metadata"] == before
    assert table.snapshots.latest().id == 3
    table.append(some_rows(table, draw))
    after = check(server, database, table, iceberg)
    assert after["table-uuid"] == before["table-uuid"]
    assert numbers(after) == [1, 2, 3, 4]
    with pytest.warns(UserWarning, match="did not answer"):
        table.append(some_rows(table, draw), options={f"{REST}uri": "http://127.0.0.1:9"})
    assert table.maintenance.publish_iceberg() == 5
    assert numbers(check(server, database, table, iceberg)) == [1, 2, 3, 4, 5]


def test_what_an_unreached_catalog_had_is_removed_later(
    tmp_path: Path, server: IcebergRestServer, iceberg: IcebergReader, database: str
) -> None:
    table, draw = shown_table(tmp_path, server, database, "append"), random.Random(1)
    folder = tmp_path / "iceberg" / database / "t" / "metadata"
    for number in range(11):
        away = {f"{REST}uri": "http://127.0.0.1:9"} if number in (5, 6, 7) else {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            table.append(some_rows(table, draw), options=away)
        if away:  # what the catalog shows can be read all the time
            iceberg.rows(in_catalog(server, database)["metadata-location"])
    metadata = check(server, database, table, iceberg)
    lists = {Path(snapshot["manifest-list"]).name for snapshot in metadata["snapshots"]}
    assert {path.name for path in folder.glob("snap-*")} == lists
    assert len(list(folder.glob("v*.metadata.json"))) == 1


def _dropped(server: IcebergRestServer, path: str, body: Mapping[str, Any]) -> None:
    sent(server, "DELETE", path)


def _foreign(server: IcebergRestServer, path: str, body: Mapping[str, Any]) -> None:
    sent(server, "DELETE", path)
    sent(server, "POST", path.rsplit("/", 1)[0], {**body, "schema": {"type": "struct", "schema-id": 0, "fields": []}})


def _another_schema(server: IcebergRestServer, path: str, body: Mapping[str, Any]) -> None:
    with urllib.request.urlopen(server.uri + path) as response:
        schema = json.load(response)["metadata"]["schemas"][-1]
    schema["fields"].append({"id": 50, "name": "x", "required": False, "type": "int"})
    sent(server, "POST", path, {"requirements": [], "updates": [
        {"action": "add-schema", "schema": {**schema, "schema-id": 2}, "last-column-id": 50},
        {"action": "set-current-schema", "schema-id": -1}]})  # fmt: skip


@pytest.mark.parametrize("kind", ["append", "append-vectors"])
@pytest.mark.parametrize("change", [_dropped, _foreign, _another_schema])
def test_a_table_that_others_changed_in_the_catalog_is_made_anew(
    change: Callable[..., None], kind: str, tmp_path: Path, server: IcebergRestServer, iceberg: IcebergReader,
    database: str,
) -> None:  # fmt: skip
    table, draw = shown_table(tmp_path, server, database, kind), random.Random(1)
    for _ in range(2):
        table.append(some_rows(table, draw))
    change(server, f"/v1/namespaces/{database}/tables/t", {"name": "t"})
    table.append(some_rows(table, draw))
    metadata = check(server, database, table, iceberg)
    if kind == "append-vectors":  # row ids go on where they were: the catalog takes the metadata as it is
        assert metadata["next-row-id"] == sum(s["added-rows"] for s in metadata["snapshots"])
    else:
        assert numbers(metadata) == [3]
    table.append(some_rows(table, draw))
    assert numbers(check(server, database, table, iceberg))[-2:] == [3, 4]


def test_a_catalog_that_registers_nothing_keeps_its_table(
    tmp_path: Path, server: IcebergRestServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, draw = shown_table(tmp_path, server, database, "append-vectors"), random.Random(1)
    for _ in range(3):
        table.append(some_rows(table, draw))
    before = in_catalog(server, database)
    config = {"uri": server.uri}
    monkeypatch.setattr(rest_client.catalog_of(config), "registers", False)
    with pytest.warns(UserWarning, match="takes no registered tables"):
        table.snapshots.rollback(2)
    assert in_catalog(server, database) == before


def test_a_process_that_stops_after_it_has_created_the_table(
    tmp_path: Path, server: IcebergRestServer, iceberg: IcebergReader, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, draw = shown_table(tmp_path, server, database, "append"), random.Random(1)
    with monkeypatch.context() as stopped:
        stopped.setattr(IcebergCatalog, "commit", _lost)
        with pytest.warns(UserWarning, match="no answer"):
            table.append(some_rows(table, draw))
    empty = in_catalog(server, database)["metadata"]
    assert not empty["snapshots"]
    table.append(some_rows(table, draw))
    after = check(server, database, table, iceberg)
    assert after["table-uuid"] == empty["table-uuid"]
    assert numbers(after) == [2]  # as Java: the newest alone


def _lost(*_: object) -> dict[str, Any]:
    raise StorageError("no answer")


def test_a_commit_whose_answer_is_lost_is_not_made_twice(
    tmp_path: Path, server: IcebergRestServer, iceberg: IcebergReader, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, draw = shown_table(tmp_path, server, database, "append"), random.Random(1)
    table.append(some_rows(table, draw))
    commit = IcebergCatalog.commit
    with monkeypatch.context() as lossy:
        lossy.setattr(IcebergCatalog, "commit", lambda *args: (commit(*args), _lost()))
        with pytest.warns(UserWarning, match="no answer"):
            table.append(some_rows(table, draw))
    before = in_catalog(server, database)
    assert table.maintenance.publish_iceberg() == 2
    assert in_catalog(server, database) == before
    assert numbers(check(server, database, table, iceberg)) == [1, 2]


def test_writers_at_once_leave_the_newest_state(
    tmp_path: Path, server: IcebergRestServer, iceberg: IcebergReader, database: str
) -> None:
    kept = {"snapshot.num-retained.min": "50", "snapshot.num-retained.max": "99"}  # the catalog may lag for a while
    table = shown_table(tmp_path, server, database, "append", **kept)
    table.append(some_rows(table, random.Random(9)))
    uuid = in_catalog(server, database)["metadata"]["table-uuid"]

    def write(number: int) -> None:
        own, draw = pp.Table.open(table.path), random.Random(number)
        for _ in range(3):
            own.append(some_rows(own, draw))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    table.maintenance.publish_iceberg()
    assert check(server, database, table, iceberg)["table-uuid"] == uuid


def test_a_writer_that_was_overtaken_does_not_take_the_catalog_back(
    tmp_path: Path, server: IcebergRestServer, iceberg: IcebergReader, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other writer commits after this one has looked at the catalog, and before; in both cases it stays ahead."""
    for when in ("load", "commit"):
        table, draw = shown_table(tmp_path / when, server, f"{database}{when}", "append"), random.Random(1)
        table.append(some_rows(table, draw))
        call = getattr(IcebergCatalog, when)

        def overtaken(*args: Any, table: pp.Table = table, call: Any = call, draw: random.Random = draw) -> Any:
            monkeypatch.undo()
            pp.Table.open(table.path).append(some_rows(table, draw))
            return call(*args)

        monkeypatch.setattr(IcebergCatalog, when, overtaken)
        table.append(some_rows(table, draw))
        assert table.snapshots.latest().id == 3
        assert numbers(check(server, f"{database}{when}", table, iceberg)) == [1, 2, 3]


def test_columns_of_partitions_keep_their_ids_whatever_their_names(
    tmp_path: Path, server: IcebergRestServer, database: str
) -> None:
    options = {
        "metadata.iceberg.storage": "rest-catalog", "metadata.iceberg.storage-location": "table-location",
        "metadata.iceberg.manifest-compression": "zstd", "metadata.iceberg.database": database,
        "metadata.iceberg.table": "other name", f"{REST}uri": server.uri,
        "metadata.iceberg.table-properties.owner": "a",
        "metadata.iceberg.table-properties.uuid": "1", "metadata.iceberg.previous-versions-max": "2",
    }  # fmt: skip
    table = pp.Table.create(
        tmp_path / "no" / "database", "a INT, b INT, f1 INT NOT NULL, c INT", partition_by=["f1"], options=options
    )
    table.append([{"a": 1, "b": 2, "f1": 3, "c": 4}])
    found = in_catalog(server, database, "other%20name")["metadata"]
    assert found["partition-specs"] == [
        {"spec-id": 0, "fields": [{"name": "f1", "transform": "identity", "source-id": 2, "field-id": 1000}]}
    ]
    assert found["properties"]["owner"] == "a"
    assert found["properties"]["write.metadata.previous-versions-max"] == "2"
    assert "uuid" not in found["properties"]
    by_name = RestCatalog("c", uri=server.uri).load_table((database, "other name"))
    assert by_name.scan(row_filter="f1 = 3").to_arrow().to_pylist() == [{"a": 1, "b": 2, "f1": 3, "c": 4}]
    assert sorted(path.name for path in Path(table.path, "metadata").glob("v*")) == [
        "v1.metadata.json",
        "version-hint.text",
    ]


@pytest.mark.parametrize("given", [
    {"token": TOKEN}, {"credential": f"me:{SECRET}"}, {"rest.auth.type": "oauth2", "credential": SECRET},
])  # fmt: skip
def test_secrets_open_the_catalog_and_show_nowhere(
    given: Mapping[str, str], tmp_path: Path, guarded: IcebergRestServer, database: str,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    caplog.set_level("DEBUG")
    table, draw, shown_texts = shown_table(tmp_path, guarded, database, "append"), random.Random(1), list[str]()
    options = {f"{REST}{name}": text for name, text in given.items()}
    wrong = {name: f"{text}-canary" if text.endswith((TOKEN, SECRET)) else text for name, text in options.items()}
    for each in ({}, wrong):
        with pytest.warns(UserWarning, match="the change is made") as caught:
            table.append(some_rows(table, draw), options=each)
        shown_texts += [str(w.message) for w in caught]
    with pytest.raises(PaimonError) as failed:
        table.maintenance.publish_iceberg(wrong)
    shown_texts += [str(failed.value), repr(failed.value), str(failed.value.__cause__)]
    table.append(some_rows(table, draw), options=options)
    request = urllib.request.Request(f"{guarded.uri}/v1/namespaces/{database}/tables/t")
    request.add_header("Authorization", f"Bearer {TOKEN}")
    with urllib.request.urlopen(request) as response:
        assert json.load(response)["metadata"]["current-snapshot-id"] == 3
    stored = [p.read_bytes() for p in (tmp_path / f"{database}.db").rglob("*") if p.is_file()]
    stored += [p.read_bytes() for p in (tmp_path / "iceberg").rglob("*") if p.is_file()]
    for secret in (TOKEN, SECRET):
        assert not [text for text in (*shown_texts, caplog.text) if secret in text]
        assert not [data for data in stored if secret.encode() in data]
    for name, text in options.items():
        if name != f"{REST}rest.auth.type":
            with pytest.raises(OptionError, match=r"is a secret.*options=\{…\}"):
                table.alter({name: text})


def test_a_signature_of_aws() -> None:
    """Computed anew as its specification says, from what the request says is signed."""
    settings = {
        "uri": "https://glue.eu-west-1.example/iceberg", "rest.sigv4-enabled": "true", "rest.signing-name": "glue",
        "rest.signing-region": "eu-west-1", "rest.access-key-id": "AKID", "rest.secret-access-key": "canary",
    }  # fmt: skip
    authorization = rest_client._AwsSignature(settings)
    body = b'{"name": "t"}'
    headers = authorization.headers(Request("POST", "/v1/a%20b/tables", {"b": "x y", "a": "1"}, body))
    scheme, credential, signed, signature = headers["Authorization"].replace(",", "").split(" ")
    day = headers["X-Amz-Date"][:8]
    scope = f"{day}/eu-west-1/glue/aws4_request"
    assert (scheme, credential) == ("AWS4-HMAC-SHA256", f"Credential=AKID/{scope}")
    assert signed == "SignedHeaders=host;x-amz-date"
    canonical = "\n".join([
        "POST", "/iceberg/v1/a%2520b/tables", "a=1&b=x%20y", "host:glue.eu-west-1.example",
        f"x-amz-date:{headers['X-Amz-Date']}", "", "host;x-amz-date", hashlib.sha256(body).hexdigest(),
    ])  # fmt: skip
    text = "\n".join([scheme, headers["X-Amz-Date"], scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = b"AWS4canary"
    for part in (*scope.split("/"), text):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    assert signature == f"Signature={key.hex()}"
    assert authorization.secrets() == ["canary"]


def test_a_name_and_a_password() -> None:
    settings = {"uri": "http://h", "rest.auth.type": "basic", "rest.auth.basic.username": "me"}
    with pytest.raises(OptionError, match=r"needs metadata\.iceberg\.rest\.rest\.auth\.basic\.password"):
        rest_client._authorization(settings)
    found = rest_client._authorization({**settings, "rest.auth.basic.password": "pw:d"})
    assert found.headers(Request("GET", "/", {})) == {"Authorization": "Basic bWU6cHc6ZA=="}


@pytest.mark.parametrize(("settings", "error", "match"), [
    ({}, OptionError, r"needs metadata\.iceberg\.rest\.uri"),
    ({"uri": "http://h", "rest.auth.type": "google"}, UnsupportedError, "google"),
    ({"uri": "http://h", "rest.sigv4-enabled": "true", "token": "t"}, UnsupportedError, "with a token"),
    ({"uri": "http://h", "rest.client.proxy.hostname": "p"}, UnsupportedError, "HTTPS_PROXY"),
])  # fmt: skip
def test_settings_that_can_not_be_used_are_refused_before_a_write(
    settings: Mapping[str, str], error: type[PaimonError], match: str, tmp_path: Path
) -> None:
    table = pp.Table.create(tmp_path / "d.db" / "t", "id INT")
    options = {"metadata.iceberg.storage": "rest-catalog", **{f"{REST}{k}": v for k, v in settings.items()}}
    with pytest.raises(error, match=match):
        table.append([{"id": 1}], options=options)
    assert table.snapshots.latest() is None
