"""Java Paimon as a judge: ../shared/oracle, all commands in one JVM.

    with oracle.batch() as batch:
        batch.create(warehouse, "db.t", schema, options={"bucket": "-1"})
        batch.write(warehouse, "db.t", rows)
        read = batch.read(warehouse, "db.t", filter={"op": "eq", "field": "id", "literals": [1]})
    assert read.lines == [...]

A command's reply is there once the `with` block has ended. A command that fails raises OracleError with Java's trace,
unless it was given ``allow_fail=True``.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import itertools
import json
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pytest

from paimon_pyds.base.types import DataField, field_to_json, from_arrow_type
from support.fixtures import ROOT
from support.values import Rows, dumps, json_rows

HOME = Path(os.environ.get("PAIMON_PYDS_ORACLE", ROOT.parent / "shared" / "oracle"))
CACHE = ROOT / ".cache" / "oracle"
_SERVER = Path(__file__).with_name("OracleServer.java")
_TIMEOUT = 240


class OracleMissingError(Exception):
    """Java Paimon can't run here; the message names what is missing."""


class OracleError(AssertionError):
    """A command of the oracle failed."""


def missing() -> str | None:
    """What keeps Java Paimon from running here, as far as can be told without trying."""
    if not (HOME / "oracle").exists():
        return "needs ../shared/oracle (Java Paimon)"
    if importlib.util.find_spec("pyspark") is None:
        return "needs pyspark (its jars hold Hadoop's client)"
    for command in ("java", "javac"):
        if shutil.which(command) is None:
            return f"needs a JDK ({command})"
    if bundle() is None and shutil.which("mvn") is None:
        return "needs Maven, to fetch paimon-bundle"
    return None


def bundle() -> Path | None:
    """The jar of Java Paimon, once it is here."""
    named = os.environ.get("PAIMON_BUNDLE_JAR")
    path = Path(named) if named else CACHE / "paimon-bundle-1.4.2.jar"
    return path if path.is_file() else None


requires_java_oracle = pytest.mark.skipif(missing() is not None, reason=missing() or "Java Paimon is at hand")
"""For tests that need Java Paimon. Ask for the fixture `oracle` too: it fetches and compiles what is needed."""


def _lines(output: str) -> list[str]:
    """Lines by line feeds alone: texts may hold other ends of lines."""
    return output.removesuffix("\n").split("\n") if output else []


@dataclass(slots=True)
class Reply:
    """What one command said, once its batch has run."""

    args: list[str]
    allow_fail: bool = False
    ok: bool = False
    output: str = ""
    error: str = ""

    @property
    def lines(self) -> list[str]:
        """Lines of output: rows of `read` (sorted JSON texts), files of `files`, answers of `indexeval`."""
        return _lines(self.output)

    @property
    def values(self) -> list[Any]:
        """The lines, parsed."""
        return [json.loads(line) for line in self.lines]


