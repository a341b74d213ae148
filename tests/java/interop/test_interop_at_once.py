"""Java Paimon and this package commit to one table at the same time, in each place of docs/concurrent-writers.md.

Where the page says that both may, nothing is lost. Where Java looks for a snapshot and writes it then, a commit of ours
that it replaced is noticed and made again, and only rows of Java's may be lost. Java reaches Google's and Azure's
stores by the file systems of Hadoop that its plugins are made of, as these are on no index; Azure's by wasb, as Azurite
has nothing that abfs could talk to.
"""

from __future__ import annotations

import re
import sqlite3
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pytest

import paimon_pyds as pp
from support import servers
from support.effort import LONG, sampled
from support.fixtures import ROOT
from support.java_rest_catalog import java_rest_catalog
from support.oracle import Oracle, requires_java_oracle
from support.s3_server import Respond, Server, serving
from support.side_by_side import PATIENT

pytestmark = requires_java_oracle
SCHEMA = pa.schema([("id", pa.int32()), ("v", pa.string())])
Options = dict[str, str]
Get = Callable[[str], Any]
_MIB = {"block.size": 64, "rewrite.max.chunk.size": 512, "outputstream.buffer.size": 8}
_MIB |= {"inputstream.inplace.seek.limit": 8, "inputstream.min.range.request.size": 2}
_LOCK = {"lock.enabled": "true", "lock-check-max-sleep": "20 ms"}


class Pause:
    """Passes requests on to a store. While it is `closed`, Java's request that gives snapshot 2 its name waits: it has
    found the name free by then."""

    def __init__(self, app: Callable[[dict[str, Any], Respond], Iterable[bytes]]) -> None:
        self._app = app
        self._reached, self._go = threading.Event(), threading.Event()
        self._go.set()

    def __call__(self, environ: dict[str, Any], respond: Respond) -> Iterable[bytes]:
        asked = unquote(environ["REQUEST_URI"].partition("?")[0])
        copies = any(name in environ for name in ("HTTP_X_AMZ_COPY_SOURCE", "HTTP_X_MS_COPY_SOURCE"))
        if (copies or "/rewriteTo/" in asked) and asked.endswith("/snapshot/snapshot-2"):
            self._reached.set()
            self._go.wait(120)
        return self._app(environ, respond)

    @contextmanager
    def closed(self) -> Iterator[threading.Event]:
        """The event that Java waits."""
        self._reached.clear()
        self._go.clear()
        try:
            yield self._reached
        finally:
            self._go.set()


@dataclass(frozen=True)
class Place:
    """Options of a catalog there, for us and for Java; ``pause`` where Java reaches it by one."""

    ours: Options
    javas: Options
    pause: Pause | None = None


@contextmanager
def _local(get: Get, directory: Path) -> Iterator[Place]:
    options = {"warehouse": str(directory / "wh")}
    yield Place(options, options)


@pytest.fixture(scope="module")
def paused_s3(s3proxy: str) -> Iterator[Server]:
    """One for all tests: Java's client stays with the first address."""
    with serving(Pause(servers.forwarding(s3proxy))) as server:
        yield server


@contextmanager
def _s3(get: Get, directory: Path) -> Iterator[Place]:
    server = get("paused_s3")
    options = {**server.options(), "warehouse": f"{server.bucket()}/wh"}
    yield Place(options, options, server.app)


@contextmanager
def _google(get: Get, directory: Path) -> Iterator[Place]:
    address = get("fake_gcs")
    forward, host = servers.forwarding(address), address.partition("://")[2]
    pause = Pause(lambda environ, respond: forward(environ | {"HTTP_HOST": host}, respond))
    warehouse = f"{servers.gcs_bucket(address, f'b{uuid.uuid4().hex[:12]}')}/wh"
    with serving(servers.google_xml(address)) as ours, serving(pause) as javas:
        google = {"impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem", "project.id": "p"}
        google |= {"auth.service.account.enable": "false", "auth.null.enable": "true"}
        google |= {"storage.root.url": f"{javas.address}/"}
        google |= {name: str(size << 20) for name, size in _MIB.items()}  # Hadoop 3.5 has them with units
        options = {"gs.access-token": "any", "gs.endpoint": ours.address, "warehouse": warehouse}
        yield Place(options, {f"hadoop.fs.gs.{k}": v for k, v in google.items()} | {"warehouse": warehouse}, pause)


