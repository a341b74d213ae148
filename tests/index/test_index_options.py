"""The options that ask for indexes: what they mean, and what is refused by name."""

from __future__ import annotations

import pytest

from paimon_pyds.base.types import DataField, parse_type
from paimon_pyds.errors import OptionError, UnknownColumnError
from paimon_pyds.index.build import parse_index_specs
from paimon_pyds.index.keys import supports

STRINGS = {"type": "MAP", "key": "STRING NOT NULL", "value": "STRING"}
FIELDS = tuple(
    DataField(i, name, parse_type(json))
    for i, (name, json) in enumerate(
        {
            "id": "BIGINT", "Name": "STRING", "price": "DECIMAL(10, 2)", "big": "DECIMAL(20, 2)", "flag": "BOOLEAN",
            "raw": "BYTES", "at": "TIMESTAMP(9)", "m": STRINGS,
            "by_id": {"type": "MAP", "key": "INT NOT NULL", "value": "INT"},
            "tiny": "TINYINT", "case": "INT", "CASE": "INT", "odd[name]": "INT",
        }.items()
    )
)  # fmt: skip


def test_columns_and_their_options() -> None:
    specs = parse_index_specs(
        {
            "bucket": "-1",
            "file-index.bitmap.columns": " id , Name ",
            "file-index.bitmap.Name.index-block-size": "1 kb",
            "file-index.bitmap.id.version": "1",
            "file-index.bloom-filter.columns": "Name",
            "file-index.bloom-filter.Name.items": "200",
            "file-index.bloom-filter.Name.fpp": "0.01",
            "file-index.range-bitmap.columns": "tiny,price",
            "file-index.in-manifest-threshold": "1 B",
            "file-index.read.enabled": "true",
            "file-index.bitmap.version": "1",  # Java passes over keys without a column, and so do we
        },
        FIELDS,
    )
    assert [(s.index_type, s.column, dict(s.options)) for s in specs] == [
        ("bitmap", "id", {"version": "1"}),
        ("bitmap", "Name", {"index-block-size": "1 kb"}),
        ("bloom-filter", "Name", {"items": "200", "fpp": "0.01"}),
        ("range-bitmap", "tiny", {}),
        ("range-bitmap", "price", {}),
    ]
    assert specs[0].bitmap() == (1, 16384)
    assert specs[1].bitmap() == (2, 1024)
    assert specs[2].bloom() == (200, 0.01)
    assert specs[3].chunk_size(parse_type("TINYINT")) == 0
    assert specs[4].chunk_size(parse_type("DECIMAL(10, 2)")) == 16384
    assert parse_index_specs({"bucket": "1"}, FIELDS) == []


def test_map_keys() -> None:
    specs = parse_index_specs(
        {
            "file-index.bitmap.columns": "m[k1], m[a.b]",
            "file-index.bitmap.m.version": "1",
            "file-index.bitmap.m[k1].version": "2",
            "file-index.bloom-filter.columns": "m[k1]",
        },
        FIELDS,
    )
    assert [(s.container_name, s.map_key, dict(s.options)) for s in specs] == [
        ("m[k1]", "k1", {"version": "2"}),
        ("m[a.b]", "a.b", {"version": "1"}),
        ("m[k1]", "k1", {}),
    ]


def test_keys_that_spark_lower_cased() -> None:
    specs = parse_index_specs({"file-index.bitmap.columns": "NAME", "file-index.bitmap.name.version": "1"}, FIELDS)
    assert [(s.column, dict(s.options)) for s in specs] == [("Name", {"version": "1"})]
    exact = parse_index_specs({"file-index.bitmap.columns": "case", "file-index.bitmap.case.version": "1"}, FIELDS)
    assert [(s.column, dict(s.options)) for s in exact] == [("case", {"version": "1"})]
    both = {"file-index.bitmap.columns": "case,CASE", "file-index.bitmap.CASE.version": "1"}
    assert [(s.column, dict(s.options)) for s in parse_index_specs(both, FIELDS)] == [
        ("case", {}),
        ("CASE", {"version": "1"}),
    ]
    for ambiguous in ({"file-index.bitmap.columns": "Case"}, {**both, "file-index.bitmap.Case.version": "1"}):
        with pytest.raises(OptionError, match="could mean"):
            parse_index_specs(ambiguous, FIELDS)


