"""A table that is written and maintained at random, and the states of it that have to be there, with their rows."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

import paimon_pyds as pp
from support.live_files import table_files
from support.maintenance import changes_of, nothing_is_left_over, rows_of
from support.oracle import Oracle
from support.values import lines

_SCHEMA = pa.schema(
    [pa.field("p", pa.int32(), nullable=False), pa.field("k", pa.int32(), nullable=False), ("v", pa.int64())]
)
_LONGER = {"changelog.num-retained.min": "20", "manifest.merge-min-count": "3"}
KINDS = {
    "append, changelogs": ([], _LONGER),
    "vectors, changelogs": ([], {"deletion-vectors.enabled": "true", **_LONGER}),
    "key, changelogs": (["p", "k"], {"bucket": "2", **_LONGER}),
    "changelog, changelogs": (["p", "k"], {"bucket": "1", "changelog-producer": "lookup", **_LONGER}),
    "append": ([], {}),
    "vectors": ([], {"deletion-vectors.enabled": "true", "file-index.bitmap.columns": "v",
                     "file-index.in-manifest-threshold": "1b", "manifest.merge-min-count": "2"}),
    "key": (["p", "k"], {"bucket": "2"}),
    "key vectors": (["p", "k"], {"bucket": "1", "deletion-vectors.enabled": "true", "manifest.merge-min-count": "2"}),
    "changelog": (["p", "k"], {"bucket": "1", "changelog-producer": "lookup"}),
    "dynamic": (["p", "k"], {"bucket": "-1"}),
}  # fmt: skip
STEPS = (
    "append", "append", "append", "delete", "compact", "overwrite", "tag", "tag", "delete tag", "branch",
    "branch append", "branch delete", "branch compact", "branch expire", "branch tag", "delete branch", "fast forward",
    "expire", "expire", "expire changelogs", "branch expire changelogs", "rollback", "rollback to tag", "truncate",
    "drop partition", "compact manifests", "analyze", "consumer", "delete consumer", "orphans", "purge",
)  # fmt: skip

State = tuple[str, str, object]
"""A branch; ``snapshot``, ``tag`` or ``changes``; its number or name."""


class World:
    """A table, and the model of it: the states that have to be there, and their rows, None until they are seen."""

    def __init__(self, path: Path, kind: str, rng: random.Random) -> None:
        key, options = KINDS[kind]
        self.table = pp.Table.create(path, _SCHEMA, primary_key=key, partition_by=["p"], options=options)
        self.rng, self.keyed, self.numbers = rng, kind.startswith("changelog"), 0
        self.changelogs_outlive = kind.endswith("changelogs")
        self.states: dict[State, list[str] | None] = {}
        self.tagged: dict[tuple[str, str], int] = {}
        self.position: float = math.inf

    def on(self, branch: str) -> pp.Table:
        return pp.Table.open(self.table.path, branch=branch)

    def rows(self) -> pa.Table:
        self.numbers += 1
        ks = [self.rng.randrange(12) for _ in range(self.rng.randrange(1, 6))]
        ks = list(dict.fromkeys(ks))
        return pa.table({"p": [k % 2 for k in ks], "k": ks, "v": [self.numbers] * len(ks)}, _SCHEMA)

    def numbers_of(self, branch: str, kind: str = "snapshot") -> list[int]:
        return sorted(name for at, what, name in self.states if (at, what) == (branch, kind) and type(name) is int)

    def tags_of(self, branch: str) -> list[str]:
        return sorted(name for at, name in self.tagged if at == branch)

    def drop(self, branch: str, kind: str, numbers: Callable[[int], bool]) -> None:
        """Snapshots, changes or tags, by the numbers of their snapshots."""
        for name in self.tags_of(branch) if kind == "tag" else ():
            if numbers(self.tagged[branch, name]):
                del self.tagged[branch, name], self.states[branch, kind, name]
        for number in self.numbers_of(branch, kind):
            if numbers(number):
                del self.states[branch, kind, number]

    def step(self, name: str) -> None:
        table, rng = self.table, self.rng
        branch = self.on("b") if self.numbers_of("b") else None
        if name.startswith("branch "):
            if branch is not None:
                self.write(branch, name.removeprefix("branch "))
            return
        tags, ids = self.tags_of("main"), self.numbers_of("main")
        match name:
            case "branch" if branch is None and tags:
                tag = rng.choice(tags)
                table.branches.create("b", tag)
                self.tagged["b", tag] = id_ = self.tagged["main", tag]
                self.states |= dict.fromkeys(
                    [("b", "snapshot", id_), ("b", "tag", tag)], self.states["main", "tag", tag]
                )
                self.states["b", "changes", id_] = None
            case "delete branch" if branch is not None:
                table.branches.delete("b")
                self.forget_branch()
            case "fast forward" if branch is not None:
                table.branches.fast_forward("b")
                self.take_over()
            case "rollback" if ids:
                self.roll_back(rng.choice(ids[-3:]))
            case "rollback to tag" if tags:
                self.roll_back(rng.choice(tags))
            case "orphans":
                time.sleep(0.002)  # a file of this very millisecond counts as new
                assert not table.maintenance.remove_orphan_files("0 s", dry_run=False).files.num_rows
            case "purge":
                table.maintenance.purge(Path(table.path).name, named_states=True)
                id_ = table._store.latest_snapshot_id()
                self.states = {("main", "snapshot", id_): [], ("main", "changes", id_): None}
                self.tagged, self.position = {}, math.inf
            case "branch" | "delete branch" | "fast forward" | "rollback" | "rollback to tag":
                pass
            case _:
                self.write(table, name)

    def forget_branch(self) -> None:
        self.states = {state: rows for state, rows in self.states.items() if state[0] != "b"}
        self.tagged = {tag: id_ for tag, id_ in self.tagged.items() if tag[0] != "b"}

    def take_over(self) -> None:
        """What the branch has comes in the place of all since its first snapshot; its changes are read anew."""
        first, history = self.numbers_of("b")[0], self.numbers_of("b", "changes")[0]
        expired, latest = self.numbers_of("main")[0], self.numbers_of("main")[-1]
        for kind in ("snapshot", "tag"):
            self.drop("main", kind, lambda id_: id_ >= first)
        self.drop("main", "changes", lambda id_: id_ >= (history if id_ < expired else first))
        self.tagged |= {("main", name): id_ for (at, name), id_ in self.tagged.items() if at == "b"}
        for (at, kind, name), rows in list(self.states.items()):
            if at == "b" and kind != "changes":
                self.states["main", kind, name] = rows
        self.states |= dict.fromkeys([("main", "changes", id_) for id_ in self.numbers_of("b")])
        newest, last = self.numbers_of("b")[-1], self.table._store.latest_snapshot_id() or 0
        assert newest <= last <= max(newest, latest + 1)
        for id_ in range(newest + 1, last + 1):  # the newest state again, which changes nothing
            self.states |= {
                ("main", "snapshot", id_): self.states["b", "snapshot", newest],
                ("main", "changes", id_): [],
            }

    def roll_back(self, target: int | str) -> None:
        """To a snapshot, or a tag, of which a snapshot is made again."""
        self.table.snapshots.rollback(target)
        id_ = target if isinstance(target, int) else self.tagged["main", target]
        if isinstance(target, str):
            self.states["main", "snapshot", id_] = self.states["main", "tag", target]
            self.states.setdefault(("main", "changes", id_), None)
        for kind in ("snapshot", "changes", "tag"):
            self.drop("main", kind, lambda number: number > id_)

    def write(self, table: pp.Table, name: str) -> None:
        rng, branch = self.rng, table._store.branch
        tags, ids = self.tags_of(branch), self.numbers_of(branch)
        position = self.position if branch == "main" else math.inf
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
                table.maintenance.drop_partitions([{"p": rng.randrange(2)}])
            case "compact manifests":
                table.maintenance.compact_manifests()
            case "analyze":
                table.maintenance.analyze()
            case "tag" if ids:
                tag, id_ = f"t{rng.randrange(3)}", rng.choice(ids)
                table.tags.create(tag, id_, replace=True)
                self.tagged[branch, tag] = id_
                self.states[branch, "tag", tag] = self.states[branch, "snapshot", id_]
            case "delete tag" if tags:
                tag = rng.choice(tags)
                table.tags.delete(tag)
                del self.tagged[branch, tag], self.states[branch, "tag", tag]
            case "consumer" if ids:
                self.position = rng.choice(ids) + rng.randrange(2)
                table.maintenance.reset_consumer("c", int(self.position))
            case "delete consumer":
                table.maintenance.clear_consumers("c")
                self.position = math.inf
            case "expire" if ids:
                retained = rng.randrange(1, 4)
                table.snapshots.expire(retain_max=retained)
                first = min(ids[-1] - retained + 1, position)
                self.drop(branch, "snapshot", lambda id_: id_ < first)
                if not self.changelogs_outlive:
                    self.drop(branch, "changes", lambda id_: id_ < first)
            case "expire changelogs" if ids:
                retained, everything = rng.randrange(1, 8), rng.random() < 0.2
                table.snapshots.expire_changelogs(retain_max=retained, everything=everything)
                last = ids[0] if everything else min(ids[0] - 1, ids[-1] - retained + 1)  # the last one stays
                self.drop(branch, "changes", lambda id_: id_ < min(last, position))
        newest = ids[-1] if ids else 0
        for id_ in table._store.snapshot_ids():
            if id_ > newest:
                self.states |= {(branch, kind, id_): None for kind in ("snapshot", "changes")}

    def check(self) -> None:
        """There are the states of the model, no fewer and no more, with their rows, and the files that they need."""
        there: dict[State, list[str]] = {}
        branches = ["main", *self.table.branches.list()]
        for branch in branches:
            table = self.on(branch)
            there |= {(branch, "snapshot", i): rows_of(table, snapshot=i) for i in table._store.snapshot_ids()}
            there |= {(branch, "tag", name): rows_of(table, tag=name) for name in table.tags.list()}
            there |= {(branch, "changes", id_): rows for id_, rows in changes_of(table).items()}
            assert {name: tag.id for name, tag in table.tags.list().items()} == {
                name: id_ for (at, name), id_ in self.tagged.items() if at == branch
            }
        expected = {state: rows for state, rows in self.states.items() if not self.is_behind_a_gap(*state)}
        assert there.keys() == expected.keys()
        for state, rows in expected.items():
            assert rows is None or rows == there[state], state
        self.states |= there
        nothing_is_left_over(self.table)

    def is_behind_a_gap(self, branch: str, kind: str, name: object) -> bool:
        """Whether changes are older than some that are gone: no reader gets there."""
        if kind != "changes" or not isinstance(name, int):
            return False
        return any((branch, kind, id_) not in self.states for id_ in range(name, self.numbers_of(branch)[0]))

    def read_by_java(self, oracle: Oracle) -> None:
        """Java shows the same rows of each state that is left, of files that are counted as needed here, and finds the
        same orphans; it looks for tags of branches on the main branch."""
        where, answers = Path(self.table.path), {}
        with oracle.batch() as batch:
            for branch, kind, name in self.states:
                if kind == "changes" or (kind == "tag" and branch != "main"):
                    continue
                state = {"branch": None if branch == "main" else branch, kind: name}
                answers[branch, kind, name] = batch.read(where.parents[1], f"db.{where.name}", **state)
            files = [batch.files(where.parents[1], "db.t", snapshot=id_) for id_ in self.numbers_of("main")]
        for (branch, kind, name), answer in answers.items():
            assert answer.lines == lines(self.on(branch).scan(**{kind: name}).to_arrow()), (branch, kind, name)
        needed = set(table_files(self.table._store))
        assert {file["fileName"] for one in files for file in one.values} <= {Path(path).name for path in needed}
        ours = self.table.maintenance.remove_orphan_files("0 s", dry_run=True).files["path"].to_pylist()
        theirs = oracle.program("MaintenanceOracle", "orphans", where)
        assert sorted(path.removeprefix("file:") for path in theirs) == sorted(ours)
