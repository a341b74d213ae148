#!/usr/bin/env bash
# One would guess: pypaimon-rust finds a number by a bitmap index that pypaimon built, as both implement one format.
# What happens: pypaimon sorts the keys of a bitmap index by their little-endian bytes, so that 0, 300, -300, -2 is its
#   order; pypaimon-rust, as Java Paimon, looks for keys in the order of the numbers and gives no row for n = -2. A range
#   (n < 0) and an index of the type btree give all rows.
# Why it matters: rows vanish from filters once both share a table. Reads here look in both orders.
set -euo pipefail
PYPAIMON=2.1.0 RUST=0.4.0
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q "pypaimon==$PYPAIMON"
python3 -m venv "$work/rust"
"$work/rust/bin/pip" install -q "pypaimon-rust==$RUST" pyarrow
cat >"$work/write.py" <<'PY'
import sys
from importlib.metadata import version

import pyarrow as pa
from pypaimon import CatalogFactory, Schema

COLUMNS = pa.schema([("n", pa.int64())])
OPTIONS = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
catalog = CatalogFactory.create({"warehouse": sys.argv[1]})
catalog.create_database("d", True)
for kind in ("bitmap", "btree"):
    catalog.create_table(f"d.{kind}", Schema.from_pyarrow_schema(COLUMNS, options=OPTIONS), False)
    builder = catalog.get_table(f"d.{kind}").new_batch_write_builder()
    write, commit = builder.new_write(), builder.new_commit()
    write.write_arrow(pa.table({"n": [3, -2, -1, 0, 300, -300]}, COLUMNS))
    commit.commit(write.prepare_commit())
    write.close()
    commit.close()
    catalog.get_table(f"d.{kind}").create_global_index("n", index_type=kind)
print("pypaimon", version("pypaimon"))
PY
cat >"$work/ask.py" <<'PY'
import sys
from importlib.metadata import version

from pypaimon_rust import datafusion

print("pypaimon-rust", version("pypaimon-rust"))
context = datafusion.SQLContext()
context.register_catalog("p", {"warehouse": sys.argv[1]})
found = {}
for kind in ("bitmap", "btree"):
    for condition in ("n = -2", "n < 0"):
        batches = context.sql(f"SELECT n FROM p.d.{kind} WHERE {condition}")
        found[kind, condition] = sorted(row["n"] for batch in batches for row in batch.to_pylist())
        print(f"{kind} index, {condition}:", found[kind, condition])
below = [-300, -2, -1]
assert list(found.values()) == [[], below, [-2], below], "the behaviour has changed"
PY
"$work/venv/bin/python" "$work/write.py" "$work/warehouse" 2>/dev/null
"$work/rust/bin/python" "$work/ask.py" "$work/warehouse"
