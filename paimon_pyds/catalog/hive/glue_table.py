"""Entries of AWS Glue as those of a Hive metastore, and back, as the Glue client for Java converts them.

Members of a Glue entry that Hive has none like, such as its description, are carried over a change of the entry.
(Source: AWS Glue API, TableInput and PartitionInput; awslabs' aws-glue-data-catalog-client-for-apache-hive-metastore.)
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from paimon_pyds.catalog.hive.metastore import structs
from paimon_pyds.catalog.hive.table import short_comment

Entry = dict[str, Any]
"""An entry, or a part of it, as requests to Glue have it."""
_TABLE = {
    "owner": "Owner",
    "retention": "Retention",
    "parameters": "Parameters",
    "tableType": "TableType",
    "viewOriginalText": "ViewOriginalText",
    "viewExpandedText": "ViewExpandedText",
}
_DESCRIPTOR = {
    "location": "Location",
    "inputFormat": "InputFormat",
    "outputFormat": "OutputFormat",
    "compressed": "Compressed",
    "numBuckets": "NumberOfBuckets",
    "storedAsSubDirectories": "StoredAsSubDirectories",
    "parameters": "Parameters",
}
_SERDE = {"name": "Name", "serializationLib": "SerializationLibrary", "parameters": "Parameters"}


def hive_database(entry: Mapping[str, Any]) -> Any:
    """A database of Hive's."""
    return structs().Database(
        name=entry["Name"],
        description=entry.get("Description"),
        locationUri=entry.get("LocationUri"),
        parameters=dict(entry.get("Parameters") or {}),
    )


def database_input(database: Any) -> Entry:
    """What makes a database of Glue."""
    names = {"name": "Name", "locationUri": "LocationUri", "parameters": "Parameters"}
    return _members(database, names)


def hive_table(entry: Mapping[str, Any], database: str) -> Any:
    """A table of Hive's, which remembers its entry (``of_glue``) for `table_input`."""
    hive = structs()
    descriptor = entry.get("StorageDescriptor")
    table = hive.Table(
        dbName=database,
        tableName=entry["Name"],
        createTime=_seconds(entry.get("CreateTime")),
        lastAccessTime=_seconds(entry.get("LastAccessTime")),
        partitionKeys=_fields(entry.get("PartitionKeys")),
        sd=_hive_descriptor(descriptor) if descriptor is not None else None,
        **{name: entry.get(member) for name, member in _TABLE.items()},
    )
    table.parameters = dict(table.parameters or {})
    table.of_glue = entry
    return table


def table_input(table: Any, known: Collection[str]) -> Entry:
    """What makes, or changes, a table of Glue. ``known``: the members that requests take of an entry."""
    before = getattr(table, "of_glue", {})
    taken = {name: member for name, member in before.items() if name in known}
    access = datetime.fromtimestamp(table.lastAccessTime or 0, UTC)
    parameters = {**(table.parameters or {}), "transient_lastDdlTime": str(int(time.time()))}
    return taken | {
        **_members(table, _TABLE),
        "Name": table.tableName,
        "LastAccessTime": access,
        "Parameters": parameters,
        "PartitionKeys": _columns(table.partitionKeys or (), before.get("PartitionKeys")),
        "StorageDescriptor": _descriptor(table.sd, before.get("StorageDescriptor") or {}),
    }


def partition_input(partition: Any) -> Entry:
    """What makes a partition of Glue."""
    return {
        "Values": list(partition.values),
        "LastAccessTime": datetime.fromtimestamp(partition.lastAccessTime, UTC),
        "Parameters": dict(partition.parameters or {}),
        "StorageDescriptor": _descriptor(partition.sd, {}),
    }


def changed_partition(entry: Mapping[str, Any], columns: Any, known: Collection[str]) -> Entry:
    """What gives a partition of Glue other columns. ``known``: as that of `table_input`."""
    taken = {name: member for name, member in entry.items() if name in known}
    parameters = {"transient_lastDdlTime": str(int(time.time())), **(entry.get("Parameters") or {})}
    descriptor = {**(entry.get("StorageDescriptor") or {}), "Columns": columns}
    return taken | {"Parameters": parameters, "StorageDescriptor": descriptor}


def _hive_descriptor(entry: Mapping[str, Any]) -> Any:
    hive, serde = structs(), entry.get("SerdeInfo")
    return hive.StorageDescriptor(
        cols=_fields(entry.get("Columns")),
        serdeInfo=None if serde is None else hive.SerDeInfo(**{n: serde.get(m) for n, m in _SERDE.items()}),
        **{name: entry.get(member) for name, member in _DESCRIPTOR.items()},
    )


def _descriptor(descriptor: Any, before: Mapping[str, Any]) -> Entry:
    serde = {**before.get("SerdeInfo", {}), **_members(descriptor.serdeInfo, _SERDE)}
    columns = _columns(descriptor.cols, before.get("Columns"))
    return {**before, **_members(descriptor, _DESCRIPTOR), "Columns": columns, "SerdeInfo": serde}


def _members(holder: Any, names: Mapping[str, str]) -> Entry:
    """Those members of a structure of Hive's that have a value, by Glue's names."""
    found = {member: getattr(holder, name) for name, member in names.items()}
    return {member: value for member, value in found.items() if value is not None}


def _fields(columns: Iterable[Mapping[str, Any]] | None) -> list[Any]:
    field = structs().FieldSchema
    return [field(name=c["Name"], type=c.get("Type") or "", comment=c.get("Comment")) for c in columns or ()]


def _columns(fields: Iterable[Any], before: Iterable[Mapping[str, Any]] | None) -> list[Entry]:
    """Columns of Glue. Its own parameters of columns are those that columns of these names had before."""
    own = {column["Name"]: column.get("Parameters") for column in before or ()}
    found = []
    for field in fields:
        more = {"Comment": short_comment(field.comment), "Parameters": own.get(field.name)}
        column = {"Name": field.name, "Type": field.type}
        found.append(column | {name: value for name, value in more.items() if value is not None})
    return found


def _seconds(moment: datetime | None) -> int:
    return 0 if moment is None else int(moment.timestamp())
