"""Which indexes a table wants: the options ``file-index.<type>.columns`` and ``file-index.<type>.<column>.<option>``.

Specification: Paimon documentation, concepts/spec/fileindex; which types an index accepts is what Java Paimon's
schema validation accepts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from paimon_pyds.errors import OptionError
from paimon_pyds.index.bitmap.writer import DEFAULT_BLOCK_SIZE
from paimon_pyds.index.bloom.filter import DEFAULT_FPP, DEFAULT_ITEMS, bloom_size
from paimon_pyds.options.option import Kind as OptionKind
from paimon_pyds.options.option import parse_value
from paimon_pyds.types import (
    BINARY_KINDS,
    INTEGER_KINDS,
    STRING_KINDS,
    TIMESTAMP_KINDS,
    AtomicType,
    DataField,
    DataType,
    Kind,
    MapType,
)
from paimon_pyds.types.names import fields_named

__all__ = ["BITMAP", "BLOOM_FILTER", "BSI", "INDEX_TYPES", "RANGE_BITMAP", "IndexSpec", "parse_index_specs", "supports"]

BLOOM_FILTER = "bloom-filter"
BITMAP = "bitmap"
BSI = "bsi"
RANGE_BITMAP = "range-bitmap"

_PREFIX = "file-index."
_CALENDAR = frozenset({Kind.DATE, Kind.TIME}) | TIMESTAMP_KINDS
_FLOATS = frozenset({Kind.FLOAT, Kind.DOUBLE})
_KINDS: Mapping[str, frozenset[Kind]] = {
    BLOOM_FILTER: INTEGER_KINDS | _CALENDAR | _FLOATS | STRING_KINDS | BINARY_KINDS,
    BITMAP: INTEGER_KINDS | _CALENDAR | _FLOATS | STRING_KINDS | {Kind.BOOLEAN},
    BSI: INTEGER_KINDS | _CALENDAR | {Kind.DECIMAL},
    RANGE_BITMAP: INTEGER_KINDS | _CALENDAR | _FLOATS | STRING_KINDS | {Kind.BOOLEAN, Kind.DECIMAL},
}
INDEX_TYPES = tuple(_KINDS)
_OPTIONS: Mapping[str, frozenset[str]] = {
    BLOOM_FILTER: frozenset({"items", "fpp"}),
    BITMAP: frozenset({"version", "index-block-size"}),
    BSI: frozenset(),
    RANGE_BITMAP: frozenset({"chunk-size"}),
}
_UNCHUNKED = frozenset({Kind.BOOLEAN, Kind.TINYINT, Kind.SMALLINT})
_MIN_BLOCK = 32
_MAX_BLOCK = 1 << 30


@dataclass(frozen=True, slots=True)
class IndexSpec:
    """One index to build: of a column, or of the values behind one key of a MAP column.

    ``options`` are the index's own (items, fpp, version, index-block-size, chunk-size), as texts.
    """

    column: str
    map_key: str | None
    index_type: str
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def container_name(self) -> str:
        """The column name in the container: ``column``, or ``column[key]``."""
        return self.column if self.map_key is None else f"{self.column}[{self.map_key}]"

    def _where(self, option: str) -> str:
        return f"{_PREFIX}{self.index_type}.{self.container_name}.{option}"

    def _get(self, option: str, kind: OptionKind, default: str) -> Any:
        return parse_value(self._where(option), kind, self.options.get(option, default))

    def bloom(self) -> tuple[int, float]:
        """``items`` and ``fpp`` of a bloom filter."""
        items = int(self._get("items", OptionKind.INT, str(DEFAULT_ITEMS)))
        fpp = float(self._get("fpp", OptionKind.DOUBLE, str(DEFAULT_FPP)))
        bloom_size(items, fpp)
        return items, fpp

    def bitmap(self) -> tuple[int, int]:
        """``version`` and ``index-block-size`` in bytes of a bitmap index."""
        version = int(self._get("version", OptionKind.INT, "2"))
        if version not in (1, 2):
            raise OptionError(f"{self._where('version')} must be 1 or 2, not {version}")
        return version, self._bytes("index-block-size", f"{DEFAULT_BLOCK_SIZE} b", _MIN_BLOCK)

    def chunk_size(self, type_: DataType) -> int:
        """``chunk-size`` of a range bitmap in bytes; 0 puts every key in a chunk of its own."""
        return self._bytes("chunk-size", "0 b" if type_.kind in _UNCHUNKED else "16 kb", 0)

    def _bytes(self, option: str, default: str, low: int) -> int:
        value: int = self._get(option, OptionKind.MEMORY, default)
        if not low <= value <= _MAX_BLOCK:
            raise OptionError(f"{self._where(option)} must be between {low} bytes and 1 GiB, not {value}")
        return value

    def check(self, type_: DataType) -> None:
        """Raises OptionError when an option's value is no value for it."""
        if self.index_type == BLOOM_FILTER:
            self.bloom()
        elif self.index_type == BITMAP:
            self.bitmap()
        elif self.index_type == RANGE_BITMAP:
            self.chunk_size(type_)


