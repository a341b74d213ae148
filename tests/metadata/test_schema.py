from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paimon_pyds.errors import CorruptFileError, SchemaError, UnsupportedError
from paimon_pyds.metadata.json_text import to_java_json
from paimon_pyds.metadata.schema import parse_schema, schema_to_json
from paimon_pyds.metadata.snapshot import parse_snapshot, snapshot_to_json
from support.effort import examples
from support.fixtures import DEV, requires_shared
from support.metadata_samples import SNAPSHOT

SCHEMAS = sorted(DEV.glob("*/table/db.db/t/**/schema-*")) if DEV else []
SAMPLE: dict[str, Any] = {
    "version": 3,
    "id": 2,
    "fields": [
        {"id": 0, "name": "id", "type": "INT NOT NULL", "description": "the key"},
        {"id": 1, "name": "tags", "type": {"type": "ARRAY", "element": "STRING"}},
        {"id": 2, "name": "at", "type": {"type": "ROW", "fields": [{"id": 3, "name": "x", "type": "DOUBLE"}]}},
        {"id": 4, "name": "p", "type": "DATE", "defaultValue": "2020-01-01"},
    ],
    "highestFieldId": 9,
    "partitionKeys": ["p"],
    "primaryKeys": [],
    "options": {"bucket": "-1", "naïve": "☃"},
    "comment": 'a\n"b"',
    "timeMillis": 1795219400478,
}


def _data(**changes: Any) -> bytes:
    return json.dumps({**SAMPLE, **changes}).encode()


def _without(*members: str) -> bytes:
    return json.dumps({k: v for k, v in SAMPLE.items() if k not in members}).encode()


@requires_shared
def test_every_schema_of_java_comes_back_byte_for_byte() -> None:
    assert len(SCHEMAS) > 100
    for path in SCHEMAS:
        data = path.read_bytes()
        assert schema_to_json(parse_schema(data, str(path))).encode() == data, path


def test_what_a_schema_says() -> None:
    schema = parse_schema(_data(), "s")
    assert (schema.id, schema.highest_field_id, schema.partition_keys, schema.comment) == (
        2,
        9,
        ("p",),
        SAMPLE["comment"],
    )
    assert schema.field_names == ("id", "tags", "at", "p")
    assert schema.field("id").description == "the key" and schema.field("p").default == "2020-01-01"
    assert schema.partition_fields == (schema.field("p"),)
    with pytest.raises(SchemaError, match="no column 'nope'"):
        schema.field("nope")
    assert json.loads(schema_to_json(schema)) == SAMPLE


def test_keys_of_buckets() -> None:
    schema = parse_schema(_data(primaryKeys=["p", "id"]), "s")
    assert schema.trimmed_primary_keys == ("id",) == schema.bucket_keys
    assert parse_schema(_data(options={"bucket-key": " id , p"}), "s").bucket_keys == ("id", "p")
    assert parse_schema(_data(), "s").bucket_keys == ()


@pytest.mark.parametrize(
    ("version", "bucket", "file_format"), [(None, "1", "orc"), (1, "1", "orc"), (2, None, "orc"), (3, None, None)]
)
def test_old_versions_mean_other_defaults(version: int | None, bucket: str | None, file_format: str | None) -> None:
    members = {**SAMPLE, "options": {}, "version": version}
    if version is None:
        del members["version"]
    options = parse_schema(json.dumps(members).encode(), "s").options
    assert (options.get("bucket"), options.get("file.format")) == (bucket, file_format)
    given = parse_schema(json.dumps({**members, "options": {"bucket": "4", "file.format": "avro"}}).encode(), "s")
    assert given.options == {"bucket": "4", "file.format": "avro"}


def test_newer_versions_are_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match="schema version 4"):
        parse_schema(_data(version=4), "s")


def test_members_that_are_not_known_pass_and_values_may_be_bare() -> None:
    schema = parse_schema(_data(future={"x": 1}, options={"bucket": 4, "write-only": True, "r": 0.5}), "s")
    assert schema.options == {"bucket": "4", "write-only": "true", "r": "0.5"}
    assert parse_schema(_without("comment", "timeMillis", "options"), "s").time_millis == 0


