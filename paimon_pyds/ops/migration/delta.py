"""The live data files of a Delta table, from its log.

Source: Delta Transaction Log Protocol (Actions, Checkpoints, Schema Serialization Format, Partition Value
Serialization). The files alone must have the rows: deletion vectors, renamed columns and unknown features are refused.
CHECK constraints and the expressions of generated columns are dropped; the values of generated columns are in the
files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

from paimon_pyds.base.types import MAX_LENGTH, ArrayType, AtomicType, DataField, DataType, Kind, MapType, RowType
from paimon_pyds.errors import CorruptFileError, PaimonError, UnsupportedError
from paimon_pyds.format.parquet.source import decoding
from paimon_pyds.metadata.paths import is_absolute, named_file
from paimon_pyds.ops.migration.common_types import MAX_DEPTH, Source, SourceFile, checked_name
from paimon_pyds.ops.migration.limits import LiveFiles, check_columns, lines, parse_json
from paimon_pyds.storage import FileIO, is_path, normalise_location

_COMMIT = re.compile(r"(\d{20})\.json", re.ASCII)
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet", re.ASCII)
_OF_FILES = frozenset(("add", name) for name in ("path", "size", "partitionValues", "deletionVector"))
_ROWS_AT_ONCE = 1024
"""Rows of a checkpoint that become Python values at a time."""
_FEATURES = frozenset({"deletionVectors", "columnMapping", "timestampNtz", "vacuumProtocolCheck"})
"""Features of readers under which files give the rows, where no file has a deletion vector and no column a mapping."""
_TYPES = {
    "string": AtomicType(Kind.VARCHAR, length=MAX_LENGTH), "binary": AtomicType(Kind.VARBINARY, length=MAX_LENGTH),
    "long": AtomicType(Kind.BIGINT), "integer": AtomicType(Kind.INT), "short": AtomicType(Kind.SMALLINT),
    "byte": AtomicType(Kind.TINYINT), "float": AtomicType(Kind.FLOAT), "double": AtomicType(Kind.DOUBLE),
    "boolean": AtomicType(Kind.BOOLEAN), "date": AtomicType(Kind.DATE),
    "timestamp": AtomicType(Kind.TIMESTAMP_LTZ, precision=6), "timestamp_ntz": AtomicType(Kind.TIMESTAMP, precision=6),
}  # fmt: skip
_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)", re.ASCII)


def read_delta(io: FileIO, root: str, allowed: Sequence[str] = ()) -> Source:
    """The live files and the columns of the table's latest version.

    ``allowed``: directories outside of the table that may hold its files.

    Raises:
        CorruptFileError: a log that is not whole.
        SecurityError: a live file that is elsewhere.
        UnsupportedError: a feature under which files alone don't give the rows.
    """
    protocol: Mapping[str, Any] = {}
    metadata: Mapping[str, Any] | None = None
    files: dict[tuple[str, str], SourceFile] = {}
    counted = LiveFiles(root)
    try:
        for action in _actions(io, f"{root}/_delta_log"):
            if found := action.get("add"):
                identity = _identity(root, found)
                _forget(files, identity, counted)
                files[identity] = file = _file(root, found)
                counted.add(*_texts(file))
            elif found := action.get("remove"):
                _forget(files, _identity(root, found), counted)
            protocol, metadata = action.get("protocol") or protocol, action.get("metaData") or metadata
        if metadata is None:
            raise CorruptFileError("the log has no metadata", path=f"{root}/_delta_log")
        _check_protocol(protocol, metadata, root)
        if any(vector for _, vector in files):
            raise UnsupportedError(
                "the Delta table has deletion vectors",
                path=root,
                hint="REORG TABLE … APPLY (PURGE) takes the deleted rows out of its files",
            )
        fields = _fields(parse_json(metadata["schemaString"].encode(), f"{root}/_delta_log")["fields"])
        keys = tuple(metadata["partitionColumns"])
        live = tuple(replace(file, path=named_file(root, file.path, allowed)) for file in files.values())
        _check_partitions(live, keys)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        if isinstance(error, PaimonError):
            raise
        raise CorruptFileError(f"the log is damaged: {error!r:.200}", path=f"{root}/_delta_log") from error
    return Source("delta", live, keys, fields, instants=True)


def _check_partitions(files: Iterable[SourceFile], keys: tuple[str, ...]) -> None:
    """Raises CorruptFileError: a file whose partition is not a text, or NULL, for each key."""
    for file in files:
        if {name for name, _ in file.partition} != set(keys):
            raise CorruptFileError(
                f"the file's partition is not of the columns {', '.join(keys) or '(none)'}", path=file.path
            )
        for name, text in file.partition:
            if text is not None and not isinstance(text, str):
                raise CorruptFileError(f"the file's partition {name}={text!r:.60} is no text", path=file.path)


def _forget(files: dict[tuple[str, str], SourceFile], identity: tuple[str, str], counted: LiveFiles) -> None:
    if gone := files.pop(identity, None):
        counted.remove(*_texts(gone))


def _texts(file: SourceFile) -> Iterator[object]:
    yield file.path
    for _, text in file.partition:
        yield text


def _location(root: str, action: Mapping[str, Any]) -> str:
    """The location of a file. Writers encode its path in different ways: one removes what another has added."""
    path = unquote(action["path"])
    if not is_path(path):
        raise ValueError(f"{path!r:.80} is no path")
    return normalise_location(path) if is_absolute(path) else f"{root}/{path}"


def _identity(root: str, action: Mapping[str, Any]) -> tuple[str, str]:
    """What an action is about: a file, and the deletion vector that it has; "" for none. A file gets one by a commit
    that adds it with the vector and removes it without, in any order."""
    vector = action.get("deletionVector")
    name = f"{vector['storageType']}{vector.get('pathOrInlineDv')}@{vector.get('offset')}" if vector else ""
    return _location(root, action), name


def _file(root: str, add: Mapping[str, Any]) -> SourceFile:
    size, values = add["size"], add["partitionValues"] or {}
    if not isinstance(size, int) or size < 0:
        raise TypeError(f"{size!r:.40} is no size")
    pairs = values.items() if isinstance(values, Mapping) else values
    partition = tuple((name, text or None) for name, text in pairs)
    return SourceFile(_location(root, add), size, partition)


def _actions(io: FileIO, log: str) -> Iterator[Mapping[str, Any]]:
    """All actions of the latest version: those of the newest whole checkpoint, then those of the commits after it."""
    names = [entry.name for entry in io.list(log)]
    commits = sorted(int(match[1]) for name in names if (match := _COMMIT.fullmatch(name)))
    version, parts = _checkpoint(names)
    after = [number for number in commits if number > version]
    if after != list(range(version + 1, version + 1 + len(after))) or not (parts or after):
        raise CorruptFileError("versions are missing", path=log, field="version")
    for name in parts:
        yield from _of_checkpoint(io, f"{log}/{name}")
    for number in after:
        path = f"{log}/{number:020}.json"
        for line in lines(io, path):
            yield parse_json(line, path)


def _checkpoint(names: Iterable[str]) -> tuple[int, list[str]]:
    """The version of the newest checkpoint all of whose parts are there, and their names; -1 for none."""
    found: dict[tuple[int, int], list[str]] = {}
    for name in sorted(names):
        if match := _CHECKPOINT.fullmatch(name):
            found.setdefault((int(match[1]), int(match[3] or 1)), []).append(name)
    whole = [(version, parts) for (version, count), parts in found.items() if len(parts) == count]
    return max(whole, default=(-1, []))


def _of_checkpoint(io: FileIO, path: str) -> Iterator[Mapping[str, Any]]:
    import pyarrow.parquet as pq

    columns = check_columns(io, path, lambda column: column[:2] in _OF_FILES or column[0] in ("metaData", "protocol"))
    with io.open_input(path) as source:
        with decoding(path):
            batches = pq.ParquetFile(source).iter_batches(_ROWS_AT_ONCE, columns=columns)
        while True:
            with decoding(path):
                batch = next(batches, None)
                actions = [] if batch is None else batch.to_pylist()
            if batch is None:
                return
            yield from actions


def _check_protocol(protocol: Mapping[str, Any], metadata: Mapping[str, Any], root: str) -> None:
    configuration = dict(metadata.get("configuration") or {})
    if configuration.get("delta.columnMapping.mode", "none") != "none":
        raise UnsupportedError(
            "the Delta table has column mapping: its files have other names", path=root, hint="append its rows instead"
        )
    unknown = set(protocol.get("readerFeatures") or ()) - _FEATURES
    if protocol.get("minReaderVersion", 1) > 3 or unknown:
        what = ", ".join(sorted(unknown)) or f"reader version {protocol['minReaderVersion']}"
        raise UnsupportedError(
            f"the Delta table has features that are not supported: {what}", path=root, hint="append its rows instead"
        )


def _fields(fields: Iterable[Mapping[str, Any]], depth: int = 0) -> tuple[DataField, ...]:
    found = []
    for column in fields:
        comment = (column.get("metadata") or {}).get("comment")
        name = checked_name(column["name"])
        type_ = _type(column["type"], name, depth).with_nullable(bool(column.get("nullable", True)))
        found.append(DataField(-1, name, type_, comment))
    return tuple(found)


def _type(type_: Any, name: str, depth: int) -> DataType:
    if depth > MAX_DEPTH:
        raise ValueError(f"types nested deeper than {MAX_DEPTH} levels")
    if isinstance(type_, str):
        if type_ in _TYPES:
            return _TYPES[type_]
        match = _DECIMAL.fullmatch(type_)
        if match is None:
            raise UnsupportedError(f"column {name} has a type that is not supported: {type_!r:.60}")
        return AtomicType(Kind.DECIMAL, precision=int(match[1]), scale=int(match[2]))
    match type_["type"]:
        case "struct":
            return RowType(fields=_fields(type_["fields"], depth + 1))
        case "array":
            return ArrayType(element=_type(type_["elementType"], name, depth + 1).with_nullable(type_["containsNull"]))
        case "map":
            key = _type(type_["keyType"], name, depth + 1).with_nullable(False)
            value = _type(type_["valueType"], name, depth + 1).with_nullable(type_["valueContainsNull"])
            return MapType(key=key, value=value)
    raise UnsupportedError(f"column {name} has a type that is not supported: {type_['type']!r:.60}")
