"""Tables as a Hive metastore keeps them, of Paimon's schemas and back, member by member as Java Paimon writes them.

(Source: Java Paimon 1.4, classes HiveCatalog, HiveTableUtils, StorageLocationHelper and TBPropertiesLocationHelper.)
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from paimon_pyds.base.types import DataField
from paimon_pyds.catalog.hive.metastore import VIEW, Metastore, structs, user_name
from paimon_pyds.catalog.hive.settings import HiveSettings
from paimon_pyds.catalog.hive.types import hive_type, holds_instant, paimon_type
from paimon_pyds.errors import UnsupportedError
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.ops.ddl.create import numbered

_INPUT = "org.apache.paimon.hive.mapred.PaimonInputFormat"
_OUTPUT = "org.apache.paimon.hive.mapred.PaimonOutputFormat"
_SERDE = "org.apache.paimon.hive.PaimonSerDe"
_HANDLER = "org.apache.paimon.hive.PaimonStorageHandler"
_LOCATION = "paimon_location"
"""The parameter that has the location with ``location-in-properties``."""
_OWN_PREFIX = "hive."
_ALWAYS_KEPT = ("partition.expiration-time", "data-file.path-directory")
_FIELD_DELIMITER = "field.delim"
_HIVES_DELIMITER = "\x01"
_EXTERNAL = "EXTERNAL_TABLE"
_LONGEST_COMMENT = 255
_TAGS = "metastore.tag-to-partition"


def is_paimon(table: Any) -> bool:
    """Whether a table of a metastore is Paimon's."""
    return table.sd is not None and (table.sd.inputFormat, table.sd.outputFormat) == (_INPUT, _OUTPUT)


def is_external(table: Any) -> bool:
    """Whether the files of a table stay when it is dropped."""
    return bool(table.tableType == _EXTERNAL)


def wants_external(settings: HiveSettings, options: Mapping[str, str]) -> bool:
    """Whether a new table with these options is external."""
    asked = options.get("external", options.get("EXTERNAL", ""))
    return settings.external or "path" in options or asked.lower() == "true"


# ----------------------------------------------------------------------------------------------------------- locations


def location_of(settings: HiveSettings, holder: Any) -> str | None:
    """Where a table or partition is, as the metastore says."""
    named = (holder.parameters or {}).get(_LOCATION) if settings.in_properties else None
    return named or holder.sd.location or None


def set_location(settings: HiveSettings, holder: Any, location: str) -> None:
    """Say where a table or partition is."""
    if settings.in_properties:
        holder.parameters = {**(holder.parameters or {}), _LOCATION: location}
    else:
        holder.sd.location = location


def database_location(settings: HiveSettings, database: Any) -> str | None:
    """Where the tables of a database go."""
    named = (database.parameters or {}).get(_LOCATION) if settings.in_properties else None
    return named or database.locationUri or None


def new_database(settings: HiveSettings, name: str, location: str) -> Any:
    """A database of the metastore."""
    where = {"parameters": {_LOCATION: location}} if settings.in_properties else {"locationUri": location}
    return structs().Database(**{"name": name, "parameters": {}, **where})


# -------------------------------------------------------------------------------------------------------------- tables


def new_table(client: Metastore, name: tuple[str, str], schema: TableSchema, location: str, external: bool) -> Any:
    """A table of the metastore. ``name``: its database's, and its own. Raises UnsupportedError: see `hive_type`."""
    settings = client.settings
    now = int(time.time())
    table = structs().Table(
        dbName=name[0],
        tableName=name[1],
        owner=user_name(),
        createTime=now,
        lastAccessTime=now,
        retention=2**31 - 1,
        partitionKeys=[],
        parameters=_parameters(settings, schema, new=True) | {"table_type": "PAIMON", "storage_handler": _HANDLER},
        tableType=_EXTERNAL if external else "MANAGED_TABLE",
    )
    if external:
        table.parameters["EXTERNAL"] = "TRUE"
    _describe(client, table, schema)
    set_location(settings, table, location)
    return table


def update_table(client: Metastore, table: Any, old: TableSchema, new: TableSchema, location: str) -> None:
    """Give a table of the metastore the columns and options of its new schema. Raises UnsupportedError."""
    settings = client.settings
    kept = {key: text for key, text in table.parameters.items() if key not in old.options.keys() - new.options.keys()}
    table.parameters = kept | _parameters(settings, new, new=False)
    _describe(client, table, new)
    set_location(settings, table, location)


def _parameters(settings: HiveSettings, schema: TableSchema, *, new: bool) -> dict[str, str]:
    options = schema.options
    if not settings.all_properties:
        own = {key.removeprefix(_OWN_PREFIX): text for key, text in options.items() if key.startswith(_OWN_PREFIX)}
        return own | ({key: options[key] for key in _ALWAYS_KEPT if key in options} if new else {})
    trimmed = [name for name in schema.primary_keys if name not in schema.partition_keys]
    named = {
        "primary-key": schema.primary_keys,
        "partition": schema.partition_keys,
        "bucket-key": options["bucket-key"].split(",") if options.get("bucket-key", "").strip() else trimmed,
    }
    return dict(options) | {key: ",".join(names) for key, names in named.items() if names}


