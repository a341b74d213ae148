#!/usr/bin/env bash
# One would guess: rows come back from a table with a primary key as they were inserted, whatever its file.format is.
# What happens: with file.format=row, pypaimon-rust gives other values, and no error. It writes each row without the
#   key's own columns, which the format can't say, and reads the files as if they had these. (pypaimon and Java write
#   them, so that pypaimon-rust's reader is right for their files, and theirs are wrong for its own.)
# Why it matters: such tables hold the right rows, and their own writer shows wrong ones.
set -euo pipefail
RUST=0.4.0
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q "pypaimon-rust==$RUST" pyarrow
cat >"$work/ask.py" <<'PY'
import sys
from importlib.metadata import version

from pypaimon_rust import datafusion

print("pypaimon-rust", version("pypaimon-rust"))
context = datafusion.SQLContext()
context.register_catalog("p", {"warehouse": sys.argv[1]})
context.sql("CREATE SCHEMA p.d")
found = {}
for name in ("parquet", "row"):
    context.sql(
        f"CREATE TABLE p.d.{name}s (id INT NOT NULL, v STRING, PRIMARY KEY (id))"
        f" WITH ('bucket' = '1', 'file.format' = '{name}')"
    )
    context.sql(f"INSERT INTO p.d.{name}s VALUES (10, 'ten'), (20, 'twenty')")
    try:
        batches = context.sql(f"SELECT id, v FROM p.d.{name}s ORDER BY id")
        found[name] = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
    except Exception as error:
        found[name] = str(error)
    print("inserted (10, 'ten'), (20, 'twenty') with file.format", name, "and read", found[name])
right = [(10, "ten"), (20, "twenty")]
sys.exit(not (found["parquet"] == right and found["row"] != right and isinstance(found["row"], list)))
PY
"$work/venv/bin/python" "$work/ask.py" "$work/w"
