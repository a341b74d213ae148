"""Tables that the options of a read or a write name in a catalog, and what of that goes where.

Plans and the tasks' copies of writers hold a table's storage, never the catalog's options: those stay on the driver,
where loads, plans and commits use the catalog.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from paimon_pyds.base.secrets import RedactedDict
from paimon_pyds.errors import CommitConflictError, CommitError, OptionError
from paimon_pyds.table import Table

if TYPE_CHECKING:
    from paimon_pyds.catalog import Catalog
    from paimon_pyds.metadata.store import TableStore
    from paimon_pyds.ops.ddl.create import TakeBack
    from paimon_pyds.spark.options import ReadOptions, WriteOptions


def open_catalog(options: Mapping[str, str]) -> Catalog:
    """The catalog of these options: ``catalog`` is its name in the config file, the others take precedence."""
    from paimon_pyds.catalog import Catalog  # tables that are named by their paths do without

    given = dict(options)
    name = given.pop("catalog", None)
    return Catalog.open(given) if name is None else Catalog.configured(name, given)


def open_table(options: ReadOptions | WriteOptions) -> Table:
    """The table that options name. Raises NotFoundError."""
    store = getattr(options, "store", None)
    if store is not None:
        return Table(store)
    if options.catalog is None:
        return Table.open(options.path, options.branch, options.storage)
    return open_catalog(options.catalog).table(_name(options))


def given_table(path: str | Table, branch: str | None, storage_options: Mapping[str, str] | None) -> Table:
    """The table that a function got, or the one at a path.

    Raises:
        OptionError: a table has its branch and its storage already.
        TableNotFoundError, BranchNotFoundError: the path has no table, or no such branch.
    """
    if not isinstance(path, Table):
        return Table.open(path, branch, storage_options)
    if branch is not None or storage_options is not None:
        raise OptionError("a table has its branch and its storage already", hint="leave branch and storage_options out")
    return path


def _name(options: ReadOptions | WriteOptions) -> str:
    return options.path if options.branch is None else f"{options.path}$branch_{options.branch}"


def taking_back_of(options: WriteOptions) -> TakeBack | None:
    """What takes a table away again that a write has made; None where it is one of a path."""
    if options.catalog is None:
        return None
    from paimon_pyds.catalog.catalog import taking_back

    return taking_back(open_catalog(options.catalog), options.path)


class CommitCatalog:
    """The catalog's table that a write commits to, in the driver's copy of a writer.

    Spark pickles a writer twice: within the function of its tasks, and then by itself for the commit and the abort.
    Only the second copy gets the options of the catalog. (Source: pyspark/sql/worker/write_into_data_source.py.)
    """

    def __init__(self, options: Mapping[str, str] | None, name: str) -> None:
        self._options = None if options is None else RedactedDict(options)
        self._name = name
        self._tasks_have_theirs = False

    @classmethod
    def of(cls, options: WriteOptions) -> CommitCatalog | None:
        """That of a write; None where it names a path."""
        return None if options.catalog is None else cls(options.catalog, _name(options))

    def __reduce__(self) -> tuple[Any, ...]:
        sent = self._options if self._tasks_have_theirs else None
        self._tasks_have_theirs = True
        return (CommitCatalog, (sent, self._name))

    def take_back(self, root: str, digest: str) -> None:
        """Take the table away again that the write has made, if nobody has used it since."""
        from paimon_pyds.catalog.catalog import taking_back

        store = self.store(root)
        assert self._options is not None
        taking_back(open_catalog(self._options), self._name)(store.io, root, digest)

    def store(self, root: str) -> TableStore:
        """The table whose files a write has put under ``root``.
        Raises CommitConflictError: the name is another table's by now; CommitError: this is a task's copy."""
        if self._options is None:
            raise CommitError("this process did not get the options of the catalog: it can't commit", path=root)
        store = open_catalog(self._options).table(self._name)._store
        if store.root != root:
            raise CommitConflictError("the table was dropped since the write began: its name is another's", path=root)
        return store
