"""The live data files of an Iceberg table, from its metadata.

Source: Apache Iceberg specification (Table Metadata, Manifest Lists, Manifests, Partitioning, Schemas, Column
Projection, File System Tables). The files alone must have the rows: delete files, format version 3, encryption and data
files other than Parquet are refused. A table gets partitions by the columns that partition every live file as they are;
transforms of columns, such as day(at) or bucket(16, k), are left out: the columns are in the files.
"""

from __future__ import annotations

import datetime as dt
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from paimon_pyds.base.records import dataclass
from paimon_pyds.base.text import whole_number
from paimon_pyds.base.types import MAX_LENGTH, ArrayType, AtomicType, DataField, DataType, Kind, MapType, RowType
from paimon_pyds.errors import CorruptFileError, OptionError, SchemaError, UnsupportedError
from paimon_pyds.format.avro.container import ContainerReader, decode_records, read_container
from paimon_pyds.metadata.paths import named_file
from paimon_pyds.ops.migration.common_types import MAX_DEPTH, Source, SourceFile, checked_name
from paimon_pyds.ops.migration.limits import MAX_BYTES, MAX_RECORD_BYTES, LiveFiles, parse_json, read_limited, unzipped
from paimon_pyds.storage import FileIO, normalise_location

METADATA_SUFFIX = ".metadata.json"
HINT = "version-hint.text"
_NUMBERED = re.compile(r"v?(\d{1,18})(?:-.*)?(?:\.gz)?\.metadata\.json", re.ASCII)
_VERSION = re.compile(r"v(\d{1,18})(?:\.gz)?\.metadata\.json", re.ASCII)
_VERSIONS = (1, 2)
_DELETED = 2
_EPOCH = dt.date(1970, 1, 1).toordinal()
_TYPES = {
    "boolean": AtomicType(Kind.BOOLEAN), "int": AtomicType(Kind.INT), "long": AtomicType(Kind.BIGINT),
    "float": AtomicType(Kind.FLOAT), "double": AtomicType(Kind.DOUBLE), "date": AtomicType(Kind.DATE),
    "timestamp": AtomicType(Kind.TIMESTAMP, precision=6), "timestamptz": AtomicType(Kind.TIMESTAMP_LTZ, precision=6),
    "string": AtomicType(Kind.VARCHAR, length=MAX_LENGTH), "binary": AtomicType(Kind.VARBINARY, length=MAX_LENGTH),
    "uuid": AtomicType(Kind.BINARY, length=16),
}  # fmt: skip
_SIZED = re.compile(r"(decimal|fixed)[\[(]\s*(\d{1,9})\s*(?:,\s*(\d{1,2})\s*)?[\])]", re.ASCII)
_PARTITIONS = frozenset({Kind.BOOLEAN, Kind.INT, Kind.BIGINT, Kind.DATE, Kind.VARCHAR})
"""Types of columns that partitions are made of; others stay columns of files alone."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """A live data file: its path, bytes, specification, and values of identity partitions by the ids of columns."""

    path: str
    size: int
    spec: int
    values: Mapping[int, Any]


def table_directory(root: str) -> str:
    """The directory of the table whose directory or metadata file this is. Raises UnsupportedError."""
    if not root.endswith(METADATA_SUFFIX):
        return root
    directory, _, folder = root.rpartition("/")[0].rpartition("/")
    if folder != "metadata":
        raise UnsupportedError(
            "the metadata file is outside of its table", path=root, hint="give one in a directory named metadata"
        )
    return directory


def read_iceberg(io: FileIO, root: str, allowed: Sequence[str] = ()) -> Source:
    """The live files and the columns of the table's current snapshot.

    ``root``: the directory of the table, or one of its metadata files. ``allowed``: directories outside of the table
    that may hold its files.

    Raises:
        SecurityError: a manifest or a live file that is elsewhere.
        CorruptFileError: metadata that is not whole.
        UnsupportedError: a feature under which files alone don't give the rows.
    """
    directory = table_directory(root)
    path = root if root != directory else _newest(io, f"{root}/metadata")
    try:
        return _Reader(io, directory, path, allowed).source()
    except (KeyError, TypeError, ValueError, AttributeError, LookupError, RecursionError, zlib.error) as error:
        if isinstance(error, CorruptFileError | SchemaError | UnsupportedError | OptionError):
            raise
        raise CorruptFileError(f"the metadata is damaged: {error!r:.200}", path=path) from error
    except FileNotFoundError as error:
        raise CorruptFileError("a metadata file of the source is missing", path=error.filename or path) from error


def _newest(io: FileIO, folder: str) -> str:
    """The newest metadata file: as the hint says, or the one of the greatest number."""
    names = {entry.name for entry in io.list(folder)}
    if HINT in names:
        hint = read_limited(io, f"{folder}/{HINT}").decode("utf-8", "replace").strip()
        version = whole_number(hint)
        if version is None:
            return f"{folder}/{hint.removesuffix(METADATA_SUFFIX).rpartition('/')[2]}{METADATA_SUFFIX}"
        there = {int(match[1]): name for name in names if (match := _VERSION.fullmatch(name))}
        while version + 1 in there:  # as of a writer that was stopped before it wrote the hint
            version += 1
        return f"{folder}/{there.get(version, f'v{version}{METADATA_SUFFIX}')}"
    numbered = sorted((int(match[1]), name) for name in names if (match := _NUMBERED.fullmatch(name)))
    if not numbered:
        raise CorruptFileError("no metadata file of an Iceberg table", path=folder, hint="give its metadata file")
    if len(numbered) > 1 and numbered[-1][0] == numbered[-2][0]:
        raise UnsupportedError(
            f"{numbered[-2][1]} and {numbered[-1][1]} are both the newest metadata",
            path=folder,
            hint="give the one that the table's catalog names as the source",
        )
    return f"{folder}/{numbered[-1][1]}"


class _Reader:
    """One version of a table."""

    def __init__(self, io: FileIO, directory: str, path: str, allowed: Sequence[str]) -> None:
        self._io, self._directory, self._allowed = io, directory, allowed
        data = read_limited(io, path)
        text = unzipped(data, path) if data[:2] == b"\x1f\x8b" else data
        self._metadata: Mapping[str, Any] = parse_json(text, path)
        self._location = normalise_location(self._metadata["location"])
        version = self._metadata["format-version"]
        if version not in _VERSIONS:
            raise self._refused(f"format version {version}, whose features are not supported")
        if self._metadata.get("encryption-keys"):
            raise self._refused("encrypted files")
        specs = self._metadata.get("partition-specs") or [{"spec-id": 0, "fields": self._metadata["partition-spec"]}]
        self._specs = {spec["spec-id"]: _identities(spec["fields"]) for spec in specs}

    def source(self) -> Source:
        fields = _fields(self._schema()["fields"])
        entries, counted = list[_Entry](), LiveFiles(self._directory)
        for entry in self._entries():
            counted.add(entry.path, *entry.values.values())
            entries.append(entry)
        used = {entry.spec for entry in entries} or {self._metadata.get("default-spec-id", 0)}
        columns = {f.id: f for f in fields}
        common = set.intersection(*(set(self._specs[number].values()) for number in used))
        order = [id_ for number in sorted(used, reverse=True) for id_ in self._specs[number].values()]
        keys = [
            columns[id_]
            for id_ in dict.fromkeys(order)
            if id_ in common and id_ in columns and columns[id_].type.kind in _PARTITIONS
        ]
        if len(keys) == len(fields):
            keys = []  # a table needs a column that is in files
        files = []
        for entry in entries:
            partition = tuple((f.name, _text(entry.values[f.id], f)) for f in keys)
            needed = frozenset(entry.values.keys() & columns.keys()) - {f.id for f in keys}
            files.append(SourceFile(self._path(entry.path), entry.size, partition, needed))
        return Source("iceberg", tuple(files), tuple(f.name for f in keys), fields, instants=True, by_id=True)

    def _schema(self) -> Mapping[str, Any]:
        if "schemas" not in self._metadata:
            return dict(self._metadata["schema"])
        wanted = self._metadata["current-schema-id"]
        return {s["schema-id"]: dict(s) for s in self._metadata["schemas"]}[wanted]

    def _entries(self) -> Iterator[_Entry]:
        """The live data files of the current snapshot."""
        current = self._metadata.get("current-snapshot-id")
        if current in (None, -1):
            return
        snapshot = next((s for s in self._metadata["snapshots"] if s["snapshot-id"] == current), None)
        if snapshot is None:
            raise CorruptFileError(f"snapshot {current} is missing", path=self._directory, field="snapshots")
        if "manifest-list" not in snapshot:
            raise self._refused("a snapshot without a manifest list")
        if snapshot.get("key-id"):
            raise self._refused("encrypted files")
        read = set()
        for manifest in decode_records(self._container(snapshot["manifest-list"])[0], MAX_RECORD_BYTES):
            if manifest.get("key_metadata"):
                raise self._refused("encrypted files")
            path = manifest["manifest_path"]
            if path in read:  # its rows would be there twice
                raise CorruptFileError("a manifest is listed twice", path=path)
            read.add(path)
            yield from self._of_manifest(manifest)

    def _of_manifest(self, manifest: Mapping[str, Any]) -> Iterator[_Entry]:
        container, schema = self._container(manifest["manifest_path"])
        number = manifest["partition_spec_id"]
        spec = self._specs[number]
        stored = _partition_names(schema)
        if not spec.keys() <= stored.keys():
            raise CorruptFileError("partition values are missing", path=manifest["manifest_path"], field="partition")
        for entry in decode_records(container, MAX_RECORD_BYTES):
            if entry["status"] == _DELETED:
                continue
            file = entry["data_file"]
            if file.get("content") or manifest.get("content"):
                what = "equality deletes" if file.get("content") == 2 else "position deletes or deletion vectors"
                raise self._refused(what, "rewrite_data_files of Spark takes the deleted rows out of its files")
            if file.get("key_metadata"):
                raise self._refused("encrypted files")
            if file["file_format"].upper() != "PARQUET":
                raise self._refused(f"data files of {file['file_format'].upper():.20}: only Parquet is supported")
            values = {column: file["partition"][stored[id_]] for id_, column in spec.items()}
            yield _Entry(file["file_path"], file["file_size_in_bytes"], number, values)

    def _container(self, path: str) -> tuple[Any, Any]:
        """The records of an Avro file, and its schema as JSON."""
        place = self._path(path)
        data = read_limited(self._io, place)
        reader = ContainerReader(lambda at, length: data[at : at + length], len(data), place)
        schema = parse_json(reader.schema, place)
        return read_container(data, place, max_bytes=MAX_BYTES), schema

    def _path(self, path: str) -> str:
        """Where a file is: below the table's directory, wherever that is now, or in one that is allowed."""
        place = normalise_location(path)
        if place.startswith(f"{self._location}/"):
            path = f"{self._directory}{place[len(self._location) :]}"
        return named_file(self._directory, path, self._allowed)

    def _refused(self, what: str, hint: str = "append its rows instead") -> UnsupportedError:
        return UnsupportedError(f"the Iceberg table has {what}", path=self._directory, hint=hint)


