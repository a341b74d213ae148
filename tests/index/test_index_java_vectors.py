"""Indexes that Java Paimon built from known columns: our bodies are its bodies, our answers its answers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from index_support import agrees, column, predicate

from paimon_pyds.index.bitmap import BitmapReader
from paimon_pyds.index.build import FileIndexBuilder
from paimon_pyds.index.config import IndexSpec
from paimon_pyds.index.container import parse_head, write_container
from paimon_pyds.index.evaluate import FileIndex
from paimon_pyds.index.keys import key_codec
from paimon_pyds.index.probe import Nulls, Points
from paimon_pyds.storage.base import BytesSource
from paimon_pyds.types import DataField, DataType, Kind, parse_type
from support.fixtures import DEV, json_lines, requires_shared

CASES: dict[str, dict[str, Any]] = (
    {} if DEV is None else {case["name"]: case for case in json_lines(DEV / "index_vectors.jsonl")}
)
_ANY_ORDER = {"bitmap"}

pytestmark = requires_shared


def case_fields(case: Mapping[str, Any]) -> tuple[DataField, ...]:
    types = {c["name"]: parse_type(c["type"]) for c in case["columns"]}
    return tuple(DataField(i, name, type_) for i, (name, type_) in enumerate(types.items()))


def case_values(given: Mapping[str, Any]) -> pa.Array:
    values = eval(given["values_py"]) if "values_py" in given else given["values"]
    return column(values, parse_type(given["type"]))


def build(case: Mapping[str, Any], pieces: int = 1) -> bytes:
    """The container of a case; a column may come twice, with other values for each of its indexes."""
    parts: dict[str, dict[str, bytes | None]] = {}
    for given in case["columns"]:
        values = case_values(given)
        spec = IndexSpec(given["name"], None, given["index"], given["options"])
        builder = FileIndexBuilder([spec], [DataField(0, given["name"], parse_type(given["type"]))])
        size = max(1, math.ceil(len(values) / pieces))
        for start in range(0, len(values), size):
            builder.update(pa.record_batch([values.slice(start, size)], [given["name"]]))
        container = builder.finish()
        assert container is not None
        (body,) = bodies(container).values()
        parts.setdefault(given["name"], {})[given["index"]] = body
    return write_container(parts)


def bodies(container: bytes) -> dict[str, bytes]:
    head = parse_head(BytesSource(container))
    return {
        f"{name}/{kind}": container[r.start : r.start + r.length]
        for name, kinds in head.columns.items()
        for kind, r in kinds.items()
    }


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("pieces", [1, 7])
def test_bodies_are_those_of_java(name: str, pieces: int) -> None:
    case = CASES[name]
    ours = bodies(build(case, pieces))
    theirs = {key: bytes.fromhex(text) for key, text in case["bodies"].items()}
    assert ours.keys() == theirs.keys()
    for given in case["columns"]:
        key = f"{given['name']}/{given['index']}"
        if (
            given["index"] in _ANY_ORDER
        ):  # Java writes bitmaps in the order of a hash map: the same parts in another order
            assert len(ours[key]) == len(theirs[key])
            assert same_bitmaps(ours[key], theirs[key], parse_type(given["type"]), case_values(given))
        else:
            assert ours[key] == theirs[key]


def same_bitmaps(ours: bytes, theirs: bytes, type_: DataType, values: pa.Array) -> bool:
    codec = key_codec(type_)
    keys = codec.keys_of(values).drop_null().unique().to_pylist()
    answers = []
    for body in (ours, theirs):
        reader = BitmapReader.open(BytesSource(body), type_)
        found = [reader.answer(Points((key,))) for key in keys] + [reader.answer(Nulls())]
        answers.append([a and list(a.selection.positions or ()) for a in found])
    return answers[0] == answers[1]


def compares_zero_of_floats(json: Mapping[str, Any], fields: tuple[DataField, ...]) -> bool:
    """The rule of the house: -0.0 = 0.0, where Java tells them apart."""
    if "args" in json:
        return any(compares_zero_of_floats(child, fields) for child in json["args"])
    kind = next(f.type.kind for f in fields if f.name == json["field"])
    return kind in (Kind.FLOAT, Kind.DOUBLE) and any(v is not None and float(v) == 0 for v in json.get("literals", ()))


def is_java_bug(name: str, json: Mapping[str, Any]) -> bool:
    """Range bitmaps of all-null columns: Java 1.4 loses rows of IS NULL."""
    return name.startswith("range/allnull") and json["op"] == "isnull"


def is_coarse(fields: tuple[DataField, ...], json: Mapping[str, Any]) -> bool:
    """Timestamps finer than their keys: Java compares truncated values and loses rows, except for = and IN."""
    if "args" in json:
        return any(is_coarse(fields, child) for child in json["args"])
    precision = next(getattr(f.type, "precision", 0) or 0 for f in fields if f.name == json["field"])
    kind = next(f.type.kind for f in fields if f.name == json["field"])
    ops = ("ne", "notin", "lt", "gt", "le", "ge", "between")
    return kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ) and precision > 6 and json["op"] in ops


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("own", [False, True], ids=["java-container", "own-container"])
def test_answers_are_those_of_java(name: str, own: bool) -> None:
    case = CASES[name]
    fields = case_fields(case)
    types = {f.name: f.type for f in fields}
    rows = len(case_values(case["columns"][0]))
    container = build(case) if own else bytes.fromhex(case["container"])
    index = FileIndex.open(BytesSource(container))
    asked = 0
    for result in case["results"]:
        json = result["predicate"]
        if compares_zero_of_floats(json, fields) or is_java_bug(name, json) or is_coarse(fields, json):
            continue
        asked += 1
        answer = index.evaluate(predicate(json, types), rows, extended=False)
        assert agrees(answer.selection, result["result"]), (json, answer)
    assert asked


def test_container_of_java_is_rewritten_equal() -> None:
    for case in CASES.values():
        data = bytes.fromhex(case["container"])
        head = parse_head(BytesSource(data))
        parts = {
            name: {kind: data[r.start : r.start + r.length] for kind, r in kinds.items()}
            for name, kinds in head.columns.items()
        }
        assert write_container(parts) == data
