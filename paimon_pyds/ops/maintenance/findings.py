"""What a verification finds: the kinds of damage there are, one record for each fault, and all of them together."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, field
from typing import Any

import pyarrow as pa

from paimon_pyds.base.arrays import array
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.secrets import counted, human_bytes, redact, visible
from paimon_pyds.errors import NotFoundError, PaimonError, UnsupportedError

ERROR, WARNING = "error", "warning"
RESTORE = "restore the file from a copy; else roll back to a state that does not need it"
_REWRITE = "read the remaining rows and write them into a new table; or roll back to an earlier state"
_OVERWRITE = "read the partition's rows without a filter, and overwrite it with them"

KINDS: Mapping[str, tuple[str, str]] = {
    "hint": (WARNING, "delete the hint file: the directory is listed then, until a commit or expiry writes it"),
    "hint-ahead": (
        ERROR,
        "Java Paimon can't read the table: restore the snapshot from a copy; or maintenance.repair(), and what was "
        "committed after the newest snapshot that is there is lost",
    ),
    "snapshot": (ERROR, "restore the file from a copy; else roll back to the snapshot before"),
    "snapshot-gap": (ERROR, "restore the snapshot; else expire those before it, or roll back to them"),
    "snapshot-time": (WARNING, "a writer's clock was wrong: travel to snapshots by number, not by time"),
    "record-count": (
        ERROR,
        "rows are read correctly; only counts by the snapshot are wrong: copy the rows where that matters",
    ),
    "row-id": (ERROR, "new rows get ids that others have: copy the rows into a new table where ids matter"),
    "schema": (ERROR, "restore the schema file: data files of this schema can't be read without"),
    "tag": (ERROR, "delete the tag, or restore the file"),
    "branch": (WARNING, "delete the branch, unless it is being created"),
    "changelog": (ERROR, "restore the file, or remove it: it has the changes of an expired snapshot"),
    "consumer": (
        ERROR,
        "no snapshot can expire: remove the consumer by maintenance.clear_consumers, or set it by "
        "maintenance.reset_consumer",
    ),
    "manifest-list": (ERROR, RESTORE),
    "manifest": (ERROR, RESTORE),
    "manifest-count": (ERROR, RESTORE),
    "manifest-range": (ERROR, "filters lose rows: read without one, and write the rows into a new table"),
    "manifest-entry": (ERROR, _REWRITE),
    "index-manifest": (ERROR, RESTORE),
    "data-file": (ERROR, RESTORE),
    "file-size": (ERROR, RESTORE),
    "row-count": (ERROR, RESTORE),
    "file-index": (ERROR, "build it again: maintenance.repair(), or index.build(rebuild=True)"),
    "deletion-vector": (ERROR, RESTORE),
    "orphan-entry": (WARNING, "nothing: readers pass it over"),
    "hash-index": (ERROR, f"restore the file; or {_OVERWRITE}, which makes its hash index anew"),
    "table-index": (ERROR, RESTORE),
    "statistics": (ERROR, "analyze the table again"),
    "bucket": (ERROR, _OVERWRITE),
    "partition": (ERROR, "write the rows again that are in a wrong partition"),
    "key-range": (ERROR, _OVERWRITE),
    "level-overlap": (ERROR, "compact with full=True, and verify again"),
    "key-order": (ERROR, _OVERWRITE),
    "column-statistics": (ERROR, f"filters lose rows: {_OVERWRITE}"),
    "unsupported": (WARNING, "this part was not verified: Java Paimon may read it"),
}
"""Each kind of finding: how bad it is, and what to do."""
HINTS = ("hint", "hint-ahead")
"""Those of hint files; `hint-ahead` is of one that names a snapshot after the newest, which Java believes."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be.

    Attributes:
        kind: one of `KINDS`.
        path: of the file that is damaged, or says what is not so.
        what: is wrong, in a sentence.
    """

    kind: str
    path: str
    what: str

    @property
    def severity(self) -> str:
        """``error`` where rows are lost or wrong, or some reader fails; ``warning`` otherwise."""
        return KINDS[self.kind][0]

    @property
    def advice(self) -> str:
        """What to do."""
        return KINDS[self.kind][1]

    def __str__(self) -> str:
        return visible(f"{self.severity.upper():<7} {self.kind}: {redact(self.path)}: {self.what} -- {self.advice}")


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of a verification: what was verified, and all findings.

    Attributes:
        path: of the table.
        findings: by path.
        deep: data was read, too.
        snapshots, tags, branches: how many states and branches were looked at.
        manifests: with their lists.
        data_files, rows: of all states, each file once.
        index_files: deletion vectors, hash indexes and others that index manifests name.
        orphan_files, orphan_bytes: files, older than a day, that nothing needs
            (``table.maintenance.remove_orphan_files`` removes them); None where damage keeps that from being known.
        seconds: time taken.
    """

    path: str
    findings: tuple[Finding, ...] = ()
    deep: bool = False
    snapshots: int = 0
    tags: int = 0
    branches: int = 0
    manifests: int = 0
    data_files: int = 0
    rows: int = 0
    index_files: int = 0
    orphan_files: int | None = None
    orphan_bytes: int | None = None
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether there is no error; warnings may be there."""
        return not any(finding.severity == ERROR for finding in self.findings)

    def __repr__(self) -> str:
        errors = sum(finding.severity == ERROR for finding in self.findings)
        wrong = {"error": errors, "warning": len(self.findings) - errors}
        seen = {
            "snapshot": self.snapshots,
            "tag": self.tags,
            "manifest": self.manifests,
            "index file": self.index_files,
        }
        result, what = (", ".join(counted(n, one) for one, n in counts.items() if n) for counts in (wrong, seen))
        data = f"{counted(self.data_files, 'data file')} ({counted(self.rows, 'row')})"
        looked_at = f"{what}{', ' if what else ''}{data} {'read' if self.deep else 'opened'}"
        return f"{type(self).__name__}: {result or 'nothing wrong'}; {looked_at} in {self.seconds:.1f} s"

    def __str__(self) -> str:
        orphans = []
        if self.orphan_files:
            size = human_bytes(self.orphan_bytes or 0)
            orphans = [
                f"{counted(self.orphan_files, 'orphan file')} ({size}): maintenance.remove_orphan_files removes them"
            ]
        return "\n".join([*map(str, self.findings), *orphans, repr(self).partition(": ")[2]])

    def to_arrow(self) -> pa.Table:
        """The findings as a table: severity, kind, path, what, advice."""
        names = ("severity", "kind", "path", "what", "advice")
        arrays = [array([getattr(finding, name) for finding in self.findings], pa.string()) for name in names]
        return pa.Table.from_arrays(arrays, names=list(names))

    def repair_plan(self) -> RepairPlan:
        """The findings that ``table.maintenance.repair`` can mend without a guess, by their kinds, and the others."""
        mends = tuple(finding for finding in self.findings if finding.kind in (*HINTS, "file-index"))
        return RepairPlan(self.path, mends, tuple(finding for finding in self.findings if finding not in mends))

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values, for JSON."""
        return {**asdict(self), "ok": self.ok, "findings": self.to_arrow().to_pylist()}

    def to_json(self) -> str:
        """`to_dict` as JSON text."""
        return json.dumps(self.to_dict())


