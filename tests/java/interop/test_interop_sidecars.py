"""Tables whose manifests have files beside them, by pypaimon-rust and pypaimon: they read on after all that is done
here, and no file is gone that they name."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import fastavro
import pyarrow.compute as pc
import pytest

import paimon_pyds as pp
from paimon_pyds.metadata.manifest_store import METADATA_CACHE
from support.peers import SCHEMA, Peer, Pypaimon, Rust, rows_with
from support.values import lines

_KINDS: Mapping[str, tuple[Sequence[str], Sequence[str], Mapping[str, str]]] = {
    "sidecars": ([], ["p"], {"manifest.sidecar.enabled": "true", "deletion-vectors.enabled": "true"}),
    "sorted": ([], ["p"], {"manifest-sort.enabled": "true"}),
    "buckets": ([], [], {"manifest-sort.enabled": "true", "bucket": "2", "bucket-key": "id"}),
    "keys": (["p", "id"], ["p"], {"manifest.sidecar.enabled": "true", "bucket": "1"}),
}


def _named_sidecars(root: Path) -> set[str]:
    """The sidecars that the manifest lists name."""
    return {
        name
        for path in (root / "manifest").glob("manifest-list-*")
        for record in fastavro.reader(io.BytesIO(path.read_bytes()))
        for name in (record.get("_EXTRA_FILES") or () if isinstance(record, dict) else ())
    }


def _sidecars(root: Path) -> set[str]:
    return {path.name for path in (root / "manifest").glob("*.sidecar")}


def _clean(table: pp.Table) -> None:
    time.sleep(0.002)  # a file of this very millisecond counts as new
    table.maintenance.remove_orphan_files("0 s", dry_run=False)


def _read(peer: Peer) -> list[str]:
    return lines(peer.read("t").select(SCHEMA.names).cast(SCHEMA))


@pytest.mark.parametrize("kind", _KINDS)
def test_sidecars_live_as_long_as_their_manifests(tmp_path: Path, pypaimon: Pypaimon, kind: str) -> None:
    """Those that pypaimon-rust writes and pypaimon reads."""
    keys, partitions, options = _KINDS[kind]
    options = {**options, "manifest.target-file-size": "1 kb", "manifest.merge-min-count": "1000"}
    rust = Rust(tmp_path / "w")
    root = rust.create("t", SCHEMA, keys, partitions, options)
    for number in range(4):
        rust.append("t", rows_with(10 * number, 10 * number + 1))
    before = _sidecars(root)
    assert len(before) >= 4
    table = pp.Table.open(root)

    def checked(step: Callable[[], object]) -> None:
        METADATA_CACHE.clear()
        step()
        rows = table.scan().to_arrow()
        assert _read(rust) == _read(pypaimon) == lines(rows)
        if partitions:  # sidecars tell which blocks have them
            found = pypaimon.read("t", equal={"p": 1}).select(SCHEMA.names).cast(SCHEMA)
            assert lines(found) == lines(rows.filter(pc.equal(rows["p"], 1)))
        assert _named_sidecars(root) <= _sidecars(root)

    checked(lambda: table.append(rows_with(50, 51)))
    assert before <= _named_sidecars(root)
    checked(lambda: _clean(table))
    assert before <= _sidecars(root)
    checked(lambda: table.delete("id = 10"))
    checked(lambda: table.update({"v": "'new'"}, "id = 20"))
    checked(lambda: table.tags.create("x", 3))
    checked(lambda: table.compact(full=True))
    checked(lambda: rust.append("t", rows_with(60, 61)))
    checked(lambda: table.maintenance.compact_manifests())
    checked(lambda: table.snapshots.expire(retain_max=1))
    checked(lambda: _clean(table))
    assert _sidecars(root) == _named_sidecars(root)  # those of the tag
    table.tags.delete("x")
    assert _sidecars(root) == _named_sidecars(root)
    assert not before & _sidecars(root)
    assert not table.maintenance.verify(deep=True).findings
    assert table.count() == 11


@pytest.mark.parametrize("kind", _KINDS)
def test_pypaimon_and_we_write_in_turn(tmp_path: Path, pypaimon: Pypaimon, kind: str) -> None:
    keys, partitions, options = _KINDS[kind]
    root = pypaimon.create("t", SCHEMA, keys, partitions, options)
    table = pp.Table.open(root)
    steps: Sequence[Callable[[], object]] = (
        lambda: table.append(rows_with(150, 151)), lambda: table.delete("id = 10"),
        lambda: table.update({"v": "'x'"}, "id = 20"), lambda: table.compact(full=True),
        table.maintenance.compact_manifests,
        lambda: table.snapshots.expire(retain_max=1), lambda: _clean(table),
    )  # fmt: skip
    for number, step in enumerate(steps):
        pypaimon.append("t", rows_with(10 * number, 10 * number + 1))
        step()
        assert _read(pypaimon) == lines(table.scan().to_arrow())
    assert table.count() == 15
    assert not table.maintenance.verify(deep=True).findings