@contextmanager
def only_one() -> Iterator[None]:
    """One process at a time: `make test` runs several jobs side by side."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def compiled(source: Path, *options: str) -> Path:
    """The classes of a program, compiled once; whoever calls is the `only_one`. Raises OracleError."""
    classes = CACHE / f"{source.stem}-{hashlib.sha256(source.read_bytes()).hexdigest()[:16]}"
    if not classes.is_dir():
        with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
            quick = ["-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC"]  # a program is compiled in a second or two
            command = ["javac", *quick, "-nowarn", "-proc:none", *options, "-d", f"{scratch}/classes", source]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise OracleError(done.stderr)
            os.rename(f"{scratch}/classes", classes)
    return classes


class Oracle:
    """The command of ../shared/oracle. Its JVM is kept from batch to batch, for a start of Java costs two seconds."""

    def __init__(self, environment: Mapping[str, str], scratch: Path, zone: str = "UTC") -> None:
        scratch.mkdir(parents=True, exist_ok=True)
        classes = os.path.relpath(compiled(_SERVER), _SERVER.parent)  # the checkout's own path may have blanks
        self._environment = {**environment, "ORACLE_JAVA_OPTS": f"-Duser.timezone={zone} -cp {classes} OracleServer"}
        self._scratch = scratch
        self._numbers = itertools.count()
        self._one_batch = threading.Lock()
        self._server: subprocess.Popen[str] | None = None
        self._in_zones: dict[str, Oracle] = {zone: self}

    @classmethod
    def find(cls, scratch: Path) -> Oracle:
        """Java Paimon, ready to run. Raises OracleMissingError."""
        reason = missing()
        if reason is not None:
            raise OracleMissingError(reason)
        spec = importlib.util.find_spec("pyspark")
        assert spec is not None
        assert spec.submodule_search_locations
        environment = dict(os.environ)
        environment["ORACLE_CACHE"] = str(CACHE)
        environment["PYSPARK_JARS_DIR"] = str(Path(spec.submodule_search_locations[0]) / "jars")
        try:
            with only_one():  # the first run fetches and compiles
                oracle = cls(environment, scratch)
                oracle._start()
        except OracleError as error:
            if bundle() is None:
                raise OracleMissingError(f"needs paimon-bundle, which Maven could not fetch: {error}") from error
            raise
        return oracle

    def in_zone(self, zone: str) -> Oracle:
        """The same in a JVM of another default time zone."""
        if zone not in self._in_zones:
            self._in_zones[zone] = Oracle(self._environment, self._scratch / zone.replace("/", "-"), zone)
        return self._in_zones[zone]

    def with_jars(self, jars: Sequence[str], scratch: Path) -> Oracle:
        """The same in a JVM that has more jars; to be closed."""
        path = os.pathsep.join([str(bundle()), *jars])
        return Oracle({**self._environment, "PAIMON_BUNDLE_JAR": path}, scratch)

    def batch(self) -> Batch:
        """Commands that run together when the `with` block ends."""
        return Batch(self)

    def run(self, replies: Sequence[Reply]) -> None:
        """Run the commands and fill in their replies. Raises OracleError for the first that failed and may not."""
        script = self.scratch_file(".jsonl")
        with script.open("w", encoding="utf-8") as f:
            f.writelines(dumps({"args": r.args, "allow_fail": r.allow_fail}) + "\n" for r in replies)
        with self._one_batch:
            server = self._server or self._start()
            statuses = [json.loads(line) for line in self._ask(server, str(script), len(replies))]
        for reply, status in zip(replies, statuses, strict=True):
            reply.ok, reply.output, reply.error = status["ok"], status.get("output", ""), status.get("error", "")
        for reply in replies:
            if not reply.ok and not reply.allow_fail:
                raise OracleError(f"{' '.join(reply.args)[:500]}\n{reply.error[:3000]}")

    def program(self, name: str, *arguments: object) -> list[str]:
        """The lines that the program ``name`` of this folder prints, run in the same JVM. Raises OracleError."""
        output = self.scratch_file(".txt")
        with self._one_batch:
            server = self._server or self._start()
            (failed,) = self._ask(server, "\t".join(map(str, ["main", name, output, *arguments])), 1)
        if failed.strip() != "0":
            raise OracleError(f"{name}: {failed[:3000]}")
        return _lines(output.read_text(encoding="utf-8"))

    def close(self) -> None:
        """End the JVMs; the next batch would start another one."""
        for other in self._in_zones.values():
            if other is not self:
                other.close()
        if self._server is not None:
            server, self._server = self._server, None
            try:
                server.communicate(timeout=_TIMEOUT)  # the end of its input ends it
            except subprocess.TimeoutExpired:
                server.kill()
                server.communicate()

    def _start(self) -> subprocess.Popen[str]:
        with (self._scratch / "java.log").open("w") as log:
            self._server = subprocess.Popen(
                ["bash", str(HOME / "oracle"), "serve"],
                env=self._environment,
                cwd=_SERVER.parent,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                encoding="utf-8",
            )
        self._lines_of(self._server, 1)
        return self._server

    def _ask(self, server: subprocess.Popen[str], script: str, count: int) -> list[str]:
        """The JVM's replies to a line that has ``count`` of them."""
        assert server.stdin is not None
        with suppress(BrokenPipeError):  # it has ended: told below
            server.stdin.write(script + "\n")
            server.stdin.flush()
        return self._lines_of(server, count)

    def _lines_of(self, server: subprocess.Popen[str], count: int) -> list[str]:
        """Its next lines of output. Raises OracleError, with what it logged, when it ends or takes too long."""
        assert server.stdout is not None
        too_long = threading.Timer(_TIMEOUT, server.kill)
        too_long.start()
        try:
            lines = list(itertools.islice(server.stdout, count))
        finally:
            too_long.cancel()
        if len(lines) < count:
            self.close()
            log = (self._scratch / "java.log").read_text(encoding="utf-8", errors="replace")
            raise OracleError(f"{len(lines)} of {count} commands answered: {log[-3000:]}")
        return lines

    def scratch_file(self, suffix: str) -> Path:
        """A new path for what a command reads."""
        return self._scratch / f"{next(self._numbers):06d}{suffix}"


