"""Tables like those that the Spark connector 2.1 writes with pk-clustering-override: our files, sorted anew.

Files on level 1 are sorted by the clustering columns, whose least and greatest values manifests give in place of keys.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import paimon_pyds as pp
from paimon_pyds.base.row import encode_row
from paimon_pyds.metadata.manifest_codec import decode_manifest, encode_manifest
from paimon_pyds.metadata.record_codec import decode_manifest_list, encode_manifest_list


def clustered_table(path: Path, columns: str, key: str, by: str, files: Sequence[Mapping[str, Any]]) -> pp.Table:
    """A table of one bucket, with a file on level 1 for each part of the rows.

    ``files``: columns of rows. No key is in two of them.
    """
    options = {"bucket": "1", "write-only": "true", "deletion-vectors.enabled": "true", "clustering.columns": by}
    table = pp.Table.create(path, columns, primary_key=key, options=options)
    field = table.schema.field(by)
    for rows in files:
        table.append(rows)
        ends = [encode_row([end], [field.type]) for end in (min(rows[by]), max(rows[by]))]
        _compacted(path, by, ends)
    clustered(path)
    return pp.Table.open(path)


def clustered(path: Path) -> None:
    """Say of a table that its files are not sorted by key."""
    (schema,) = (path / "schema").glob("schema-*")
    _edit(schema, options={**json.loads(schema.read_text())["options"], "pk-clustering-override": "true"})


def _compacted(path: Path, by: str, ends: Sequence[bytes]) -> None:
    """Put the file of the newest snapshot on level 1, sorted by a column."""

    def sort(name: str) -> dict[str, Any]:
        data = next(path.rglob(name))
        pq.write_table(pq.read_table(data, partitioning=None).sort_by(by), data)
        return {"level": 1, "file_size": data.stat().st_size, "min_key": ends[0], "max_key": ends[1]}

    edit_newest_entry(path, sort)


def edit_newest_entry(path: Path, change: Callable[[str], Mapping[str, Any]]) -> None:
    """Change columns of the one entry of the newest snapshot's delta. ``change``: gets the file's name."""
    snapshot = max((path / "snapshot").glob("snapshot-*"), key=lambda file: int(file.name.rpartition("-")[2]))
    members = json.loads(snapshot.read_text())
    listed = path / "manifest" / members["deltaManifestList"]
    (manifest,) = decode_manifest_list(listed.read_bytes(), "")
    entries = decode_manifest((path / "manifest" / manifest.file_name).read_bytes(), "")
    changed = change(entries["file_name"][0].as_py())
    for name, value in changed.items():
        field = entries.schema.field(name)
        entries = entries.set_column(entries.schema.names.index(name), field, pa.array([value], field.type))
    content = encode_manifest(entries, "zstd")
    (path / "manifest" / manifest.file_name).write_bytes(content)
    levels = {f"{end}_level": changed["level"] for end in ("min", "max") if "level" in changed}
    again = encode_manifest_list([replace(manifest, file_size=len(content), **levels)], "zstd")
    listed.write_bytes(again)
    _edit(snapshot, deltaManifestListSize=len(again))


def _edit(path: Path, **members: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **members}))
