#!/usr/bin/env bash
# One would guess: pyarrow loads pandas when a caller converts to or from pandas, and at no other time.
# What happens: where pandas is installed, the first pa.array(), pa.scalar(), to_numpy(), comparison with a Python number,
#   or group_by().aggregate() of a process loads pandas, even though only numpy arrays and Python numbers are involved.
#   Arrays made from buffers, files and Arrow scalars do not.
# Why it matters: PySpark environments have pandas. Each new process (Spark's planning processes, a command line) pays
#   some 0.3 s of CPU time for it before its first answer.
set -euo pipefail
home=$(mktemp -d); trap 'rm -rf "$home"' EXIT
python3 -m venv "$home/venv"
"$home/venv/bin/pip" install --quiet --disable-pip-version-check pyarrow==26.0.1 numpy==2.4.6 pandas==3.1.1
cat > "$home/one.py" <<'PY'
import sys, time
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

buffer = pa.py_buffer(np.arange(3))
held = pa.Array.from_buffers(pa.int64(), 3, [None, buffer])
table = pa.Table.from_arrays([held], names=["x"])
assert "pandas" not in sys.modules, "loaded before anything was done"
start = time.process_time()
exec(sys.argv[1])
print("pandas" in sys.modules, f"{time.process_time() - start:.2f} s CPU")
PY
"$home/venv/bin/python" -c "import pyarrow, numpy, importlib.metadata as m; print('pyarrow', pyarrow.__version__, 'numpy', numpy.__version__, 'pandas', m.version('pandas'))"
check() {
  seen=$("$home/venv/bin/python" "$home/one.py" "$2")
  printf '%-55s pandas loaded: %s\n' "$2" "$seen"
  case $seen in "$1 "*) ;; *) echo "expected $1: the behaviour has changed"; exit 1 ;; esac
}
check True 'pa.array(np.arange(3))'
check True 'pa.array([1, 2, 3], pa.int64())'
check True 'pa.scalar(1, pa.int64())'
check True 'held.to_numpy()'
check True 'np.asarray(held)'
check True 'pc.greater(held, 1)'
check True 'table.group_by("x").aggregate([("x", "sum")])'
check False 'held.take(held)'
check False 'pc.greater(held, held[0])'
check False 'held.to_pylist()'
check False 'np.frombuffer(held.buffers()[1], np.int64)'
