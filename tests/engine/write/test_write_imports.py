"""A first append loads what appends use, and not what other kinds of tables need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_APPEND = """
import sys
import pyarrow as pa
import paimon_pyds as pp
table = pp.Table.create(sys.argv[1], "n BIGINT")
table.append(pa.table({"n": [1, 2]}))
print(*sys.modules)
print(table.count())
"""

_UNUSED = {
    "base.features", "engine.write.key_files", "format.avro.batch_decode", "format.blob", "format.protocols",
    "keys.bucket.dynamic", "keys.merge.order_codes", "metadata.manifest_records", "storage.byte_source",
}  # fmt: skip
"""Modules that an append to a table without keys, BLOBs and indexes has no need of."""


def test_a_first_append_loads_only_what_it_uses(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _APPEND, str(tmp_path / "t")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded, rows = done.stdout.splitlines()
    assert rows == "2"
    names = {name.removeprefix("paimon_pyds.") for name in loaded.split()}
    assert _UNUSED & names == set()
    assert names >= {"engine.write.writer", "storage.local_writes"}
