"""Two small tables whose bitmaps can be checked by eye: which positions of the data file each filter selects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa

import paimon_pyds as pp

USER_EVENTS_OPTIONS = {
    "file-index.bitmap.columns": "event_type,region",
    "file-index.bitmap.event_type.index-block-size": "32kb",
    "file-index.in-manifest-threshold": "10kb",
}
USER_EVENTS: Mapping[str, list[int]] = {
    "event_type = 'login'": [0, 2, 5],
    "event_type = 'click'": [1, 4],
    "event_type = 'purchase'": [3],
    "event_type IN ('login', 'purchase')": [0, 2, 3, 5],
    "event_type NOT IN ('login')": [1, 3, 4],
    "region = 'US'": [0, 2, 4],
    "region = 'EU'": [1, 5],
    "region = 'ASIA'": [3],
    "event_type = 'login' AND region = 'US'": [0, 2],
    "event_type = 'login' OR region = 'US'": [0, 2, 4, 5],
    "region IS NULL": [],
    "region IS NOT NULL": [0, 1, 2, 3, 4, 5],
}

ORDERS_OPTIONS = {
    "file-index.bitmap.columns": "status,region",
    "file-index.bitmap.status.version": "2",
    "file-index.bitmap.status.index-block-size": "16kb",
    "file-index.in-manifest-threshold": "5kb",
}
ORDERS: Mapping[str, list[int]] = {
    "status = 'PENDING'": [0, 2, 5, 8],
    "status = 'COMPLETED'": [1, 4, 6, 9],
    "status = 'CANCELLED'": [3, 7],
    "region = 'US'": [0, 3, 5, 9],
    "region = 'EU'": [1, 4, 7],
    "region = 'ASIA'": [2, 6, 8],
}
PENDING = [
    {"order_id": 1001, "user_id": 1, "region": "US", "amount": Decimal("100.00")},
    {"order_id": 1003, "user_id": 3, "region": "ASIA", "amount": Decimal("150.00")},
    {"order_id": 1006, "user_id": 6, "region": "US", "amount": Decimal("120.00")},
    {"order_id": 1009, "user_id": 9, "region": "ASIA", "amount": Decimal("180.00")},
]


def user_events() -> pa.Table:
    """Six events."""
    rows = [
        (1, "login", "US"),
        (2, "click", "EU"),
        (3, "login", "US"),
        (4, "purchase", "ASIA"),
        (5, "click", "US"),
        (6, "login", "EU"),
    ]
    users, events, regions = zip(*rows, strict=True)
    times = [datetime(2024, 1, 1, 10, minute) for minute in range(len(rows))]
    columns = {
        "user_id": pa.array(users, pa.int32()),
        "event_type": pa.array(events),
        "event_time": pa.array(times, pa.timestamp("us", "UTC")),
        "region": pa.array(regions),
    }
    return pa.table(columns)


def orders() -> pa.Table:
    """Ten orders."""
    rows = [
        ("PENDING", "US", "100.00", 1),
        ("COMPLETED", "EU", "200.00", 1),
        ("PENDING", "ASIA", "150.00", 1),
        ("CANCELLED", "US", "50.00", 2),
        ("COMPLETED", "EU", "300.00", 2),
        ("PENDING", "US", "120.00", 2),
        ("COMPLETED", "ASIA", "250.00", 3),
        ("CANCELLED", "EU", "80.00", 3),
        ("PENDING", "ASIA", "180.00", 3),
        ("COMPLETED", "US", "400.00", 4),
    ]
    statuses, regions, amounts, days = zip(*rows, strict=True)
    columns = {
        "order_id": pa.array(range(1001, 1011), pa.int64()),
        "user_id": pa.array(range(1, 11), pa.int64()),
        "status": pa.array(statuses),
        "region": pa.array(regions),
        "amount": pa.array([Decimal(a) for a in amounts], pa.decimal128(10, 2)),
        "order_date": pa.array([date(2024, 1, day) for day in days]),
    }
    return pa.table(columns)


def positions(table: pp.Table, filter_: str) -> list[int]:
    """Positions in the data file of the rows that a filter keeps."""
    rows = table.scan(filter_, columns=["__paimon_row_index"]).to_arrow()
    return sorted(rows.column("__paimon_row_index").to_pylist())


def selected(table: pp.Table, filter_: str) -> int:
    """How many row positions the indexes select, before any data is read."""
    return sum(decision.rows_kept for decision in table.explain(filter_).files)


def _refused(path: str, schema: pa.Schema) -> str:
    """Four buckets without a bucket key: Paimon has no way to spread the rows, and neither have we."""
    try:
        pp.Table.create(path, schema, options={**ORDERS_OPTIONS, "bucket": "4"})
    except pp.errors.PaimonError as error:
        return f"orders with bucket=4 and no bucket-key is refused: {error.message}"
    raise AssertionError("a bucketed append table without a bucket key was made")


def run(directory: Path, say: Callable[[str], None] = print) -> None:
    """Both tables, every filter, checked."""
    for name, data, options, expected in (
        ("user_events", user_events(), USER_EVENTS_OPTIONS, USER_EVENTS),
        ("orders", orders(), ORDERS_OPTIONS, ORDERS),
    ):
        path = str(directory / "examples.db" / name)
        if name == "orders":
            say(_refused(path, data.schema))
        table = pp.Table.create(path, data.schema, options=options)
        table.append(data)
        say(f"{name}: {data.num_rows} rows in one file, bitmaps on {options['file-index.bitmap.columns']}")
        for filter_, wanted in expected.items():
            found, by_index = positions(table, filter_), selected(table, filter_)
            if found != wanted or by_index != len(wanted):
                raise AssertionError(f"{name}: {filter_} gives {found} ({by_index} by index), not {wanted}")
            say(f"    {filter_:<42} positions {found}")
        say("")
    pending = table.scan("status = 'PENDING'", columns=["order_id", "user_id", "region", "amount"]).to_arrow()
    if pending.to_pylist() != PENDING:
        raise AssertionError(f"pending orders: {pending.to_pylist()}")
    for row in PENDING:
        say(f"    pending: order {row['order_id']}, user {row['user_id']}, {row['region']}, {row['amount']}")
