"""Tables with row tracking that pypaimon and pypaimon-rust make: pypaimon reads on after all that is done here, and no
file is gone that the table names. pypaimon-rust reads on until rows are rewritten, by whomever: it wants the row ids of
each file to count from a first one, and rewritten rows have theirs in a column."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path

import pytest

import paimon_pyds as pp
from paimon_pyds.metadata.manifest_store import METADATA_CACHE
from support.effort import sampled
from support.oracle import Oracle, requires_java_oracle
from support.peers import SCHEMA, Peer, Pypaimon, Rust, rows_with
from support.values import lines

_TRACKED = {"row-tracking.enabled": "true"}
_KINDS: Mapping[str, Mapping[str, str]] = {
    "plain": _TRACKED,
    "vectors": {**_TRACKED, "deletion-vectors.enabled": "true"},
    "sidecars": {**_TRACKED, "deletion-vectors.enabled": "true", "manifest.sidecar.enabled": "true"},
    "sorted": {**_TRACKED, "manifest-sort.enabled": "true"},
}
_MISSING = "is missing first_row_id"


def _read(peer: Peer) -> list[str]:
    return lines(peer.read("t").select(SCHEMA.names).cast(SCHEMA))


def _clean(table: pp.Table) -> None:
    time.sleep(0.002)  # a file of this very millisecond counts as new
    table.maintenance.remove_orphan_files("0 s", dry_run=False)


def _ids(table: pp.Table) -> dict[int, int]:
    """The row id of each row that was there from the beginning."""
    rows = table.system.read("row_tracking").select(["id", "_ROW_ID"]).to_pylist()
    return {row["id"]: row["_ROW_ID"] for row in rows if row["id"] < 50}


@pytest.mark.parametrize(("kind", "maker"), sampled(product(_KINDS, ["rust", "pypaimon"]), 2))
def test_peers_read_on(tmp_path: Path, pypaimon: Pypaimon, kind: str, maker: str) -> None:
    rust = Rust(tmp_path / "w")
    peer: Peer = rust if maker == "rust" else pypaimon
    root = peer.create("t", SCHEMA, [], ["p"], _KINDS[kind])
    for number in range(3):
        peer.append("t", rows_with(*range(10 * number, 10 * number + 6)))
    table = pp.Table.open(root)
    ids, rewritten = _ids(table), False

    def checked(step: Callable[[], object], *, rewrites: bool = False) -> None:
        nonlocal rewritten
        METADATA_CACHE.clear()
        step()
        rewritten = rewritten or rewrites
        rows = lines(table.scan().to_arrow())
        assert _read(pypaimon) == rows
        if not rewritten:
            assert _read(rust) == rows
        else:
            with pytest.raises(ValueError, match=_MISSING):
                _read(rust)
        now = _ids(table)
        assert now == {id_: ids[id_] for id_ in now}

    vectors = "deletion-vectors.enabled" in _KINDS[kind]
    checked(lambda: table.append(rows_with(50, 51)))
    checked(lambda: table.delete("id = 10"), rewrites=not vectors)
    checked(lambda: table.snapshots.expire(retain_max=1))
    checked(lambda: _clean(table))
    checked(lambda: peer.append("t", rows_with(60, 61)))
    checked(lambda: table.update({"v": "'new'"}, "id = 20"), rewrites=True)
    checked(lambda: table.compact(full=True))
    checked(table.maintenance.compact_manifests)
    checked(lambda: pypaimon.append("t", rows_with(70, 71)))
    checked(lambda: table.snapshots.expire(retain_max=1))
    checked(lambda: _clean(table))
    assert table.count() == 23
    assert not table.maintenance.verify(deep=True).findings


@requires_java_oracle
@pytest.mark.java
def test_pypaimon_rust_reads_no_table_that_java_has_compacted(oracle: Oracle, tmp_path: Path) -> None:
    rust = Rust(tmp_path / "w")
    root = rust.create("t", SCHEMA, [], [], _TRACKED)
    for number in range(3):
        rust.append("t", rows_with(number))
    with oracle.batch() as batch:
        batch.compact(tmp_path / "w", "db.t")
    with pytest.raises(ValueError, match=_MISSING):
        _read(rust)
    assert pp.Table.open(root).count() == 3
