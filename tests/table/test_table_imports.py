"""Each operation, first in its process: which packages it imports. Above all not pandas, which takes longer to import
than most operations take."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="a process is forked for each operation")

_NEEDED = {"cython_runtime", "paimon_pyds", "numpy", "org", "pyarrow", "pyroaring", "xxhash"}
"""Packages that operations may import, besides the standard library; ``org`` is of Jython and looked for by `copy`."""

_LATE = {"__main__", "catalog", "cli", "spark", "storage"}
"""Rooms of which an operation imports what it needs, if any."""

_OF_AVRO = {"backports", "cramjam", "fastavro", "lz4", "snappy"}

_SCRIPT = '''
import datetime, importlib, json, os, sys
import numpy as np, pyarrow as pa, pyarrow.ipc
bare = set(sys.modules)
import paimon_pyds as pp

root, modules, operations = sys.argv[1], sys.argv[2].split(), json.loads(sys.stdin.read())
for module in modules:
    importlib.import_module(module)
before = set(sys.modules)

def third_party(names):
    found = {name.partition(".")[0] for name in names} - sys.stdlib_module_names
    return sorted(name for name in found if not name.startswith("_"))

print(json.dumps(["import", third_party(before - bare), ""]))
COLUMNS = {"id": "BIGINT NOT NULL", "s": "STRING", "d": "DATE", "t": "TIMESTAMP(6)", "n": "DECIMAL(9, 2)", "p": "INT"}

def data(start, stop):
    """Rows made of buffers: nothing of it imports anything."""
    ids = np.arange(start, stop)
    count = len(ids)
    plain = lambda type_, values: pa.Array.from_buffers(type_, count, [None, pa.py_buffer(values)])
    numbers = plain(pa.int64(), ids)
    arrays = [
        numbers,
        plain(pa.int64(), ids % 20).cast(pa.string()),
        plain(pa.int32(), (19_000 + ids).astype(np.int32)).view(pa.date32()),
        plain(pa.int64(), ids * 1_000_000).view(pa.timestamp("us")),
        numbers.cast(pa.decimal128(19, 0)).cast(pa.decimal128(9, 2)),
        plain(pa.int32(), (ids % 3).astype(np.int32)),
    ]
    return pa.Table.from_arrays(arrays, names=list(COLUMNS))

def T(name):
    return pp.Table.open(f"{root}/{name}")

def create(name, key=None, **options):
    options = {key.replace("__", "-").replace("_", "."): value for key, value in options.items()}
    return pp.Table.create(f"{root}/{name}", COLUMNS, primary_key=key, options=options)

for operation in operations:
    read, write = os.pipe()
    child = os.fork()
    if not child:
        failed = ""
        try:
            exec(operation)
        except BaseException as error:
            import traceback
            failed = traceback.format_exc()
        os.write(write, json.dumps([third_party(set(sys.modules) - before), failed[-2000:]]).encode())
        os._exit(0)
    os.close(write)
    with open(read, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    print(json.dumps([operation, *json.loads(answer)]), flush=True)
'''

_INDEXES = (
    '"file-index.bitmap.columns": "s", "file-index.bloom-filter.columns": "id", "deletion-vectors.enabled": "true"'
)
_CHANGED = '"changelog-producer": "lookup", "bucket": "2"'


def _create(name: str, key: str | None, options: str = "") -> str:
    return f'pp.Table.create(f"{{root}}/{name}", COLUMNS, primary_key={key!r}, options={{{options}}})'


_READS = [
    "T({0!r}).scan().to_arrow()",
    "T({0!r}).scan('id = 5').to_arrow()",
    "T({0!r}).scan(\"s = '1' AND p = 1\").to_arrow()",
    "T({0!r}).scan(\"s IN ('1', '2') OR id > 90\", columns=['d']).to_arrow()",
    "T({0!r}).scan(\"d >= DATE '2022-02-01' AND lower(s) = '3'\").to_arrow()",
    "T({0!r}).scan(\"t < TIMESTAMP '1970-01-01 00:01:00'\", limit=3).to_arrow().to_pylist()",
    "T({0!r}).scan('id = 5').plan()",
    "T({0!r}).count()",
    "T({0!r}).count('id < 10')",
    "T({0!r}).explain('id = 5')",
]
_CHANGES = [
    "T({0!r}).delete('id = 5')",
    "T({0!r}).update({{'s': \"'x'\"}}, 'id = 6')",
    "T({0!r}).merge(data(0, 3), on='id', when_matched='update', when_not_matched='insert')",
    "T({0!r}).compact(full=True)",
]


def _appended(name: str) -> list[str]:
    return [f"T({name!r}).append(data(0, 60))", f"T({name!r}).append(data(60, 120))"]


def _all_of(name: str, reads: Sequence[str] = _READS) -> list[str]:
    return [*_appended(name), *(text.format(name) for text in (*reads, *_CHANGES, _READS[0]))]


_OPERATIONS = {
    "append": [_create("a", None, _INDEXES), *_all_of("a"), "T('a').max('id')", "T('a').top_n('id DESC, 5')"],
    "key": [_create("k", "id", _CHANGED), *_all_of("k"), "T('k').append(data(0, 10))", "T('k').scan().to_arrow()",
            "T('k').lookup(data(1, 3).select(['id']))"],
    "dynamic": [_create("d", "id"), *_appended("d"), *_appended("d"), "T('d').scan('id = 5').to_arrow()"],
    "orc": [_create("o", None, '"file.format": "orc"'), *_all_of("o", _READS[:5])],
    "avro": [_create("v", None, '"file.format": "avro"'), *_all_of("v", _READS[:5])],
}  # fmt: skip


def test_an_operation_imports_little(tmp_path: Path) -> None:
    """The package's own modules are imported once for all operations; those of stores, catalogs and Spark are not."""
    pytest.importorskip("pandas")
    package = Path(pp.__file__).parent
    paths = [path.relative_to(package.parent).with_suffix("") for path in sorted(package.rglob("*.py"))]
    modules = [".".join(path.parts) for path in paths if path.name != "__init__" and path.parts[1] not in _LATE]
    operations = [operation for of_kind in _OPERATIONS.values() for operation in of_kind]
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, str(tmp_path), " ".join(modules)],
        input=json.dumps(operations),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [operation for operation, *_ in answers] == ["import", *operations]
    failed = [f"{operation}: {failure}" for operation, _, failure in answers if failure]
    assert not failed, "\n".join(failed)
    of_avro = dict.fromkeys(_OPERATIONS["avro"], _OF_AVRO)
    too_many = {operation: set(loaded) - _NEEDED - of_avro.get(operation, set()) for operation, loaded, _ in answers}
    assert {operation: found for operation, found in too_many.items() if found} == {}


