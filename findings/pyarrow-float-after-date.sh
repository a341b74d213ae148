#!/usr/bin/env bash
# One would guess: pa.array() of a date and a float is refused, as that of a float and then a date is, and that of a
#   date and a boolean or a text.
# What happens: after the first date (or time, or timestamp) a float or a Decimal is cut to a whole number, which is
#   taken for the days, or microseconds, that the type stores: 1.5 becomes 1970-01-02, without an error. The same with
#   pa.date32() given.
# Why it matters: columns of Python values are stored as Arrow finds them. A number in a column of dates is then a date
#   in 1970. Here such values are refused.
set -euo pipefail
PYARROW=26.0.1
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q "pyarrow==$PYARROW"
cat >"$work/ask.py" <<'PY'
import datetime as dt
import decimal

import pyarrow as pa

print("pyarrow", pa.__version__)
DAY, MOMENT = dt.date(2026, 1, 31), dt.datetime(2026, 1, 31, 12, 30)
found = {}
for name, values, type_ in [
    ("a date, 1.5", [DAY, 1.5], None),
    ("a date, 1.5 as date32", [DAY, 1.5], pa.date32()),
    ("a timestamp, 1.5", [MOMENT, 1.5], None),
    ("a time, 1.5", [MOMENT.time(), 1.5], None),
    ("1.5, a date", [1.5, DAY], None),
    ("a date, True", [DAY, True], None),
    ("a date, a Decimal", [DAY, decimal.Decimal("1.5")], None),
    ("a date, a text", [DAY, "x"], None),
]:
    try:
        found[name] = str(pa.array(values, type_)[1].as_py())
    except pa.ArrowException as error:
        found[name] = type(error).__name__
    print(f"{name}: {found[name]}")
refused = {name for name, text in found.items() if text.startswith("Arrow")}
assert refused == {"1.5, a date", "a date, True", "a date, a text"}, refused
assert found["a date, 1.5"] == found["a date, 1.5 as date32"] == found["a date, a Decimal"] == "1970-01-02", found
assert found["a timestamp, 1.5"] == "1970-01-01 00:00:00.000001", found
assert found["a time, 1.5"] == "00:00:00.000001", found
PY
"$work/venv/bin/python" "$work/ask.py"
