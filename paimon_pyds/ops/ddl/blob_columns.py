"""BLOB columns: options that name them, columns that can't be renamed, and tables that can't be moved.

Source: Paimon documentation, primary-key-table/blob-storage; Java: class SchemaValidation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from paimon_pyds.base.options import BLOB_OPTIONS, TableOptions, blob_options, holds_descriptors
from paimon_pyds.base.options.option import comma_separated
from paimon_pyds.base.types import DataField
from paimon_pyds.base.types.kinds import Kind
from paimon_pyds.errors import OptionError, UnsupportedError
from paimon_pyds.format import has_kind
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.metadata.store import TableStore

_STORED, _DESCRIPTORS, _VIEWS = BLOB_OPTIONS


def check_blob_options(schema: TableSchema) -> None:
    """Raises OptionError where an option names a column that is no BLOB, or two contradict each other: Java alters no
    such table."""
    options, blobs = TableOptions(schema.options), {f.name: f for f in schema.fields if has_kind(f.type, Kind.BLOB)}
    named = {key: comma_separated(str(options.get(key) or "")) for key in BLOB_OPTIONS}
    for key, names in named.items():
        for name in names:
            if name not in blobs or (key != _STORED and blobs[name].type.kind is not Kind.BLOB):
                raise OptionError(f"{key} names {name}, which is no column of type BLOB")
    both = sorted({*named[_DESCRIPTORS]} & {*named[_VIEWS]})
    if both:
        raise OptionError(f"{_DESCRIPTORS} and {_VIEWS} both name {both[0]}", hint="leave it out of one of them")
    if schema.primary_keys:
        _check_retracted(schema, options, [name for name, f in blobs.items() if not holds_descriptors(f, options)])


def _check_retracted(schema: TableSchema, options: TableOptions, packed: Collection[str]) -> None:
    """Rows that take others away have no BLOBs. ``packed``: the columns whose values are in packs."""
    if options.get("merge-engine") != "partial-update" or options.get("ignore-delete"):
        return
    groups = (value for key, value in schema.options.items() if key.endswith(".sequence-group"))
    for name in {name for value in groups for name in comma_separated(value)}.intersection(packed):
        key = f"fields.{name}.aggregate-function"
        function = options.get(key) or options.get("fields.default-aggregate-function")
        if function not in (None, "last_value") and not options.get(f"fields.{name}.ignore-retract"):
            raise OptionError(
                f"{key}: {function} needs the values of rows that are taken away, which BLOBs lack",
                hint=f"set fields.{name}.ignore-retract to true, or choose last_value",
            )


def without_columns(options: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    """Options without the names of columns that are dropped."""
    left = {key: [n for n in comma_separated(value) if n not in names] for key, value in blob_options(options).items()}
    return {key: ",".join(left.get(key, [value])) for key, value in options.items() if left.get(key, True)}


def check_not_renamed(fields: Iterable[DataField], names: Collection[str]) -> None:
    """Raises UnsupportedError where a BLOB column is to be renamed, as Java does: its writers name the column of BLOB
    files by its new name, and its reads fail where files of one range of rows have both names."""
    renamed = [field.name for field in fields if field.name in names and has_kind(field.type, Kind.BLOB)]
    if renamed:
        raise UnsupportedError(
            f"column {renamed[0]} is a BLOB and can't be renamed: Java Paimon could not read the table after its next "
            "write and a compaction",
            hint="add a column of the new name for new values",
            feature="blob",
        )


def check_movable(store: TableStore) -> None:
    """Raises UnsupportedError for a table whose files can't be moved: data files have the paths of packs of BLOBs."""
    if store.latest_snapshot_id() is None:
        return
    for schema in map(store.schema, store.schema_ids()):
        blobs = [f for f in schema.fields if has_kind(f.type, Kind.BLOB) and not holds_descriptors(f, schema.options)]
        if schema.primary_keys and blobs:
            raise UnsupportedError(
                f"column {blobs[0].name}: the table is not renamed, as that moves its files, and rows have the paths "
                "of those with BLOBs",
                path=store.root,
                hint="copy it with table.maintenance.clone, and drop it then",
                feature="blob",
            )
