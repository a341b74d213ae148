#!/usr/bin/env bash
# One would guess: renaming a column changes its name alone; the values are those of before.
# What happens: in a table of data evolution, where an UPDATE writes the new values of a column into a file of their own,
#   pypaimon gives the values from before the UPDATE once the column is renamed. It looks for the columns of files by
#   names, and the file of the UPDATE has the old one; the format identifies columns by ids.
# Why it matters: an UPDATE is undone for readers by a rename. Reads here find the columns of files by their ids.
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
from pypaimon.schema.schema_change import SchemaChange

COLUMNS = pa.schema([("id", pa.int32()), ("name", pa.string())])
OPTIONS = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
catalog = CatalogFactory.create({"warehouse": sys.argv[1]})
catalog.create_database("d", True)
catalog.create_table("d.t", Schema.from_pyarrow_schema(COLUMNS, options=OPTIONS), False)


def commit(make):
    builder = catalog.get_table("d.t").new_batch_write_builder()
    messages = make(builder)
    made = builder.new_commit()
    made.commit(messages)
    made.close()


def insert(builder):
    write = builder.new_write()
    write.write_arrow(pa.table({"id": [1], "name": ["old"]}, schema=COLUMNS))
    messages = write.prepare_commit()
    write.close()
    return messages


def update(builder):
    change = builder.new_update()
    return change.update_by_predicate(change.new_predicate_builder().equal("id", 1), {"name": "new"})


def rows():
    builder = catalog.get_table("d.t").new_read_builder()
    return builder.new_read().to_arrow(builder.new_scan().plan().splits()).to_pylist()


print("pypaimon", version("pypaimon"), "pyarrow", pa.__version__)
commit(insert)
commit(update)
before = rows()
catalog.alter_table("d.t", [SchemaChange.rename_column("name", "label")])
after = rows()
print("after UPDATE … SET name = 'new':", before)
print("after RENAME name TO label:", after)
assert before == [{"id": 1, "name": "new"}] and after == [{"id": 1, "label": "old"}], "the behaviour has changed"
PY
"$work/venv/bin/python" "$work/ask.py" "$work/warehouse" 2>/dev/null
