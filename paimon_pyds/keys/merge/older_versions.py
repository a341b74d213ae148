"""What a table's options need of the older versions of rows, where a compaction leaves these alone on higher levels."""

from __future__ import annotations

from paimon_pyds.base.options import TableOptions
from paimon_pyds.base.records import dataclass


@dataclass(frozen=True, slots=True)
class OlderVersions:
    """How older versions are hidden when newer ones leave level 0.

    Attributes:
        looked_up: compactions look for them in the runs that they leave alone. So the version of the lowest level above
            0 has in it what higher ones hold. (Java: CoreOptions.needLookup.)
        hidden: deletion vectors hide them.
        first_counts: the oldest version stays, and newer ones are dropped.
        newest_counts: the newest version stays as it was written.
        deletes_ignored: so it does if it is no delete.
        logged: changelogs have them.
    """

    looked_up: bool
    hidden: bool
    first_counts: bool
    newest_counts: bool
    deletes_ignored: bool
    logged: bool

    @classmethod
    def of(cls, options: TableOptions) -> OlderVersions:
        """By a table's options."""
        engine, logged = options.get("merge-engine"), options.get("changelog-producer") == "lookup"
        hidden, first = bool(options.get("deletion-vectors.enabled")), engine == "first-row"
        return cls(
            looked_up=hidden or first or logged or bool(options.get("force-lookup")),
            hidden=hidden,
            first_counts=first,
            newest_counts=engine == "deduplicate" and not options.get("sequence.field"),
            deletes_ignored=bool(options.get("ignore-delete")),
            logged=logged,
        )

    @property
    def lowest_level_counts(self) -> bool:
        """Whether the version of the lowest level above 0 is all that those levels say of a row."""
        return self.looked_up and not self.first_counts

    @property
    def merged(self) -> bool:
        """Whether values of older versions, and not only keys, say what newer ones become, or what is logged."""
        return not self.first_counts and (self.logged or self.deletes_ignored or not self.newest_counts)

    @property
    def change_lifted_rows(self) -> bool:
        """Whether any row may become another one when it leaves level 0."""
        return self.looked_up and not self.newest_counts

    @property
    def change_lifted_deletes(self) -> bool:
        """Whether rows that delete others do, or have to go."""
        return self.hidden or (self.looked_up and self.deletes_ignored)

    def fit(self, other: OlderVersions) -> bool:
        """Whether rows that were compacted by these options, to several levels above 0, are the same read by others."""
        return self.hidden == other.hidden and (self.newest_counts or self.looked_up == other.looked_up)
