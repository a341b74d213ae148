#!/usr/bin/env bash
# One would guess: pyarrow.compute.binary_join_element_wise gives one text for each row. With null_handling="skip", which
#   the documentation explains as "a null string argument is skipped", a row that is NULL in all columns gives "".
# What happens: the result has no value for such a row at all: it is shorter than the columns, and every later value is
#   one row too early. No error is raised. The other choices of null_handling give as many values as rows.
# Why it matters: texts that are joined from columns (as concat_ws in SQL, keys, JSON members) land on the wrong rows when
#   the result is used by position; only a later check of lengths, if there is one, shows it.
set -euo pipefail
home=$(mktemp -d); trap 'rm -rf "$home"' EXIT
python3 -m venv "$home/venv"
"$home/venv/bin/pip" install --quiet --disable-pip-version-check pyarrow==26.0.1
cat > "$home/join.py" <<'PY'
import pyarrow as pa
import pyarrow.compute as pc

first, second = pa.array(["a", None, "c", None]), pa.array(["x", None, None, "z"])
print(f"pyarrow {pa.__version__}; rows {list(zip(first.to_pylist(), second.to_pylist()))}")
found = {
    handling: pc.binary_join_element_wise(first, second, "-", null_handling=handling).to_pylist()
    for handling in ("emit_null", "replace", "skip")
}
for handling, values in found.items():
    print(f"{handling}: {len(values)} values for {len(first)} rows: {values}")
expected = {"emit_null": ["a-x", None, None, None], "replace": ["a-x", "-", "c-", "-z"], "skip": ["a-x", "c", "z"]}
raise SystemExit(found != expected)
PY
"$home/venv/bin/python" "$home/join.py"