_FILTERS = [
    "code = 5", "code IN (3, 5)", "id BETWEEN 5 AND 900", "x < 0.5 AND id > 7", "name = 'v3'", "name LIKE 'v1%'",
    "name LIKE '%3'", "name LIKE '%1%'", "code IS NULL", "p = 1", "p = 1 AND code < 4",
    "code % 7 < 3", "code + 1 = 4", "x * 2 - 1 > id / 100",
]  # fmt: skip


@pytest.mark.parametrize("partitions", [2, 40])
def test_a_query_needs_no_pyarrow_compute(tmp_path: Path, partitions: int) -> None:
    """Importing it takes longer than many a query: pyarrow makes each of its functions."""
    columns = {"id": "BIGINT", "code": "INT", "x": "DOUBLE", "name": "STRING", "p": "INT"}
    table = pp.Table.create(tmp_path / "t", columns, partition_by="p")
    rows = [{"id": i, "code": i % 9, "x": i / 1000, "name": f"v{i}", "p": i % partitions} for i in range(1000)]
    table.append(pa.Table.from_pylist(rows, table.arrow_schema))
    table.delete("id % 50 = 0")
    script = f"""
import json, sys
import paimon_pyds as pp
table, found = pp.Table.open({str(tmp_path / "t")!r}), []
for where in [None, *{_FILTERS!r}]:
    rows = table.scan(where).to_arrow().num_rows
    assert table.count(where) == rows
    found.append([where, rows, "pyarrow.compute" in sys.modules])
print(json.dumps(found))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    expected = [[where, table.scan(where).to_arrow().num_rows, False] for where in [None, *_FILTERS]]
    assert json.loads(done.stdout) == expected
    assert expected[0][1] == 980
