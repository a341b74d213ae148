"""Iceberg's own Java library as a reader of tables (`IcebergReader.java`), in one JVM for a run, and as a REST catalog.

rows = reader.rows(directory)            # each row as text, sorted
assert rows == texts(table.scan().to_arrow())
"""

from __future__ import annotations

import datetime as dt
import importlib.util
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.oracle import CACHE, compiled, missing, only_one

_VERSION = "1.11.0"
_ARTIFACT = "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13"
_SOURCE = Path(__file__).with_name("IcebergReader.java")


def runtime() -> Path:
    """The jar of Iceberg's runtime for Spark 4.0. Skips the test, or fails it with REQUIRE_ORACLE, without it."""
    reason = missing()
    jar = CACHE / f"iceberg-spark-runtime-{_VERSION}.jar"
    if reason is None and not jar.is_file():
        get = "org.apache.maven.plugins:maven-dependency-plugin:2.8:get"
        part = jar.with_suffix(f".{os.getpid()}.part")
        named = ["-Dtransitive=false", f"-Dartifact={_ARTIFACT}:{_VERSION}", f"-Ddest={part}"]
        CACHE.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(["mvn", "-q", "-B", get, *named], check=False, capture_output=True, timeout=300)
        if done.returncode == 0:
            part.replace(jar)
        else:
            reason = "needs Iceberg's runtime, which Maven could not fetch"
    if reason is not None:
        (pytest.fail if os.environ.get("REQUIRE_ORACLE") else pytest.skip)(reason)
    return jar


@contextmanager
def reading_by(python: Path, worker: str, *arguments: object) -> Iterator[Callable[[Path], pa.Table]]:
    """A program of `tests/support/workers` that reads tables, in another environment: what gives the rows of a path.

    ``arguments``: the last one is the file through which rows come.
    """
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHONPATH", "PYSPARK"))}
    command = [python, Path(__file__).parent / "workers" / worker, *arguments]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(list(map(str, command)), text=True, env=environment, **pipes) as process:  # type: ignore[call-overload]

        def read(path: Path) -> pa.Table:
            print(path, file=process.stdin, flush=True)
            answer = process.stdout.readline().strip()
            assert answer == "ok", answer
            with pa.OSFile(str(arguments[-1])) as file:
                return pa.ipc.open_file(file).read_all()

        yield read
        process.stdin.close()


class _Jvm:
    """A program with Iceberg's library. Skips the test, or fails it with REQUIRE_ORACLE, where it can't run."""

    def __init__(self, source: Path, scratch: Path, *arguments: str) -> None:
        jar = runtime()
        spec = importlib.util.find_spec("pyspark")
        assert spec is not None
        assert spec.submodule_search_locations
        jars = f"{jar}{os.pathsep}{Path(spec.submodule_search_locations[0]) / 'jars'}/*"
        with only_one():
            classes = compiled(source, "-cp", jars)
        java = shutil.which("java") or "java"
        quick = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Duser.timezone=UTC"]
        self._log = (scratch / f"{source.stem}.log").open("w")
        self._process = subprocess.Popen(
            [java, *quick, "-cp", f"{classes}{os.pathsep}{jars}", source.stem, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            encoding="utf-8",
        )

    def close(self) -> None:
        """End the JVM."""
        self._process.communicate()
        self._log.close()


class IcebergRestServer(_Jvm):
    """A REST catalog of Iceberg (`IcebergRestServer.java`). ``uri``: its address. ``token``: of requests; the secret
    ``hush-hush`` is a way to get it."""

    def __init__(self, scratch: Path, token: str | None = None) -> None:
        source = Path(__file__).with_name("IcebergRestServer.java")
        super().__init__(source, scratch, str(scratch / "warehouse"), *(["bearer", token] if token else ["open"]))
        assert self._process.stdout is not None
        self.uri = f"http://127.0.0.1:{int(self._process.stdout.readline())}"


class IcebergReader(_Jvm):
    """A JVM that reads tables (`IcebergReader.java`)."""

    def __init__(self, scratch: Path) -> None:
        super().__init__(_SOURCE, scratch)

    def rows(self, directory: Path | str, snapshot: int | None = None) -> list[str]:
        """The rows of a table, each as text, sorted. ``directory``: it has ``metadata`` in it; or a metadata file."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{directory}\t{'newest' if snapshot is None else snapshot}\n")
        self._process.stdin.flush()
        first = self._process.stdout.readline()
        if not first.strip().isdigit():
            raise AssertionError(first)
        return [self._process.stdout.readline().rstrip("\n") for _ in range(int(first))]


def texts(rows: pa.Table) -> list[str]:
    """Rows as `IcebergReader.rows` gives them."""
    return sorted(_text(row, rows.schema) for row in rows.to_pylist())


def _text(value: Any, type_: Any) -> str:
    if isinstance(type_, pa.Schema) or (pa.types.is_struct(type_) and value is not None):
        return f"({'|'.join(_text(value[field.name], field.type) for field in type_)})"
    if value is None:
        return "null"
    if pa.types.is_list(type_):
        return f"[{'|'.join(_text(each, type_.value_type) for each in value)}]"
    if pa.types.is_map(type_):
        return f"{{{'|'.join(sorted(f'{_text(k, type_.key_type)}={_text(v, type_.item_type)}' for k, v in value))}}}"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dt.datetime):
        return _time_text(value)
    return "NaN" if value != value else str(value)


def _time_text(value: dt.datetime) -> str:
    """As Java's LocalDateTime and OffsetDateTime have it."""
    plain = value.replace(tzinfo=None)
    text = plain.isoformat(timespec="minutes" if not (plain.second or plain.microsecond) else "auto")
    if plain.microsecond and plain.microsecond % 1000 == 0:
        text = text[:-3]
    return text if value.tzinfo is None else f"{text}Z"
