"""The position of a stream: where it started, and what it reads next. It is stored as JSON, by Spark too."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, Literal

from paimon_pyds.base.records import dataclass
from paimon_pyds.base.text import one_line
from paimon_pyds.errors import OptionError
from paimon_pyds.metadata.snapshot import Snapshot

_VERSION = 1
"""The version of the JSON form: a later one is refused, as what it adds is not known."""
_HINT = "give what position.to_json() returned, unchanged"


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """A place in the changes of a table: all that is needed to go on from there, in another process too.

    A stream that starts with a state of the table (``first`` is ``full``) reads that state in splits, and then the
    changes of each later snapshot. Positions of one stream are ordered by ``place``.

    Attributes:
        table: identifies the table: a table that was created anew has another one.
        schema: the number of the table's schema when the stream started.
        first: ``full`` if the state of snapshot ``start`` is read first, ``changes`` if the stream begins with its
            changes.
        start: the snapshot that the stream starts with.
        next: the snapshot to read next. While it is ``start``, and ``first`` is ``full``, its state is being read.
        splits: how many splits of that state are done.
        rows: how many rows were given of what is being read: of the split, or of the changes of snapshot ``next``.
        plan: identifies the snapshot and the files that ``splits`` and ``rows`` count in; empty where both are 0.
        last: identifies the snapshot before ``next``, or the one whose state is being read, so that a rollback is
            noticed; empty where it is not known.
        tag: the tag that keeps the state to read first; empty for a snapshot.
        created: of that state only files made at this time or later are read, milliseconds since the epoch; 0 for all.
    """

    table: str
    schema: int
    first: Literal["full", "changes"]
    start: int
    next: int
    splits: int = 0
    rows: int = 0
    plan: str = ""
    last: str = ""
    tag: str = ""
    created: int = 0

    def __repr__(self) -> str:
        inside = [f"{self.splits} splits done" if self.splits else "", f"{self.rows:,} rows done" if self.rows else ""]
        what = "state of snapshot" if self.reads_state else "changes of snapshot"
        return one_line(self, f"next: {what} {self.next}", *inside)

    @property
    def reads_state(self) -> bool:
        """Whether the stream has yet to read the state that it starts with, or a rest of it."""
        return self.first == "full" and self.next == self.start

    @property
    def place(self) -> tuple[int, int, int]:
        """What positions of one stream are ordered by."""
        return self.next, self.splits, self.rows

    def after(self, snapshot: Snapshot) -> StreamPosition:
        """The position after all of a snapshot."""
        return replace(self, next=snapshot.id + 1, splits=0, rows=0, plan="", last=snapshot_identity(snapshot))

    def inside(self, splits: int, rows: int, plan: str) -> StreamPosition:
        """The position within the state or the changes of snapshot ``next``."""
        return replace(self, splits=splits, rows=rows, plan=plan if splits or rows else "")

    def to_json(self) -> str:
        """The position as JSON text, of integers and strings, with the same order of members each time."""
        return json.dumps(self.to_dict())

    def to_dict(self) -> dict[str, int | str]:
        """The same as a dictionary."""
        return {"version": _VERSION, **{name: getattr(self, name) for name in _MEMBERS}}

    @classmethod
    def from_json(cls, text: str | Mapping[str, Any]) -> StreamPosition:
        """The position of `to_json`, or of `to_dict`. Raises OptionError: not a position, or of a newer version."""
        try:
            members = json.loads(text) if isinstance(text, str | bytes) else text
        except ValueError as error:
            raise OptionError(f"a position is JSON text, not {text!r:.80}", hint=_HINT) from error
        if not isinstance(members, Mapping) or type(members.get("version")) is not int:
            raise OptionError(f"not the position of a stream: {text!r:.80}", hint=_HINT)
        if members["version"] > _VERSION:
            what = f"the position has version {members['version']}, this package reads up to {_VERSION}"
            raise OptionError(what, hint="a newer paimon-pyds wrote it: upgrade this one")
        values = {name: members.get(name, _DEFAULTS.get(name)) for name in _MEMBERS}
        for name, value in values.items():
            is_right = isinstance(value, str) if name in _TEXTS else type(value) is int and value >= 0
            if not is_right:
                raise OptionError(f"the position's {name} can't be {value!r:.80}", hint=_HINT)
        if values["first"] not in ("full", "changes"):
            raise OptionError(f"the position's first can't be {values['first']!r:.80}", hint=_HINT)
        return cls(**values)


_MEMBERS = tuple(field.name for field in fields(StreamPosition))
_TEXTS = frozenset({"table", "first", "plan", "last", "tag"})
_DEFAULTS: Mapping[str, Any] = {"splits": 0, "rows": 0, "plan": "", "last": "", "tag": "", "created": 0}


def snapshot_identity(snapshot: Snapshot) -> str:
    """Identifies a snapshot among all that ever had its number: each commit's delta has a file name of its own."""
    return snapshot.delta_manifest_list
