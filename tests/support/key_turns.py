"""A random table with a primary key that Java Paimon changes, too, and its model, which says what changelogs hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

import pyarrow as pa

import paimon_pyds as pp
from paimon_pyds.errors import UnsupportedError
from paimon_pyds.metadata.snapshot import CommitKind
from support.engine_model import KIND, RETRACTS, Row, versions_of
from support.key_engines import write_kinds
from support.key_model import KINDS, Engine, KeyFile, KeyModel, Place
from support.key_world import KeyWorld
from support.oracle import Batch
from support.table_model import Column
from support.table_world import FORMATS, OWN, Pools
from support.values import json_rows, lines

_TYPES = Pools(
    {
        "INT": [0, 1, -7, 2**31 - 1], "BIGINT": [-(2**63) + 1, 0, 2**40], "STRING": ["", "a", "ab", "é", "z" * 40],
        "DATE": [date(1969, 12, 31), date(2026, 1, 31)], "BOOLEAN": [False, True],
    }
)  # fmt: skip
_CHANGELOG = {"incremental-between-scan-mode": "changelog"}
Keyed = dict[Place, dict[str, Row]]


@dataclass
class LoggedModel(KeyModel):
    """Says what the changelog of each snapshot must be.

    Attributes:
        logged: rows with their kinds, by snapshot.
        looking_up: compactions that look older rows up have the engine make a row of a single version, too.
    """

    logged: dict[int, list[tuple[str, Row]]] = field(default_factory=dict)
    looking_up: bool = False

    @property
    def producer(self) -> str:
        return self.engine.options["changelog-producer"]

    @property
    def top(self) -> int:
        """The highest level."""
        return int(self.engine.options["num-sorted-run.compaction-trigger"])

    def merge(self, rows: Iterable[Row]) -> list[Row]:
        """See `KeyModel`."""
        if not self.looking_up:
            return super().merge(rows)
        fold = self.engine.fold([name for name in self.names if name not in self.key])
        found = [fold(versions) for versions in versions_of(rows, self.trimmed, self.engine.order)]
        return [row for row in found if row is not None]

    def versions(self, files: Iterable[KeyFile], older: Iterable[KeyFile] = ()) -> list[Row]:
        """Where compactions look older rows up, what they find is in the newer row already."""
        listed = list(files)
        if self.producer != "lookup":
            return super().versions(listed)
        fresh = [row for file in listed if not file.level for row in file.rows]
        keys = self._distinct(fresh)
        found: dict[str, Row] = {}
        for file in sorted([*listed, *older], key=lambda file: -file.level):
            stays = not any(file is other for other in listed)
            for row in file.rows if file.level else ():
                if not stays or self._key_of(row) in keys:
                    found[self._key_of(row)] = row
        return [*found.values(), *fresh]

    def _written(
        self,
        table: pp.Table,
        added: Mapping[str, KeyFile],
        kept: Mapping[str, KeyFile],
        tasks: Sequence[Sequence[Row]],
        gone: Callable[[Row], bool],
    ) -> None:
        super()._written(table, added, kept, tasks, gone)
        (snapshot,) = (snapshot for snapshot in table.snapshots.list() if snapshot.id == self.snapshot)
        if self.producer == "input" and snapshot.commit_kind is not CommitKind.OVERWRITE:  # these log nothing
            rows = [row for task in tasks for row in task if self.engine.keeps(row)]
            self.logged[self.snapshot] = [(KINDS[row[KIND]], row) for row in rows]

    def _compacted(self, added: Mapping[str, KeyFile], kept: Mapping[str, KeyFile]) -> None:
        before = self._settled(self.files)
        lower = [
            file
            for name, file in self.files.items()
            if (name not in kept or kept[name].level != file.level) and self._is_new(file)
        ]
        self.looking_up = self.producer == "lookup" or self.engine.has_vectors
        super()._compacted(added, kept)
        self.looking_up = False
        if self.producer in ("lookup", "full-compaction"):
            after = self._settled({**kept, **added})
            self.logged[self.snapshot] = [
                change
                for place in self._places(lower)
                for key in self._distinct(row for file in lower if file.place == place for row in file.rows)
                for change in self._change(before.get(place, {}).get(key), after.get(place, {}).get(key))
            ]

    def _is_new(self, file: KeyFile) -> bool:
        """Whether the changelog has not told of a file's rows yet."""
        return file.level == 0 if self.producer == "lookup" else file.level < self.top

    def _settled(self, files: Mapping[str, KeyFile]) -> Keyed:
        """The rows that the changelog has told of."""
        if self.engine.hides_level_0:
            return {place: dict(rows) for place, rows in self.visible.items()}
        old = [file for file in files.values() if not self._is_new(file)]
        found: Keyed = {}
        for place in self._places(old):
            rows = self.merge(self.versions(file for file in old if file.place == place))
            found[place] = {self._key_of(row): row for row in rows if row[KIND] not in RETRACTS}
        return found

    def _change(self, before: Row | None, after: Row | None) -> list[tuple[str, Row]]:
        options = self.engine.options
        is_first = options.get("merge-engine") == "first-row"
        if before is None:
            return [] if after is None else [(KINDS[after[KIND]] if is_first else "+I", after)]
        if after is None:
            return [("-D", before)]
        same = all(before[name] == after[name] for name in self.names)
        if same and (is_first or options.get("changelog-producer.row-deduplicate") == "true"):
            return []
        return [("-U", before), ("+U", after)]


