"""Writing does without pandas, which takes longer to import than writing a million rows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc
import pytest

import paimon_pyds as pp

_APPEND = """
import sys
import pyarrow.ipc
import paimon_pyds as pp
with pyarrow.ipc.open_file(sys.argv[2]) as file:
    pp.Table.open(sys.argv[1]).append(file.read_all())
assert "pandas" not in sys.modules
"""
_INDEXES = {
    "file-index.bitmap.columns": "n,s",
    "file-index.bloom-filter.columns": "s,d",
    "file-index.range-bitmap.columns": "n,d,s",
}


@pytest.mark.parametrize(
    "options", [{}, _INDEXES, {"metadata.stats-mode": "none"}], ids=["plain", "indexes", "no stats"]
)
def test_appending_imports_no_pandas(tmp_path: Path, options: dict[str, str]) -> None:
    pytest.importorskip("pandas")
    rows = 3_000
    data = pa.table(
        {
            "n": pa.array([i * 7 if i % 5 else None for i in range(rows)], pa.int64()),
            "s": [f"text {i % 300}" for i in range(rows)],
            "d": [i / 3 if i % 11 else None for i in range(rows)],
        }
    )
    with pyarrow.ipc.new_file(str(tmp_path / "rows.arrow"), data.schema) as file:
        file.write_table(data)
    table = pp.Table.create(str(tmp_path / "t"), data.schema, options=options)
    command = [sys.executable, "-c", _APPEND, str(tmp_path / "t"), str(tmp_path / "rows.arrow")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert table.scan().to_arrow().sort_by("s").equals(data.sort_by("s"))
