"""Random operations on a table, and a follower that is stopped and started meanwhile: its changes, applied in order,
are the table."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import paimon_pyds as pp
from paimon_pyds.engine.stream.follow import Change
from paimon_pyds.errors import SchemaError, SnapshotNotFoundError

KINDS = ("append", "none", "input", "lookup", "full-compaction")
ALL = 1_000_000
"""Read to the end."""
_OVERWRITES = {"append": "streaming-read-append-overwrite", "none": "streaming-read-overwrite",
               "input": "streaming-read-overwrite"}  # fmt: skip


class FollowerWorld:
    """One table and one follower.

    ``kind``: an append table, or the changelog-producer of a table with a primary key. ``seed``: of all choices.
    """

    def __init__(self, root: Path, kind: str, seed: int) -> None:
        self.random, self.kind = random.Random(f"{kind} {seed}"), kind
        self.keyed = kind != "append"
        options = {"write-only": "true", "snapshot.num-retained.min": "1"}
        if self.keyed:
            options |= {"bucket": str(self.random.choice((1, 2, -1))), "changelog-producer": kind}
        if kind in ("input", "none") and self.random.random() < 0.4:
            options["changelog.num-retained.min"] = "1000"
        self.table = pp.Table.create(
            root / f"{kind}-{seed}", "id BIGINT, p INT, v STRING", primary_key=["id", "p"] if self.keyed else None,
            partition_by=["p"], options=options,
        )  # fmt: skip
        self.columns = ["id", "p", "v"]
        self.stream_options: dict[str, str] = {}
        if kind in _OVERWRITES and self.random.random() < 0.7:
            self.stream_options[_OVERWRITES[kind]] = "true"
        self.batch_rows = self.random.choice((1, 2, 5, 1_000))
        self.consumer = "job" if self.random.random() < 0.3 else None
        self.log: list[str] = []
        self._added = 0
        self.begin()

    # ------------------------------------------------------------------------------------ the follower

    def begin(self) -> None:
        """A follower that starts with the newest state."""
        self.position: str | None = None
        self.seen: Counter[tuple[Any, ...]] = Counter()
        self.state: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        self.places: list[tuple[int, int, int]] = []
        self.overwritten = False
        self.changed_since: int | None = None
        """The first schema in which a column that is read is gone, or has another type."""
        self.rolled_back = False
        self.read_columns = list(self.columns)
        self.start()
        self.log.append(f"begin at {self.position}")

    def start(self) -> None:
        """Start a new follower."""
        self.position = self._follow(anew=True).position.to_json()

    def _follow(self, *, anew: bool = False) -> pp.engine.stream.follow.Follow:  # type: ignore[name-defined]
        options: dict[str, Any] = dict(self.stream_options)
        if anew and self.consumer:
            options["consumer.ignore-progress"] = "true"
        follow = self.table.follow(
            position=self.position, until="latest", rowkind_column="kind", options=options, consumer_id=self.consumer,
            poll=0.001,
        )  # fmt: skip
        follow._batch_rows = self.batch_rows
        return follow

    def read(self, most: int) -> None:
        """Read some changes from the stored position. ``most``: batches."""
        follow = self._follow()
        for change in follow:
            self.apply(change)
            self.position = change.position.to_json()
            most -= 1
            if not most:
                follow.close()
                return
        self.position = follow.position.to_json()

    def apply(self, change: Change) -> None:
        """What a reader does with a change."""
        place = change.position.place
        assert not self.places or place > self.places[-1], "positions only go forward"
        self.places.append(place)
        self.apply_rows(change.batch.to_pylist())

    def apply_rows(self, rows: list[dict[str, Any]]) -> None:
        """Apply rows with their kinds, in their order."""
        for row in rows:
            kind, values = row.pop("kind"), tuple(row.values())
            key = values[:2]
            if not self.keyed:
                assert kind == "+I"
                self.seen[values] += 1
                continue
            if self.kind in ("lookup", "full-compaction"):
                self._check_exact(kind, key, values)
            if kind in ("+I", "+U"):
                self.state[key] = values
            elif kind == "-D":
                self.state.pop(key, None)

    def _check_exact(self, kind: str, key: tuple[Any, ...], values: tuple[Any, ...]) -> None:
        """Changelogs of compactions say what was before."""
        before = self.state.get(key)
        if kind == "+I":
            assert before is None, (kind, key, before)
        elif kind == "+U":
            assert before is not None, (kind, key)
        else:
            assert before == values, (kind, key, before, values)

    def check(self) -> None:
        """Read to the end and compare with the table."""
        if self.kind in ("lookup", "full-compaction"):
            self.table.compact(full=True)
        self._reads(self.read, ALL)
        if self.changed_since is not None:
            assert self.table.snapshots.latest().schema_id < self.changed_since, self.log
            return
        rows = [tuple(row.values()) for row in self.table.scan(columns=self.read_columns).to_arrow().to_pylist()]
        if self.keyed:
            if self.stream_options or not self.overwritten:
                assert self.state == {row[:2]: row for row in rows}, self.log
        elif not self.overwritten:
            assert self.seen == Counter(rows), self.log

    # ------------------------------------------------------------------------------------ the table

    def step(self) -> None:
        """One random operation, or some reading."""
        actions = (
            ["write"] * 5 + ["read"] * 4 + ["compact", "expire", "rollback", "alter", "delete", "overwrite", "check"]
        )
        action = self.random.choice(actions)
        self.log.append(action)
        getattr(self, f"_{action}")()

    def _rows(self) -> list[dict[str, Any]]:
        count = self.random.randint(1, 6)
        rows = [{"id": self.random.randint(0, 15), "p": self.random.randint(0, 1), "v": str(self.random.random())[:6]}
                for _ in range(count)]  # fmt: skip
        if self.keyed:
            rows = list({(row["id"], row["p"]): row for row in rows}.values())
        for name in self.columns[3:]:
            for row in rows:
                row[name] = self.random.randint(0, 9)
        return rows

    def _write(self) -> None:
        self.table.append(self._rows())

    def _read(self) -> None:
        self._reads(self.read, self.random.randint(1, 6))

    def _compact(self) -> None:
        self.table.compact(full=self.random.random() < 0.7)

    def _delete(self) -> None:
        if self.keyed and self.table.snapshots.latest() is not None:
            self.table.delete(f"id < {self.random.randint(0, 4)}")

    def _overwrite(self) -> None:
        if self.kind in ("lookup", "full-compaction"):
            return
        partition = self.random.choice((0, 1))
        rows = [{**row, "p": partition} for row in self._rows()]
        rows = list({row["id"]: row for row in rows}.values())
        self.table.overwrite(rows, partition={"p": partition})
        self.overwritten = True

    def _expire(self) -> None:
        self.table.snapshots.expire(retain_max=self.random.randint(1, 6), retain_min=1)
        ids = [snapshot.id for snapshot in self.table.snapshots.list()]
        retains = f"{self.consumer}.retained" in self.table.maintenance.consumers()
        if (
            self.position
            and self.rolled_back
            and not retains
            and "changelog.num-retained.min" not in self.table.options
        ):
            before = pp.engine.stream.StreamPosition.from_json(self.position).next - 1  # type: ignore[attr-defined]
            if before not in ids:  # nothing tells of the rollback any more
                self.begin()
        if self.consumer is None:
            return
        for next_ in self.table.maintenance.consumers().values():
            assert not ids or next_ >= ids[0] or self.rolled_back, "a consumer keeps what it has yet to read"

    def _rollback(self) -> None:
        snapshots = self.table.snapshots.list()
        if len(snapshots) < 2 or self.random.random() < 0.5:
            return
        target = self.random.choice(snapshots[:-1]).id
        self.log.append(f"to {target}")
        self.rolled_back = True
        self.table.snapshots.rollback(target)
        found = self.table.maintenance.consumers()
        if self.consumer and found.get(self.consumer, 0) > target + 1:
            self.table.maintenance.reset_consumer(self.consumer)

    def _alter(self) -> None:
        if len(self.columns) < 5:
            self._added += 1
            name = f"c{self._added}"
            self.table.alter(add_columns={name: "INT"})
            self.columns.append(name)
            return
        name, before = self.columns[3], self.table.schema.id
        if self.random.random() < 0.5:
            schema = self.table.alter(drop_columns=[name])
            self.columns.remove(name)
        else:
            schema = self.table.alter(change_types={name: "BIGINT"})
        if name in self.read_columns and self.changed_since is None and schema.id > before:
            self.changed_since = schema.id

    def _check(self) -> None:
        self.check()

    def _reads(self, read: Any, most: int) -> None:
        """Read, or begin anew where the table has lost what comes next, and only there."""
        try:
            read(most)
        except SnapshotNotFoundError as error:
            text = str(error)
            self.log.append(text)
            position = pp.engine.stream.StreamPosition.from_json(self.position or "")  # type: ignore[attr-defined]
            ids = [snapshot.id for snapshot in self.table.snapshots.list()]
            if "rolled back" in text:
                assert any(entry.startswith("to ") for entry in self.log), self.log
            else:
                assert "expired" in text, self.log
                assert self.consumer is None or self.rolled_back, ("a consumer keeps what it has yet to read", self.log)
                replaced = self.keyed and bool(self.stream_options)  # what an overwrite replaced goes one before it
                assert position.next < ids[0] + replaced, self.log
                assert replaced or "changelog.num-retained.min" not in self.table.options or position.reads_state, (
                    self.log
                )
            self.begin()
            self._reads(read, most)
        except SchemaError:
            assert self.changed_since is not None, self.log
            self.begin()
            self._reads(read, most)


def play(world: FollowerWorld, steps: int = 30) -> None:
    """One sequence."""
    for _ in range(steps):
        world.step()
    world.check()
