"""A table as a later version of Paimon might leave it: members that nobody knows yet in all of its metadata.

Each of them names what its record is of, so that it can be found again, and a file, which is there. fastavro and json
write and read all of it.
"""

from __future__ import annotations

import copy
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastavro

_TYPES: dict[str, list[Any]] = {
    "_NEW": ["null", {"type": "record", "name": "newer", "fields": [
        {"name": "of", "type": "string"}, {"name": "files", "type": {"type": "array", "items": "string"}}]}],
    "_NEWER": ["null", {"type": "map", "values": "double"}],
}  # fmt: skip
_NEVER = ["null", "string"]
"""Of a member that is null in all records."""


def plant(root: Path) -> set[str]:
    """Put members into all records of a table; what they are of."""
    planted: set[str] = set()
    sizes: dict[str, int] = {}
    names = sorted(path for path in (root / "manifest").iterdir() if not path.name.startswith("planted-"))
    lists = [path for path in names if path.name.startswith("manifest-list-")]
    for path in (*(path for path in names if path not in lists), *lists):
        _rewrite(path, sizes, planted, root)
        sizes[path.name] = path.stat().st_size
    for path in json_files(root):
        value = json.loads(path.read_text())
        for name in [name for name in value if f"{name}Size" in value]:
            value[f"{name}Size"] = sizes[value[name]]
        _add_to_json(value, path.name, planted, root)
        path.write_text(json.dumps(value))
    return planted


def json_files(root: Path) -> list[Path]:
    """The schemas, snapshots, changelogs and tags of a table, of all branches."""
    kinds = ("schema/schema-*", "snapshot/snapshot-*", "changelog/changelog-*", "tag/tag-*", "consumer/consumer-*")
    return sorted(path for kind in kinds for path in root.rglob(kind) if path.is_file() and ".tmp" not in str(path))


def _file(root: Path, name: str) -> str:
    """A file that a member names."""
    path = root / ("manifest" if len(name) % 2 else "statistics") / f"planted-{name}"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"x")
    return path.name


def _members(of: str, planted: set[str], root: Path) -> dict[str, Any]:
    planted.add(of)
    return {"_NEW": {"of": of, "files": [f"a/b/{_file(root, of)}"]}, "_NEWER": {of: 0.5}, "_NEVER": None}


def _add_to_json(value: dict[str, Any], of: str, planted: set[str], root: Path) -> None:
    """Members of the object, of its columns and of their types."""
    planted.add(of)
    value["newMember"] = {"of": of, "files": [_file(root, of)], "values": [1, 0.5, True, {"deep": "é"}]}
    for field in value.get("fields", ()):
        field["newMember"] = [of, field["name"]]
        if isinstance(field["type"], dict):
            field["type"]["newMember"] = "of a type"


def _records(record: dict[str, Any], name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The records in one of a file of metadata, each with what it is of. ``name``: of the file."""
    if name.startswith("manifest-list-"):
        yield f"manifest {record['_FILE_NAME']}", record
        yield f"partitions of {record['_FILE_NAME']}", record["_PARTITION_STATS"]
    elif name.startswith("index-manifest-"):
        yield f"index {record['_FILE_NAME']}", record
        if record["_GLOBAL_INDEX"] is not None:
            yield f"global index {record['_FILE_NAME']}", record["_GLOBAL_INDEX"]
        for vector in record["_DELETIONS_VECTORS_RANGES"] or ():
            yield f"vector of {vector['f0']} {vector['_CARDINALITY']}", vector
    else:
        file = record["_FILE"]
        yield f"entry {file['_FILE_NAME']}", record
        yield f"file {file['_FILE_NAME']}", file
        yield f"keys of {file['_FILE_NAME']}", file["_KEY_STATS"]


def _rewrite(path: Path, sizes: dict[str, int], planted: set[str], root: Path) -> None:
    reader: Any = fastavro.reader(io.BytesIO(path.read_bytes()))
    schema = json.loads(reader.metadata["avro.schema"])
    records = [*reader]
    defined: set[str] = set()

    def add(record: dict[str, Any]) -> None:
        for number, (name, type_) in enumerate(_TYPES.items()):
            found = copy.deepcopy(type_)
            if name == "_NEW" and "newer" in defined:
                found[1] = "newer"
            defined.add("newer")
            record["fields"].insert(1 + 2 * number, {"name": name, "type": found})
        record["fields"].append({"name": "_NEVER", "type": _NEVER, "default": None})

    add(schema)
    for name in ("_PARTITION_STATS", "_DELETIONS_VECTORS_RANGES", "_GLOBAL_INDEX", "_FILE"):
        for field in schema["fields"]:
            if field["name"] == name:
                inside = _record_in(field["type"])
                add(inside)
                for inner in inside["fields"]:
                    if inner["name"] == "_KEY_STATS":
                        add(inner["type"])
    for record in records:
        if record.get("_FILE_NAME") in sizes:
            record["_FILE_SIZE"] = sizes[record["_FILE_NAME"]]
        for of, inside in [*_records(record, path.name)]:
            inside.update(_members(of, planted, root))
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(schema), records)
    path.write_bytes(out.getvalue())


def _record_in(type_: Any) -> Any:
    while not (isinstance(type_, dict) and type_["type"] == "record"):
        type_ = next(branch for branch in type_ if branch != "null") if isinstance(type_, list) else type_["items"]
    return type_


def found(root: Path) -> tuple[set[str], set[str], set[str]]:
    """What the members of all metadata of a table are of, what has none, and the files that they name."""
    having, lacking, files = set[str](), set[str](), set[str]()

    def see(of: str, member: dict[str, Any] | None) -> None:
        if member is None:
            lacking.add(of)
        else:
            assert member["of"] == of
            having.add(of)
            files.update(name.rpartition("/")[2] for name in member["files"])

    for path in (root / "manifest").iterdir():
        if path.name.startswith("planted-"):
            continue
        for record in fastavro.reader(io.BytesIO(path.read_bytes())):
            assert isinstance(record, dict)
            for of, inside in _records(record, path.name):
                see(of, inside.get("_NEW"))
                assert inside.get("_NEVER") is None
                assert (inside.get("_NEWER") or {of: 0.5}) == {of: 0.5}
                assert (inside.get("_NEWER") is None) == (inside.get("_NEW") is None)
    for path in json_files(root):
        if not path.name.startswith("consumer-"):  # which name no files
            files.update(json.loads(path.read_text()).get("newMember", {}).get("files", ()))
    return having, lacking, files


Check = Callable[[], None]


def watched(root: Path, planted: set[str]) -> Check:
    """A check that no record of a table has lost its members, and no file that one of them names is gone."""

    def check() -> None:
        _, lacking, files = found(root)
        lost = {of for of in planted & lacking if not of.startswith("vector of")}  # a file may have got another one
        assert not lost, sorted(lost)
        there = {path.name for path in root.rglob("planted-*")}
        assert files <= there, sorted(files - there)

    return check


def rename_columns(root: Path, names: dict[str, str]) -> None:
    """Write a schema in which columns have other names, also such as `Table.alter` refuses."""
    newest = max((root / "schema").iterdir(), key=lambda path: int(path.name.removeprefix("schema-")))
    schema = json.loads(newest.read_text())
    schema["id"] += 1
    for field in schema["fields"]:
        field["name"] = names.get(field["name"], field["name"])
    (root / "schema" / f"schema-{schema['id']}").write_text(json.dumps(schema))
