"""Processes of Spark on a machine so busy that they take longer than Spark waits for them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

_WORKERS = Path(__file__).resolve().parents[1] / "support" / "workers"
_PYSPARK = {
    "__init__.py": "import sys; sys.stdin.readline()",  # the imports take until the test goes on
    "util.py": "def local_connect_and_auth(to, secret): return to, secret",
    "runner.py": """
from pyspark.util import local_connect_and_auth
assert local_connect_and_auth(1, "of another server") == (1, "of another server")
stream, connection = local_connect_and_auth(PORT, "secret")
stream.write(b"number" + stream.read(4))
stream.flush()
""",
}


def test_a_process_connects_to_spark_before_its_imports(tmp_path: Path) -> None:
    (tmp_path / "pyspark").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        for name, text in _PYSPARK.items():
            (tmp_path / "pyspark" / name).write_text(text.replace("PORT", str(port)))
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(_WORKERS), str(tmp_path)]),
            "PYTHON_WORKER_FACTORY_PORT": str(port),
            "PYTHON_WORKER_FACTORY_SECRET": "secret",
        }
        command = [sys.executable, "-m", "pyspark.runner"]
        server.settimeout(60)
        with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE) as process:
            connection, _ = server.accept()
            with connection, connection.makefile("rwb") as stream:
                assert stream.read(10) == b"\x00\x00\x00\x06secret"
                stream.write(b"\x00\x00\x00\x02ok")
                stream.flush()
                assert process.poll() is None
                assert process.stdin is not None
                process.stdin.write(b"go on\n")
                process.stdin.flush()
                stream.write(b"1234")
                stream.flush()
                assert stream.read(10) == b"number1234"
            assert process.wait(60) == 0
