"""pypaimon on tables with a primary key: ``python -m benchmarks.pypaimon_cases CASE JSON``.

It runs in an environment of its own, as it asks for other versions of Arrow and pandas (``tools/environment.py``).
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
from pypaimon import CatalogFactory, Schema

from benchmarks.clock import computed, peak_mib, timed
from benchmarks.data import SCHEMA
from benchmarks.key_runs import key_runs


def _table(path: str) -> Any:
    where = Path(path)
    catalog = CatalogFactory.create({"warehouse": str(where.parent.parent)})
    return catalog, f"{where.parent.name.removesuffix('.db')}.{where.name}"


def keys_write(path: str, keys: int) -> dict[str, Any]:
    """The rows of the first run, in no order."""
    shutil.rmtree(path, ignore_errors=True)
    catalog, name = _table(path)
    catalog.create_database(name.partition(".")[0], ignore_if_exists=True)
    catalog.create_table(name, Schema.from_pyarrow_schema(SCHEMA, None, ["id"], {"bucket": "2"}), False)
    builder = catalog.get_table(name).new_batch_write_builder()
    rows = pa.Table.from_batches([next(key_runs(keys))])

    def write() -> None:
        writer = builder.new_write()
        writer.write_arrow(rows)
        builder.new_commit().commit(writer.prepare_commit())

    return {"seconds": timed(write)[0]}


def keys_merged(path: str) -> dict[str, Any]:
    """All rows of a table."""
    catalog, name = _table(path)

    def query() -> int:
        builder = catalog.get_table(name).new_read_builder()
        return builder.new_read().to_arrow(builder.new_scan().plan().splits()).num_rows

    seconds, rows = timed(query)
    return {"seconds": seconds, "rows": rows}


def evolution_read(path: str) -> dict[str, Any]:
    """All rows of a table of data evolution."""
    catalog, name = _table(path)

    def query() -> int:
        builder = catalog.get_table(name).new_read_builder()
        return builder.new_read().to_arrow(builder.new_scan().plan().splits()).num_rows

    found = [computed(query) for _ in range(3)]
    return {"seconds": min(seconds for seconds, _ in found), "rows": found[0][1]}


def variant_filter(path: str) -> dict[str, Any]:
    """The rows of a table whose VARIANT values have some member: all values are decoded."""
    from pypaimon.data.generic_variant import GenericVariant

    catalog, name = _table(path)

    def query() -> int:
        builder = catalog.get_table(name).new_read_builder()
        events = builder.new_read().to_arrow(builder.new_scan().plan().splits())["event"].to_pylist()
        values = (GenericVariant.from_arrow_struct(event).to_python() for event in events)
        return sum(value["kind"] == "kind 7" for value in values)

    seconds, rows = computed(query)
    return {"seconds": seconds, "rows": rows}


def main() -> None:
    cases = {
        "keys_write": keys_write, "keys_merged": keys_merged, "evolution_read": evolution_read,
        "variant_filter": variant_filter,
    }  # fmt: skip
    result = cases[sys.argv[1]](**json.loads(sys.argv[2]))
    print(json.dumps({**result, "peak_mib": peak_mib()}))


if __name__ == "__main__":
    main()