@contextmanager
def _azure(get: Get, directory: Path) -> Iterator[Place]:
    address = get("azurite")
    host, _, account = address.partition("://")[2].partition("/")
    forward, name = servers.forwarding(f"http://{host}"), f"b{uuid.uuid4().hex[:12]}"

    def proxied(environ: dict[str, Any], respond: Respond) -> Iterable[bytes]:
        """The account is in the host's name: Azurite takes it from there."""
        path = "/" + environ["REQUEST_URI"].partition("://")[2].partition("/")[2]
        return forward(environ | {"REQUEST_URI": path}, respond)

    pause = Pause(proxied)
    servers.azure_container(address, name)
    with serving(pause) as proxy:
        port = proxy.address.rpartition(":")[2]
        java = {
            "system.http.proxyHost": "127.0.0.1",
            "system.http.proxyPort": port,
            "system.http.nonProxyHosts": "none",
        }
        java["hadoop.fs.wasb.impl"] = "org.apache.hadoop.fs.azure.NativeAzureFileSystem"
        java[f"hadoop.fs.azure.account.key.{account}.blob.core.windows.net"] = servers.AZURE_KEY
        java["warehouse"] = f"wasb://{name}@{account}.blob.core.windows.net/wh"
        ours = {"azure.account-key": servers.AZURE_KEY, "azure.endpoint": address}
        yield Place({**ours, "warehouse": f"abfss://{name}@{account}.dfs.core.windows.net/wh"}, java, pause)


@contextmanager
def _hdfs(get: Get, directory: Path) -> Iterator[Place]:
    cluster = get("mini_hdfs")
    options = {**cluster.settings, "warehouse": f"{cluster.root}/at-once/{uuid.uuid4().hex}"}
    yield Place(options, options)


def _jdbc(name: str, driver: str) -> Callable[[Get, Path], Any]:
    @contextmanager
    def place(get: Get, directory: Path) -> Iterator[Place]:
        pytest.importorskip(driver)
        more = {"warehouse": str(directory / "wh"), "catalog-key": uuid.uuid4().hex[:8], **_LOCK}
        if name == "sqlite":
            ours = {"metastore": "jdbc", "uri": f"jdbc:sqlite:{directory}/catalog.db", **more}
            with closing(sqlite3.connect(directory / "catalog.db")) as connection:
                connection.execute("PRAGMA journal_mode=WAL")  # else open statements of Java keep writers out
        else:
            ours = {**get(name), **more}
        parameters = {"sqlite": "?busy_timeout=60000", "mariadb": "?permitMysqlScheme"}
        yield Place(ours, {**ours, "uri": ours["uri"] + parameters.get(name, "")})

    return place


@contextmanager
def _rest(get: Get, directory: Path) -> Iterator[Place]:
    get("oracle")  # which fetches Java Paimon
    with java_rest_catalog(directory) as server:
        yield Place(server.options(), server.options(**{"token.provider": "bear"}))


@contextmanager
def _hive(get: Get, directory: Path) -> Iterator[Place]:
    pytest.importorskip("pymetastore")
    options = {"metastore": "hive", "uri": get("hive_metastore"), "warehouse": str(directory / "wh"), **_LOCK}
    yield Place(options, {**options, "cache-enabled": "false"})
    pp.Catalog.open(options).drop_database("shop", cascade=True)


ONE_AT_A_TIME = {"local disk": _local, "S3": _s3, "Google Cloud Storage": _google}
BOTH = {
    "Azure": _azure,
    "HDFS": _hdfs,
    "JDBC": _jdbc("postgres", "psycopg"),
    "JDBC, MariaDB": _jdbc("mariadb", "pymysql"),
}
BOTH |= {"JDBC, SQLite": _jdbc("sqlite", "sqlite3"), "REST": _rest, "Hive": _hive}
_BUNDLE_ALONE = ("local disk", "HDFS", "REST", "Hive")
"""Where Java needs no other jars."""


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with (ONE_AT_A_TIME | BOTH)[request.param](request.getfixturevalue, tmp_path) as found:
        yield found


@pytest.fixture
def java(request: pytest.FixtureRequest, place: Place, oracle: Oracle, tmp_path: Path) -> Callable[..., list[str]]:
    """Java's client of that place."""
    if request.node.callspec.params["place"] not in _BUNDLE_ALONE:
        stores_java = request.getfixturevalue("stores_java")
        return lambda *arguments: stores_java(place.javas, *arguments)
    file = tmp_path / "options"
    file.write_text("".join(f"{key}={value}\n" for key, value in place.javas.items()))
    return lambda *arguments: oracle.program("CatalogOracle", file, *arguments)


