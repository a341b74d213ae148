"""A random table that Java Paimon changes too: its steps are put into a batch, the model takes them at once."""

from __future__ import annotations

from pathlib import Path

import paimon_pyds as pp
from paimon_pyds.base.types import parse_type
from support.oracle import Batch
from support.shared_worlds import filters
from support.table_model import evaluate
from support.table_world import OWN, World


class SharedWorld(World):
    """Both sides write it. Java can't write bitmap blocks that are smaller than a value."""

    own = OWN | {"bitmap": [{}, {"version": "1"}]}

    def codecs(self) -> list[str]:
        """Java has no ``none`` for Avro, and no LZ4 for Parquet without a native library."""
        return ["zstd", "snappy", *(["none", "gzip"] if self.format == "parquet" else [])]

    @property
    def warehouse(self) -> Path:
        """Where Java finds ``db.t``."""
        return Path(self.table.path).parents[1]

    def reopen(self) -> None:
        """See what Java did."""
        self.table = pp.Table.open(self.table.path)

    def java_step(self, batch: Batch) -> None:
        """One change of Java's."""
        steps = [self.java_append] * 3 + [self.java_overwrite, self.java_compact, self.java_add_column]
        if self.table.options.get("deletion-vectors.enabled") == "true":
            steps += [self.java_delete] * 2
        self.pick(steps)(batch)

    def java_append(self, batch: Batch) -> None:
        rows = self.rows(1, 10)
        self.log.append(f"Java appends {self.arrow(rows).to_pylist()}")
        batch.write(self.warehouse, "db.t", self.arrow(rows))
        self.model.append(rows)

    def java_overwrite(self, batch: Batch) -> None:
        """The partitions that the rows are in; all of a table without partitions."""
        model, rows = self.model, self.rows(1, 6)
        self.log.append(f"Java overwrites with {self.arrow(rows).to_pylist()}")
        batch.write(self.warehouse, "db.t", self.arrow(rows), overwrite=True)
        written = {model.partition(row) for row in rows}
        model.replace(lambda row: model.partition(row) in written, rows)

    def java_compact(self, batch: Batch) -> None:
        self.log.append("Java compacts")
        batch.compact(self.warehouse, "db.t")
        self.vectors = True  # what Java drops of deleted rows, its counts don't tell us

    def java_delete(self, batch: Batch) -> None:
        for condition, asked in filters(self, 1):
            self.log.append(f"Java deletes {asked}")
            batch.delete(self.warehouse, "db.t", asked)
            self.model.rows = [row for row in self.model.rows if evaluate(condition, row) is not True]
            self.vectors = True

    def java_add_column(self, batch: Batch) -> None:
        unused = [n for n in self.names if n not in {c.name for c in self.model.columns}]
        if not unused:
            return
        new = self.fresh_column(self.pick(unused))
        if isinstance(new.type, dict):
            return
        self.log.append(f"Java adds {new.name} {parse_type(new.type)}")
        batch.alter(self.warehouse, "db.t", {"op": "add", "name": new.name, "type": new.type})
        self.model.columns = (*self.model.columns, new)
