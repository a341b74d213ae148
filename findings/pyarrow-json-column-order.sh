#!/usr/bin/env bash
# One would guess: pyarrow.json.read_json gives columns in the order in which the file names them, the same at each run.
# What happens: with threads, which is the default, each block of 1 MiB adds its new columns when its thread is done. A
#   name that comes first in a late block may be the first column, and the order differs from run to run on one file. The
#   fields of nested objects are mixed in the same way. With use_threads=False the order is that of the file.
# Why it matters: a table that is made from such a file has other columns first each time; files of one job don't agree,
#   and what goes by position (INSERT INTO … SELECT *, CSV without a header) puts values into the wrong columns.
set -euo pipefail
home=$(mktemp -d); trap 'rm -rf "$home"' EXIT
python3 -m venv "$home/venv"
"$home/venv/bin/pip" install --quiet --disable-pip-version-check pyarrow==26.0.1
cat > "$home/order.py" <<'PY'
import io
import json

import pyarrow as pa
import pyarrow.json as pj

pa.set_cpu_count(8)
wide = {f"c{n}": n for n in range(400)}  # the lines of the first block take long
lines = [json.dumps(wide)] * 300 + [json.dumps({f"new{n // 4000}": "x" * 300}) for n in range(20_000)]
data = "\n".join(lines).encode()
written = [*wide, *(f"new{n}" for n in range(5))]


def orders(threads: bool) -> set[tuple[str, ...]]:
    how = pj.ReadOptions(use_threads=threads)
    return {tuple(pj.read_json(io.BytesIO(data), read_options=how).schema.names) for _ in range(20)}


print(f"pyarrow {pa.__version__}, {len(data):,} bytes in blocks of {pj.ReadOptions().block_size:,}")
with_threads, without = orders(True), orders(False)
print(f"with threads: {len(with_threads)} orders in 20 runs; first columns {sorted({names[0] for names in with_threads})}")
print(f"without: {len(without)} order, that of the file: {without == {tuple(written)}}")
raise SystemExit(not (with_threads != {tuple(written)} and without == {tuple(written)}))
PY
"$home/venv/bin/python" "$home/order.py"
