"""Which indexes a table wants (options ``file-index.<type>.columns`` and ``file-index.<type>.<column>.<option>``), and
building those of one data file while it is written, or adding them to the container of an existing file.

Most of the work is done by numpy and Arrow, which release Python's lock: it can run in a thread while another one
encodes the data file. Specification of the options: Paimon documentation, concepts/spec/fileindex.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from paimon_pyds.base.arrays import pc, scalar
from paimon_pyds.base.options.option import Kind as OptionKind
from paimon_pyds.base.options.option import parse_value
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.types import DataField, DataType, MapType, fields_named
from paimon_pyds.base.types.kinds import STRING_KINDS, Kind
from paimon_pyds.errors import OptionError, UnknownColumnError
from paimon_pyds.index.bitmap import write_bitmap
from paimon_pyds.index.bloom import BloomBuilder
from paimon_pyds.index.bsi import write_bsi
from paimon_pyds.index.container import ContainerHead, checked, write_container
from paimon_pyds.index.dictionary import ColumnDictionary, IndexLimitError
from paimon_pyds.index.keys import BITMAP, BLOOM_FILTER, BSI, INDEX_TYPES, RANGE_BITMAP, key_codec, supports
from paimon_pyds.index.range_bitmap import write_range_bitmap

if TYPE_CHECKING:
    from paimon_pyds.storage.byte_source import ByteSource

_PREFIX = "file-index."
_OPTIONS: Mapping[str, frozenset[str]] = {
    BLOOM_FILTER: frozenset({"items", "fpp"}),
    BITMAP: frozenset({"version", "index-block-size"}),
    BSI: frozenset(),
    RANGE_BITMAP: frozenset({"chunk-size"}),
}
_UNCHUNKED = frozenset({Kind.BOOLEAN, Kind.TINYINT, Kind.SMALLINT})
_MIN_BLOCK_BYTES = 32
_MOST_ITEMS = 4
"""Multiple of a file's rows above which the number of values of its bloom filter is too great."""
_MAX_BLOCK_BYTES = 1 << 30
"""Bytes of a dictionary block, at most."""


@dataclass(frozen=True, slots=True)
class IndexSpec:
    """One index to build: of a column, or of the values behind one key of a MAP column.

    ``options`` are the index's own (items, fpp, version, index-block-size, chunk-size), as texts.
    """

    column: str
    map_key: str | None
    index_type: str
    options: dict[str, str] = field(default_factory=dict)

    @property
    def container_name(self) -> str:
        """The column name in the container: ``column``, or ``column[key]``."""
        return self.column if self.map_key is None else f"{self.column}[{self.map_key}]"

    def _where(self, option: str) -> str:
        return f"{_PREFIX}{self.index_type}.{self.container_name}.{option}"

    def _get(self, option: str, kind: OptionKind, default: str) -> Any:
        return parse_value(self._where(option), kind, self.options.get(option, default))

    def bloom(self) -> tuple[int, float]:
        items = int(self._get("items", OptionKind.INT, "1000000"))
        fpp = float(self._get("fpp", OptionKind.DOUBLE, "0.1"))
        bloom_size(items, fpp)
        return items, fpp

    def bitmap(self) -> tuple[int, int]:
        """``version`` and ``index-block-size`` in bytes of a bitmap index."""
        version = int(self._get("version", OptionKind.INT, "2"))
        if version not in (1, 2):
            raise OptionError(f"{self._where('version')} must be 1 or 2, not {version}")
        return version, self._bytes("index-block-size", "16 kb", _MIN_BLOCK_BYTES)

    def chunk_size(self, type_: DataType) -> int:
        """``chunk-size`` of a range bitmap in bytes; 0 puts every key in a chunk of its own."""
        return self._bytes("chunk-size", "0 b" if type_.kind in _UNCHUNKED else "16 kb", 0)

    def _bytes(self, option: str, default: str, low: int) -> int:
        value: int = self._get(option, OptionKind.MEMORY, default)
        if not low <= value <= _MAX_BLOCK_BYTES:
            raise OptionError(f"{self._where(option)} must be between {low} bytes and 1 GiB, not {value}")
        return value

    def check(self, type_: DataType) -> None:
        if self.index_type == BLOOM_FILTER:
            self.bloom()
        elif self.index_type == BITMAP:
            self.bitmap()
        elif self.index_type == RANGE_BITMAP:
            self.chunk_size(type_)


def bloom_size(items: int, fpp: float) -> tuple[int, int]:
    """Bits and number of hash functions of a filter for ``items`` values with false positive rate ``fpp``.
    Raises OptionError: no such filter: items or fpp out of range, or more than 2^31 bits."""
    if items <= 0 or not 0 < fpp < 1:
        raise OptionError(f"a bloom filter needs items > 0 and 0 < fpp < 1, not items={items} and fpp={fpp}")
    wanted = int(-items * math.log(fpp) / (math.log(2) * math.log(2)))
    bits = wanted + (8 - wanted % 8)
    if bits > 0x7FFFFFFF:
        raise OptionError(f"a bloom filter of items={items} and fpp={fpp} would have {bits} bits, more than 2^31")
    return bits, max(1, math.floor(bits / items * math.log(2) + 0.5))


