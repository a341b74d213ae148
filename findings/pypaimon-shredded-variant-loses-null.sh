#!/usr/bin/env bash
# One would guess: variant.shreddingSchema changes how a VARIANT is stored, not its values: what does not fit the type of a
#   shredded field goes into the field's own binary value, as the Parquet specification has it.
# What happens: pypaimon writes a JSON null in a shredded field as a field that is missing, so that {"a": null} comes back
#   as {}.
# Why it matters: an option for speed loses data. What is written here keeps both, and reads tell them apart.
set -euo pipefail
PYPAIMON=2.1.0
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q "pypaimon==$PYPAIMON"
cat >"$work/ask.py" <<'PY'
import json
import sys
from importlib.metadata import version

import pyarrow as pa
from pypaimon import CatalogFactory, Schema
from pypaimon.data.generic_variant import GenericVariant

FIELDS = [{"id": 1, "name": "a", "type": "INT"}, {"id": 2, "name": "b", "type": "STRING"}]
SHREDDED = {"type": "ROW", "fields": [{"id": 0, "name": "v", "type": {"type": "ROW", "fields": FIELDS}}]}
catalog = CatalogFactory.create({"warehouse": sys.argv[1]})
catalog.create_database("d", True)


def stored(name, values, options):
    """The values as they come back from a table of their own."""
    column = GenericVariant.to_arrow_array([GenericVariant.from_python(value) for value in values])
    data = pa.table({"v": column})
    catalog.create_table(f"d.{name}", Schema.from_pyarrow_schema(data.schema, options=options), False)
    builder = catalog.get_table(f"d.{name}").new_batch_write_builder()
    write, commit = builder.new_write(), builder.new_commit()
    write.write_arrow(data)
    commit.commit(write.prepare_commit())
    write.close()
    commit.close()
    builder = catalog.get_table(f"d.{name}").new_read_builder()
    read = builder.new_read().to_arrow(builder.new_scan().plan().splits())
    return [GenericVariant.from_arrow_struct(value.as_py()).to_python() for value in read["v"]]


print("pypaimon", version("pypaimon"), "pyarrow", pa.__version__)
shredded = {"variant.shreddingSchema": json.dumps(SHREDDED)}
values = [{"a": 1, "b": "x"}, {"a": None, "b": "y"}]
plain, lossy = stored("plain", values, {}), stored("shredded", values, shredded)
print("plain:", plain)
print("shredded:", lossy)
assert plain == values and lossy == [{"a": 1, "b": "x"}, {"b": "y"}], "the behaviour has changed"
PY
"$work/venv/bin/python" "$work/ask.py" "$work/warehouse" 2>/dev/null
