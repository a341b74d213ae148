#!/usr/bin/env bash
# One would guess: an index changes how fast a filter is, not which rows it gives; rows written after the index was built
#   are read without it.
# What happens: pypaimon answers a filter on a column with a global index from the index alone. Rows appended later match
#   no filter on that column any more, although a read without it has them; scalar-index.search-mode=full gives them.
# Why it matters: rows vanish without an error until somebody builds the index again. Reads here use an index for the rows
#   that it covers, and read all others.
set -euo pipefail
PYPAIMON=2.1.0
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q "pypaimon==$PYPAIMON"
cat >"$work/ask.py" <<'PY'
import sys
from importlib.metadata import version

import pyarrow as pa
from pypaimon import CatalogFactory, Schema

COLUMNS = pa.schema([("id", pa.int32()), ("name", pa.string())])
OPTIONS = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
catalog = CatalogFactory.create({"warehouse": sys.argv[1]})
catalog.create_database("d", True)
catalog.create_table("d.t", Schema.from_pyarrow_schema(COLUMNS, options=OPTIONS), False)


def append(*rows):
    builder = catalog.get_table("d.t").new_batch_write_builder()
    write, commit = builder.new_write(), builder.new_commit()
    write.write_arrow(pa.Table.from_pylist([{"id": n, "name": name} for n, name in rows], schema=COLUMNS))
    commit.commit(write.prepare_commit())
    write.close()
    commit.close()


def ids(table, column, value):
    builder = table.new_read_builder()
    builder = builder.with_filter(builder.new_predicate_builder().equal(column, value))
    splits = builder.new_scan().plan().splits()
    return sorted(builder.new_read().to_arrow(splits)["id"].to_pylist()) if splits else []


print("pypaimon", version("pypaimon"), "pyarrow", pa.__version__)
append((1, "a"), (2, "b"))
before = ids(catalog.get_table("d.t"), "name", "b")
catalog.get_table("d.t").create_global_index("name", index_type="btree")
append((3, "b"))
table = catalog.get_table("d.t")
found = ids(table, "name", "b")
other = ids(table, "id", 3)
full = ids(table.copy({"scalar-index.search-mode": "full"}), "name", "b")
print("ids of name = 'b' before the index:", before)
print("with the index, after a row 3 with that name was appended:", found)
print("ids of id = 3, which has no index:", other)
print("ids of name = 'b' with search-mode=full:", full)
assert (before, found, other, full) == ([2], [2], [3], [2, 3]), "the behaviour has changed"
PY
"$work/venv/bin/python" "$work/ask.py" "$work/warehouse" 2>/dev/null
