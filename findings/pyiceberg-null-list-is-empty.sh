#!/usr/bin/env bash
# One would guess: a row of an Iceberg table whose list column is NULL is read as NULL, whatever the list's elements are.
# What happens: pyiceberg reads it as an empty list where the elements are structs, and a NULL map as an empty map where
#   its values are structs. It writes NULL as an empty list or map, too. Lists of numbers and of lists, and maps to
#   numbers, stay NULL.
# Why it matters: "not known" becomes "known to be none", and a condition IS NULL on the result finds other rows than an
#   engine does; tables of this project that are published as Iceberg tables are read that way, too.
set -euo pipefail
home=$(mktemp -d); trap 'rm -rf "$home"' EXIT
python3 -m venv "$home/venv"
"$home/venv/bin/pip" install --quiet --disable-pip-version-check "pyiceberg[sql-sqlite]==0.12.0" pyarrow==26.0.1
cat > "$home/lists.py" <<'PY'
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pyiceberg
from pyiceberg.catalog.sql import SqlCatalog

home = sys.argv[1]
struct, number = pa.struct([("x", pa.int32())]), pa.int32()
columns = {
    "list_of_numbers": pa.array([None, [], [1]], pa.list_(number)),
    "list_of_lists": pa.array([None, [], [[1]]], pa.list_(pa.list_(number))),
    "map_to_numbers": pa.array([None, [], [("a", 1)]], pa.map_(pa.string(), number)),
    "list_of_structs": pa.array([None, [], [{"x": 1}]], pa.list_(struct)),
    "map_to_structs": pa.array([None, [], [("a", {"x": 1})]], pa.map_(pa.string(), struct)),
}
catalog = SqlCatalog("c", uri=f"sqlite:///{home}/catalog.db", warehouse=f"file://{home}/warehouse")
catalog.create_namespace("n")
table = catalog.create_table("n.t", schema=pa.table(columns).schema)
pq.write_table(pa.table(columns), f"{home}/rows.parquet")
table.add_files([f"file://{home}/rows.parquet"])
stored, read = pq.read_table(f"{home}/rows.parquet"), table.scan().to_arrow()
table.overwrite(pa.table(columns))
[task] = table.scan().plan_files()
written = pq.read_table(task.file.file_path.removeprefix("file://"))
print(f"pyiceberg {pyiceberg.__version__}, pyarrow {pa.__version__}; the first row of each column is NULL")
found = {}
for name in columns:
    found[name] = read[name][0].as_py()
    of = f"of a file with {stored[name][0].as_py()}"
    print(f"{name}: read {found[name]} {of}; wrote {written[name][0].as_py()} for None")
    found[name] = found[name], written[name][0].as_py()
expected = {name: ([], []) if name.endswith("structs") else (None, None) for name in columns}
raise SystemExit(found != expected or any(stored[name][0].as_py() is not None for name in columns))
PY
"$home/venv/bin/python" "$home/lists.py" "$home" 2>&1 | grep -v -i warn
exit "${PIPESTATUS[0]}"