def _identities(fields: Iterable[Mapping[str, Any]]) -> dict[int, int]:
    """The ids of columns whose values partitions are, by the ids of partition fields (in version 1 from 1000 on)."""
    return {
        int(field.get("field-id", 1000 + number)): int(field["source-id"])
        for number, field in enumerate(fields)
        if field["transform"] == "identity"
    }


def _partition_names(schema: Mapping[str, Any]) -> dict[int, str]:
    """The names of the members of ``partition`` in a manifest, by the ids of partition fields."""
    file = {f["name"]: f["type"] for f in schema["fields"]}["data_file"]
    partition = {f["name"]: f["type"] for f in file["fields"]}["partition"]
    return {f["field-id"]: f["name"] for f in partition["fields"]}


def _text(value: Any, column: DataField) -> str | None:
    """A partition's value as text. Avro has dates as days since 1970."""
    if value is None:
        return None
    match column.type.kind:
        case Kind.VARCHAR if isinstance(value, str):
            return value
        case Kind.BOOLEAN if isinstance(value, bool):
            return str(value).lower()
        case Kind.INT | Kind.BIGINT if isinstance(value, int):
            return str(value)
        case Kind.DATE if isinstance(value, int):
            return dt.date.fromordinal(value + _EPOCH).isoformat()
    raise CorruptFileError(f"partition {column.name}={value!r:.100} is no value of {column.type}")