def _describe(client: Metastore, table: Any, schema: TableSchema) -> None:
    """Say what columns a table has, and which classes of Java read and write it."""
    hive = structs()
    table.sd = table.sd or hive.StorageDescriptor(compressed=False, numBuckets=0, storedAsSubDirectories=False)
    table.sd.serdeInfo = table.sd.serdeInfo or hive.SerDeInfo()
    table.sd.serdeInfo.serializationLib, table.sd.serdeInfo.parameters = _SERDE, {}
    table.sd.inputFormat, table.sd.outputFormat = _INPUT, _OUTPUT
    partitioned = is_partitioned(schema)
    has_instants = any(holds_instant(field.type) for field in schema.fields)
    instants = has_instants and client.knows_instants()

    def column(field: DataField, comment: str | None) -> Any:
        return hive.FieldSchema(name=field.name, type=hive_type(field.type, instants=instants), comment=comment)

    if partitioned:
        by_name = {field.name: field for field in schema.fields}
        keys = (by_name[name] for name in schema.partition_keys)
        table.partitionKeys = [column(field, field.description) for field in keys]
    own = (field for field in schema.fields if not (partitioned and field.name in schema.partition_keys))
    table.sd.cols = [column(field, short_comment(field.description)) for field in own]
    if schema.comment is not None:
        table.parameters["comment"] = schema.comment
    else:
        table.parameters.pop("comment", None)


def short_comment(comment: str | None) -> str | None:
    """The comment of a column as metastores take it: one line, of 255 characters at most, as Java Paimon 2.1 has it."""
    if comment is None:
        return None
    line = comment.replace("\n", " ").replace("\r", " ")
    return line if len(line) <= _LONGEST_COMMENT else f"{line[: _LONGEST_COMMENT - 3]}..."


def is_partitioned(schema: TableSchema) -> bool:
    """Whether the metastore knows the partitions of a table.
    Raises UnsupportedError: its tags are to be partitions."""
    if schema.options.get(_TAGS):
        raise UnsupportedError(
            f"{_TAGS} is not supported: tags made here would be no partitions of Hive's",
            hint="write to the table by Java Paimon; it can be read here",
            feature="hive",
        )
    wanted = schema.options.get("metastore.partitioned-table", "").strip().lower() == "true"
    return wanted and bool(schema.partition_keys)


def new_partitions(
    settings: HiveSettings, table: Any, location: str, named: Iterable[tuple[Mapping[str, str], str]]
) -> list[Any]:
    """Partitions of a table of the metastore. ``location``: the table's. ``named``: for each partition its values by
    column, and its directory within the table."""
    hive, now = structs(), int(time.time())
    inner = (table.parameters or {}).get("data-file.path-directory")
    home = f"{location}/{inner}" if inner else location
    found = list[Any]()
    for values, directory in named:
        descriptor = hive.StorageDescriptor(**vars(table.sd))
        partition = hive.Partition(
            dbName=table.dbName, tableName=table.tableName, values=list(values.values()), createTime=now,
            lastAccessTime=now, sd=descriptor, parameters={},
        )  # fmt: skip
        set_location(settings, partition, f"{home}/{directory}")
        found.append(partition)
    return found


# ------------------------------------------------------------------------------------------------------- format tables


def format_schema(table: Any) -> TableSchema | None:
    """The schema of a table that is a directory of Hive's own files, which Java reads as a format table; None for
    views and others. Raises UnsupportedError: a column of a type that Paimon lacks."""
    descriptor = table.sd
    if table.tableType == VIEW or descriptor is None or descriptor.serdeInfo is None:
        return None
    parameters = dict(table.parameters or {})
    comment = parameters.pop("comment", None)
    serde, format_ = (descriptor.serdeInfo.serializationLib or "").lower(), ""
    if "parquet" in serde:
        format_ = "parquet"
    elif "orc" in serde:
        format_ = "orc"
    elif "Text" in (descriptor.inputFormat or ""):
        if "json" in serde:
            format_ = "json"
        elif parameters.get("table_type") == "TEXT":
            format_ = "text"
        else:
            format_ = "csv"
            given = (descriptor.serdeInfo.parameters or {}).get(_FIELD_DELIMITER, _HIVES_DELIMITER)
            parameters["csv.field-delimiter"] = given
    if not format_:
        return None
    ids = count()
    fields = list[DataField]()
    keys: Sequence[Any] = table.partitionKeys or ()
    for column in (*descriptor.cols, *keys):
        field = DataField(next(ids), column.name, paimon_type(column.type), column.comment)
        fields.append(replace(field, type=numbered(field.type, ids)))
    return TableSchema(
        id=0,
        fields=tuple(fields),
        highest_field_id=next(ids) - 1,
        partition_keys=tuple(column.name for column in keys),
        primary_keys=(),
        options={**parameters, "path": descriptor.location or "", "type": "format-table", "file.format": format_},
        comment=comment,
        time_millis=(table.createTime or 0) * 1000,
    )
