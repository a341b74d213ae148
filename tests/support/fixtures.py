"""Where the Java-written tables are: ../shared/fixtures/dev beside a checkout (or PAIMON_PYDS_FIXTURES), else the
compact set of tests/fixtures/java_tables.tar.xz, which tools/pack_fixtures.py packed from it.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import os
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paimon_pyds.base.types import DataField, field_from_json

ROOT = Path(__file__).resolve().parents[2]
ARCHIVE = ROOT / "tests" / "fixtures" / "java_tables.tar.xz"


def _find() -> tuple[Path | None, bool]:
    """The tables, and whether they are the full set."""
    named = os.environ.get("PAIMON_PYDS_FIXTURES")
    shared = Path(named) if named else ROOT.parent / "shared" / "fixtures" / "dev"
    if shared.is_dir():
        return shared, True
    return (unpacked(ARCHIVE), False) if ARCHIVE.is_file() else (None, False)


def unpacked(archive: Path) -> Path:
    """A packed set of tables, unpacked once into the project's cache."""
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()[:16]
    target = ROOT / ".cache" / f"{archive.name.partition('.')[0]}-{digest}"
    if not target.is_dir():
        target.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch, tarfile.open(archive) as tar:
            fresh = Path(scratch) / "tables"
            fresh.mkdir()
            for member in tar:  # files only, under names that tools/pack_fixtures.py chose
                path = fresh / member.name
                path.parent.mkdir(parents=True, exist_ok=True)
                source = tar.extractfile(member)
                assert source is not None
                path.write_bytes(source.read())
            with contextlib.suppress(OSError):
                fresh.rename(target)  # another process may have been faster
    return target


DEV, _FULL = _find()


def has_shared() -> bool:
    """Whether the full set of Java-written tables is at hand."""
    return _FULL


requires_shared = pytest.mark.skipif(not _FULL, reason="needs ../shared/fixtures/dev (Java-written tables)")


def fixture_dir(name: str) -> Path:
    """The folder of one fixture; the test is skipped where it is not in the compact set."""
    if DEV is None or not (DEV / name).exists():
        pytest.skip(f"needs ../shared/fixtures/dev/{name} (written by Java Paimon)")
    return DEV / name


def newer_fixture(name: str) -> tuple[Path, dict[str, Any]]:
    """A table that Paimon's Spark connector 2.1 wrote, and what it read of it."""
    if DEV is None:
        pytest.skip(f"needs ../shared/fixtures/jvm21/{name} (written by Java Paimon 2.1)")
    folder = (DEV.parent if _FULL else DEV) / "jvm21" / name
    if not folder.is_dir():
        pytest.skip(f"needs {folder} (written by Java Paimon 2.1)")
    return folder / "table", json.loads((folder / "expected.json").read_text(encoding="utf-8"))


def fixture_names() -> list[str]:
    """Every fixture at hand, by name."""
    return sorted(p.parent.name for p in DEV.glob("*/meta.json")) if DEV else []


def keyed_fixtures() -> list[str]:
    """Those of tables with a primary key."""
    schemas = {name: table_path(name) / "schema" / "schema-0" for name in fixture_names()}
    return [name for name, path in schemas.items() if path.is_file() and json.loads(path.read_text())["primaryKeys"]]


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
