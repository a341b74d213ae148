"""CRC-32 of zlib and of zlib-ng. Each test is a process of its own, as a process changes from one to the other."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from support.effort import SEED

_ROOT = Path(__file__).resolve().parents[2]
_SCRIPT = """
import json, random, sys, zlib
import numpy as np, pyarrow as pa

with_package, seed = json.loads(sys.argv[1])
if not with_package:
    sys.modules["zlib_ng"] = None
from paimon_pyds.base.checksums import crc32, crc32s

draw, wrong = random.Random(seed), []
def compare():
    for size in [*range(70), *(draw.randrange(100_000) for _ in range(30))]:
        data, before = draw.randbytes(size), draw.randrange(2**32)
        for same in (data, bytearray(data), memoryview(data), pa.py_buffer(data), np.frombuffer(data, np.uint8)):
            if (crc32(same), crc32(same, before), crc32s([same, same])) != (
                zlib.crc32(data), zlib.crc32(data, before), [zlib.crc32(data)] * 2
            ):
                wrong.append([type(same).__name__, size])
        cut = draw.randrange(size + 1)
        if crc32(data[cut:], crc32(data[:cut])) != zlib.crc32(data):
            wrong.append(["two parts", size])
    words = np.arange(size, dtype=np.int64)
    if crc32(memoryview(words)) != zlib.crc32(words):
        wrong.append(["words", size])

crc32(bytes(1000)), crc32s([bytes(1000)] * 100)
early = "zlib_ng.zlib_ng" in sys.modules
compare()
crc32s([bytes(1 << 20)] * 3)
late = "zlib_ng.zlib_ng" in sys.modules
compare()
print(json.dumps([wrong, early, late]))
"""


@pytest.mark.parametrize(
    "with_package",
    [False, pytest.param(True, marks=pytest.mark.skipif(not find_spec("zlib_ng"), reason="needs zlib-ng"))],
)
def test_crc_is_that_of_zlib_and_zlib_ng_is_imported_for_large_data_only(with_package: bool) -> None:
    command = [sys.executable, "-c", _SCRIPT, json.dumps([with_package, SEED])]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=True, timeout=600)
    assert json.loads(done.stdout) == [[], False, with_package]
