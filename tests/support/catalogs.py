"""Tables that tests of catalogs make."""

from __future__ import annotations

import pyarrow as pa

SCHEMA = pa.schema([("id", pa.int32())])
PARTS = {"metastore.partitioned-table": "true"}


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int32())})
