"""How a Parquet file is written: what the table's options say, and the physical types of Java Paimon 1.4.

Specification: Paimon documentation, concepts/spec/fileformat, section Parquet; field ids in the schema, TIME as
milliseconds in UTC, TIMESTAMP(7) to TIMESTAMP(9) as INT96, decimals of at most 18 digits as integers.

Which encoding each column gets, and whether it is compressed, is decided on a sample of the first row group. Reading
one row costs a page, and the column chunk's dictionary if it has one: a dictionary is worth its bytes only while it is
small. Everything else is PLAIN: Java Paimon 1.4.2 refuses BYTE_STREAM_SPLIT, returns wrong rows for
DELTA_LENGTH_BYTE_ARRAY, and wrong values for DELTA_BINARY_PACKED where it skips rows by an index. It finds no DECIMAL
of more than 18 digits by ``=`` where it searches a dictionary: there it looks for the literal's shortest bytes.

Numbers that compression hardly shortens, measured floats mostly, are stored as they are: undoing 94 % of the bytes took
a sixth of the time of a read that has to look into every page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from paimon_pyds.base.options.option import Kind as ValueKind
from paimon_pyds.base.options.option import parse_value
from paimon_pyds.base.records import dataclass
from paimon_pyds.base.types import DataField, DataType, MultisetType, RowType, arrow_type
from paimon_pyds.base.types.arrow import with_leaves
from paimon_pyds.base.types.kinds import NESTED_KINDS, TIMESTAMP_KINDS, Kind
from paimon_pyds.base.types.nested_ids import element_id, key_id
from paimon_pyds.errors import OptionError, UnsupportedError
from paimon_pyds.format.parquet.conversion import INT96_BYTES
from paimon_pyds.format.parquet.encodings import Encodings, choose_encodings, leaf_paths

PAGE_ROWS = 6_144
"""A page's most rows. On 10 million rows of four columns, pages of 4,096 rows took 12 % longer to scan than pages of
20,000 and pages of 8,192 rows 2 %; reading one row costs a page of each column, 1/1,600 of the file here.

Pages of 1,024 rows would make it 2.7 times as fast to look 1,000 scattered keys of 10 million up, pages of 512 rows 3.1
times. But scans of all rows would need 1.3 and 1.5 times the processor time, pypaimon-rust's 1.2 and 1.5 times, and the
footer's indexes would make one key a third slower to find: tables that are looked up choose them by an option."""
_PAGE_BYTES = 256 << 10
_PAGE_BYTES_ALONE = 64 << 10
"""Page size where pyarrow (before 21) can't limit rows."""
_GROUP_BYTES = 128 << 20
_BATCH_ROWS = 1_024
_LEAST_BATCH_ROWS = 1
_ZSTD_LEVELS = 22
_CODECS = {
    "zstd": "zstd", "snappy": "snappy", "gzip": "gzip", "lz4": "lz4", "lz4_raw": "lz4", "none": "none",
    "uncompressed": "none",
}  # fmt: skip
_UNREADABLE_CODECS = frozenset({"brotli", "lzo"})
_UNREADABLE_ELEMENTS = NESTED_KINDS | TIMESTAMP_KINDS | {Kind.DECIMAL}
"""Kinds of elements of MULTISETs that Java 1.4.2 writes, but fails to read."""
DICTIONARY_LIMIT = 128 << 10
"""Bytes at which a growing dictionary is given up for plain pages."""
FEW_ROWS = 64
FEW_BYTES = 4 << 10
"""A file of no more rows and bytes, as Arrow has them, takes one block of a disk however it is encoded."""


@dataclass(frozen=True, slots=True)
class WriterOptions:
    """What the table's options say about Parquet files. Sizes are bytes.

    With ``compress_all``, as when ``file.compression`` is set, each column is compressed.
    """

    compression: str
    compress_all: bool
    level: int | None
    dictionary: bool
    group_bytes: int
    page_bytes: int
    page_rows: int

    @staticmethod
    def parse(options: Mapping[str, str]) -> WriterOptions:
        """Read table options; unset ones take Paimon's defaults, and page sizes ours.
        Raises OptionError: a value that does not parse; UnsupportedError: a compression that Java Paimon can't read."""
        codec = str(options.get("file.compression") or "zstd").strip().lower()
        if codec in _UNREADABLE_CODECS:
            raise UnsupportedError(
                f"file.compression={codec} is not supported: Java Paimon can't read it in Parquet files",
                hint="use zstd, snappy, gzip, lz4 or none",
            )
        if codec not in _CODECS:
            raise OptionError(f"file.compression={codec!r:.40} is unknown", hint="use zstd, snappy, gzip, lz4 or none")
        level = _value(options, "file.compression.zstd-level", ValueKind.INT, 1)
        if level > _ZSTD_LEVELS:
            raise OptionError(f"file.compression.zstd-level={level} is not between 1 and {_ZSTD_LEVELS}")
        block = _value(options, "parquet.block.size", ValueKind.LONG, _GROUP_BYTES)
        return WriterOptions(
            compression=_CODECS[codec],
            compress_all=bool(options.get("file.compression")),
            level=level if codec == "zstd" else None,
            dictionary=_value(options, "parquet.enable.dictionary", ValueKind.BOOLEAN, True),
            group_bytes=_value(options, "file.block-size", ValueKind.MEMORY, block),
            page_bytes=_value(options, "parquet.page.size", ValueKind.LONG, _PAGE_BYTES),
            page_rows=_value(options, "parquet.page.row.count.limit", ValueKind.LONG, PAGE_ROWS),
        )