def test_a_column_whose_name_looks_like_a_map_key() -> None:
    (spec,) = parse_index_specs({"file-index.bitmap.columns": "odd[name]"}, FIELDS)
    assert (spec.column, spec.map_key) == ("odd[name]", None)
    alike = (*FIELDS, DataField(90, "m[k]", parse_type("INT")))
    assert parse_index_specs({"file-index.bitmap.columns": "m[j]"}, alike)[0].map_key == "j"
    with pytest.raises(OptionError, match=r"m\[k\] could mean the column of that name or a key of m"):
        parse_index_specs({"file-index.bitmap.columns": "m[k]"}, alike)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bitmap.columns": "nope"}, "no column nope"),
        ({"bitmap.columns": "id,,Name"}, "empty column"),
        ({"bitmap.columns": "raw"}, "can't be built on raw"),
        ({"bitmap.columns": "price"}, "can't be built on price"),
        ({"bitmap.columns": "m"}, "can't be built on m"),
        ({"bloom-filter.columns": "flag"}, "can't be built on flag"),
        ({"bloom-filter.columns": "price"}, "can't be built on price"),
        ({"bsi.columns": "Name"}, "can't be built on Name"),
        ({"bsi.columns": "big"}, "can't be built on big"),
        ({"range-bitmap.columns": "at"}, "can't be built on at"),
        ({"range-bitmap.columns": "raw"}, "can't be built on raw"),
        ({"range-bitmap.columns": "big"}, "can't be built on big"),
        ({"tree.columns": "id"}, "no index of type tree"),
        ({"bitmap.columns": "by_id[1]"}, "not a MAP with string keys"),
        ({"bitmap.columns": "id[k]"}, "not a MAP with string keys"),
        ({"bitmap.columns": "gone[k]"}, "no column gone"),
        ({"bitmap.columns": "id", "bitmap.Name.version": "1"}, "has no bitmap index"),
        ({"bloom-filter.id.items": "5"}, "has no bloom-filter index"),
        ({"bitmap.columns": "id", "bitmap.id.fpp": "0.1"}, "no option fpp"),
        ({"bitmap.columns": "id", "bitmap.id.version": "3"}, "must be 1 or 2"),
        ({"bitmap.columns": "id", "bitmap.id.version": "two"}, "version"),
        ({"bitmap.columns": "id", "bitmap.id.index-block-size": "3 parsecs"}, "index-block-size"),
        ({"bitmap.columns": "id", "bitmap.id.index-block-size": "1 b"}, "between"),
        ({"bloom-filter.columns": "id", "bloom-filter.id.fpp": "1.5"}, "fpp"),
        ({"bloom-filter.columns": "id", "bloom-filter.id.items": "0"}, "items"),
        ({"bloom-filter.columns": "id", "bloom-filter.id.items": "2000000000"}, "more than"),
        ({"range-bitmap.columns": "id", "range-bitmap.id.chunk-size": "-1"}, "chunk-size"),
    ],
)
def test_what_is_refused(options: dict[str, str], message: str) -> None:
    error = UnknownColumnError if message.startswith("no column") else OptionError
    with pytest.raises(error, match=message):
        parse_index_specs({f"file-index.{k}": v for k, v in options.items()}, FIELDS)


def test_types_are_those_that_java_accepts() -> None:
    accepted = {
        "bloom-filter": {"TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "CHAR(3)", "STRING", "BYTES",
                         "BINARY(2)", "DATE", "TIME(3)", "TIMESTAMP(9)"},
        "bitmap": {"BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "CHAR(3)", "STRING", "DATE",
                   "TIME(3)", "TIMESTAMP(9)"},
        "bsi": {"TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL(18, 2)", "DATE", "TIME(3)", "TIMESTAMP(9)"},
        "range-bitmap": {"BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "CHAR(3)", "STRING",
                         "DATE", "TIME(3)", "DECIMAL(18, 2)"},
    }  # fmt: skip
    every = set().union(*accepted.values()) | {"DECIMAL(19, 2)"}
    for kind, types in accepted.items():
        assert {text for text in every if supports(kind, parse_type(text))} == types
    assert not supports("unknown", parse_type("INT"))
