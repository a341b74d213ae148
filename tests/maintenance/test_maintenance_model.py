"""Any sequence of writes and of what keeps a table healthy: every state that is left shows the rows that it had, and
the files that are there are those that some state needs; after a rollback there are orphans, too, as in Java."""

from __future__ import annotations

import random
import shutil
import tempfile
from pathlib import Path

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import paimon_pyds as pp
from support.effort import LONG
from support.maintenance import has_all, is_exact, rows_of

_SCHEMA = pa.schema(
    [pa.field("p", pa.int32(), nullable=False), pa.field("k", pa.int32(), nullable=False), ("v", pa.int64())]
)
_KINDS = {
    "append": ([], {}),
    "vectors": ([], {"deletion-vectors.enabled": "true", "file-index.bitmap.columns": "v",
                     "file-index.in-manifest-threshold": "1b", "manifest.merge-min-count": "2"}),
    "key": (["p", "k"], {"bucket": "2"}),
    "key vectors": (["p", "k"], {"bucket": "1", "deletion-vectors.enabled": "true", "manifest.merge-min-count": "2"}),
    "changelog": (["p", "k"], {"bucket": "1", "changelog-producer": "lookup"}),
    "dynamic": (["p", "k"], {"bucket": "-1"}),
}  # fmt: skip
_STEPS = (
    "append", "append", "append", "delete", "compact", "overwrite", "tag", "tag", "delete tag", "branch",
    "branch append", "branch delete", "branch compact", "branch expire", "branch tag", "delete branch", "fast forward",
    "expire", "expire", "rollback", "rollback to tag", "truncate", "drop partition", "compact manifests", "analyze",
)  # fmt: skip
_SEQUENCES = st.lists(st.sampled_from(_STEPS), min_size=8, max_size=24)


class _World:
    """A table, and the rows that each of its states has to show."""

    def __init__(self, path: Path, kind: str, rng: random.Random) -> None:
        key, options = _KINDS[kind]
        self.table = pp.Table.create(path, _SCHEMA, primary_key=key, partition_by=["p"], options=options)
        self.rng, self.keyed, self.numbers = rng, kind == "changelog", 0
        self.states: dict[tuple[str, str, object], list[str]] = {}
        self.exact = True

    def on(self, branch: str) -> pp.Table:
        return pp.Table.open(self.table.path, branch=branch)

    def rows(self) -> pa.Table:
        self.numbers += 1
        ks = [self.rng.randrange(12) for _ in range(self.rng.randrange(1, 6))]
        ks = list(dict.fromkeys(ks))
        return pa.table({"p": [k % 2 for k in ks], "k": ks, "v": [self.numbers] * len(ks)}, _SCHEMA)

    def step(self, name: str) -> None:
        table, rng = self.table, self.rng
        branch = self.on("b") if "b" in table.branches() else None
        if name.startswith("branch "):
            if branch is not None:
                self.write(branch, name.removeprefix("branch "))
            return
        tags, ids = list(table.tags()), table.store.snapshot_ids()
        match name:
            case "branch":
                if branch is None and tags:
                    table.create_branch("b", rng.choice(tags))
            case "delete branch":
                if branch is not None:
                    table.delete_branch("b")
            case "fast forward":
                if branch is not None:
                    table.fast_forward("b")
                    self.exact = False
                    self.forget("main")
            case "rollback":
                if ids:
                    table.rollback(rng.choice(ids[-3:]))
                    self.exact = False
            case "rollback to tag":
                if tags:
                    table.rollback(rng.choice(tags))
                    self.exact = False
            case _:
                self.write(table, name)

    def write(self, table: pp.Table, name: str) -> None:
        rng, tags = self.rng, list(table.tags())
        match name:
            case "append":
                table.append(self.rows())
            case "delete" if not self.keyed:
                table.delete(f"k % 3 = {rng.randrange(3)}")
            case "compact":
                table.compact(full=rng.random() < 0.7)
            case "overwrite":
                table.overwrite(self.rows(), dynamic=rng.random() < 0.5)
            case "truncate":
                table.truncate()
            case "drop partition":
                table.drop_partitions([{"p": rng.randrange(2)}])
            case "compact manifests":
                table.compact_manifests()
            case "analyze":
                table.analyze()
            case "tag" if table.store.snapshot_ids():
                table.create_tag(f"t{rng.randrange(3)}", rng.choice(table.store.snapshot_ids()), replace=True)
                self.forget(table.store.branch, "tag")
            case "delete tag" if tags:
                table.delete_tag(rng.choice(tags))
                self.forget(table.store.branch, "tag")
            case "expire" if table.store.snapshot_ids():
                table.expire_snapshots(retain_max=rng.randrange(1, 4))

    def forget(self, branch: str, kind: str = "") -> None:
        """What a number or a tag names may be another state now; what it shows is read anew."""
        self.states = {s: rows for s, rows in self.states.items() if s[0] != branch or (kind and s[1] != kind)}

    def check(self) -> None:
        (is_exact if self.exact else has_all)(self.table)
        there: dict[tuple[str, str, object], list[str]] = {}
        for branch in ("main", *self.table.branches()):
            table = self.on(branch)
            there |= {(branch, "snapshot", i): rows_of(table, snapshot=i) for i in table.store.snapshot_ids()}
            there |= {(branch, "tag", name): rows_of(table, tag=name) for name in table.tags()}
        for state, rows in there.items():
            assert self.states.get(state, rows) == rows, state
        self.states = there

    def check_rollbacks(self, name: str) -> None:
        """Tags and snapshots of the same number show the same rows, wherever they are."""
        store = self.table.store
        for tag, snapshot in self.table.tags().items():
            if snapshot.id in store.snapshot_ids():
                assert self.states["main", "tag", tag] == self.states["main", "snapshot", snapshot.id], (name, tag)


@settings(max_examples=1000 if LONG else 6, deadline=None)
@given(
    st.sampled_from(sorted(_KINDS)), st.integers(0, 2**32), st.lists(st.sampled_from(_STEPS), min_size=8, max_size=24)
)
def test_what_each_state_shows_stays(kind: str, seed: int, steps: list[str]) -> None:
    directory = Path(tempfile.mkdtemp())
    try:
        world = _World(directory / "t", kind, random.Random(seed))
        for step in ("append", "append", "tag", *steps):
            world.step(step)
            world.check()
            world.check_rollbacks(step)
    finally:
        shutil.rmtree(directory)
