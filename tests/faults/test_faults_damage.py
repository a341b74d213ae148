"""Damaged files: cut at every length, changed anywhere, unreadable. One clear error or the right rows, never a hang.

``PAIMON_PYDS_SEED=0 PAIMON_PYDS_MUTATIONS=300 pytest -rP -k changed_anywhere`` counts outcomes for SECURITY.md.
"""

from __future__ import annotations

import errno
import json
import os
import random
import re
import shutil
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.retry import Pauses
from paimon_pyds.errors import CorruptFileError, NotFoundError, PaimonError, StorageError, UnsupportedError
from paimon_pyds.format import threads as format_threads
from paimon_pyds.format.threads import _pool
from paimon_pyds.index.evaluate import OPEN_INDEXES
from paimon_pyds.metadata.manifest_store import METADATA_CACHE
from paimon_pyds.metadata.store import TableStore
from support.effort import LONG, SEED, sampled
from support.faults_io import BEFORE, FaultyIO, full_disk

pytestmark = [
    pytest.mark.filterwarnings("ignore:the bsi index:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:snapshot .* counts .* rows:RuntimeWarning"),  # what damage to a total gives
    pytest.mark.timeout(120),
]

CUTS = 800
"""One of so many lengths is tried, and two at least."""
_GIVEN = int(os.environ.get("PAIMON_PYDS_MUTATIONS", "3000" if LONG else "0"))
MUTATIONS, OTHER_MUTATIONS = _GIVEN or 20, _GIVEN or 12
ROWS = 60
TABLES = [("parquet", "1 b"), ("parquet", "10 mb"), ("orc", "1 b"), ("avro", "10 mb")]
VARIANTS = [
    "parquet none 32", "parquet gzip", "orc none 64", "orc zlib", "orc lz4", "avro snappy 32", "avro deflate",
    "avro none", "parquet none key", "orc zlib key", "avro snappy key",
]  # fmt: skip
QUERIES = [None, "c = 3", "s = 's4' OR c IS NULL", "d > 20.0 AND id < 100", "m['k'] = 1", "p = 'x' AND c IN (1, 2)"]
SCHEMA = pa.schema(
    [("id", pa.int64()), ("c", pa.int32()), ("s", pa.string()), ("d", pa.float64()),
     ("m", pa.map_(pa.string(), pa.int64())), ("p", pa.string())]
)  # fmt: skip
Answer = list[str] | PaimonError


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A damaged snapshot is read several times, as it may be half written; here without a pause."""
    monkeypatch.setattr(Pauses, "after", lambda *_: 0.0)


@pytest.fixture(params=sampled(TABLES, 2), ids="-".join)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return _make(tmp_path, {"file.format": request.param[0], "file-index.in-manifest-threshold": request.param[1]})


def _make(path: Path, own: dict[str, str]) -> Path:
    """Two snapshots, four kinds of index, statistics of every column. Runs of a table with buckets, and so a primary
    key, have keys in common."""
    options = own | {
        "file-index.bitmap.columns": "c",
        "file-index.bloom-filter.columns": "s",
        "file-index.bloom-filter.s.items": "20",
        "file-index.range-bitmap.columns": "d",
        "file-index.bsi.columns": "id",
    }
    key = ["id", "p"] if "bucket" in own else []
    table = pp.Table.create(path / "t", SCHEMA, primary_key=key, partition_by=["p"], options=options)
    for start in (0, ROWS // 2 if key else ROWS):
        ids = range(start, start + ROWS)
        table.append(
            pa.table(
                {
                    "id": list(ids),
                    "c": [i % 7 if i % 5 else None for i in ids],
                    "s": [f"s{i % 11}" for i in ids],
                    "d": [i / 4 for i in ids],
                    "m": [[("k", i % 3)] for i in ids],
                    "p": ["x"] * ROWS,
                },
                SCHEMA,
            )
        )
    return path / "t"


def _answer(query: Callable[[], pa.Table]) -> Answer:
    """The rows, or the error."""
    METADATA_CACHE.clear()
    OPEN_INDEXES.clear()
    try:
        found = query()
        found.validate(full=True)
        return sorted(map(repr, found.to_pylist()))
    except PaimonError as error:
        assert "\n" not in str(error)
        return error


def _ask(path: Path, queries: Sequence[str | None] = QUERIES) -> list[Answer]:
    """Each query's rows, or its error."""
    return [_answer(lambda query=query: pp.Table.open(path).scan(query).to_arrow()) for query in queries]


def _files(path: Path) -> list[Path]:
    return sorted(f for f in path.rglob("*") if f.is_file() and f.name not in ("LATEST", "EARLIEST"))


