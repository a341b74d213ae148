"""Reads Iceberg tables by DuckDB's extension: ``python duckdb_worker.py FILE``, and on each line a metadata file.

Rows go through the file; an answer is a line, ``ok`` or what is wrong. DuckDB with its extension is of another version
than that of the other tests: nothing of the project is imported.
"""

import sys
from pathlib import Path

import duckdb
import duckdb_ext
import pyarrow as pa

connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
for name in ("avro", "iceberg"):
    [found] = Path(next(iter(duckdb_ext.__path__))).glob(f"extensions/v{duckdb.__version__}/*/{name}.duckdb_extension")
    connection.execute(f"LOAD '{found}'")
for line in sys.stdin:
    try:
        rows = connection.execute("SELECT * FROM iceberg_scan(?)", [line.rstrip("\n")]).fetch_arrow_table()
        with pa.OSFile(sys.argv[1], "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
            writer.write_table(rows)
        print("ok", flush=True)
    except duckdb.Error as error:
        print(str(error).replace("\n", " "), flush=True)
