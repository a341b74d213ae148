"""What operations that write data files begin with, and what they leave when they fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paimon_pyds.commit_message import CommitMessage
from paimon_pyds.execution.instant_writers import check_instant_writers
from paimon_pyds.metadata.store import TableStore
from paimon_pyds.options import check_branch, check_known, check_shape, check_writable
from paimon_pyds.storage.base import discard
from paimon_pyds.write import WriteContext
from paimon_pyds.write.checks import check_files

__all__ = ["abort_messages", "write_context"]


def write_context(store: TableStore, options: Mapping[str, str] | None = None) -> WriteContext:
    """What tasks need to write to the table.

    Raises:
        UnsupportedError: a table that can't be written to.
        OptionError: an unknown option, or one that would shape the table otherwise.
    """
    schema = store.latest_schema()
    check_known(options or (), own=False)
    check_branch(schema, store.branch, store.root)
    check_shape(schema, options or {}, store.root)
    check_writable(schema, options)
    context = WriteContext(store.io, store.root, store.branch, schema, dict(options or {}))
    check_files(schema.fields, context.raw_options)
    check_instant_writers(store, schema, context.raw_options)
    return context


def abort_messages(store: TableStore, messages: Sequence[CommitMessage | None]) -> None:
    """Remove the files of messages that nobody has committed; best effort."""
    discard(store.io, (path for message in messages if message is not None for path in message.paths()))
