"""Iceberg's own library, which several modules read by."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.iceberg_reader import IcebergReader


@pytest.fixture(scope="session")
def iceberg(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IcebergReader]:
    """One JVM for a whole run."""
    reader = IcebergReader(tmp_path_factory.mktemp("iceberg"))
    yield reader
    reader.close()