def _fields(fields: Iterable[Mapping[str, Any]], within: str = "", depth: int = 0) -> tuple[DataField, ...]:
    """Columns, with Iceberg's ids."""
    return tuple(
        DataField(
            int(f["id"]),
            checked_name(f["name"]),
            _type(f["type"], f"{within}{f['name']}", depth).with_nullable(not f["required"]),
            f.get("doc"),
        )
        for f in fields
    )


def _type(type_: Any, name: str, depth: int) -> DataType:
    if depth > MAX_DEPTH:
        raise ValueError(f"types nested deeper than {MAX_DEPTH} levels")
    if isinstance(type_, str):
        found = _TYPES.get(type_) or _sized(type_)
        if found is None:
            raise UnsupportedError(
                f"column {name} has a type that is not supported: {type_!r:.60}", hint="append its rows instead"
            )
        return found
    match type_["type"]:
        case "struct":
            return RowType(fields=_fields(type_["fields"], f"{name}.", depth + 1))
        case "list":
            return ArrayType(
                element=_type(type_["element"], name, depth + 1).with_nullable(not type_["element-required"])
            )
        case "map":
            value = _type(type_["value"], name, depth + 1).with_nullable(not type_["value-required"])
            return MapType(key=_type(type_["key"], name, depth + 1).with_nullable(False), value=value)
    raise UnsupportedError(f"column {name} has a type that is not supported: {type_['type']!r:.60}")


def _sized(text: str) -> AtomicType | None:
    match = _SIZED.fullmatch(text)
    if match is None:
        return None
    if match[1] == "fixed":
        return AtomicType(Kind.BINARY, length=int(match[2])) if match[3] is None else None
    return AtomicType(Kind.DECIMAL, precision=int(match[2]), scale=int(match[3])) if match[3] else None
