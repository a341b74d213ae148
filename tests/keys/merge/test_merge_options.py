"""Options of merge engines that contradict one another or the columns: refused by name when a table is made."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from paimon_pyds.base.types import DataField, parse_type
from paimon_pyds.errors import OptionError, PaimonError, SchemaError, UnsupportedError
from paimon_pyds.metadata.schema import TableSchema
from paimon_pyds.ops.ddl.validate import validate_schema

_PARTIAL = {"merge-engine": "partial-update"}
_AGGREGATION = {"merge-engine": "aggregation"}
_FIRST = {"merge-engine": "first-row"}
_CLUSTERED = {"pk-clustering-override": "true", "clustering.columns": "a", "deletion-vectors.enabled": "true"}


def _validate(
    options: dict[str, str], partition_keys: Sequence[str] = (), primary_keys: Sequence[str] = ("k",)
) -> None:
    columns = {"k": "INT NOT NULL", "a": "INT", "b": "BIGINT", "c": "STRING", "s": "INT", "t": "INT", "p": "DATE"}
    nested: dict[str, Any] = {
        "list_": {"type": "ARRAY", "element": "INT"},
        "map_": {"type": "MAP", "key": "INT NOT NULL", "value": "INT"},
        "row_": {"type": "ROW", "fields": [{"id": 99, "name": "x", "type": "INT"}]},
    }
    named = {name: type_ for name, type_ in nested.items() if name in str(options)}  # no default function takes these
    every = {**columns, **named}
    fields = tuple(DataField(i, name, parse_type(type_)) for i, (name, type_) in enumerate(every.items()))
    schema = TableSchema(0, fields, 99, tuple(partition_keys), tuple(primary_keys), {"bucket": "1", **options})
    validate_schema(schema)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"sequence.field": "s,t,s"}, OptionError, "sequence.field names s twice"),
        ({"sequence.field": "x"}, SchemaError, "sequence.field names 'x'"),
        ({"sequence.field": "s,list_"}, UnsupportedError, "sequence.field names list_, whose type ARRAY<INT>"),
        ({"sequence.field": "map_"}, UnsupportedError, "sequence.field names map_"),
        ({"sequence.field": "row_"}, UnsupportedError, "sequence.field names row_"),
        ({"num-levels": "1"}, OptionError, "num-levels=1"),
        ({"num-sorted-run.compaction-trigger": "0"}, OptionError, "num-sorted-run.compaction-trigger=0"),
        ({"sequence.field": "s", "fields.s.aggregate-function": "sum"}, OptionError, "fields.s.aggregate-function"),
        ({"pk-clustering-override": "true"}, OptionError, "needs the columns that sort files"),
        ({**_CLUSTERED, "clustering.columns": "x"}, SchemaError, "clustering.columns names 'x'"),
        ({**_CLUSTERED, "clustering.columns": "a,list_"}, OptionError, "ordered by 'list_'"),
        ({**_CLUSTERED, "deletion-vectors.enabled": "false"}, OptionError, "needs deletion vectors"),
        ({**_CLUSTERED, **_PARTIAL}, OptionError, "not for the merge engine partial-update"),
        ({**_CLUSTERED, "sequence.field": "s"}, OptionError, "and sequence.field exclude one another"),
        (
            {**_CLUSTERED, "record-level.expire-time": "1 d", "record-level.time-field": "s"},
            OptionError,
            "and record-level.expire-time exclude one another",
        ),
        ({**_CLUSTERED, "changelog-producer": "lookup"}, OptionError, "changelog-producer=lookup"),
        ({**_FIRST, "sequence.field": "s"}, OptionError, "sequence.field is not for the merge engine first-row"),
        ({**_FIRST, "changelog-producer": "input"}, OptionError, "changelog-producer=input"),
        ({**_FIRST, "changelog-producer": "full-compaction"}, OptionError, "changelog-producer=full-compaction"),
        ({**_FIRST, "deletion-vectors.enabled": "true"}, OptionError, "deletion-vectors.enabled"),
        (
            {"deletion-vectors.enabled": "true", "changelog-producer": "full-compaction"},
            OptionError,
            "changelog-producer=full-compaction",
        ),
        ({"record-level.expire-time": "1 d"}, OptionError, "needs the column that has the time"),
        ({"record-level.time-field": "c"}, OptionError, "record-level.time-field: c is of type STRING"),
        ({"record-level.time-field": "x"}, SchemaError, "record-level.time-field names 'x'"),
        ({"rowkind.field": "x"}, SchemaError, "rowkind.field names 'x'"),
        ({"rowkind.field": "a"}, SchemaError, "rowkind.field names a, which is of type INT"),
        (
            {**_PARTIAL, "ignore-delete": "true", "partial-update.remove-record-on-delete": "true"},
            OptionError,
            "ignore-delete and partial-update.remove-record-on-delete contradict",
        ),
        (
            {
                **_PARTIAL,
                "partial-update.ignore-delete": "true",
                "fields.s.sequence-group": "a",
                "partial-update.remove-record-on-sequence-group": "s",
            },
            OptionError,
            "ignore-delete and partial-update.remove-record-on-sequence-group contradict",
        ),
        (
            {**_PARTIAL, "fields.s.sequence-group": "a", "partial-update.remove-record-on-delete": "true"},
            OptionError,
            "sequence groups and partial-update.remove-record-on-delete contradict",
        ),
        (
            {
                **_PARTIAL,
                "fields.s.sequence-group": "a",
                "partial-update.remove-record-on-sequence-group": "s,t",
            },
            OptionError,
            "remove-record-on-sequence-group names t",
        ),
        ({**_PARTIAL, "fields.s.sequence-group": "a,x"}, SchemaError, "fields.s.sequence-group names 'x'"),
        ({**_PARTIAL, "fields.s,x.sequence-group": "a"}, SchemaError, "names 'x'"),
        (
            {**_PARTIAL, "fields.s.sequence-group": "a,b", "fields.t.sequence-group": "b"},
            OptionError,
            "column b is in two sequence groups",
        ),
        (
            {**_PARTIAL, "fields.s.sequence-group": "a", "fields.t.sequence-group": "s"},
            OptionError,
            "column s is in two sequence groups",
        ),
        ({**_PARTIAL, "fields.s,row_.sequence-group": "a"}, UnsupportedError, "sequence-group names row_"),
        ({**_PARTIAL, "fields.s.sequence-group": "a,b,a"}, OptionError, "fields.s.sequence-group lists a twice"),
        ({**_PARTIAL, "fields.a.aggregate-function": "sum"}, OptionError, "column a has the aggregate function sum"),
        ({**_PARTIAL, "fields.default-aggregate-function": "sum"}, OptionError, "in no sequence group"),
        (
            {**_PARTIAL, "fields.s.sequence-group": "c", "fields.c.aggregate-function": "sum"},
            SchemaError,
            "column c: the aggregate function sum takes",
        ),
        ({**_AGGREGATION, "fields.a.aggregate-function": "summ"}, UnsupportedError, "'summ'"),
        ({**_AGGREGATION, "fields.c.aggregate-function": "bool_or"}, SchemaError, "column c: .*bool_or takes BOOLEAN"),
        ({**_AGGREGATION, "fields.default-aggregate-function": "x"}, UnsupportedError, "'x'"),
        (
            {**_AGGREGATION, "aggregation.remove-record-on-delete": "true", "fields.a.ignore-retract": "true"},
            OptionError,
            "aggregation.remove-record-on-delete and fields.a.ignore-retract contradict",
        ),
    ],
)
def test_contradictions_are_refused_by_name(options: dict[str, str], error: type[PaimonError], message: str) -> None:
    with pytest.raises(error, match=re.escape(message) if ".*" not in message else message):
        _validate(options)


def test_sequence_fields_need_all_partition_columns_in_the_key() -> None:
    with pytest.raises(OptionError, match="does not hold all partition columns p"):
        _validate({"sequence.field": "s"}, partition_keys=["p"])
    _validate({"sequence.field": "s"}, partition_keys=["p"], primary_keys=["k", "p"])


@pytest.mark.parametrize(
    "options",
    [
        {"sequence.field": "s , t", "sequence.field.sort-order": "descending"},
        {**_FIRST, "changelog-producer": "lookup", "first-row.ignore-delete": "true"},
        {**_PARTIAL, "fields.s.sequence-group": "a,b", "fields.t,p.sequence-group": "c", "sequence.field": "b"},
        {**_PARTIAL, "fields.s.sequence-group": "s,a", "fields.a.aggregate-function": "sum"},
        {**_PARTIAL, "fields.default-aggregate-function": "last_non_null_value"},
        {
            **_PARTIAL,
            "fields.s,t.sequence-group": "a,b,c,p",
            "fields.default-aggregate-function": "max",
            "partial-update.remove-record-on-sequence-group": "t",
        },
        {**_AGGREGATION, "fields.default-aggregate-function": "max", "sequence.field": "s", "rowkind.field": "c"},
        {"fields.s.sequence-group": "a", "fields.s.aggregate-function": "sum"},
    ],
)
def test_what_java_takes_is_taken(options: dict[str, str]) -> None:
    _validate(options)
