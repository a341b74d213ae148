"""Python starts with this where `tests/conftest.py` put its folder on the path, and so do Spark's Python processes.

The daemons that fork Python workers load once what each worker needs. A worker ends with each error and each planning
of a query, and the next one would spend half a second on it. Processes without a daemon connect to Spark before they
import anything.
"""

import contextlib
import importlib
import os
import sys


def connect_at_once(port: int, secret: str) -> None:
    """Connect to the JVM, and give that connection to pyspark when it connects after its imports.

    A stream's process has 10 seconds to connect, which no setting of Spark changes. A loaded machine may need more
    for the imports.
    """
    import socket

    host = "::1" if os.environ.get("SPARK_PREFER_IPV6", "").lower() == "true" else "127.0.0.1"
    connection = socket.create_connection((host, port), float(os.environ.get("SPARK_AUTH_SOCKET_TIMEOUT", 15)))
    stream = connection.makefile("rwb", 65536)
    stream.write(len(secret).to_bytes(4, "big") + secret.encode())
    stream.flush()
    if stream.read(4 + len("ok"))[4:] != b"ok":
        raise ConnectionRefusedError("Spark refused the secret of this Python process")
    from pyspark import util

    later = util.local_connect_and_auth
    util.local_connect_and_auth = lambda to, with_: (stream, connection) if to == port else later(to, with_)


if "pyspark.daemon" in sys.orig_argv:
    # What reads, writes, commits and follows needs no pandas, which takes half a second.
    _of_functions = ("pandas",) if sys.orig_argv[-1] == "pyspark.worker" else ()
    for _name in (
        *_of_functions,
        "numpy",
        "pyarrow.parquet",
        "pyspark.worker",
        "pyspark.sql.datasource_internal",
        "paimon_pyds.spark.source",
        "paimon_pyds.spark.reader",
        "paimon_pyds.spark.row_writer",
        "paimon_pyds.spark.executor",
        "paimon_pyds.spark.system",
        "paimon_pyds.table",
        "paimon_pyds.engine.append",
        "paimon_pyds.engine.read.split_read",
    ):
        with contextlib.suppress(ImportError):
            importlib.import_module(_name)
elif "PYTHON_WORKER_FACTORY_PORT" in os.environ and sys.orig_argv[2:3] and sys.orig_argv[2].startswith("pyspark."):
    connect_at_once(int(os.environ["PYTHON_WORKER_FACTORY_PORT"]), os.environ["PYTHON_WORKER_FACTORY_SECRET"])