class TurnWorld(KeyWorld):
    """Both sides write it."""

    own = OWN | {"bitmap": [{}, {"version": "1"}]}
    model_type = LoggedModel
    formats = FORMATS

    def __init__(self, engines: Sequence[Engine], seed: int, path: Path, log: list[str]) -> None:
        super().__init__(engines, _TYPES, seed, path, log)
        self.model.looks_up = self.engine.hides_level_0  # else files are held against the model, too

    def fresh_column(self, name: str) -> Column:
        """Of types that both sides print alike; others have tests of their own."""
        return self._typed(name, self.pick([*_TYPES]))

    def _options(self, keys: Sequence[Column], columns: Sequence[Column]) -> dict[str, str]:
        options = super()._options(keys, columns)
        if self.model.partition_by and options["bucket"] == "-1":  # see test_interop_dynamic_buckets
            options["bucket"] = "2"
        # Java needs a buffer of three pages, and can't spill without a compression. Engines say what is write-only.
        without = ("write-buffer-size", "spill-compression", "write-only")
        return {key: value for key, value in options.items() if key not in without} | self.engine.options

    @property
    def warehouse(self) -> Path:
        """Where Java finds ``db.t``."""
        return Path(self.table.path).parents[1]

    def key_rows(self, most: int) -> list[Row]:
        """Java logs a row without its sequence group as merged, and keeps it as it is."""
        rows = super().key_rows(most)
        if "fields.s.sequence-group" in self.engine.options:
            rows = [{**row, "s": 0 if row["s"] is None else row["s"]} for row in rows]
        return rows

    def step(self) -> None:
        """One change of ours, and a look at it."""
        steps: list[Callable[[], None]] = [self.write] * 5 + [self.write_tasks, self.write_late]
        steps += [self.compact] * 2 + [self.overwrite]
        steps += [self.update_rows, self.merge_rows]
        if self.engine.options.get("merge-engine") != "first-row":  # there deletes rewrite files
            steps.append(self.delete_rows)
        self.pick(steps)()
        self.check()

    def merge_rows(self) -> None:
        """Rows replace those with their keys, or are new."""
        rows = {self._key_text(row): row for row in self.key_rows(8)}
        there = {self._key_text(row) for row in self.model.current_rows()}
        source = self.arrow_of(list(rows.values()))
        self.log.append(f"merge {source.to_pylist()}")
        try:
            made = self.table.merge(source, self.model.key, when_matched="update", when_not_matched="insert")
        except UnsupportedError as error:
            self.log.append(f"  {error}")
            return
        assert made.rows_updated == len(there & rows.keys())
        self._follow([[{**row, KIND: 2 if key in there else 0} for key, row in rows.items()]])

    def _key_text(self, row: Row) -> str:
        return repr([row[name] for name in self.model.key])

    def java_step(self, batch: Batch) -> list[Row]:
        """Java writes rows, and compacts all or what its options say; the rows."""
        rows, then = self.key_rows(25), self.pick(["", "", "full", "compact"])
        data = self._with_kinds(rows)
        self.log.append(f"Java appends {data.to_pylist()} {then}")
        listed = [{"_kind": row.pop("op"), **row} for row in json_rows(data)]
        write_kinds(batch, self.warehouse, "t", listed)
        if then == "full":
            batch.replies[-1].args += ["--compact", "full"]
        elif then == "compact":
            batch.compact(self.warehouse, "db.t")
        return rows

    def java_stepped(self, rows: Sequence[Row]) -> None:
        """See what Java did."""
        self.reopen()
        self._follow([list(rows)])
        self.check()

    def expected(self) -> list[str]:
        """The rows as Java prints them."""
        return lines(self.arrow_of(self.model.rows()))

    def check_changelog(self, first: int) -> None:
        """What the changelogs say of snapshots since one."""
        for id_ in self.model.logged:
            if id_ > first:
                told = self.table.system.audit_log(options=_CHANGELOG | {"incremental-between": f"{id_ - 1},{id_}"})
                assert lines(told.to_arrow()) == self.logged(id_), id_

    def logged(self, *snapshots: int) -> list[str]:
        """What the changelogs of some snapshots must say."""
        changes = [change for id_ in snapshots for change in self.model.logged[id_]]
        kinds = pa.array([kind for kind, _ in changes], pa.string())
        return lines(self.arrow_of([row for _, row in changes]).add_column(0, "rowkind", kinds))