def _value(options: Mapping[str, str], key: str, kind: ValueKind, default: int | bool) -> Any:
    text = options.get(key)
    if text is None:
        return default
    value = parse_value(key, kind, text)
    if kind is not ValueKind.BOOLEAN and value <= 0:
        raise OptionError(f"{key}={text} must be greater than 0")
    return value


def file_schema(fields: Sequence[DataField]) -> pa.Schema:
    """The Arrow schema of a file: that of `arrow_schema`, with field ids where pyarrow's writer looks for them.
    Raises UnsupportedError: a type that Java Paimon can't read from Parquet files."""
    return pa.schema([_with_id(f) for f in fields])


def _with_id(field: DataField) -> pa.Field:
    return _identified(pa.field(field.name, _typed(field.type, field.id, 0), field.type.nullable), field.id)


def _identified(field: pa.Field, id_: int) -> pa.Field:
    return field.with_metadata({"PARQUET:field_id": str(id_)})


def _typed(type_: DataType, field_id: int, depth: int) -> pa.DataType:
    """The type in files. ``field_id``: of the column or member of a ROW that has it; ``depth``: levels below that."""
    plain, depth = arrow_type(type_), depth + 1
    if isinstance(type_, MultisetType) and type_.element.kind in _UNREADABLE_ELEMENTS:
        raise UnsupportedError(
            f"Parquet files can't hold {type_}: Java Paimon doesn't read it",
            hint="use a MAP to INT, or file.format=orc",
        )
    if isinstance(type_, RowType):
        return pa.struct([_with_id(f) for f in type_.fields])
    children = [_typed(c, field_id, depth) for c in type_.children()]
    if pa.types.is_list(plain):  # Java reads no shredded VARIANT without this id
        return pa.list_(_identified(plain.value_field.with_type(children[0]), element_id(field_id, depth)))
    if pa.types.is_map(plain):
        item = children[1] if len(children) == 2 else plain.item_type
        return pa.map_(
            _identified(plain.key_field.with_type(children[0]), key_id(field_id, depth)),
            _identified(plain.item_field.with_type(item), element_id(field_id, depth)),
        )
    return plain


def stored_schema(schema: pa.Schema) -> pa.Schema:
    """The schema with nanosecond timestamps, at any depth, as twelve bytes."""
    twelve = pa.binary(INT96_BYTES)

    def stored(type_: pa.DataType) -> pa.DataType:
        return twelve if pa.types.is_timestamp(type_) and type_.unit == "ns" else type_

    return pa.schema([with_leaves(field, stored) for field in schema])


def writer_settings(options: WriterOptions, first_rows: pa.Table) -> dict[str, Any]:
    """Keyword arguments for `pyarrow.parquet.ParquetWriter`, the same for each row group of a file.

    Encodings are chosen on the rows of the first row group.
    """
    encodings = choose_encodings(first_rows, dictionary=options.dictionary, find_dense=not options.compress_all)
    return _settings(options, first_rows.schema, encodings)


def few_rows_settings(options: WriterOptions, schema: pa.Schema) -> dict[str, Any]:
    """The same for files of `FEW_ROWS` rows and `FEW_BYTES` bytes at most, whatever is in them: neither dictionaries
    nor compression save a block of a disk."""
    leaves = frozenset(leaf for field in schema for leaf in leaf_paths(field.name, field.type))
    return _settings(options, schema, Encodings([], frozenset() if options.compress_all else leaves, 1.0))


def _settings(options: WriterOptions, schema: pa.Schema, encodings: Encodings) -> dict[str, Any]:
    import pyarrow.parquet as pq

    supported = pq.ParquetWriter.__init__.__code__.co_varnames
    limits_rows = "max_rows_per_page" in supported
    batch_rows = _BATCH_ROWS
    while batch_rows > _LEAST_BATCH_ROWS and batch_rows * encodings.widest > options.page_bytes / 2:
        batch_rows //= 2  # pages are cut between write batches only
    leaves = [leaf for field in schema for leaf in leaf_paths(field.name, field.type)]
    compressed = [leaf for leaf in leaves if leaf not in encodings.dense]
    wanted = {
        "compression": {leaf: "none" if leaf in encodings.dense else options.compression for leaf in leaves},
        "compression_level": None if options.level is None else dict.fromkeys(compressed, options.level),
        "use_dictionary": encodings.dictionary,
        "dictionary_pagesize_limit": DICTIONARY_LIMIT,
        "data_page_size": options.page_bytes if limits_rows else min(options.page_bytes, _PAGE_BYTES_ALONE),
        "max_rows_per_page": options.page_rows,
        "write_batch_size": batch_rows,
        "store_decimal_as_integer": True,
        "write_time_adjusted_to_utc": True,
        "write_page_index": True,
        "write_page_checksum": True,
        "store_schema": False,
    }
    # data_page_size is one of those that ParquetWriter passes on by **options.
    return {name: value for name, value in wanted.items() if name in supported or name == "data_page_size"}
