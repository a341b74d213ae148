"""What the namespaces of a table have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paimon_pyds.base.row_stream import public_names

if TYPE_CHECKING:
    from paimon_pyds.metadata.store import TableStore
    from paimon_pyds.table import Table
    from paimon_pyds.typing import OptionValues


class Namespace:
    """Operations of one kind on a table. `paimon_pyds.Table` makes one whenever its property is read."""

    def __init__(self, table: Table) -> None:
        self._table = table

    @property
    def _store(self) -> TableStore:
        """The table's metadata for one operation."""
        return self._table._store

    def _maintain(self, committed: int | None, options: OptionValues | None) -> None:
        """Do what follows a commit; None for a call that committed nothing."""
        self._table._maintain(committed, options)

    def _publish(self) -> None:
        """Let Iceberg's readers see what was done to snapshots and tags, where the table publishes for them."""
        from paimon_pyds.ops.after_commit import after_metadata_change

        after_metadata_change(self._table._last_store)

    def __dir__(self) -> list[str]:
        return public_names(self)

    def __repr__(self) -> str:
        calls = ", ".join(name for name in public_names(self) if not name.startswith("_"))
        return f"<{type(self).__name__.lower()} of {self._table!r}: {calls}>"
