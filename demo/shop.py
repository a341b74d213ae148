"""Two small tables that the documentation speaks of: ``shop.orders`` and ``shop.customers``."""

from __future__ import annotations

from pathlib import Path

import paimon_pyds as pp


def write(warehouse: Path) -> None:
    """Make those that are not there."""
    there = pp.Catalog(warehouse).tables("shop") if (warehouse / "shop.db").is_dir() else []
    if "orders" not in there:
        orders = {
            "id": list(range(1, 1001)),
            "customer": [4700 + n % 50 for n in range(1000)],
            "color": [("red", "blue", "green", None)[n % 4] for n in range(1000)],
            "price": [n / 4 for n in range(1000)],
        }
        pp.Table.create(warehouse / "shop.db" / "orders", orders, options={"deletion-vectors.enabled": True})
    if "customers" not in there:
        customers = [{"id": n, "name": f"n{n}"} for n in range(100)]
        table = pp.Table.create(warehouse / "shop.db" / "customers", customers, ["id"], options={"bucket": 2})
        table.append([{"id": 7, "name": "seven"}])
