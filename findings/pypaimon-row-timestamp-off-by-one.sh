#!/usr/bin/env bash
# One would guess: a timestamp comes back as it was written, whatever the format of the data files.
# What happens: with file.format=row, pypaimon computes the milliseconds of a timestamp by floating point; for about one
#   value in a hundred the file has one millisecond or one microsecond less, or more, than was written.
# Why it matters: such tables have other timestamps than their writer meant, for every reader. Reads here give what is in
#   the file, and nothing here writes that format.
set -euo pipefail
PYPAIMON=2.1.0
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q "pypaimon==$PYPAIMON"
cat >"$work/ask.py" <<'PY'
import sys
from datetime import datetime
from importlib.metadata import version

import pyarrow as pa
from pypaimon import CatalogFactory, Schema

COLUMNS = pa.schema([("ms", pa.timestamp("ms")), ("us", pa.timestamp("us"))])
GIVEN = {"ms": datetime(2041, 1, 2, 3, 4, 5, 687_000), "us": datetime(2005, 1, 2, 3, 4, 5, 597_046)}
catalog = CatalogFactory.create({"warehouse": sys.argv[1]})
catalog.create_database("d", True)
found = {}
for name in ("parquet", "row"):
    schema = Schema.from_pyarrow_schema(COLUMNS, options={"file.format": name})
    catalog.create_table(f"d.{name}", schema, False)
    builder = catalog.get_table(f"d.{name}").new_batch_write_builder()
    write = builder.new_write()
    write.write_arrow(pa.Table.from_pylist([GIVEN], COLUMNS))
    made = builder.new_commit()
    made.commit(write.prepare_commit())
    write.close()
    made.close()
    reader = catalog.get_table(f"d.{name}").new_read_builder()
    (found[name],) = reader.new_read().to_arrow(reader.new_scan().plan().splits()).to_pylist()
print("pypaimon", version("pypaimon"), "pyarrow", pa.__version__)
print("written:", *GIVEN.values())
for name, row in found.items():
    print(f"read from {name}:", *row.values())
assert found["parquet"] == GIVEN, "the behaviour of Parquet has changed"
assert all(found["row"][column] != value for column, value in GIVEN.items()), "the behaviour has changed"
PY
"$work/venv/bin/python" "$work/ask.py" "$work/warehouse" 2>/dev/null
