"""Write docs/functions.md, the page of all functions of expressions: ``python tools/functions_page.py``.

The functions, their other names and their notes are those of the code; the values of examples are what it computes.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from paimon_pyds.base.types.kinds import BINARY_KINDS
from paimon_pyds.sql.expression.bound import bind_expression
from paimon_pyds.sql.expression.catalogue import PARTS, Entry, entries
from paimon_pyds.sql.expression.functions import OTHER_NAMES, all_functions

PAGE = Path(__file__).resolve().parents[1] / "docs" / "functions.md"
HEAD = """# Functions

All functions of filters, of the values that an update or a merge sets, and of their conditions: in Python, on Spark
(`paimon_pyds.spark` and the option `where`) and on the command line. They give what Spark 4 gives in its default, ANSI
mode, errors included. Dates and times go by the
[time zone](time-travel.md#times-and-time-zones) of the call.

Statistics, partitions and indexes answer what compares a column with a constant, and some functions of dates
(`year(ts) = 2024`); other conditions on functions are evaluated on the rows that the rest of the filter leaves.
`explain` says which part that is.

This page is made of the code by `tools/functions_page.py`.

## Operators and forms

- `=` `==` `<>` `!=` `<` `<=` `>` `>=` `<=>`, `[NOT] BETWEEN … AND …`, `[NOT] IN (…)`
- `+` `-` `*` `/` `%` `div`, `&` `|` `^` `~` `<<` `>>` `>>>`, `||`
- `AND` `OR` `NOT` `!`, `CASE … END`, `IS [NOT]` `NULL`, `TRUE`, `FALSE`, `DISTINCT FROM …`
- `[NOT]` `LIKE`, `ILIKE` (with `ESCAPE`, `ANY (…)`, `ALL (…)`), `RLIKE`
- `CAST(… AS …)`, `TRY_CAST(… AS …)`, `…::type`, `EXTRACT(… FROM …)`, `POSITION(… IN …)`
- `INTERVAL 7 DAYS` and the like, added to a date or timestamp, or taken from one
- `row.field`, `array[0]`, `map['key']`, `struct(…)`, `(a, b)`
- `x -> …` and `(x, y) -> …`, for the functions below that take them

Arrays and rows can be compared by `=`, `<>`, `<=>` and `IN`; they have no order here.
"""
PATTERNS = """## Patterns of dates and times

`date_format`, `from_unixtime`, `to_date`, `to_timestamp`, `unix_timestamp` and their like take the
[patterns of Spark](https://spark.apache.org/docs/latest/sql-ref-datetime-pattern.html), in English:

| letters | meaning | example | read |
| --- | --- | --- | --- |
| `y` to `yyyyyy` | year; `yy` its last two digits | 2024 | yes |
| `G` | era | AD | no |
| `M` `MM` `MMM` `MMMM`, or `L` | month | 2, 02, Feb, February | yes |
| `d` `dd` | day of the month | 3, 03 | yes |
| `D` `DDD` | day of the year | 34, 034 | yes |
| `Q` `QQQ` `QQQQ`, or `q` | quarter | 1, Q1, 1st quarter | no |
| `E` `EEEE` | day of the week | Sat, Saturday | no |
| `F` | week of the month | 1 | no |
| `H` `HH`, `k` `kk` | hour, 0 to 23 or 1 to 24 | 04 | yes |
| `h` `hh`, `K` `KK`, with `a` | hour, 1 to 12 or 0 to 11, and AM or PM | 04 AM | yes |
| `m` `mm`, `s` `ss` | minute, second | 05, 06 | yes |
| `S` to `SSSSSSSSS` | fraction of a second, six digits at most have a value | 120 | yes |
| `VV` | time zone | Europe/Berlin | yes |
| `O` `OOOO`, `X` to `XXXXX`, `x` to `xxxxx`, `Z` to `ZZZZZ` | distance from UTC | GMT+1, +01:00, Z | yes |
| `[` `]` | what need not be there when a text is read | | yes |
| `'…'` | text as it is; `''` is a quote | | yes |

Other letters are refused: those that Spark refuses, and the names of time zones (`z`, `v`). A pattern is the same for
all rows.
"""
TAIL = """## What is not there

An unknown function is an error that names those with names like it. These of Spark's are not there; compute them in the
source, in a DataFrame for instance, and write or merge the result:

- aggregate functions, window functions, subqueries, generators (`explode`), and what differs from call to call (`rand`,
  `uuid`);
- JSON as rows (`from_json`; `get_json_object` takes single values), XML, CSV, URLs, VARIANT;
- numbers as texts of a pattern (`to_char`, `to_number`), `bround`, `soundex`;
- intervals as values (`ts - ts`; `timestampdiff` and `datediff` count), collations.
"""


def page() -> str:
    """The page's text."""
    others: dict[str, list[str]] = {}
    for other, name in OTHER_NAMES.items():
        others.setdefault(name, []).append(other)
    lines = [HEAD]
    for title, text in PARTS.items():
        lines += [f"## {title}", "", "| function | gives | example | value |", "| --- | --- | --- | --- |"]
        lines += [_row(entry, others.get(entry.name, [])) for entry in entries(text)]
        lines.append("")
    return "\n".join([*lines, PATTERNS, TAIL])


def _row(entry: Entry, others: list[str]) -> str:
    about = entry.about
    note = all_functions()[entry.name].note
    notes = [f"also {', '.join(f'`{name}`' for name in others)}"] if others else []
    notes += [note] if note else []
    more = f" ({'; '.join(notes)})" if notes else ""
    cells = [f"`{entry.signature}`", _cell(about) + more, f"`{entry.example}`", f"`{value(entry.example)}`"]
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _cell(text: str) -> str:
    return text.replace("<", "&lt;").replace("*", "\\*").replace("$[", "$\\[")


def value(example: str) -> str:
    """The value of an example as a text, in UTC."""
    bound = bind_expression(example, [], timezone="UTC")
    binary = bound.type is not None and bound.type.kind in BINARY_KINDS
    shown = f"hex({example})" if binary else f"CAST({example} AS STRING)"
    row = pa.record_batch({"": [None]})
    found = bind_expression(shown, [], timezone="UTC").evaluate(row)[0].as_py()
    return "NULL" if found is None else f"X'{found}'" if binary else str(found)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")
