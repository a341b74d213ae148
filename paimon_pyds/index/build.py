"""Building all indexes of one data file while it is written, or anew beside those that its container has.

The work is done by numpy and Arrow outside Python's lock for the most part, so that it can run in a thread beside the
encoder of the data file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from paimon_pyds.errors import OptionError
from paimon_pyds.index.bitmap import write_bitmap
from paimon_pyds.index.bloom import BloomBuilder
from paimon_pyds.index.bsi import write_bsi
from paimon_pyds.index.config import IndexSpec, bloom_size, value_type
from paimon_pyds.index.container import ContainerHead, checked, write_container
from paimon_pyds.index.dictionary import ColumnDictionary
from paimon_pyds.index.keys import BITMAP, BLOOM_FILTER, BSI, INDEX_TYPES, RANGE_BITMAP, key_codec
from paimon_pyds.index.range_bitmap import write_range_bitmap
from paimon_pyds.storage import ByteSource
from paimon_pyds.types import DataField, DataType


class FileIndexBuilder:
    """Collects the columns of one data file and makes its container of indexes.

    Args:
        specs: the indexes to build.
        fields: the file's columns.
    """

    def __init__(self, specs: Sequence[IndexSpec], fields: Sequence[DataField]) -> None:
        positions = {f.name: i for i, f in enumerate(fields)}
        grouped: dict[tuple[str, str | None], list[IndexSpec]] = {}
        for spec in specs:
            grouped.setdefault((spec.column, spec.map_key), []).append(spec)
        self._columns = [
            _IndexedColumn(group, positions[column], fields[positions[column]].type)
            for (column, _), group in grouped.items()
        ]
        self.rows = 0

    def update(self, batch: pa.RecordBatch) -> None:
        """Append rows; the batch has the file's columns in order."""
        for column in self._columns:
            column.update(batch)
        self.rows += batch.num_rows

    def bodies(self) -> dict[str, dict[str, bytes]]:
        """The indexes, by column of the container and index type. Nothing may be appended afterwards."""
        return {column.name: column.bodies() for column in self._columns}

    def finish(self, *, checksums: bool = False) -> bytes | None:
        """The container, or None when no index was asked for. Nothing may be appended afterwards.

        Args:
            checksums: put checksums into it, as into whatever goes to a table.
        """
        return write_container(self.bodies(), checksums=checksums) if self._columns else None


def map_values(values: pa.Array, map_key: str | None) -> pa.Array:
    """The values behind one key of a MAP column; the column itself for None."""
    return values if map_key is None else pc.map_lookup(values, pa.scalar(map_key, values.type.key_type), "first")


class _IndexedColumn:
    """One column, or the values behind one map key, with all its indexes; its dictionary is built once."""

    def __init__(self, specs: Sequence[IndexSpec], position: int, type_: DataType) -> None:
        self.name = specs[0].container_name
        self._position = position
        self._map_key = specs[0].map_key
        self._type = value_type(type_, self._map_key)
        self._specs = {spec.index_type: spec for spec in specs}
        codec = key_codec(self._type)
        self._dictionary = ColumnDictionary(codec, keep_codes=self._specs.keys() != {BLOOM_FILTER})
        self._bloom: BloomBuilder | None = None
        if BLOOM_FILTER in self._specs:
            self._bloom = BloomBuilder(codec, *bloom_size(*self._specs[BLOOM_FILTER].bloom()))
            self._dictionary.on_distinct(self._bloom.add)

    def update(self, batch: pa.RecordBatch) -> None:
        self._dictionary.update(map_values(batch.column(self._position), self._map_key))

    def bodies(self) -> dict[str, bytes]:
        return {index_type: self._body(spec) for index_type, spec in self._specs.items()}

    def _body(self, spec: IndexSpec) -> bytes:
        if spec.index_type == BLOOM_FILTER and self._bloom is not None:
            self._dictionary.flush()
            return self._bloom.finish()
        if spec.index_type == BITMAP:
            return write_bitmap(self._dictionary.finish(), *spec.bitmap())
        if spec.index_type == BSI:
            return write_bsi(self._dictionary.finish())
        if spec.index_type == RANGE_BITMAP:
            return write_range_bitmap(self._dictionary.finish(), spec.chunk_size(self._type))
        raise OptionError(f"no index of type {spec.index_type} can be built", hint=f"known: {', '.join(INDEX_TYPES)}")


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
    plan: IndexPlan, source: ByteSource | None, head: ContainerHead | None, built: Mapping[str, Mapping[str, bytes]]
) -> bytes | None:
    """The container with the kept indexes of ``source``, byte for byte, and those that were built; None for none.

    Args:
        plan: what is kept.
        source: the container that is there, if any.
        head: its head.
        built: `FileIndexBuilder.bodies`.

    Raises:
        CorruptFileError: ``source`` is not what its head says.
    """
    indexes: dict[str, dict[str, bytes | None]] = {}
    if plan.keep and source is not None and head is not None:
        ranges = {name: head.columns[name[0]][name[1]] for name in plan.keep}
        full = [name for name in plan.keep if not ranges[name].is_empty]
        bodies = dict(zip(full, checked(source, head).read_many([ranges[name] for name in full]), strict=True))
        for column, kind in plan.keep:
            indexes.setdefault(column, {})[kind] = bodies.get((column, kind))
    for column, kinds in built.items():
        indexes.setdefault(column, {}).update(kinds)
    return write_container(indexes, checksums=True) if indexes else None
