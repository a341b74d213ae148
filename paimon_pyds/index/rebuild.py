"""What a container of indexes becomes when other indexes are asked for: what it has is kept byte for byte."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from paimon_pyds.index.config import IndexSpec
from paimon_pyds.index.container import ContainerHead, IndexRange, checked, parse_head, write_container
from paimon_pyds.storage.base import ByteSource, BytesSource

__all__ = ["IndexPlan", "merged_container", "plan_indexes"]

IndexName = tuple[str, str]
"""An index in a container: the column's name there, and the index type."""


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """What is kept, built and dropped: (container column, index type), in the order of the container they go to."""

    keep: tuple[IndexName, ...]
    build: tuple[IndexSpec, ...]
    drop: tuple[IndexName, ...]

    @property
    def changes(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.build or self.drop)


def plan_indexes(head: ContainerHead | None, specs: Sequence[IndexSpec], *, rebuild: bool = False) -> IndexPlan:
    """Compare what a container has (None: there is none) with the indexes that are wanted.

    Args:
        head: of the container.
        specs: the indexes that are wanted.
        rebuild: build every wanted index anew, whether it is there or not.
    """
    wanted = {(spec.container_name, spec.index_type): spec for spec in specs}
    there = [] if head is None else [(column, kind) for column, kinds in head.columns.items() for kind in kinds]
    keep = () if rebuild else tuple(place for place in there if place in wanted)
    return IndexPlan(
        keep=keep,
        build=tuple(spec for place, spec in wanted.items() if place not in keep),
        drop=tuple(place for place in there if place not in wanted),
    )


def merged_container(
    plan: IndexPlan, source: ByteSource | None, head: ContainerHead | None, built: bytes | None
) -> bytes | None:
    """The container with the kept indexes of ``source`` and the new ones of the container ``built``; None for none.

    Raises:
        CorruptFileError: ``source`` is not what its head says.
    """
    indexes: dict[str, dict[str, bytes | None]] = {}
    if plan.keep and source is not None and head is not None:
        _take(indexes, checked(source, head), head.columns, plan.keep)
    if built is not None:
        fresh = BytesSource(built)
        columns = parse_head(fresh).columns
        _take(indexes, fresh, columns, [(column, kind) for column, kinds in columns.items() for kind in kinds])
    return write_container(indexes, checksums=True) if indexes else None


def _take(
    indexes: dict[str, dict[str, bytes | None]],
    source: ByteSource,
    columns: Mapping[str, Mapping[str, IndexRange]],
    places: Sequence[IndexName],
) -> None:
    ranges = {place: columns[place[0]][place[1]] for place in places}
    full = [place for place in places if not ranges[place].is_empty]
    bodies = dict(zip(full, source.read_many([(ranges[p].start, ranges[p].length) for p in full]), strict=True))
    for column, kind in places:
        indexes.setdefault(column, {})[kind] = bodies.get((column, kind))
