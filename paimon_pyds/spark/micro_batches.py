"""`foreach_batch`: what a stream does to a table that its sink can't, such as deletes and merges, once per micro-batch.

Spark may repeat a micro-batch whose function has returned. The commit is named by the query and the number of the
batch, as the sink's are, and a batch that was committed is skipped.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from paimon_pyds.base.options.option import option_texts
from paimon_pyds.base.secrets import RedactedDict
from paimon_pyds.errors import OptionError, TableNotFoundError
from paimon_pyds.metadata.user_commits import CommitOnce, CommittedBeforeError, UserCommits
from paimon_pyds.ops.stream_writer import checked_user
from paimon_pyds.spark.catalogs import open_table
from paimon_pyds.spark.functions import merge, write
from paimon_pyds.spark.options import parse_write_options
from paimon_pyds.spark.stream_writer import QUERY_ID
from paimon_pyds.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Unpack

    from pyspark.sql import DataFrame

    from paimon_pyds.spark.options import WriteOptions
    from paimon_pyds.typing import Inserts, OptionValues, RowChanges, UnmatchedChanges, WriteMode, WriteSettings

_log = logging.getLogger("paimon_pyds.spark")


def foreach_batch(  # noqa: PLR0913 - named arguments that users type
    path: str,
    *,
    name: str | None = None,
    mode: WriteMode = "append",
    on: str | Sequence[str] | None = None,
    when_matched: RowChanges = None,
    when_not_matched: Inserts = None,
    when_not_matched_by_source: UnmatchedChanges = None,
    storage_options: Mapping[str, str] | None = None,
    options: OptionValues | None = None,
    **settings: Unpack[WriteSettings],
) -> Callable[[DataFrame, int], None]:
    """A function for ``df.writeStream.foreachBatch(…)`` that brings each micro-batch into a table, and each once.

    Without ``on`` a micro-batch is written as `paimon_pyds.spark.write` does: appended, in a table with a primary key
    merged with the rows of its keys, and with ``rowkind_column`` rows are taken away, too. With ``on`` it is merged by
    clauses as `paimon_pyds.spark.merge` does. Either makes one commit, named by the query and the number of the
    micro-batch, and a micro-batch that was committed before is skipped.

    Args:
        path: where the table is; or its name, with options of a catalog. A write makes it when it is missing.
        name: of the stream, which no other one into the table has. By default the id of the query, which only classic
            Spark gives. A query with a new checkpoint counts its micro-batches from 0 again: it needs another name.
        mode: ``append``, or ``overwrite`` for micro-batches that replace the rows.
        on: columns that are equal, or a condition, as for `paimon_pyds.Table.merge`.
        when_matched: as for `paimon_pyds.Table.merge`.
        when_not_matched: as for `paimon_pyds.Table.merge`.
        when_not_matched_by_source: as for `paimon_pyds.Table.merge`.
        storage_options: credentials and endpoints of the storage.
        options: table options for the writes.
        settings: those of `paimon_pyds.spark.write`; with ``on`` only ``branch`` has a meaning.

    Returns:
        The function. It pickles; with Spark Connect it runs on the server.

    Raises:
        OptionError: clauses without ``on``, settings or an overwrite with it, or no name.
    """
    clauses = {
        "when_matched": when_matched,
        "when_not_matched": when_not_matched,
        "when_not_matched_by_source": when_not_matched_by_source,
    }
    given = [clause for clause, value in clauses.items() if value is not None]
    if on is None and given:
        raise OptionError(f"{given[0]} is a clause of a merge, which needs on: the columns or the condition that match")
    branch, of_write = settings.get("branch"), {k: v for k, v in settings.items() if k != "branch" and v is not None}
    if on is not None and (of_write or mode != "append"):
        raise OptionError(f"{next(iter(of_write), 'mode')} has no meaning for a merge", hint="leave it out, or on")
    if mode not in ("append", "overwrite"):
        raise OptionError(f"mode is 'append' or 'overwrite', not {mode!r}")
    user = None if name is None else checked_user(name)
    spec = _Spec(path, user, branch, RedactedDict(storage_options or {}), RedactedDict(option_texts(options)))
    if on is not None:
        return partial(_merge, spec, on, clauses)
    return partial(_write, spec, mode, of_write)


@dataclass(frozen=True)
class _Spec:
    """What each micro-batch goes into, and as what. ``user``: the name of the stream; None for the id of the query."""

    path: str
    user: str | None
    branch: str | None
    storage: Mapping[str, str]
    options: Mapping[str, str]

    @property
    def given(self) -> dict[str, str]:
        """All options, as a write gets them."""
        branch = {} if self.branch is None else {"branch": self.branch}
        return {**self.storage, **branch, **self.options}

    def parsed(self) -> WriteOptions:
        """The same, parsed. Raises OptionError."""
        given = {"path": self.path, **self.given}
        return parse_write_options({name.lower(): text for name, text in given.items()}, overwrite=False)

    def named(self, df: DataFrame) -> str:
        """The commit user."""
        if self.user is not None:
            return self.user
        context = getattr(df.sparkSession, "_sc", None)
        found = None if context is None else context.getLocalProperty(QUERY_ID)
        if not found:
            raise OptionError(
                "Spark does not say which query the micro-batch is of, as always with Spark Connect",
                hint="give foreach_batch a name: that of the stream, which no other one into the table has",
            )
        return str(found)


def _write(spec: _Spec, mode: WriteMode, settings: Mapping[str, Any], df: DataFrame, batch: int) -> None:
    user = spec.named(df)
    try:
        done = _is_committed(open_table(spec.parsed()), user, batch)
    except TableNotFoundError:  # the write makes it
        done = False
    if not done:
        name = {"commit-user": user, "commit-identifier": batch}
        write(df, spec.path, mode, {**spec.given, **name}, **settings)


def _merge(spec: _Spec, on: str | Sequence[str], clauses: Mapping[str, Any], df: DataFrame, batch: int) -> None:
    user, parsed = spec.named(df), spec.parsed()
    table = open_table(parsed)
    if _is_committed(table, user, batch):
        return
    named = Table(table._store.committing(CommitOnce(UserCommits(user), batch)))
    try:
        merge(df.sparkSession, named, df, on, options=parsed.table, **clauses)
    except CommittedBeforeError as error:  # by another process, a moment ago
        _log.info("%s", error)


def _is_committed(table: Table, user: str, batch: int) -> bool:
    store = table._store
    last = UserCommits(user).last(store, store.latest_snapshot())
    if last is None or last.identifier < batch:
        return False
    _log.warning(
        "micro-batch %d of %r was committed before, and is skipped; a query with a new checkpoint needs a new name",
        batch,
        user,
    )
    return True
