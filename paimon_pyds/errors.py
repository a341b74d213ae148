"""Every error that paimon_pyds raises on purpose, in one tree.

    PaimonError
    ├─ OptionError (ValueError)               an unknown option, a bad value, options that contradict each other
    ├─ ArgumentTypeError (TypeError)          an argument of another Python type than the call takes
    ├─ PredicateError (ValueError)            a condition that does not parse, or mixes types
    │  └─ ExpressionError                     the same of value expressions, and values that they fail on
    ├─ NotFoundError (LookupError)
    │  ├─ TableNotFoundError · DatabaseNotFoundError
    │  └─ SnapshotNotFoundError · TagNotFoundError · BranchNotFoundError
    ├─ AlreadyExistsError (ValueError)        a table or database that already exists
    ├─ UnsupportedError (NotImplementedError) a Paimon feature or option value that is refused by name
    ├─ SchemaError (ValueError)               data that does not fit the table, an evolution that is not allowed
    │  └─ UnknownColumnError                  a name of no column, wherever it stands; an ExpressionError, too
    ├─ CardinalityError (ValueError)          two source rows of a merge change one row of the table
    ├─ CorruptFileError (ValueError)          bytes that are not what the format says
    │  └─ MissingColumnError                  a data file without a column of its schema, or of another type
    ├─ StorageError (OSError)                 the storage said no: missing file, permission, full disk
    │  └─ MissingFileError (FileNotFoundError)  a file that is not there, or not any more
    ├─ CommitError (RuntimeError)
    │  ├─ CommitConflictError                 a concurrent commit contradicts ours; nothing was published
    │  ├─ AlreadyCommittedError               files of this commit are in the table, by an earlier commit of them
    │  └─ CommitOutcomeUnknownError           the storage did not say whether the snapshot was published
    └─ SecurityError (PermissionError)        a path that leaves the table

Each message reads: what happened — where — what to do. Errors pickle (Spark carries them from tasks to the driver).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from paimon_pyds.base.secrets import redact, visible

__all__ = [
    "PaimonError",
    "OptionError",
    "ArgumentTypeError",
    "PredicateError",
    "ExpressionError",
    "NotFoundError",
    "TableNotFoundError",
    "DatabaseNotFoundError",
    "SnapshotNotFoundError",
    "TagNotFoundError",
    "BranchNotFoundError",
    "AlreadyExistsError",
    "UnsupportedError",
    "SchemaError",
    "UnknownColumnError",
    "CardinalityError",
    "CorruptFileError",
    "MissingColumnError",
    "StorageError",
    "MissingFileError",
    "CommitError",
    "CommitConflictError",
    "AlreadyCommittedError",
    "CommitOutcomeUnknownError",
    "SecurityError",
]
_EXCERPT = re.compile(r"\n  [^\n]*\n {2,}\^\Z")
"""The line of a filter and the caret below it, which end a message; no other line break in one is ours."""
_MOST_CHARACTERS = 10_000
"""Characters after which a message is cut: an error about a text of megabytes shows its beginning."""


def _presentable(text: str) -> str:
    """A text as people may see it: without secrets, without characters that a terminal obeys, not endless."""
    if len(text) > _MOST_CHARACTERS:
        text = f"{text[:_MOST_CHARACTERS]}…"
    excerpt = _EXCERPT.search(text)
    lines = [text] if excerpt is None else [text[: excerpt.start()], *excerpt[0].split("\n")[1:]]
    return "\n".join(visible(redact(line)) for line in lines)


class PaimonError(Exception):
    """Base of every error raised on purpose.

    Secrets are blanked in all of them, and control characters written out (see `paimon_pyds.base.secrets`).

    Args:
        message: what happened, one sentence without a full stop.
        path: the file or table it happened at.
        hint: what the reader can do about it.
    """

    def __init__(self, message: str, *, path: object = None, hint: str | None = None) -> None:
        self.message = _presentable(message)
        self.path = None if path is None else _presentable(str(path))
        self.hint = None if hint is None else _presentable(hint)
        super().__init__(self.message)

    def __str__(self) -> str:
        parts = [self.message]
        if self.path is not None and self.path not in self.message:
            parts.append(f"at {self.path}")
        if self.hint is not None:
            parts.append(self.hint)
        return " — ".join(parts)

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), dict(self.__dict__)))


def _rebuild(kind: type[PaimonError], state: dict[str, object]) -> PaimonError:
    error = kind.__new__(kind)
    error.__dict__.update(state)
    error.args = (state["message"],)
    return error


class OptionError(PaimonError, ValueError):
    """An unknown option, a value that does not parse, or options that contradict each other."""


class ArgumentTypeError(PaimonError, TypeError):
    """An argument of another Python type than the call takes."""


class PredicateError(PaimonError, ValueError):
    """A condition that does not parse, names no column of the table, or compares what can't be compared."""


class ExpressionError(PredicateError):
    """A value expression that does not parse or bind, or fails on a value: overflow, division by zero, a bad cast."""


class NotFoundError(PaimonError, LookupError):
    """Something named by the caller does not exist."""


class TableNotFoundError(NotFoundError):
    """No Paimon table at that path or name."""


