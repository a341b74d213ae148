"""All that follows a commit of a stream: besides what follows any commit, small files of append tables are merged.

A stream adds files for ever, so that a table of ten thousand micro-batches has to be read as fast as one of a hundred.
Batches leave the merging to a call of ``table.compact``, as in Java Paimon, whose streams merge by a job of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from paimon_pyds.base.options import TableOptions
from paimon_pyds.engine.compact.after_write import errors_as_warnings
from paimon_pyds.errors import UnsupportedError
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.ops.after_commit import after_commit

_EVERY = 8
"""Snapshots after which it is looked whether files are to be merged."""


def after_stream_commit(store: TableStore, committed: int, options: Mapping[str, str]) -> None:
    """Do all that the options require after a commit of a stream. An error is only logged, or it becomes a warning.

    Args:
        store: the table, by which the commit got its name, and whose schema has been read.
        committed: the number of its snapshot.
        options: table options over the table's own.
    """
    once, schema = store.once, store.schema_read_last()
    is_due = once is not None and once.is_done and committed // _EVERY > once.before // _EVERY
    if is_due and not schema.primary_keys and not TableOptions({**schema.options, **options}).get("write-only"):
        from paimon_pyds.engine.compact.compact import compact
        from paimon_pyds.engine.compact.options import CompactOptions

        with errors_as_warnings(store), suppress(UnsupportedError):  # other tables are not compacted at all
            compact(store, CompactOptions(tiers=True, options=options))
    after_commit(store, committed, options)
