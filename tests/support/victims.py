"""Writers that are there to be killed. Importable, so that a fork server can start them in milliseconds."""

from __future__ import annotations

from multiprocessing.connection import Connection
from pathlib import Path

PRELOAD = ["paimon_pyds.table", "paimon_pyds.formats.parquet.writer", "paimon_pyds.operations.query", "support.victims"]
ROWS = 500


def write_for_ever(path: Path, number: int, say: Connection) -> None:
    """Append, and at every third turn overwrite, until killed; a byte down the pipe for the start and each commit."""
    import pyarrow as pa

    import paimon_pyds as pp

    def batch(worker: int) -> pa.Table:
        return pa.table({"worker": [worker] * ROWS, "commit": [0] * ROWS, "row": list(range(ROWS))})

    table = pp.Table.open(path)
    scratch = pp.Table.create(f"{path}-{number}", table.arrow_schema, options=table.options)
    scratch.append(batch(0))  # everything is imported and warm when the kill can come
    say.send_bytes(b"r")
    while True:
        rows = batch(number)
        if number % 3 == 2:
            table.overwrite(rows)
        else:
            table.append(rows)
        say.send_bytes(b"d")
        number += 1
