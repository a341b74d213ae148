"""Fixtures that every room's tests share: Spark sessions, Java Paimon, example counts of hypothesis."""

from __future__ import annotations

import gc
import os
import re
import sys
import time
import tracemalloc  # noqa: F401 - pytest imports it where threads report errors, and two at a time find half of it
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from support.oracle import Oracle

ROOT = Path(__file__).resolve().parents[1]
MODE = os.environ.get("PAIMON_PYDS_SPARK", "classic")

_CALM = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]}
# New examples at every run; those that fail are kept in .hypothesis/ and tried first from then on. A failure prints
# what reproduces it. CI has the same examples every time, so that no change hangs on chance.
_FIXED = {"derandomize": True, "database": None} if os.environ.get("CI") else {}
settings.register_profile("few", max_examples=8, print_blob=True, **_FIXED, **_CALM)
settings.register_profile("short", max_examples=15, print_blob=True, **_FIXED, **_CALM)
settings.register_profile("long", max_examples=2000, print_blob=True, **_CALM)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "short"))

_JAVA = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
    " -Dspark.python.authenticate.socketTimeout=5m"
)
"""A JVM of some minutes pays more for the best machine code than it gets back, two cores need one collector, and to
verify the classes of Spark is a third of its start. A loaded machine may need more than 15 seconds to open a
connection."""

_CHOSEN = {"spark", "connect", "over_connect", "smoke"}
"""The marks that jobs choose by."""

REQUIRE_ORACLE = bool(os.environ.get("REQUIRE_ORACLE"))
"""Fail, and do not skip, where Java Paimon or the full set of its tables is missing."""