def test_every_file_cut_at_every_length(table: Path) -> None:
    right, chance = dict(zip(QUERIES, _ask(table), strict=True)), random.Random(SEED)
    for file in _files(table):
        whole = file.read_bytes()
        for length in sampled(range(len(whole)), 2 + len(whole) // CUTS):
            file.write_bytes(whole[:length])
            asked = QUERIES if LONG else chance.sample(QUERIES, 3)
            for query, answer in zip(asked, _ask(table, asked), strict=True):
                known = (CorruptFileError, NotFoundError, StorageError, UnsupportedError)
                assert answer == right[query] or isinstance(answer, known), (file.name, length, query, answer)
        file.write_bytes(whole)
    assert _ask(table) == list(right.values())


def _mutated(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    at, other = rng.randrange(len(changed)), rng.randrange(len(changed))
    match rng.randrange(7):
        case 0:
            changed[at] ^= 1 << rng.randrange(8)
        case 1:
            changed[at] = rng.choice([0, 1, 127, 128, 255])
        case 2:
            changed[at : at + 4] = rng.randbytes(len(changed[at : at + 4]))
        case 3:
            del changed[at : at + rng.randint(1, 8)]
        case 4:
            changed[at:at] = rng.randbytes(rng.randint(1, 8))
        case 5:
            changed[at], changed[other] = changed[other], changed[at]
        case 6:
            changed[at : at + 8] = b"\xff" * len(changed[at : at + 8])
    return bytes(changed)


def _changed_anywhere(
    files: list[Path], ask: Callable[[], list[Answer]], mutations: int, silent: Callable[[Path], bool]
) -> None:
    """Damage to one file after another, each kind as often as the others; only some may go unnoticed."""
    right = ask()
    assert not any(isinstance(answer, PaimonError) for answer in right)
    kinds: dict[str, list[Path]] = {}
    for file in files:
        directory = file.parent.name.rstrip("0123456789")
        name = re.sub(r"[0-9a-f]{8}-.*|\d+$", "", file.stem)
        kinds.setdefault(f"{directory}/{name}{file.suffix}", []).append(file)
    counts: Counter[tuple[str, str]] = Counter()
    for seed in range(SEED, SEED + mutations):
        rng = random.Random(seed)
        kind = sorted(kinds)[seed % len(kinds)]
        file = rng.choice(kinds[kind])
        whole = file.read_bytes()
        file.write_bytes(_mutated(rng, whole))
        answers = ask()
        file.write_bytes(whole)
        wrong = [answer for answer, expected in zip(answers, right, strict=True) if answer != expected]
        unnoticed = [answer for answer in wrong if not isinstance(answer, PaimonError)]
        assert not unnoticed or silent(file), (file.name, seed, unnoticed)
        counts[kind, "silent" if unnoticed else "error" if wrong else "right"] += 1
    print(*(f"{kind}: {outcome} {count}" for (kind, outcome), count in sorted(counts.items())), sep="\n")
    ends = Counter(outcome for _, outcome in counts.elements())
    assert ends["error"] > (ends["silent"] if LONG else 0)


def test_every_file_changed_anywhere(table: Path) -> None:
    _changed_anywhere(_files(table), lambda: _ask(table), MUTATIONS, lambda file: _is_silent(file, {}))


def _is_silent(file: Path, options: dict[str, str]) -> bool:
    """Whether damage to a file may go unnoticed: SECURITY.md says why (a member of JSON that is gone, Avro blocks)."""
    plain = options.get("file.format") == "avro" and options["file.compression"] in ("none", "deflate")
    return file.parent.name in ("snapshot", "schema") or (plain and file.suffix == ".avro")


@pytest.mark.parametrize("variant", sampled(VARIANTS, 1))
def test_other_codecs_and_vectors_changed_anywhere(tmp_path: Path, variant: str) -> None:
    format_, codec, *bits = variant.split()
    options = {"file.format": format_, "file.compression": codec, "file-index.in-manifest-threshold": "1 b"}
    if bits == ["key"]:
        options |= {"bucket": "1", "write-only": "true"}
    elif bits:
        options |= {"deletion-vectors.enabled": "true", "deletion-vectors.bitmap64": str(bits[0] == "64").lower()}
    path = _make(tmp_path, options)
    if bits:
        pp.Table.open(path).delete("id % 9 = 1")
    if bits == ["key"]:
        pp.Table.open(path).compact(options={"num-sorted-run.compaction-trigger": "2"})
        pp.Table.open(path).delete("id % 9 = 2")
    files = [*_files(path), path / "snapshot" / "LATEST"]
    _changed_anywhere(files, lambda: _ask(path), OTHER_MUTATIONS, lambda file: _is_silent(file, options))


def test_shredded_files_changed_anywhere(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", "id INT, v VARIANT", options={"variant.inferShreddingSchema": "true"})
    values = [{"a": n, "b": {"c": f"text {n % 5}"}, "l": [n, n / 2], "o": n if n % 9 else "odd"} for n in range(ROWS)]
    table.append({"id": list(range(ROWS)), "v": values})
    queries = [None, "v:a::int = 7", "v:b.c::string > 'text 3'", "v:o::string = 'odd'", "v:l[1]::string = '5.0'"]
    assert [table.count(query) for query in queries] == [ROWS, 1, 12, 7, 1]
    path = tmp_path / "t"
    files = [file for file in _files(path) if file.suffix == ".parquet"]
    _changed_anywhere(files, lambda: _ask(path, queries), OTHER_MUTATIONS, lambda _: False)


_STATES = ("changelog", "tag", "snapshot", "schema", "consumer", "statistics", "index")
"""Directories with files that only states other than the newest name, and those of the hash index."""


def _make_with_states(path: Path) -> Path:
    """Dynamic buckets, changelogs that outlive their snapshots, a tag, a branch, a reader's position, statistics."""
    options = {
        "bucket": "-1", "dynamic-bucket.target-row-num": "25", "changelog-producer": "input",
        "snapshot.num-retained.min": "1", "changelog.num-retained.min": "20",
    }  # fmt: skip
    schema = pa.schema([("id", pa.int64()), ("v", pa.int64())])
    table = pp.Table.create(path / "t", schema, primary_key=["id"], options=options)
    for number in range(4):
        table.append(pa.table({"id": range(number * 15, number * 15 + 30), "v": [number] * 30}, schema))
        if number == 1:
            table.tags.create("kept")
            table.branches.create("other", "kept")
    table.maintenance.analyze()
    table.snapshots.expire(retain_max=1)
    consumer = path / "t" / "consumer" / "consumer-mine"
    consumer.parent.mkdir()
    consumer.write_text(json.dumps({"nextSnapshot": 5}))
    return path / "t"


def _ask_states(path: Path) -> list[Answer]:
    """What each of these states has, and the rows after all of them were written once more."""
    changes = {"incremental-between": "0,4", "incremental-between-scan-mode": "changelog"}

    def written_again() -> pa.Table:
        shutil.rmtree(path.parent / "copy", ignore_errors=True)
        copy = pp.Table.open(shutil.copytree(path, path.parent / "copy"))
        copy.append(pa.table({"id": range(75), "v": [9] * 75}, copy.arrow_schema), options={"write-only": "true"})
        return copy.scan().to_arrow()

    return [
        _answer(lambda: pp.Table.open(path).system.audit_log(options=changes).to_arrow()),
        _answer(lambda: pp.Table.open(path).scan(tag="kept").to_arrow()),
        _answer(lambda: pp.Table.open(path, branch="other").scan().to_arrow()),
        _answer(lambda: pp.Table.open(path).system.read("consumers")),
        _answer(lambda: pp.Table.open(path).system.read("statistics")),
        _answer(written_again),
    ]


def test_files_of_other_states_and_of_the_hash_index_changed_anywhere(tmp_path: Path) -> None:
    """JSON has no checksum, and a file of the hash index no room for one."""
    path = _make_with_states(tmp_path)
    files = [f for f in _files(path) if f.parent.name in _STATES or f.name.startswith("changelog-")]
    files = [f for f in files if f.parent.parent != path or f.parent.name not in ("snapshot", "schema")]
    assert {f.parent.name for f in files} >= set(_STATES)
    _changed_anywhere(files, lambda: _ask_states(path), OTHER_MUTATIONS, lambda file: file.parent.name in _STATES)


def _io_error(operation: str) -> BaseException:
    """Errors of the system come up only where pyarrow reads a file; any other operation makes them StorageErrors."""
    return OSError(errno.EIO, "Input/output error") if operation == "input" else full_disk()


def _start_kept_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that decoders keep: they are started as they are needed, and a scan may be the first that needs one more."""
    monkeypatch.setattr(format_threads, "IDLE_SECONDS", 0.001)
    pool = _pool()
    together = threading.Barrier(pool._max_workers)
    deque(pool.map(lambda _: together.wait(), range(pool._max_workers)), 0)


def _wait_for_threads(most: int) -> None:
    """Those that a failed scan was still using end by themselves; on a busy machine, a little later than the scan."""
    end = time.monotonic() + 60
    while threading.active_count() > most:
        assert time.monotonic() < end, threading.enumerate()
        time.sleep(0.01)


@pytest.mark.parametrize("query", ["c = 3", None], ids=["filtered", "whole"])
@pytest.mark.parametrize("error", sampled([full_disk, _io_error], 1))
def test_a_read_that_fails(
    table: Path, query: str | None, error: Callable[[str], BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every single read of a scan fails once."""
    counting = FaultyIO()
    METADATA_CACHE.clear()
    OPEN_INDEXES.clear()
    expected = pp.Table(TableStore(counting, str(table))).scan(query).to_arrow().num_rows
    _start_kept_threads(monkeypatch)
    threads = threading.active_count()
    for at in range(len(counting.done)):
        METADATA_CACHE.clear()
        OPEN_INDEXES.clear()
        again = pp.Table(TableStore(FaultyIO(at, BEFORE, error), str(table)))
        try:
            assert again.scan(query).to_arrow().num_rows == expected
        except StorageError as fault:
            assert "\n" not in str(fault)
        assert again.scan(query).to_arrow().num_rows == expected
        _wait_for_threads(threads)
