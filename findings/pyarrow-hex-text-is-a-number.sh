#!/usr/bin/env bash
# One would guess: a text such as 0xFFFFFFFF in a CSV column stays a text, and casting it to a signed integer fails, or at
#   least gives 4294967295.
# What happens: pyarrow reads 0x… as the bits of an integer, in CSV and in casts. read_csv makes an integer column of
#   hexadecimal ids by itself, 0xFFFFFFFFFFFFFFFF becomes -1, and leading zeros are gone. A cast to int8 takes 0xFF as -1, but
#   refuses 255. pandas leaves such columns as texts.
# Why it matters: ids, colours, addresses and hashes that are written in hexadecimal change into other values without an
#   error, some of them negative, and can't be turned back, as their length is lost.
set -euo pipefail
home=$(mktemp -d); trap 'rm -rf "$home"' EXIT
python3 -m venv "$home/venv"
"$home/venv/bin/pip" install --quiet --disable-pip-version-check pyarrow==26.0.1 pandas==2.3.3
cat > "$home/hex.py" <<'PY'
import io

import pandas as pd
import pyarrow as pa
import pyarrow.csv as pc

data = b"id\n0x0010\n0x1F\n0xFFFFFFFFFFFFFFFF\n"
by_arrow = pc.read_csv(io.BytesIO(data)).column("id")
by_pandas = pd.read_csv(io.BytesIO(data))["id"].tolist()
cast = pa.array(["0xFF", "0x80"]).cast(pa.int8()).to_pylist()
try:
    pa.array(["255"]).cast(pa.int8())
    plain = "taken"
except pa.ArrowInvalid:
    plain = "refused"
print(f"pyarrow {pa.__version__}, pandas {pd.__version__}")
print(f"read_csv of pyarrow: {by_arrow.type} {by_arrow.to_pylist()}")
print(f"read_csv of pandas: {by_pandas}")
print(f"cast to int8: 0xFF and 0x80 are {cast}, 255 is {plain}")
as_seen = by_arrow.to_pylist() == [16, 31, -1] and cast == [-1, -128] and plain == "refused"
raise SystemExit(not (as_seen and by_pandas[0] == "0x0010"))
PY
"$home/venv/bin/python" "$home/hex.py"
