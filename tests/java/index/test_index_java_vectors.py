"""Indexes that Java Paimon built from known columns: our bodies are its bodies, our answers its answers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from paimon_pyds.base.types import DataField, parse_type
from paimon_pyds.index.build import FileIndexBuilder, IndexSpec
from paimon_pyds.index.container import parse_head, write_container
from paimon_pyds.index.evaluate import FileIndex
from paimon_pyds.storage.byte_source import BytesSource
from support.file_indexes import agrees, column, predicate, same_answers
from support.fixtures import DEV, json_lines
from support.java_quirks import is_coarse, is_java_bug, tells_zeros_apart

CASES: dict[str, dict[str, Any]] = {
    case["name"]: case
    for name in ("index_vectors.jsonl", "index_vectors.jsonl.gz")
    if DEV is not None and (DEV / name).exists()
    for case in json_lines(DEV / name)
}
_ANY_ORDER = {"bitmap"}

pytestmark = pytest.mark.skipif(not CASES, reason="needs index_vectors.jsonl (bodies written by Java Paimon)")


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
            assert same_answers(ours[key], theirs[key], parse_type(given["type"]))
        else:
            assert ours[key] == theirs[key]


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
        if tells_zeros_apart(json, types) or is_coarse(json, types):
            continue
        if name.startswith("range/allnull") and is_java_bug(json, result["result"], rows):
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
