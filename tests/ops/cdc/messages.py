"""Messages of Debezium, Canal and Maxwell as these tools send them, and the tables that they are about."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
ORDERS = (
    "id INT, customer STRING, price DECIMAL(10,2), day DATE, at TIMESTAMP(3), "
    "paid TIMESTAMP(6) WITH LOCAL TIME ZONE, photo BYTES, note STRING"
)


def lines(name: str) -> list[str | None]:
    """The messages of a file; an empty line is a message that is NULL."""
    return [line or None for line in (FOLDER / name).read_text().split("\n")[:-1]]


def envelope(op: str, before: Any = None, after: Any = None, table: str = "orders", **more: Any) -> str:
    """A message of Debezium without its schema."""
    source = {"version": "3.0.0.Final", "connector": "mysql", "db": "shop", "table": table}
    return json.dumps({"before": before, "after": after, "source": source, "op": op, "ts_ms": 1, **more})


def with_schema(op: str, fields: list[dict[str, Any]], before: Any = None, after: Any = None) -> str:
    """A message of Debezium with its schema."""
    row = {"type": "struct", "fields": fields, "optional": True}
    schema = {
        "type": "struct",
        "name": "shop.shop.orders.Envelope",
        "fields": [{**row, "field": "before"}, {**row, "field": "after"}, {"type": "string", "field": "op"}],
    }
    payload = json.loads(envelope(op, before, after))
    return json.dumps({"schema": schema, "payload": payload})