def pytest_configure(config: pytest.Config) -> None:
    """Spark's Python workers run this interpreter and find this checkout, installed or not.

    No test cuts the power: nothing waits until the disk has what was written.
    """
    os.fsync = lambda fd: None
    os.environ["TZ"] = "UTC"  # texts without a zone are local time
    time.tzset()
    os.environ.setdefault("PAIMON_PYDS_LOCAL_CACHE", "off")  # what tests do not ask for they don't leave behind
    os.environ.setdefault("JDK_JAVA_OPTIONS", _JAVA)  # of every JVM that a test starts, in a notebook's session too
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    workers = ROOT / "tests" / "support" / "workers"
    paths = [str(ROOT), str(workers), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    if REQUIRE_ORACLE:
        from support.fixtures import has_shared
        from support.oracle import missing

        reason = missing() if has_shared() else "needs ../shared/fixtures/dev (Java-written tables)"
        if reason is not None:
            raise pytest.UsageError(f"REQUIRE_ORACLE is set, but Java Paimon's tests can't run: {reason}")


@cache
def _named_marks(path: Path) -> frozenset[str]:
    """Which of the marks that jobs choose by a file names, or the fixtures beside it: tests of others have none."""
    beside = path.with_name("conftest.py")
    texts = [p.read_text(encoding="utf-8") for p in (path, beside) if p.exists() and p != Path(__file__)]
    return frozenset(re.findall(rf"\b(?:{'|'.join(_CHOSEN)})\b", "".join(texts)))


@cache
def _only_spark(path: Path) -> bool:
    """Whether the module as a whole needs a session."""
    return re.search(r"^pytestmark = .*\bmark\.spark\b", path.read_text(encoding="utf-8"), re.M) is not None


@cache
def _uses_java(path: Path) -> bool:
    return re.search(r"\boracle: Oracle\b", path.read_text(encoding="utf-8")) is not None


_STARTS = (
    r"\b(?:s3proxy|localstack|azurite|fake_gcs|postgres|mariadb|mini_hdfs|hive_metastore)\b",
    r"\bPypaimon\b",
    r"\.in_zone\(",
    r"\biceberg: IcebergReader\b",
)
"""What files name that start servers, pypaimon, or a JVM for a time zone or of Iceberg: a start takes seconds, and a
run needs one of each."""
_WEIGHT_OF_SERVERS = 3
"""Tests of servers take about three times as long as others of files of the same size (measured in November 2026)."""


@cache
def _started_by(path: Path) -> str | None:
    """Which of `_STARTS` a file names. Such files are tested last: a server takes processor time while it waits."""
    text = path.read_text(encoding="utf-8")
    return next((start for start in _STARTS if re.search(start, text)), None)


@cache
def _parts(count: int) -> dict[Path, int]:
    """Files by the part they belong to, 1 to `count`; parts have about the same size, and so take about as long. Java
    runs in half of them, as each starts a JVM. Files that start the same servers are in one part."""
    files = [path for path in (ROOT / "tests").rglob("test_*.py") if not _only_spark(path)]
    groups = defaultdict[object, list[Path]](list)
    for path in files:
        groups[_started_by(path) or path].append(path)
    sized = []
    for start, group in groups.items():
        weight = _WEIGHT_OF_SERVERS if start == _STARTS[0] else 1
        sized.append((any(map(_uses_java, group)), weight * sum(path.stat().st_size for path in group), group))
    sizes = dict.fromkeys(range(1, count + 1), 0)
    parts = {}
    for java, size, group in sorted(sized, reverse=True):
        part = min(list(sizes)[: -(-count // 2)] if java else sizes, key=sizes.__getitem__)
        parts.update(dict.fromkeys(group, part))
        sizes[part] += size
    return parts


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", help="2/6: the second of six parts of the files that can be tested without Spark")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Of `-m "(spark or smoke) and …"` only files that name one of the two are imported: all take 12 s."""
    if not collection_path.match("test_*.py"):
        return None
    if config.option.part:
        part, count = map(int, config.option.part.split("/"))
        return _parts(count).get(collection_path) != part or None
    chosen = re.fullmatch(r"\(([a-z_ ]+)\)(?: and (?:not )?[a-z]+)*", config.option.markexpr)
    if not chosen:
        return None
    return _named_marks(collection_path).isdisjoint(chosen[1].split(" or ")) or None


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Marks are added before pytest chooses by them; of what it chose, matrices are sampled."""
    _add_marks(items)
    yield
    sample = _sample(items)
    config.hook.pytest_deselected(items=[item for item in items if item not in sample])
    items[:] = sorted((item for item in items if item in sample), key=lambda item: _started_by(item.path) is not None)


def _sample(items: list[pytest.Item]) -> set[pytest.Item]:
    """All tests, but of one with several lists of parameters only cases in which each of the parameters is met, unless
    it is marked `whole`."""
    from support.effort import covering

    tests = defaultdict[tuple[object, str], list[pytest.Item]](list)
    for item in items:
        tests[item.parent, getattr(item, "originalname", item.name)].append(item)
    axes = {item: () if item.get_closest_marker("whole") else _parameters(item) for item in items}
    return {cases[at] for cases in tests.values() for at in covering([axes[case] for case in cases])}


def _parameters(item: pytest.Item) -> Sequence[str]:
    """The name of one of each list of parameters."""
    return getattr(getattr(item, "callspec", None), "_idlist", ())


def _add_marks(items: list[pytest.Item]) -> None:
    """`classic` and `connect` tests run only with the session they are about. Users of the fixtures `oracle` and
    `spark` are marked `java` and `spark`: else a job without Spark would start a session for one test."""
    for item in items:
        for fixture, mark in (("oracle", "java"), ("spark", "spark")):
            if fixture in getattr(item, "fixturenames", ()):
                item.add_marker(mark)
        unnamed = {mark.name for mark in item.iter_markers()} & _CHOSEN - _named_marks(item.path)
        if unnamed:
            raise pytest.UsageError(f"{item.nodeid}: jobs leave its file out, as it does not name {min(unnamed)}")
        for mode in ("classic", "connect"):
            if item.get_closest_marker(mode) is not None and mode != MODE:
                item.add_marker(pytest.mark.skip(reason=f"only with PAIMON_PYDS_SPARK={mode}"))


def pytest_collection_finish(session: pytest.Session) -> None:
    """What was imported and collected stays: the garbage collector need not look through it again and again."""
    gc.freeze()


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Which versions a log is about."""
    from importlib.metadata import PackageNotFoundError, version

    from support.fixtures import DEV, has_shared

    found = []
    for name in ("pyspark", "pyarrow", "numpy", "pyroaring", "fastavro"):
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"no {name}")
    from support.effort import SEED

    tables = "none" if DEV is None else "../shared" if has_shared() else "the compact set in tests/fixtures"
    return [", ".join(found), f"Spark session: {MODE}; Java-written tables: {tables}", f"PAIMON_PYDS_SEED={SEED}"]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One session for the whole run: classic, or Spark Connect with PAIMON_PYDS_SPARK=connect."""
    sql = pytest.importorskip("pyspark.sql", reason="needs pyspark")
    scratch = tmp_path_factory.mktemp("spark")
    options = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "2g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Duser.timezone=UTC {_JAVA} -Dderby.system.home={scratch}",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.local.dir": str(scratch / "local"),
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }
    builder = sql.SparkSession.builder.appName("paimon_pyds tests")
    builder = builder.remote("local[2]") if MODE == "connect" else builder.master("local[2]")
    for key, value in options.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    if MODE == "classic":
        session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
    gateway = sys.modules["pyspark"].SparkContext._gateway
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()  # so that what it cost is counted


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """An empty warehouse directory."""
    path = tmp_path / "warehouse"
    path.mkdir()
    return path


@pytest.fixture(scope="session")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    """Java Paimon; the test is skipped, saying why, where it can't run."""
    from support.oracle import Oracle, OracleMissingError

    try:
        found = Oracle.find(tmp_path_factory.mktemp("oracle"))
    except OracleMissingError as error:
        if REQUIRE_ORACLE:
            pytest.fail(str(error))
        pytest.skip(str(error))
    yield found
    found.close()


def _server(name: str) -> Any:
    """The fixture of a server of `support.servers`: what it gives out, or the test is skipped, saying why."""

    @pytest.fixture(scope="session", name=name)
    def started() -> Iterator[Any]:
        from support import servers

        with ExitStack() as stack:
            try:
                found = stack.enter_context(getattr(servers, name)())
            except servers.ServerMissingError as error:
                servers.leave_out(error)
            yield found

    return started


s3proxy, localstack, azurite = map(_server, ("s3proxy", "localstack", "azurite"))
fake_gcs, postgres, mariadb, mini_hdfs = map(_server, ("fake_gcs", "postgres", "mariadb", "mini_hdfs"))
hive_metastore = _server("hive_metastore")
