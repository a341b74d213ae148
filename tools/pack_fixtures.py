"""Pack the smallest and most telling Java-written tables into tests/fixtures/java_tables.tar.xz, and all tables by
writers of Paimon 2.x into paimon2_tables.tar.xz next to it.

``python tools/pack_fixtures.py [FIXTURES]``: FIXTURES is ../shared/fixtures/dev by default, next to v2 and jvm21. The
archives are the same, byte for byte, for the same tables. A clone without ../shared unpacks them into .cache/ when its
tests start.
"""

from __future__ import annotations

import io
import lzma
import sys
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "tests" / "fixtures" / "java_tables.tar.xz"
TARGET2 = TARGET.with_name("paimon2_tables.tar.xz")
LIMIT = 1_500_000

TABLES = [
    # every type, every file format and compression
    *["append_all_types", "append_avro", "append_orc", "append_variant", "append_default_values"],
    *["append_parquet_none", "append_parquet_gzip", "append_parquet_lz4", "append_parquet_snappy"],
    # indexes: each type, embedded and beside the file, one and many blocks, NULL columns, nanoseconds, map keys
    *["append_bloom_side", "append_bloom_embedded", "append_bloom_default_items", "append_index_tiny"],
    *["append_bitmap_v1_side", "append_bitmap_v2_embedded", "append_bitmap_v2_small_blocks", "append_mixed_index"],
    *["append_bsi_embedded", "append_range_side", "append_index_null_columns", "append_index_nanos"],
    *["append_index_map"],
    # statistics
    *["append_stats_none", "append_stats_counts", "append_stats_full", "append_stats_truncate"],
    *["append_stats_not_dense"],
    # buckets, partitions and their names
    *["append_bucketed", "append_bucketed_mod", "append_bucketed_multi", "append_bucketed_types"],
    *["part_bigint_bool", "part_custom_default", "part_date_nonlegacy", "part_int_date", "part_other_types"],
    *["part_overwrite", "part_string", "part_string_empty", "part_timestamp", "part_timestamp6_ltz"],
    *["part_timestamp_legacy"],
    # history: evolution, expiry, compaction, tags, branches, deletion vectors, codecs of the metadata
    *["evolve_append", "evolve_index", "expired_snapshots", "append_compacted", "row_tracking", "empty_table"],
    *["empty_snapshot", "append_dv32", "append_dv64", "append_dv64_bitmap_index", "index_in_data_dir"],
    *["manifest_null", "manifest_snappy", "manifest_deflate", "tags_branches", "file_layout_options", "data_evolution"],
    # primary keys: refused by name
    *["pk_dedup_mor", "evolve_pk"],
]
NEWER = [  # of Paimon's Spark connector 2.1: what it reads otherwise than Java Paimon 1.4
    *["listagg-blank", "nested-update-first-and-limit", "sum-overflow", "postpone-system-tables", "retyped-timestamp"],
    *["diff-level-0-dv", "diff-level-0-first-row"],
]
FILES = ["hash_vectors.json", "index_vectors.jsonl"]


def members(fixtures: Path) -> list[Path]:
    """Files to pack. Those of one kind lie side by side, which is what a solid archive likes."""
    wanted = [fixtures / name for name in FILES]
    for table in [*(fixtures / table for table in TABLES), *(_newer(fixtures) / table for table in NEWER)]:
        wanted += [p for p in table.rglob("*") if p.is_file()]
    return sorted(wanted, key=lambda p: (p.suffix, p.name.split("-")[0], _packed_name(fixtures, p)))


def _newer(fixtures: Path) -> Path:
    return fixtures.parent / "jvm21"


def _packed_name(fixtures: Path, path: Path) -> str:
    return path.relative_to(fixtures if path.is_relative_to(fixtures) else fixtures.parent).as_posix()


def members2(fixtures: Path) -> list[Path]:
    """Files of the tables of Paimon 2.x."""
    tables = [path.parent for path in sorted((fixtures.parent / "v2").glob("*/meta.json"))]
    return sorted((p for table in tables for p in table.rglob("*") if p.is_file()), key=lambda p: (p.suffix, str(p)))


def pack(paths: Sequence[Path], name_of: Callable[[Path], str]) -> bytes:
    """An archive of files under these names."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in paths:
            data = path.read_bytes()
            info = tarfile.TarInfo(name_of(path))
            info.size, info.mode = len(data), 0o644
            tar.addfile(info, io.BytesIO(data))
    return lzma.compress(raw.getvalue(), preset=9 | lzma.PRESET_EXTREME)


def main() -> None:
    fixtures = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT.parent / "shared" / "fixtures" / "dev"
    absent = [t for t in TABLES if not (fixtures / t / "meta.json").is_file()]
    absent += [t for t in NEWER if not (_newer(fixtures) / t / "expected.json").is_file()]
    if absent:
        sys.exit(f"{fixtures} has no {', '.join(absent)}")
    newer = fixtures.parent / "v2"
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    for target, archive in (
        (TARGET, pack(members(fixtures), lambda path: _packed_name(fixtures, path))),
        (TARGET2, pack(members2(fixtures), lambda path: path.relative_to(newer).as_posix())),
    ):
        if len(archive) > LIMIT:
            sys.exit(f"{len(archive):,} bytes are more than {LIMIT:,}: leave some tables out")
        target.write_bytes(archive)
        print(f"{target.relative_to(ROOT)}: {len(archive):,} bytes")


if __name__ == "__main__":
    main()