def supports(index_type: str, type_: DataType) -> bool:
    """Whether an index of this type can be built on values of this type."""
    if type_.kind not in _KINDS.get(index_type, frozenset()):
        return False
    precision = (type_.precision if isinstance(type_, AtomicType) else None) or 0
    if type_.kind is Kind.DECIMAL:
        return precision <= 18
    return not (index_type == RANGE_BITMAP and type_.kind in TIMESTAMP_KINDS and precision > 6)


def parse_index_specs(options: Mapping[str, str], fields: Sequence[DataField]) -> list[IndexSpec]:
    """The indexes that a table's options ask for, in the order of the options.

    Keys may have lost their case on the way (Spark lower-cases option names): a column is matched exactly, else
    without regard to case.

    Args:
        options: a table's options, others than those of indexes included.
        fields: the table's columns.

    Raises:
        OptionError: a column that isn't there or is meant ambiguously, an index type that isn't known or doesn't accept
            the column's type, an option of a column that isn't declared, or a bad value.
    """
    declared: dict[tuple[str, str, str | None], dict[str, str]] = {}
    own: list[tuple[str, str]] = []
    for key, value in options.items():
        if not key.startswith(_PREFIX):
            continue
        parts = key.removeprefix(_PREFIX).split(".", 1)
        if len(parts) == 2 and parts[1] == "columns":
            for column, map_key in _columns(key, value, fields):
                _check_type(parts[0], column, map_key, key)
                declared.setdefault((parts[0], column.name, map_key), {})
        elif len(parts) == 2 and "." in parts[1]:
            own.append((key, value))
    for key, value in sorted(own, key=lambda item: "[" in item[0]):
        _assign(key, value, declared)
    specs = [IndexSpec(column, map_key, kind, given) for (kind, column, map_key), given in declared.items()]
    types = {f.name: f.type for f in fields}
    for spec in specs:
        spec.check(_value_type(types[spec.column], spec.map_key))
    return specs


def _columns(key: str, value: str, fields: Sequence[DataField]) -> list[tuple[DataField, str | None]]:
    found: list[tuple[DataField, str | None]] = []
    for part in value.split(","):
        name = part.strip()
        if not name:
            raise OptionError(f"{key} names an empty column", hint="write the columns as a,b,c")
        try:
            column = _field(name, fields, key)
        except OptionError:
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
    raise OptionError(f"{key}: the table has no column {name}", hint=f"its columns are {columns}"[:500])


def _check_type(index_type: str, column: DataField, map_key: str | None, key: str) -> None:
    if index_type not in _KINDS:
        raise OptionError(f"{key}: no index of type {index_type} can be built", hint=f"known: {', '.join(_KINDS)}")
    if map_key is not None and not (isinstance(column.type, MapType) and column.type.key.kind in STRING_KINDS):
        raise OptionError(f"{key}: {column.name} is not a MAP with string keys, so [{map_key}] can't be indexed")
    value_type = _value_type(column.type, map_key)
    if not supports(index_type, value_type):
        what = column.name if map_key is None else f"{column.name}[{map_key}]"
        hint = "index its keys, as in m[key]" if isinstance(column.type, MapType) else f"type {value_type}"
        raise OptionError(f"{key}: a {index_type} index can't be built on {what}", hint=hint)


def _value_type(type_: DataType, map_key: str | None) -> DataType:
    return type_.value if map_key is not None and isinstance(type_, MapType) else type_


def _assign(key: str, value: str, declared: Mapping[tuple[str, str, str | None], dict[str, str]]) -> None:
    """Give an option to the index it names; an option of a MAP column goes to all its keys that don't set it."""
    index_type, rest = key.removeprefix(_PREFIX).split(".", 1)
    name, option = rest.rsplit(".", 1)
    targets = _targets(index_type, name, declared)
    if not targets:
        raise OptionError(
            f"{key}: column {name} has no {index_type} index", hint=f"name it in {_PREFIX}{index_type}.columns first"
        )
    known = _OPTIONS[index_type]
    if option not in known:
        can = f"its options are {', '.join(sorted(known))}" if known else "it has no options"
        raise OptionError(f"{key}: a {index_type} index has no option {option}", hint=can)
    for target in targets:
        target[option] = value


def _targets(
    index_type: str, name: str, declared: Mapping[tuple[str, str, str | None], dict[str, str]]
) -> list[dict[str, str]]:
    def full(column: str, map_key: str | None) -> str:
        return column if map_key is None else f"{column}[{map_key}]"

    mine = [(column, map_key, given) for (kind, column, map_key), given in declared.items() if kind == index_type]
    exact = [given for column, map_key, given in mine if name in (full(column, map_key), column)]
    if exact:
        return exact
    folded = name.lower()
    near = [(c, given) for c, k, given in mine if folded in (full(c, k).lower(), c.lower())]
    if len({column for column, _ in near}) > 1:
        raise OptionError(f"{_PREFIX}{index_type}.{name} could mean {' or '.join(sorted({c for c, _ in near}))}")
    return [given for _, given in near]
