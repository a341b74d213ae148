"""Java Paimon reads the metadata files that are written here."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from paimon_pyds.metadata.manifest_codec import decode_manifest, encode_manifest
from paimon_pyds.metadata.record_codec import (
    decode_index_manifest,
    decode_manifest_list,
    encode_index_manifest,
    encode_manifest_list,
)
from support.fixtures import fixture_dir, json_lines, meta
from support.values import dumps


def rewrite(table: Path, compression: str) -> int:
    """Write every metadata file of a table anew, sizes in lists and snapshots included; how many."""
    folder = table / "manifest"
    count = 0
    for path in sorted(folder.glob("manifest-*")):
        if not path.name.startswith("manifest-list-"):
            path.write_bytes(encode_manifest(decode_manifest(path.read_bytes(), str(path)), compression))
            count += 1
    for path in sorted(folder.glob("index-manifest-*")):
        path.write_bytes(encode_index_manifest(decode_index_manifest(path.read_bytes(), str(path)), compression))
        count += 1
    import dataclasses

    for path in sorted(folder.glob("manifest-list-*")):
        files = decode_manifest_list(path.read_bytes(), str(path))
        sized = [dataclasses.replace(f, file_size=(folder / f.file_name).stat().st_size) for f in files]
        path.write_bytes(encode_manifest_list(sized, compression))
        count += 1
    for path in [*table.glob("snapshot/snapshot-*"), *table.glob("tag/tag-*")]:
        snapshot: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        for kind in ("base", "delta", "changelog"):
            name = snapshot.get(f"{kind}ManifestList")
            if name is not None:
                snapshot[f"{kind}ManifestListSize"] = (folder / name).stat().st_size
        path.write_text(json.dumps(snapshot), encoding="utf-8")
    return count


CASES = [
    ("append_all_types", "zstd"), ("append_stats_truncate", "snappy"), ("part_other_types", "deflate"),
    ("append_bitmap_v2_embedded", "null"), ("evolve_append", "zstd"), ("append_dv32_part", "zstd"),
    ("pk_dynamic_bucket", "snappy"), ("row_tracking", "zstd"), ("append_compacted", "null"),
]  # fmt: skip


def test_java_reads_what_is_written_here(oracle: Any, tmp_path: Path) -> None:
    replies = []
    with oracle.batch() as batch:
        for name, compression in CASES:
            try:
                source = fixture_dir(name)
            except pytest.skip.Exception:
                continue
            warehouse = tmp_path / name
            shutil.copytree(source / "table", warehouse, copy_function=shutil.copyfile)
            assert rewrite(warehouse / "db.db" / "t", compression) > 3
            about = meta(name)
            snapshot = None if about.get("full_is_latest", True) else about["full_snapshot"]
            full = next(read for read in about["reads"] if read["name"] == "full")
            expected = [dumps(row) for row in json_lines(source / full["expected"])]
            replies.append((name, expected, batch.read(warehouse, "db.t", snapshot=snapshot)))
    assert replies
    for name, expected, reply in replies:
        assert reply.lines == expected, name