@dataclass(slots=True)
class Batch:
    """Commands in order. Tables are named ``db.t``; a filter is the oracle's JSON form of a predicate."""

    oracle: Oracle
    replies: list[Reply] = field(default_factory=list)

    def __enter__(self) -> Batch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self.replies:
            self.oracle.run(self.replies)

    def add(self, *arguments: object, allow_fail: bool = False) -> Reply:
        """Any command, by its arguments."""
        reply = Reply([str(a) for a in arguments], allow_fail)
        self.replies.append(reply)
        return reply

    def create(
        self,
        warehouse: Path,
        table: str,
        schema: pa.Schema | Sequence[DataField],
        *,
        partition_keys: Sequence[str] = (),
        primary_keys: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
        allow_fail: bool = False,
    ) -> Reply:
        """Create a table (and its database)."""
        spec = {
            "fields": [field_to_json(f) for f in _fields(schema)],
            "partition_keys": list(partition_keys),
            "primary_keys": list(primary_keys),
            "options": dict(options or {}),
        }
        path = self.oracle.scratch_file(".json")
        path.write_text(json.dumps(spec), encoding="utf-8")
        return self.add("create", warehouse, table, path, allow_fail=allow_fail)

    def alter(self, warehouse: Path, table: str, *changes: Mapping[str, Any], allow_fail: bool = False) -> Reply:
        """Schema changes, as Oracle.java lists them."""
        return self.add("alter", warehouse, table, json.dumps(list(changes)), allow_fail=allow_fail)

    def write(
        self,
        warehouse: Path,
        table: str,
        rows: Rows | Iterable[Mapping[str, Any]],
        *,
        overwrite: bool = False,
        options: Mapping[str, str] | None = None,
        allow_fail: bool = False,
    ) -> Reply:
        """Write and commit rows: Arrow, or objects of JSON values."""
        listed = json_rows(rows) if isinstance(rows, (pa.Table, pa.RecordBatch)) else list(rows)
        path = self.oracle.scratch_file(".jsonl")
        path.write_text("".join(dumps(row) + "\n" for row in listed), encoding="utf-8")
        flags = ["--overwrite"] if overwrite else []
        return self.add("write", warehouse, table, path, *flags, *_options(options), allow_fail=allow_fail)

    def read(
        self,
        warehouse: Path,
        table: str,
        *,
        filter: Mapping[str, Any] | None = None,
        columns: Sequence[str] | None = None,
        snapshot: int | None = None,
        tag: str | None = None,
        branch: str | None = None,
        pushdown: bool = True,
        options: Mapping[str, str] | None = None,
        allow_fail: bool = False,
    ) -> Reply:
        """Rows, as sorted JSON texts. Java prunes with statistics and indexes unless ``pushdown`` is off."""
        arguments = _scan(filter, snapshot, tag, branch) + ([] if pushdown else ["--no-pushdown"])
        if columns is not None:
            arguments += ["--projection", ",".join(columns)]
        return self.add("read", warehouse, table, *arguments, *_options(options), allow_fail=allow_fail)

    def files(
        self,
        warehouse: Path,
        table: str,
        *,
        filter: Mapping[str, Any] | None = None,
        snapshot: int | None = None,
        everything: bool = False,
        embedded: bool = False,
    ) -> Reply:
        """The planned files (all with ``everything``), as objects; ``embedded`` adds embedded indexes in hex."""
        arguments = _scan(filter, snapshot, None, None)
        arguments += (["--mode", "all"] if everything else []) + (["--embedded"] if embedded else [])
        return self.add("files", warehouse, table, *arguments)

    def index_eval(
        self,
        container: Path,
        schema: pa.Schema | Sequence[DataField],
        predicates: Sequence[Mapping[str, Any]],
        row_count: int,
    ) -> Reply:
        """What Java answers from an index container: "REMAIN", "SKIP", positions, {"cardinality", "crc32"} or {"error"}
        for each predicate."""
        path = self.oracle.scratch_file(".json")
        path.write_text(json.dumps(list(predicates)), encoding="utf-8")
        return self.add("indexeval", container, _field_text(schema), f"@{path}", row_count)

    def delete(self, warehouse: Path, table: str, filter: Mapping[str, Any]) -> Reply:
        """Delete rows of an append table by deletion vectors."""
        return self.add("delete", warehouse, table, "--filter", json.dumps(filter))

    def compact(self, warehouse: Path, table: str) -> Reply:
        """Full compaction, one commit."""
        return self.add("compact", warehouse, table)

    def tag(self, warehouse: Path, table: str, name: str, *, snapshot: int | None = None) -> Reply:
        """Create a tag."""
        return self.add("tag", warehouse, table, name, *([] if snapshot is None else ["--snapshot", snapshot]))

    def branch(self, warehouse: Path, table: str, name: str, *, tag: str | None = None) -> Reply:
        """Create a branch."""
        return self.add("branch", warehouse, table, name, *([] if tag is None else ["--tag", tag]))

    def expire(self, warehouse: Path, table: str, retain: int) -> Reply:
        """Expire all but the last snapshots."""
        return self.add("expire", warehouse, table, "--retain", retain)


def _scan(filter: Mapping[str, Any] | None, snapshot: int | None, tag: str | None, branch: str | None) -> list[object]:
    arguments: list[object] = []
    for name, value in (("--snapshot", snapshot), ("--tag", tag), ("--branch", branch)):
        if value is not None:
            arguments += [name, value]
    if filter is not None:
        arguments += ["--filter", json.dumps(filter)]
    return arguments


def _options(options: Mapping[str, str] | None) -> list[str]:
    return [word for key, value in (options or {}).items() for word in ("--option", f"{key}={value}")]


def _fields(schema: pa.Schema | Sequence[DataField]) -> Sequence[DataField]:
    if not isinstance(schema, pa.Schema):
        return schema
    nested = itertools.count(len(schema))
    return [DataField(i, f.name, from_arrow_type(f.type, nested, nullable=f.nullable)) for i, f in enumerate(schema)]


def _field_text(schema: pa.Schema | Sequence[DataField]) -> str:
    return json.dumps([field_to_json(f) for f in _fields(schema)])