def size_advice(specs: Sequence[IndexSpec], rows: int) -> str:
    """Advice on options that make the indexes of a data file with ``rows`` rows smaller."""
    large = [
        f"{spec._where('items')} is {items:,}"
        for spec in specs
        if spec.index_type == BLOOM_FILTER and (items := spec.bloom()[0]) > _MOST_ITEMS * max(rows, 100)
    ]
    if large:
        which = "it" if len(large) == 1 else "each"
        return f"{', '.join(large)}, and a file has {rows:,} rows: set {which} to the distinct values of a file"
    bitmaps = [spec.container_name for spec in specs if spec.index_type == BITMAP]
    if bitmaps:
        named = f"{_PREFIX}{BITMAP}.columns (it is {','.join(bitmaps)})"
        return f"take columns of mostly different values from {named} to {_PREFIX}{BLOOM_FILTER}.columns"
    options = " and ".join(f"{_PREFIX}{name}.columns" for name in sorted({spec.index_type for spec in specs}))
    return f"remove columns that no filter uses from {options}"


def parse_index_specs(options: Mapping[str, str], fields: Sequence[DataField]) -> list[IndexSpec]:
    """The indexes that a table's options define, in the order of the options.

    Keys may have lost their case on the way (Spark lower-cases option names): a column is matched exactly, else
    without regard to case.

    ``options``: a table's options, others than those of indexes included.

    Raises:
        OptionError: a column that isn't there or is meant ambiguously, an index type that isn't known or doesn't accept
            the column's type, an option of a column that isn't declared, or a bad value.
    """
    declared: dict[tuple[str, str, str | None], IndexSpec] = {}
    own: list[tuple[str, str]] = []
    for key, value in options.items():
        if not key.startswith(_PREFIX):
            continue
        index_type, _, rest = key.removeprefix(_PREFIX).partition(".")
        if rest == "columns":
            for column, map_key in _columns(key, value, fields):
                _check_type(index_type, column, map_key, key)
                declared.setdefault((index_type, column.name, map_key), IndexSpec(column.name, map_key, index_type))
        elif "." in rest:
            own.append((key, value))
    specs = list(declared.values())
    for key, value in sorted(own, key=lambda item: "[" in item[0]):
        _assign(key, value, specs)
    types = {f.name: f.type for f in fields}
    for spec in specs:
        spec.check(value_type(types[spec.column], spec.map_key))
    return specs


def without_gone_columns(
    options: Mapping[str, str], before: Mapping[str, str], fields: Sequence[DataField]
) -> dict[str, str]:
    """A table's options without those of indexes on columns that were gone before, by the options ``before`` and
    ``fields``. Java Paimon leaves them where it renames or drops a column; nobody writes to the table until they are
    changed.
    """
    left = {}
    for key, value in options.items():
        rest = key.removeprefix(_PREFIX).partition(".")[2]
        was = before.get(key, "") if key.startswith(_PREFIX) else ""
        if was and rest == "columns":
            gone = {part.strip() for part in was.split(",") if not _is_there(part, fields)}
            value = ",".join(part for part in value.split(",") if part.strip() not in gone)
        if not was or (value if rest == "columns" else _is_there(rest.rpartition(".")[0], fields)):
            left[key] = value
    return left


def _is_there(name: str, fields: Sequence[DataField]) -> bool:
    return any(fields_named(text.strip(), fields) for text in (name, name.partition("[")[0]))


def _columns(key: str, value: str, fields: Sequence[DataField]) -> list[tuple[DataField, str | None]]:
    found: list[tuple[DataField, str | None]] = []
    for part in value.split(","):
        name = part.strip()
        if not name:
            raise OptionError(f"{key} names an empty column", hint="write the columns as a,b,c")
        try:
            column = _field(name, fields, key)
        except (OptionError, UnknownColumnError):
            outer, bracket, inner = name.partition("[")
            if not bracket or not inner.endswith("]"):
                raise
            found.append((_field(outer.strip(), fields, key), inner[:-1]))
            continue
        outer, bracket, _ = column.name.partition("[")
        if bracket and any(f.name == outer and isinstance(f.type, MapType) for f in fields):
            hint = "rename one of them: both indexes would have the same name in a file"
            raise OptionError(f"{key}: {name} could mean the column of that name or a key of {outer}", hint=hint)
        found.append((column, None))
    return found


def _field(name: str, fields: Sequence[DataField], key: str) -> DataField:
    found = fields_named(name, fields)
    if len(found) == 1:
        return found[0]
    if found:
        raise OptionError(f"{key}: {name} could mean {' or '.join(f.name for f in found)}", hint="spell it exactly")
    columns = ", ".join(f.name for f in fields)
    hint = f"alter the option to name other columns, or unset it; the table has {columns}"[:500]
    raise UnknownColumnError(f"{key}: the table has no column {name}", hint=hint)