def test_pairs_of_surrogates_are_text() -> None:
    assert parse_schema(_data(comment="a face \U0001f600"), "schema-2").comment == "a face \U0001f600"
    assert b"ud83d" in _data(comment="a face \U0001f600")


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "empty"),
        (b"  \n", "empty"),
        (b"{", "not valid JSON"),
        (_data()[:-20], "not valid JSON"),
        (b"\xff\xfe{}", "not valid JSON"),
        (b"[1]", "object"),
        (b"nul", "not valid JSON"),
        (b'{"a": NaN}', "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
        (b'{"id": ' + b"9" * 10_000 + b"}", "not valid JSON|64-bit"),
        (_data(comment="half \ud800 of a pair"), "not valid JSON"),
        (_data(options={"\udfff": "1"}), "not valid JSON"),
        (_data(id="0"), "64-bit integer"),
        (_data(id=2**63), "64-bit integer"),
        (_data(id=True), "64-bit integer"),
        (_data(id=1.5), "64-bit integer"),
        (_without("id"), "missing"),
        (_without("fields"), "missing"),
        (_without("partitionKeys"), "missing"),
        (_data(fields={}), "array"),
        (_data(fields=["id"]), "objects"),
        (_data(fields=[{"id": 0, "name": "a"}]), "not a field"),
        (_data(fields=[{"id": 0, "name": "a", "type": "BIGINT("}], partitionKeys=[]), "not a Paimon type"),
        (_data(fields=[{"id": 0, "name": "a", "type": "INT", "description": 3}], partitionKeys=[]), "string"),
        (_data(fields=[{"id": 0, "name": "a", "type": "INT"}] * 2, partitionKeys=[]), "same name or id"),
        (_data(partitionKeys=["nope"]), "not a column"),
        (_data(primaryKeys=["nope"]), "not a column"),
        (_data(partitionKeys=[1]), "strings"),
        (_data(options=[]), "object"),
        (_data(options={"a": [1]}), "string"),
        (_data(comment=1), "string"),
        (_data(timeMillis="now"), "64-bit integer"),
    ],
)
def test_what_is_no_schema_is_corrupt(data: bytes, what: str) -> None:
    with pytest.raises(CorruptFileError, match=what) as caught:
        parse_schema(data, "/t/schema/schema-2")
    assert "/t/schema/schema-2" in str(caught.value)


def test_deeply_nested_types_do_not_overflow() -> None:
    type_: Any = "INT"
    for _ in range(300):
        type_ = {"type": "ARRAY", "element": type_}
    with pytest.raises(CorruptFileError, match="nested"):
        parse_schema(_data(fields=[{"id": 0, "name": "a", "type": type_}], partitionKeys=[]), "s")


@pytest.mark.parametrize(
    ("sample", "parse", "write"),
    [(SAMPLE, parse_schema, schema_to_json), (SNAPSHOT, parse_snapshot, snapshot_to_json)],
    ids=["schema", "snapshot"],
)
@settings(max_examples=examples(48), deadline=None)
@given(
    cut=st.tuples(st.integers(0, 900), st.integers(0, 8)),
    put=st.sampled_from([b"", b"\0", b'"', b"{", b"9" * 30, b"null", b"-1", b"\xf0"]),
)
def test_damaged_files_give_documented_errors_only(
    sample: dict[str, Any], parse: Callable[..., Any], write: Callable[..., str], cut: tuple[int, int], put: bytes
) -> None:
    data = json.dumps(sample).encode()
    start = min(cut[0], len(data))
    try:
        found = parse(data[:start] + put + data[start + cut[1] :], "s")
    except (CorruptFileError, UnsupportedError):
        return
    assert write(found)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=20,
    )
)
def test_java_layout_is_the_same_json(value: Any) -> None:
    assert json.loads(to_java_json(value)) == value


def test_java_layout_of_empty_things() -> None:
    assert to_java_json({"a": [], "b": {}, "c": [{"d": 1}, 2]}) == (
        '{\n  "a" : [ ],\n  "b" : { },\n  "c" : [ {\n    "d" : 1\n  }, 2 ]\n}'
    )
