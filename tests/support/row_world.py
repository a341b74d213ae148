"""A random table under row-level operations, and its model in plain Python.

`RowWorld.STEPS` names the steps and how often each is taken; operations that come later add themselves there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from support.executors import Pickling
from support.table_model import Column, Row, State, as_text, evaluate, literal, to_arrow, to_sql, to_tree
from support.table_world import ID, World

VECTORS = {"deletion-vectors.enabled": "true", "deletion-vectors.modifiable": "true"}
MODES: list[dict[str, str]] = [
    {},
    VECTORS,
    VECTORS | {"deletion-vectors.bitmap64": "true"},
    VECTORS | {"deletion-vector.index-file.target-size": "1 b"},
    VECTORS | {"deletion-vectors.bitmap64": "true", "index-file-in-data-file-dir": "true"},
]
REWRITE = {"deletion-vectors.enabled": "false"}
SETTABLE = ("BOOLEAN", "INT", "BIGINT", "DOUBLE", "STRING", "DATE", "DECIMAL(4, 2)", "TIMESTAMP(6)")


class RowWorld(World):
    """Steps that change rows in place, among those that `World` has."""

    STEPS: ClassVar[dict[str, int]] = {
        "append": 4, "delete": 6, "update": 5, "merge": 5, "overwrite": 1, "alter": 2, "reindex": 1, "widen_vectors": 1,
        "compact": 3,
    }  # fmt: skip
    vectors = False

    def table_options(self) -> dict[str, str]:
        mode = self.pick(MODES)
        small = {"source.split.target-size": "1 b"} if self.random.random() < 0.5 else {}
        options = super().table_options() | mode | small
        self.vectors = "deletion-vectors.enabled" in options
        return options

    def step(self) -> None:
        """One change of the table, by one of the steps."""
        getattr(self, self.random.choices(list(self.STEPS), list(self.STEPS.values()))[0])()

    def how(self) -> dict[str, Any]:
        """Where an operation runs, and whether it may use vectors."""
        found: dict[str, Any] = {"executor": Pickling()} if self.random.random() < 0.3 else {}
        if self.vectors and self.random.random() < 0.2:
            found["options"] = REWRITE
        return found

    def meant(self, depth: int) -> tuple[Any, Any, list[bool]]:
        """A condition: as the operation takes it, and for which rows it is true."""
        if self.random.random() < 0.08:
            return "TRUE", "TRUE", [True] * len(self.model.rows)
        tree = self.random.random() < 0.3
        condition = self.condition(depth, micros=not tree)
        given = to_tree(condition) if tree else to_sql(condition)
        return given, to_sql(condition), [evaluate(condition, row) is True for row in self.model.rows]

    def delete(self) -> None:
        where, text, hit = self.meant(2)
        how = self.how()
        self.log.append(f"delete {text} {how}: {sum(hit)} rows")
        summary = self.table.delete(where, **how)
        assert summary.rows_deleted == sum(hit)
        self.changed(summary.snapshot_id, [row for row, h in zip(self.model.rows, hit, strict=True) if not h])

    def update(self) -> None:
        columns = [c for c in self.model.columns if c.type in SETTABLE or c == ID]
        chosen = self.some(columns, 1, 2)
        values = {c.uid: self.setting(c, columns) for c in chosen}
        assignments = {c.name: values[c.uid][0] for c in chosen}
        where, text, hit = self.meant(1)
        how = self.how()
        self.log.append(f"update {assignments} where {text} {how}: {sum(hit)} rows")
        summary = self.table.update(assignments, where, **how)
        assert summary.rows_updated == sum(hit)
        setters = {uid: setter for uid, (_, setter) in values.items()}
        fresh = [self.with_(row, setters) if h else row for row, h in zip(self.model.rows, hit, strict=True)]
        self.changed(summary.snapshot_id, fresh)

    def with_(self, row: Row, setters: Mapping[int, Callable[[Row], Any]]) -> Row:
        """The row as it is typed now, with some values set from its old ones."""
        return self.model.row({c.uid: setters.get(c.uid, lambda r, c=c: r.get(c))(row) for c in self.model.columns})

    def setting(self, column: Column, columns: Sequence[Column]) -> tuple[str, Callable[[Row], Any]]:
        """A value for a column: as SQL, and of a row."""
        if column == ID:
            return "id + 1000", lambda row: row.get(ID) + 1000
        others = [c for c in columns if c.type == column.type and c != column]
        if others and self.random.random() < 0.5:
            other = self.pick(others)
            return "`" + other.name.replace("`", "``") + "`", lambda row: row.get(other)
        value = self.maybe(self.pools[column.uid])
        return f"CAST({literal(value, column.type)} AS {column.type})", lambda row: value

    def reindex(self) -> None:
        self.log.append("rewrite_file_index")
        summary = self.table.index.build(rebuild=self.random.random() < 0.3)
        self.changed(summary.snapshot_id, list(self.model.rows), same=True)

    def compact(self) -> None:
        """Files are merged, deleted rows dropped, rows put in an order: they stay the same."""
        call: dict[str, Any] = {"full": self.random.random() < 0.5, "options": {"compaction.min.file-num": "2"}}
        free = [c for c in self.model.columns if c.name not in self.model.partition_by and isinstance(c.type, str)]
        if not self.bucket_key and self.random.random() < 0.4:
            call["order_by"] = [c.name for c in self.some(free, 1, 3)]
            call["order"] = self.pick(["order", "zorder", "hilbert"])
        if self.random.random() < 0.3:
            call["executor"] = Pickling()
        self.log.append(f"compact {call}")
        dry = self.table.compact(**call, dry_run=True)
        summary = self.table.compact(**call)
        assert (summary.rows, summary.rows_dropped, summary.files_before, summary.groups) == (
            dry.rows,
            dry.rows_dropped,
            dry.files_before,
            dry.groups,
        )
        self.changed(summary.snapshot_id, list(self.model.rows), same=True)

    def widen_vectors(self) -> None:
        """From now on vectors are written with the other width."""
        wide = self.table.options.get("deletion-vectors.bitmap64") == "true"
        self.log.append(f"bitmap64 = {not wide}")
        self.table.alter({"deletion-vectors.bitmap64": str(not wide).lower()})

    def changed(self, snapshot_id: int | None, rows: list[Row], *, same: bool = False) -> None:
        """The rows after a step that appended none; with ``same`` it keeps them all, snapshot or not."""
        if snapshot_id is None:
            assert same or rows == self.model.rows
            return
        assert snapshot_id == len(self.model.states) + 1
        self.model.rows = rows
        self.model.states.append(State(self.model.columns, rows, None))

    def check(self) -> None:
        """The table reads as the model says: whole, filtered, counted and limited."""
        table, model = self.table, self.model
        assert as_text(table.scan().to_arrow()) == as_text(to_arrow(model.rows, model.columns))
        assert table.count() == len(model.rows)
        condition = self.condition(2, micros=False)
        kept = [row for row in model.rows if evaluate(condition, row)]
        self.log.append(f"filter {to_sql(condition)}")
        assert as_text(table.scan(to_tree(condition)).to_arrow()) == as_text(to_arrow(kept, model.columns))
        assert table.scan(to_tree(condition)).count() == len(kept)
        limit = self.random.randint(0, len(model.rows) + 1)
        assert table.scan(limit=limit).to_arrow().num_rows == min(limit, len(model.rows))

    def check_past(self) -> None:
        """Every snapshot still reads as it did."""
        for id_, state in enumerate(self.model.states, 1):
            found = self.table.scan(snapshot=id_).to_arrow()
            assert as_text(found) == as_text(to_arrow(state.rows, state.columns)), id_
