"""What every measurement needs: the register of cases, a clock, and the tables of the engines."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks.clock import timed
from benchmarks.data import SCHEMA, SQL_COLUMNS

CASES: dict[str, Callable[..., dict[str, Any] | None]] = {}


def case(function: Callable[..., dict[str, Any] | None]) -> Callable[..., dict[str, Any] | None]:
    """Makes a function a measurement; what comes before the first ``_`` of its name is the engine."""
    assert function.__name__ not in CASES, f"two cases are named {function.__name__}"
    CASES[function.__name__] = function
    return function


def size_of(path: str) -> int:
    """Bytes of a table's data files and indexes."""
    return sum(p.stat().st_size for p in Path(path).rglob("*") if p.is_file() and p.parent.name.startswith("bucket-"))


def copy_of(path: str, name: str) -> str:
    """A copy of a table to be changed: metadata copied, data files linked, as nothing ever writes into them."""
    target = str(Path(path).parent / name)
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(path, target, copy_function=_copy_or_link)
    return target


def _copy_or_link(source: str, target: str) -> None:
    if source.endswith(".parquet") or ".parquet." in source:
        os.link(source, target)
    else:
        shutil.copy2(source, target)


# ------------------------------------------------------------------------------------------------------------ engines


def ours(path: str) -> Any:
    """Our table, nothing of it remembered."""
    import paimon_pyds as pp
    from paimon_pyds.index.evaluate import OPEN_INDEXES
    from paimon_pyds.metadata.manifest_store import METADATA_CACHE

    METADATA_CACHE.clear()
    OPEN_INDEXES.clear()
    return pp.Table.open(path)


def ours_new(path: str, options: dict[str, str], data: Iterable[Any]) -> tuple[float, Any]:
    """A new table of ours with this data: seconds of the append, and the table."""
    import paimon_pyds as pp

    shutil.rmtree(path, ignore_errors=True)
    table = pp.Table.create(path, SCHEMA, options=options)
    seconds, _ = timed(lambda: table.append(data))
    return seconds, table


def rust(path: str) -> Any:
    """pypaimon-rust's table."""
    from pypaimon_rust import datafusion

    warehouse, name = _rust_name(path)
    return datafusion.PaimonCatalog({"warehouse": warehouse}).get_table(name)


def rust_sql(path: str) -> tuple[Any, str]:
    """pypaimon-rust's SQL, and what the table is called there."""
    from pypaimon_rust import datafusion

    warehouse, name = _rust_name(path)
    context = datafusion.SQLContext()
    context.register_catalog("paimon", {"warehouse": warehouse})
    return context, f"paimon.{name}"


def rust_new(path: str, options: dict[str, str], data: Iterable[Any]) -> float:
    """A new table of pypaimon-rust with this data: seconds of the append."""
    shutil.rmtree(path, ignore_errors=True)
    context, name = rust_sql(path)
    context.sql(f"CREATE SCHEMA IF NOT EXISTS {name.rpartition('.')[0]}")
    properties = ", ".join(f"'{k}'='{v}'" for k, v in options.items())
    clause = f" WITH ({properties})" if properties else ""
    context.sql(f"CREATE TABLE {name} ({SQL_COLUMNS}){clause}")
    builder = rust(path).new_batch_write_builder()

    def write() -> None:
        writer = builder.new_write()
        for batch in data:
            writer.write_arrow(batch)
        builder.new_commit().commit(writer.prepare_commit())

    return timed(write)[0]


def rust_read(path: str, predicate: dict[str, Any]) -> int:
    """How many rows pypaimon-rust finds, opened fresh."""
    builder = rust(path).new_read_builder().with_filter(predicate)
    splits = builder.new_scan().plan().splits()
    return sum(b.num_rows for b in builder.new_read().read(splits))


def _rust_name(path: str) -> tuple[str, str]:
    where = Path(path)
    return str(where.parents[1]), f"{where.parent.name[:-3]}.{where.name}"