@dataclass(frozen=True)
class RepairPlan:
    """What a repair sets out to do.

    Attributes:
        path: of the table.
        mends: findings that it looks at once more, and mends.
        left: those that it can't mend without a guess: each says what to do.
    """

    path: str
    mends: tuple[Finding, ...] = ()
    left: tuple[Finding, ...] = ()

    def repair_plan(self) -> RepairPlan:
        """Itself."""
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}: {counted(len(self.mends), 'finding')} to mend, {len(self.left):,} left"

    def __str__(self) -> str:
        lines = [visible(f"mend: {found.kind}: {redact(found.path)}: {found.what}") for found in self.mends]
        return "\n".join([*lines, *map(str, self.left), repr(self).partition(": ")[2]])


@dataclass
class Findings:
    """Gathers findings; what is found twice counts once."""

    found: dict[Finding, None] = field(default_factory=dict)

    def add(self, kind: str, path: str, what: str) -> None:
        """Note that something is wrong."""
        self.found[Finding(kind, path, what)] = None

    @contextmanager
    def guard(self, kind: str, path: str) -> Iterator[None]:
        """Make a finding of the error that a step ends with."""
        try:
            yield
        except UnsupportedError as error:
            self.add("unsupported", path, error.message)
        except (FileNotFoundError, NotFoundError):
            self.add(kind, path, "the file is gone")
        except PaimonError as error:
            self.add(kind, path, error.message)
        except OSError as error:
            self.add(kind, path, f"the file can't be read: {error.strerror or error}")
