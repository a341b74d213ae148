"""System tables: what a table's metadata says, as rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from paimon_pyds.base.row_stream import RowStream
from paimon_pyds.namespaces.namespace import Namespace

if TYPE_CHECKING:
    from typing import Unpack

    from paimon_pyds.ops.system.row_changes import AuditLog, Binlog
    from paimon_pyds.typing import Filter, SystemArguments, SystemName


class System(Namespace):
    """System tables of a table: ``table.system``."""

    def read(self, name: SystemName, where: Filter = None, **query: Unpack[SystemArguments]) -> pa.Table:
        """A system table such as ``files`` or ``snapshots``, in memory.

        Args:
            name: of the system table.
            where: a condition on its columns, as for `scan`.
            **query: ``columns``, ``limit`` and ``options``, as for `scan`.

        Returns:
            The rows.

        Raises:
            OptionError: no such system table.
            UnknownColumnError: no such column.
            CorruptFileError: metadata is damaged.
        """
        return self.scan(name, where, **query).to_arrow()

    def scan(self, name: SystemName, where: Filter = None, **query: Unpack[SystemArguments]) -> RowStream:
        """A query on a system table, run by ``to_batches``, ``to_reader`` or ``to_arrow``.

        ``ro`` has the rows that a scan with the option ``read-optimized`` gives, ``row_tracking`` those of a scan with
        ``_ROW_ID`` and ``_SEQUENCE_NUMBER`` among its columns.

        Args:
            name: see `paimon_pyds.ops.system.tables.NAMES`.
            where: a condition on the columns of the system table, such as ``"partition = '{1}' AND level > 0"`` of
                ``files``; ``filter`` is another name for it.
            **query: ``columns``, ``limit``, and ``options``: Paimon's scan options, as in `Table.scan`.

        Returns:
            The query; metadata is read when rows are taken.

        Raises:
            OptionError: no such system table.
            UnknownColumnError: no such column.
        """
        from paimon_pyds.ops.system.tables import system_scan
        from paimon_pyds.scan import Scan

        return system_scan(self._store, Scan, name, where, **query)

    def audit_log(
        self,
        where: Filter = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        options: Mapping[str, Any] | None = None,
        *,
        filter: Filter = None,
    ) -> AuditLog:
        """The system table ``audit_log``: each row with its kind, run by ``to_batches``, ``to_reader``, ``to_arrow``.

        Args:
            where: a condition on the table's columns, as in `Table.scan`.
            columns: ``rowkind`` and the table's columns; all by default.
            limit: rows to return at most.
            options: Paimon's scan options, such as ``{"incremental-between": "3,7"}``.
            filter: another name for ``where``.

        Returns:
            An `AuditLog`; rows are read when they are taken.

        Raises:
            UnknownColumnError: no such column.
            OptionError: an unknown or contradictory option.
        """
        from paimon_pyds.ops.system.row_changes import AuditLog

        return AuditLog(self._table.scan(where, limit=limit, options=options, filter=filter), columns)

    def binlog(self, columns: Sequence[str] | None = None, options: Mapping[str, Any] | None = None) -> Binlog:
        """The system table ``binlog``: updates as one row, with lists of what was before and what is after them.

        Args:
            columns: ``rowkind`` and the table's columns; all by default.
            options: as in `audit_log`.

        Returns:
            A `Binlog`; rows are read when they are taken.

        Raises:
            UnknownColumnError: no such column.
            OptionError: an unknown or contradictory option.
        """
        from paimon_pyds.ops.system.row_changes import Binlog

        return Binlog(self._table.scan(options=options), columns)

    def describe_options(self) -> pa.Table:
        """Every option with its value, default, and whether it is honoured, ignorable or refused."""
        from paimon_pyds.base.options.describe import describe_options

        return describe_options(self._table.schema)
