"""Java's own test server of the REST catalog, and its client, in a JVM of their own: see RestCatalogOracle.java."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.oracle import CACHE, HOME, OracleMissingError, bundle, compiled, only_one

_JARS = CACHE / "rest-catalog-1.4.2"
_SOURCE = Path(__file__).with_name("RestCatalogOracle.java")
_POM = """
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion><groupId>none</groupId><artifactId>none</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.paimon</groupId><artifactId>paimon-core</artifactId><version>1.4.2</version>
      <classifier>tests</classifier>
      <exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>
    <dependency><groupId>com.squareup.okhttp3</groupId><artifactId>mockwebserver</artifactId><version>4.12.0</version>
    </dependency>
  </dependencies>
</project>
"""
TOKEN = "canary-token-for-java"


class JavaRestCatalog:
    """A running server.

    Attributes:
        address: its URL.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.address = self._reply()

    def options(self, **more: str) -> dict[str, str]:
        """The options of a client."""
        return {"metastore": "rest", "uri": self.address, "warehouse": "wh", "token": TOKEN, **more}

    def java(self, command: str, *arguments: str) -> str:
        """What Java's client answers to a command."""
        assert self._process.stdin is not None
        print(command, *arguments, sep="\t", file=self._process.stdin, flush=True)
        answer = self._reply()
        assert not answer.startswith("failed:"), answer
        return answer

    def _reply(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().rstrip("\n")


def _fetch() -> None:
    """Get the jars by Maven, once. Raises OracleMissingError."""
    with only_one():
        if _JARS.is_dir():
            return
        scratch = CACHE / f"rest-catalog-{os.getpid()}"
        scratch.mkdir(parents=True, exist_ok=True)
        (scratch / "pom.xml").write_text(_POM)
        goal = "org.apache.maven.plugins:maven-dependency-plugin:2.8:copy-dependencies"
        command = ["mvn", "-q", "-B", "-f", scratch / "pom.xml", goal, f"-DoutputDirectory={scratch}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise OracleMissingError(
                f"needs Java's server for tests, which Maven could not fetch: {done.stdout[-2000:]}"
            )
        scratch.rename(_JARS)


@contextmanager
def java_rest_catalog(directory: Path, *secrets: str) -> Iterator[JavaRestCatalog]:
    """A server that keeps its tables in a directory; the fixture `oracle` has fetched Java Paimon.

    Args:
        directory: for its files.
        *secrets: the id, the secret and the token of a key of DLF, and perhaps the algorithm of signatures; it wants
            a bearer's token without.
    """
    import pyspark

    _fetch()
    spark = Path(pyspark.__file__).parent / "jars"
    path = f"{bundle()}:{_JARS}/*:{spark}/*"
    with only_one():
        path += f":{compiled(_SOURCE, '-cp', path)}"
    opened = ["java.nio", "java.lang", "sun.nio.ch"]
    command = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Duser.timezone=UTC"]
    command += [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in opened]
    command += [f"-Dlog4j2.configurationFile={HOME / 'log4j2.properties'}", "-cp", path]
    with (directory / "log").open("w") as log:
        process = subprocess.Popen(
            [*command, _SOURCE.stem, str(directory / "wh"), *(secrets or [TOKEN])],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
        )  # fmt: skip
        try:
            yield JavaRestCatalog(process)
        finally:
            process.stdin.close()  # type: ignore[union-attr]
            process.kill()
            process.wait()
