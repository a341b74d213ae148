"""Which types the fields of messages have: of those that a table does not have yet, and of those that may be wider now.

Debezium's schemas and Canal's ``mysqlType`` say it; without them the values do for new columns, and numbers become the
largest of their kind, as later ones may be larger.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from paimon_pyds.ops.cdc.messages import Changes, Number

_BY_CONNECT = {
    "int8": "TINYINT", "int16": "SMALLINT", "int32": "INT", "int64": "BIGINT", "float": "FLOAT", "float32": "FLOAT",
    "double": "DOUBLE", "float64": "DOUBLE", "boolean": "BOOLEAN", "string": "STRING", "bytes": "BYTES",
}  # fmt: skip
_BY_NAME = {
    "io.debezium.time.Date": "DATE", "org.apache.kafka.connect.data.Date": "DATE", "io.debezium.time.IsoDate": "DATE",
    "io.debezium.time.Time": "TIME(3)", "org.apache.kafka.connect.data.Time": "TIME(3)",
    "io.debezium.time.MicroTime": "TIME(3)", "io.debezium.time.NanoTime": "TIME(3)",
    "io.debezium.time.Timestamp": "TIMESTAMP(3)", "org.apache.kafka.connect.data.Timestamp": "TIMESTAMP(3)",
    "io.debezium.time.MicroTimestamp": "TIMESTAMP(6)", "io.debezium.time.NanoTimestamp": "TIMESTAMP(9)",
    "io.debezium.time.IsoTimestamp": "TIMESTAMP(6)",
    "io.debezium.time.ZonedTimestamp": "TIMESTAMP(6) WITH LOCAL TIME ZONE",
}  # fmt: skip
_BY_MYSQL = {
    "bool": "BOOLEAN", "boolean": "BOOLEAN", "tinyint": "TINYINT", "smallint": "SMALLINT", "mediumint": "INT",
    "int": "INT", "integer": "INT", "bigint": "BIGINT", "float": "FLOAT", "double": "DOUBLE", "real": "DOUBLE",
    "date": "DATE", "time": "TIME(3)", "datetime": "TIMESTAMP(6)", "timestamp": "TIMESTAMP(6)", "year": "INT",
    "binary": "BYTES", "varbinary": "BYTES", "tinyblob": "BYTES", "blob": "BYTES", "mediumblob": "BYTES",
    "longblob": "BYTES",
}  # fmt: skip
_UNSIGNED = {"TINYINT": "SMALLINT", "SMALLINT": "INT", "INT": "BIGINT", "BIGINT": "DECIMAL(20,0)"}
_MYSQL = re.compile(r"(\w+)\s*(?:\(([^)]*)\))?(.*)", re.DOTALL)


class MessageColumns:
    """Collects the fields of messages and their types."""

    def __init__(self, tool: str) -> None:
        self._tool = tool
        self._said: dict[tuple[str, str], None] = {}
        self._by_values: dict[str, str | None] = {}

    def look(self, changes: Changes, known: Collection[str]) -> None:
        """Look at the rows of some changes. ``known``: the names of the table's columns, folded."""
        for name in sorted(set[str]().union(*changes.rows)):
            said = changes.types.get(name)
            if said:
                self._said[name, by_schema(said) if self._tool == "debezium" else by_mysql(said)] = None
            elif name.casefold() not in known:
                kinds = {type(row[name]) for row in changes.rows if row.get(name) is not None}
                self._by_values[name] = _wider(self._by_values.get(name), _by_values(kinds))

    def types(self) -> list[tuple[str, str]]:
        """Names and types; a name comes again with each type that is said of it. Fields that are NULL in all rows wait
        until there is a value."""
        said = {name for name, _ in self._said}
        found = ((name, type_) for name, type_ in self._by_values.items() if name not in said)
        return [*self._said, *((name, type_) for name, type_ in found if type_ is not None)]


def _by_values(kinds: set[type]) -> str | None:
    if not kinds:
        return None
    if kinds == {bool}:
        return "BOOLEAN"
    return "BIGINT" if kinds == {int} else "DOUBLE" if kinds <= {int, Number} else "STRING"


def _wider(one: str | None, other: str | None) -> str | None:
    if one is None or other is None or one == other:
        return one or other
    return "DOUBLE" if {one, other} == {"BIGINT", "DOUBLE"} else "STRING"


def by_schema(schema: Mapping[str, Any]) -> str:
    """The type of a field by its schema of Kafka Connect."""
    name, parameters = schema.get("name"), schema.get("parameters") or {}
    if name in _BY_NAME:
        return _BY_NAME[name]
    if name == "org.apache.kafka.connect.data.Decimal":
        precision = min(38, int(parameters.get("connect.decimal.precision", 38)))
        return f"DECIMAL({precision},{min(precision, max(0, int(parameters.get('scale', 0))))})"
    if name == "io.debezium.data.VariableScaleDecimal":
        return "DECIMAL(38,10)"
    if schema.get("type") == "array":
        return f"ARRAY<{by_schema(schema.get('items') or {})}>"
    return _BY_CONNECT.get(str(schema.get("type")), "STRING")


def by_mysql(type_: str) -> str:
    """The type of a field by that of its column in MySQL, such as ``decimal(10,2) unsigned``."""
    match = _MYSQL.match(type_.strip().lower())
    word, arguments, more = (match[1], match[2], match[3]) if match else ("", None, "")
    if word in ("decimal", "numeric", "dec", "fixed"):
        return f"DECIMAL({arguments or '10,0'})" if "," in (arguments or "10,0") else f"DECIMAL({arguments},0)"
    found = _BY_MYSQL.get(word, "STRING")
    return _UNSIGNED.get(found, found) if "unsigned" in more else found
