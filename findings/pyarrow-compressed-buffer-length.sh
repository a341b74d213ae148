#!/usr/bin/env bash
# One would guess: memoryview() of a pyarrow buffer has as many bytes as the buffer, as bytes() and len() of it say, and
#   that the three lengths of a memoryview of bytes (len, nbytes, shape) are one.
# What happens: of a buffer that was made smaller, which the result of Codec.compress is, the memoryview has the length
#   from before in len and shape, and the right one in nbytes. bytes() of it is right, len() is not.
# Why it matters: code that writes a compressed block behind its length, as Parquet's page headers want it, takes len() of
#   what it writes, and gets a file whose pages can't be found. Here such blocks are taken as bytes.
set -euo pipefail
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q pyarrow==26.0.1
cat >"$work/lengths.py" <<'PY'
import pyarrow as pa

print("pyarrow", pa.__version__)
text = b"abc" * 100
for name, buffer in [
    ("a buffer of bytes", pa.py_buffer(text)),
    ("compressed by zstd", pa.Codec("zstd").compress(text)),
    ("compressed by snappy", pa.Codec("snappy").compress(text)),
    ("compressed by lz4_raw", pa.Codec("lz4_raw").compress(text)),
]:
    view = memoryview(buffer)
    print(f"{name}: buffer {len(buffer)}, view: len {len(view)}, nbytes {view.nbytes}, shape {view.shape}")
    assert len(buffer) == view.nbytes == len(bytes(view))
    assert (len(view) > len(buffer)) == name.startswith("compressed"), name
    assert view.shape == (len(view),)
PY
"$work/venv/bin/python" "$work/lengths.py"