class DatabaseNotFoundError(NotFoundError):
    """No such database in the warehouse."""


class SnapshotNotFoundError(NotFoundError):
    """No such snapshot: it never was, or it has expired."""


class TagNotFoundError(NotFoundError):
    """No such tag."""


class BranchNotFoundError(NotFoundError):
    """No such branch."""


class AlreadyExistsError(PaimonError, ValueError):
    """A table or database of that name already exists."""


class UnsupportedError(PaimonError, NotImplementedError):
    """A Paimon feature, type or option value that this version refuses by name.

    Args:
        message: what is refused.
        path: the file or table.
        hint: what works instead.
        feature: the feature of docs/compatibility.md that it is a part of, by its name in `paimon_pyds.base.features`.
    """

    def __init__(
        self, message: str, *, path: object = None, hint: str | None = None, feature: str | None = None
    ) -> None:
        super().__init__(message, path=path, hint=hint)
        self.feature = feature


class SchemaError(PaimonError, ValueError):
    """Data that does not fit the table's schema, or a schema change that Paimon does not allow.

    Attributes:
        row: the position, in the batch that was looked at, of the first row that does not fit; None where no single
            row is to blame, or its position is not known.
        others: the errors of other columns of the same rows.
    """

    row: int | None = None
    others: Sequence[SchemaError] = ()

    def name_row(self, before: int) -> None:
        """Say which row of all data it is; ``before`` is the number of rows in earlier batches."""
        if self.row is not None:
            self.message += f", first in row {before + self.row + 1:,} of the data"
        for other in self.others:
            other.name_row(before)
            self.message += f"; {other.message}"
        self.row, self.others, self.args = None, (), (self.message,)


class UnknownColumnError(SchemaError, ExpressionError):
    """A name that no column has, or no field of a ROW: in a condition, a list of columns, an order, data, an option."""


class CardinalityError(PaimonError, ValueError):
    """Two source rows of a merge match one row of the table and would both change it."""


class CorruptFileError(PaimonError, ValueError):
    """Bytes that are not what the format says.

    Args:
        message: what is wrong.
        path: the file.
        offset: byte offset of the field in question.
        field: its name in the format's specification.
    """

    def __init__(
        self,
        message: str,
        *,
        path: object = None,
        offset: int | None = None,
        field: str | None = None,
        hint: str | None = None,
    ) -> None:
        where = [f"field {field}"] if field is not None else []
        if offset is not None:
            where.append(f"byte {offset}")
        super().__init__(f"{message} ({', '.join(where)})" if where else message, path=path, hint=hint)
        self.offset = offset
        self.field = field


class MissingColumnError(CorruptFileError):
    """A data file without a column that its schema has, or with one of another type, as those have that were migrated:
    their partitions' columns."""


class StorageError(PaimonError, OSError):
    """The storage refused or failed: a missing file, a permission, a full disk."""


class MissingFileError(StorageError, FileNotFoundError):
    """A file that is not there, or not any more: whoever reads a table while somebody removes its files may see it."""


class CommitError(PaimonError, RuntimeError):
    """A commit was not published."""


class CommitConflictError(CommitError):
    """What landed since the base snapshot makes this commit wrong. Nothing was published."""


class AlreadyCommittedError(CommitError):
    """An earlier commit added files of this one to the table. Nothing was published now, and nothing removed."""


class CommitOutcomeUnknownError(CommitError):
    """The storage did not answer whether the snapshot was published; its files were not removed."""


class SecurityError(PaimonError, PermissionError):
    """A path in the table's metadata leaves the table."""


READ_AGAIN = "read again to get the newest snapshot; tags keep a snapshot from expiring"


def expired_file(
    path: object,
    what: str = "a file",
    during: str = "read",
    hint: str = READ_AGAIN,
) -> SnapshotNotFoundError:
    """The error for a file that a state of the table names and the storage does not have any more.

    Args:
        path: of the file.
        what: it is, such as ``a deletion vector``.
        during: what was being done with the table.
        hint: what to do.
    """
    return SnapshotNotFoundError(
        f"{what} of the table is gone: the snapshot that needs it has expired or was rolled back, or the table was "
        f"dropped, while it was {during}",
        path=path,
        hint=hint,
    )


def columns_text(names: Sequence[str]) -> str:
    """``column 'a'``, or ``columns 'a', 'b'``; of many the first ten."""
    return f"column{'s' if len(names) > 1 else ''} {', '.join(map(repr, names[:10]))}{', …' if len(names) > 10 else ''}"


GROWS = "write.merge-schema=true adds new columns to the table"
"""What a hint says of columns of rows that the table does not have."""


def suggest(name: str, candidates: Iterable[str], what: str) -> str | None:
    """A hint for a name that was not found: ``did you mean …`` for similar
    names, else a list of a few, after ``what`` they are; None without candidates."""
    import difflib

    names = sorted(set(candidates))
    if not names:
        return None
    folded = {n.lower(): n for n in names}
    similar = difflib.get_close_matches(name.lower(), folded, n=3, cutoff=0.6)
    if similar:
        return f"did you mean {' or '.join(folded[n] for n in similar)}?"
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return f"{what}: {', '.join(names[:8])}{more}"
