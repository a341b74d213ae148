"""Where the Java-written tables are: ../shared/fixtures/dev beside a checkout, or PAIMON_PYDS_FIXTURES."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paimon_pyds.types import DataField, field_from_json

ROOT = Path(__file__).resolve().parents[2]


def _find() -> Path | None:
    named = os.environ.get("PAIMON_PYDS_FIXTURES")
    candidate = Path(named) if named else ROOT.parent / "shared" / "fixtures" / "dev"
    return candidate if candidate.is_dir() else None


DEV: Path | None = _find()


def has_shared() -> bool:
    """Whether the full set of Java-written tables is at hand."""
    return DEV is not None


requires_shared = pytest.mark.skipif(DEV is None, reason="needs ../shared/fixtures/dev (Java-written tables)")


def fixture_dir(name: str) -> Path:
    """The folder of one fixture of the full set."""
    if DEV is None:
        pytest.skip("needs ../shared/fixtures/dev (Java-written tables)")
    return DEV / name


def read_text(path: Path) -> str:
    """The text of a fixture file, gzipped or not."""
    if path.suffix == ".gz":
        return gzip.decompress(path.read_bytes()).decode()
    return path.read_text(encoding="utf-8")


def json_lines(path: Path) -> Iterator[Any]:
    """The values of a JSON-lines file, gzipped or not."""
    for line in read_text(path).splitlines():
        if line.strip():
            yield json.loads(line)


def meta(name: str) -> dict[str, Any]:
    """meta.json of one fixture."""
    return json.loads((fixture_dir(name) / "meta.json").read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def table_path(name: str) -> Path:
    """The table directory of one fixture."""
    return fixture_dir(name) / "table" / "db.db" / "t"


def table_fields(table: Path, schema_id: int | None = None) -> tuple[DataField, ...]:
    """Fields of a table on disk, from its schema file itself: the latest, or one by id."""
    folder = table / "schema"
    latest = max(int(p.name.removeprefix("schema-")) for p in folder.glob("schema-*"))
    text = (folder / f"schema-{latest if schema_id is None else schema_id}").read_text(encoding="utf-8")
    return tuple(field_from_json(f) for f in json.loads(text)["fields"])
