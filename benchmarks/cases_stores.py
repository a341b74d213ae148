"""Queries on a store that takes 50 ms for a request: what counts is how many requests follow one another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks import files100k
from benchmarks.clock import cpu_seconds, timed
from benchmarks.registry import case
from benchmarks.slow_store import counts, options, serving

if TYPE_CHECKING:
    from benchmarks.bench import Bench

MILLISECONDS = 50
FILES = 100
MANIFESTS = 1000
WANTED = 55_517
_BUCKET = "stores"


def section(bench: Bench) -> None:
    root = bench.directory / _BUCKET / "bench.db"
    root.mkdir(parents=True)
    for name, rows in (("small", 10_000), ("large", 100_000)):
        bench.run("ours_store_table", path=str(root / name), rows=rows)
    bench.run("ours_many_manifests", path=str(root / "manifests"))
    with serving(bench.directory, MILLISECONDS) as address, serving(bench.directory, 0) as counting:
        for name, size in (("small", "0.1 MB"), ("large", "1 MB")):
            what = f"point query, bloom filters of {FILES} files of {size}"
            kept = {"cache": str(bench.directory / name)}
            for text, target, more in (
                (what, "≤ 6", {}),
                (f"{what}, again", "≤ 2", {"again": True}),
                (f"{what}, again in a new process", "≤ 2, and 1 to open", kept),
            ):
                if more is kept:
                    for each in (address, counting):
                        bench.run("ours_store_point", address=each, name=name, **kept)
                _compare(bench, (text, target), (address, counting), "store_point", {"name": name}, more)
        what = f"plan a table of {MANIFESTS:,} commits, a manifest of each at least"
        _compare(bench, (what, ""), (address, counting), "store_plan", {"name": "manifests"}, {})


def _compare(
    bench: Bench,
    what: tuple[str, str],
    addresses: tuple[str, str],
    case: str,
    arguments: dict[str, Any],
    ours: dict[str, Any],
) -> None:
    """Time on the slow store, and requests in sequence on the one that counts them."""
    text, target = what
    a, b = ({"address": address, **arguments} for address in addresses)
    bench.compare(text, "", (f"ours_{case}", {**a, **ours}), (f"rust_{case}", a))
    one, other = bench.run(f"ours_{case}", **b, **ours), bench.run(f"rust_{case}", **b)
    if one and other:
        texts = [f"{run['in_sequence']} of {run['requests']}" for run in (one, other)]
        ratio = f"{one['in_sequence'] / other['in_sequence']:.3f}×"
        bench.add(f"{text}: requests in sequence", texts[0], f"rust {texts[1]}", ratio, target)


@case
def ours_store_table(path: str, rows: int) -> None:
    """100 files, ids spread over all of them, so that statistics rule out none."""
    import numpy as np
    import pyarrow as pa

    import paimon_pyds as pp

    schema = pa.schema([("id", pa.int64()), ("v", pa.string()), ("x", pa.float64())])
    index = "file-index.bloom-filter"
    table = pp.Table.create(
        path, schema, options={f"{index}.columns": "id", f"{index}.id.items": str(rows), f"{index}.id.fpp": "0.0001"}
    )
    numbers = np.random.default_rng(1)
    for number in range(FILES):
        ids = np.arange(number, FILES * rows, FILES)
        table.append(pa.table([ids, [f"value {i}" for i in ids], numbers.random(rows)], schema=schema))


@case
def ours_many_manifests(path: str) -> None:
    """1,000 commits of 100 files each, which are not there; their manifests are not merged."""
    import numpy as np

    import paimon_pyds as pp
    from paimon_pyds.base.options import TableOptions
    from paimon_pyds.engine.commit import Changes, Increment, commit

    merging = {"manifest.target-file-size": "16 kb", "manifest.full-compaction-threshold-size": "1 gb"}
    table = pp.Table.create(path, files100k.SCHEMA, partition_by=["p"], options=merging)
    numbers = np.random.default_rng(5)
    for commit_number in range(MANIFESTS):
        files = range(100 * commit_number, 100 * commit_number + 100)
        added = [files100k.bucket(path, commit_number % files100k.PARTITIONS, files, numbers)]
        commit(table._store, Changes([Increment(added=added)]), TableOptions(table.options))


def _counted(address: str, query: Any) -> dict[str, Any]:
    counts(address)
    before = cpu_seconds()
    seconds, found = timed(query)
    return {"seconds": seconds, "found": found, "cpu": cpu_seconds() - before, **counts(address)}


def _ours(address: str, name: str, cache: str | None = None) -> Any:
    import paimon_pyds as pp

    kept = {"local-cache.enabled": str(cache is not None).lower(), "local-cache.dir": cache or "/nowhere"}
    return pp.Table.open(f"s3://{_BUCKET}/bench.db/{name}", storage_options=options(address) | kept)


def _rust(address: str, name: str) -> Any:
    from pypaimon_rust import datafusion

    catalog = datafusion.PaimonCatalog({"warehouse": f"s3://{_BUCKET}", **options(address)})
    return catalog.get_table(f"bench.{name}").new_read_builder()


@case
def ours_store_point(address: str, name: str, cache: str | None = None, again: bool = False) -> dict[str, Any]:
    """Opening the table and finding a row; ``again``, the same row by the table that is open."""
    import paimon_pyds.scan
    import paimon_pyds.storage.object_store  # noqa: F401 - the peer has loaded all of itself, too

    table = _ours(address, name, cache)

    def query() -> int:
        return int((table if again else _ours(address, name, cache)).scan(f"id = {WANTED}").to_arrow().num_rows)

    if again:
        query()
    else:
        _forget()
    found = _counted(address, query)
    assert found["found"] == 1
    return found


def _forget() -> None:
    from paimon_pyds.index.evaluate import OPEN_INDEXES
    from paimon_pyds.metadata import prefetch as ahead
    from paimon_pyds.metadata.manifest_store import METADATA_CACHE
    from paimon_pyds.storage.range_cache import RANGE_CACHE

    for cache in (METADATA_CACHE, OPEN_INDEXES, RANGE_CACHE, ahead._LAST_SEEN):
        cache.clear()


@case
def ours_store_plan(address: str, name: str) -> dict[str, Any]:
    import paimon_pyds.scan
    import paimon_pyds.storage.object_store  # noqa: F401 - the peer has loaded all of itself, too

    found = _counted(address, lambda: len(_ours(address, name).scan().plan().files))
    assert found["found"] == 100 * MANIFESTS
    return found


@case
def rust_store_point(address: str, name: str) -> dict[str, Any]:
    def query() -> int:
        wanted = {"method": "equal", "field": "id", "literals": [WANTED]}
        builder = _rust(address, name).with_filter(wanted)
        splits = builder.new_scan().plan().splits()
        return sum(batch.num_rows for batch in builder.new_read().read(splits))

    found = _counted(address, query)
    assert found["found"] == 1
    return found


@case
def rust_store_plan(address: str, name: str) -> dict[str, Any]:
    return _counted(address, lambda: len(_rust(address, name).new_scan().plan().splits()))