def _check_type(index_type: str, column: DataField, map_key: str | None, key: str) -> None:
    if index_type not in INDEX_TYPES:
        raise OptionError(f"{key}: no index of type {index_type} can be built", hint=f"known: {', '.join(INDEX_TYPES)}")
    if map_key is not None and not (isinstance(column.type, MapType) and column.type.key.kind in STRING_KINDS):
        raise OptionError(f"{key}: {column.name} is not a MAP with string keys, so [{map_key}] can't be indexed")
    type_ = value_type(column.type, map_key)
    if not supports(index_type, type_):
        what = column.name if map_key is None else f"{column.name}[{map_key}]"
        hint = "index its keys, as in m[key]" if isinstance(column.type, MapType) else f"type {type_}"
        raise OptionError(f"{key}: a {index_type} index can't be built on {what}", hint=hint)


def value_type(type_: DataType, map_key: str | None) -> DataType:
    """The type of what is indexed: of the column, or of the values of a MAP."""
    return type_.value if map_key is not None and isinstance(type_, MapType) else type_


def _assign(key: str, value: str, specs: Sequence[IndexSpec]) -> None:
    """Give an option to the index it names; an option of a MAP column goes to all its keys that don't set it."""
    index_type, rest = key.removeprefix(_PREFIX).split(".", 1)
    name, option = rest.rsplit(".", 1)
    mine = [spec for spec in specs if spec.index_type == index_type]
    targets = [spec for spec in mine if name in (spec.container_name, spec.column)]
    if not targets:
        folded = name.lower()
        targets = [spec for spec in mine if folded in (spec.container_name.lower(), spec.column.lower())]
        columns = sorted({spec.column for spec in targets})
        if len(columns) > 1:
            raise OptionError(f"{_PREFIX}{index_type}.{name} could mean {' or '.join(columns)}")
    if not targets:
        hint = f"name it in {_PREFIX}{index_type}.columns first"
        raise OptionError(f"{key}: column {name} has no {index_type} index", hint=hint)
    allowed = _OPTIONS[index_type]
    if option not in allowed:
        hint = f"its options are {', '.join(sorted(allowed))}" if allowed else "it has no options"
        raise OptionError(f"{key}: a {index_type} index has no option {option}", hint=hint)
    for spec in targets:
        spec.options[option] = value


class FileIndexBuilder:
    """Collects the columns (``fields``) of one data file and makes its container of these indexes."""

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
        self.left_out: list[str] = []
        """Why indexes are missing in `bodies`: the file has values that they can't hold."""

    def update(self, batch: pa.RecordBatch) -> None:
        """Append rows; the batch has the file's columns in order."""
        for column in self._columns:
            column.update(batch)
        self.rows += batch.num_rows

    def bodies(self) -> dict[str, dict[str, bytes]]:
        """The indexes, by column of the container and index type. Nothing may be appended afterwards."""
        return {column.name: found for column in self._columns if (found := column.bodies(self.left_out))}

    def finish(self, *, checksums: bool = False) -> bytes | None:
        """The container, with ``checksums`` as in all that goes to a table; None without an index. Nothing may be
        appended afterwards."""
        bodies = self.bodies()
        return write_container(bodies, checksums=checksums) if bodies else None


def map_values(values: pa.Array, map_key: str | None) -> pa.Array:
    """The values behind one key of a MAP column; the column itself for None."""
    return values if map_key is None else pc.map_lookup(values, scalar(map_key, values.type.key_type), "first")


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

    def bodies(self, left_out: list[str]) -> dict[str, bytes]:
        """By index type; without those that can't hold the values, of which ``left_out`` gets the reasons."""
        found = {}
        for index_type, spec in self._specs.items():
            try:
                found[index_type] = self._body(spec)
            except IndexLimitError as error:
                left_out.append(f"column {self.name}: {error}")
        return found

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
    """The indexes to copy, build and drop: (container column, index type), in the order of the new container."""

    keep: tuple[IndexName, ...]
    build: tuple[IndexSpec, ...]
    drop: tuple[IndexName, ...]

    @property
    def changes(self) -> bool:
        return bool(self.build or self.drop)


def plan_indexes(head: ContainerHead | None, specs: Sequence[IndexSpec], *, rebuild: bool = False) -> IndexPlan:
    """Compare the indexes of a container (None: the file has no container) with the wanted ones.

    ``specs``: the indexes that are wanted. ``rebuild``: build every wanted index, even where the container has it.
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
    """The container with copies of some indexes of ``source`` and the built ones; None if it would be empty.

    ``plan``: the indexes to copy. ``source``: the existing container, if any. ``built``: `FileIndexBuilder.bodies`.
    Raises CorruptFileError: ``source`` contradicts its head.
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
