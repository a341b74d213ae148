"""Peers that tests of interoperability share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from support import servers
from support.oracle import Oracle
from support.peers import Pypaimon


@pytest.fixture
def pypaimon(tmp_path: Path) -> Pypaimon:
    return Pypaimon(tmp_path / "w")


_JARS = (
    "paimon-s3", "sqlite-jdbc", "postgresql", "mariadb",
    "gcs-connector", "hadoop-azure", "azure-storage", "hadoop-shaded-guava", "jetty-util", "jetty-util-ajax",
)  # fmt: skip


@pytest.fixture(scope="session")
def stores_java(oracle: Oracle, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., list[str]]]:
    """CatalogOracle with object stores and drivers of databases: it is given the options of a catalog, a command and
    its arguments."""
    try:
        jars = [servers.jar(f"{name}.jar") for name in _JARS]
    except servers.ServerMissingError as error:
        servers.leave_out(error)
    scratch = tmp_path_factory.mktemp("java")
    other = oracle.with_jars(jars, scratch)
    file = scratch / "options"

    def run(options: Mapping[str, str], *arguments: object) -> list[str]:
        file.write_text("".join(f"{key}={value}\n" for key, value in options.items()))
        return other.program("CatalogOracle", file, *arguments)

    yield run
    other.close()