def _row(number: int) -> pa.Table:
    return pa.table({"id": pa.array([number], pa.int32()), "v": [f"python {number}"]}, SCHEMA)


def _ids(table: pp.Table) -> list[int]:
    return sorted(table.scan().to_arrow()["id"].to_pylist())


def _opened(ours: Mapping[str, str]) -> pp.Table:
    return pp.Catalog.open(ours).table("shop.t")


_IN_STORES = ("S3", "Google Cloud Storage", "Azure")
"""Places where a writer of Java's is made to meet ours."""
_OTHERS = [name for name in (*ONE_AT_A_TIME, *BOTH) if name not in _IN_STORES]


@pytest.mark.parametrize(
    "place",
    [pytest.param(name, marks=[pytest.mark.long] * ("," in name)) for name in (*sampled(_IN_STORES, 1), *_OTHERS)],
    indirect=True,
)
@pytest.mark.timeout(3000)
def test_commits_at_once(request: pytest.FixtureRequest, java: Callable[..., list[str]], place: Place) -> None:
    """Two writers of ours and one of Java's, with as many commits as both of these."""
    commits = 300 if LONG else 4
    java("create", "shop.t", "false")
    _opened(place.ours).alter(set_options=PATIENT)
    tables = [_opened(place.ours) for _ in range(2)]

    def write(writer: int) -> None:
        for number in range(commits // 2):
            tables[writer].append(_row(10_000 * (writer + 1) + number))

    with ThreadPoolExecutor(2) as pool:
        writing = pool.map(write, range(2))
        for first in range(0, commits, 4):  # a command of all of them would take too long
            java("write", "shop.t", first, 1, 4)
        list(writing)
    for writer, table in enumerate(tables):  # what was replaced last is noticed by the next commit
        table.append(_row(10_000 * (writer + 1) + commits // 2))
    found = _ids(_opened(place.ours))
    assert [id_ for id_ in found if id_ >= 10_000] == [
        first + number for first in (10_000, 20_000) for number in range(commits // 2 + 1)
    ]
    of_java = [id_ for id_ in found if id_ < 10_000]
    print(f"{request.node.callspec.id}: {len(of_java)} of {commits} commits of Java are left")
    if request.node.callspec.params["place"] in BOTH:
        assert of_java == list(range(commits))
        assert [s.id for s in tables[0].snapshots.list()] == list(range(1, 2 * commits + 3))
    else:
        assert set(of_java) <= set(range(commits)) and len(of_java) == len(set(of_java))
    assert sorted(int(line.split("\t")[0]) for line in java("read", "shop.t")) == found


@pytest.mark.parametrize("place", _IN_STORES, indirect=True)
def test_java_has_found_a_snapshot_free_that_we_commit(
    request: pytest.FixtureRequest, java: Callable[..., list[str]], place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """We report success before Java gives its own snapshot that name: Azure refuses that, and Java commits the next.
    Elsewhere it replaces ours, and our next commit says so and makes it again."""
    java("create", "shop.t", "false")
    table = _opened(place.ours)
    table.append(_row(1))
    assert place.pause is not None
    with ThreadPoolExecutor(1) as pool:
        with place.pause.closed() as reached:
            writing = pool.submit(java, "write", "shop.t", 100, 1, 1)
            while not reached.wait(0.05):
                assert not writing.done(), writing.result()
            table.append(_row(2))
            assert _ids(_opened(place.ours)) == [1, 2]
        writing.result()
    replaced = request.node.callspec.params["place"] in ONE_AT_A_TIME
    assert _ids(_opened(place.ours)) == ([1, 100] if replaced else [1, 2, 100])
    table.append(_row(3))
    assert ("snapshot 2 was replaced by another writer" in caplog.text) is replaced
    assert _ids(_opened(place.ours)) == [1, 2, 3, 100]
    assert len(java("read", "shop.t")) == 4


def test_the_page_has_these_places() -> None:
    page = (ROOT / "docs" / "concurrent-writers.md").read_text(encoding="utf-8")
    rows = {line.split("|")[1]: line.split("|")[2] for line in page.splitlines() if line.startswith("| ")}
    for names, answer in ((ONE_AT_A_TIME, r" \*\*no\*\*"), (BOTH, " yes")):
        for name in names:
            (cell,) = [cell for place, cell in rows.items() if name.partition(",")[0] in place]
            assert re.match(answer, cell), name
