"""Output: aligned text and JSON."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from paimon_pyds.base.secrets import UNSEEN, redact, visible
from paimon_pyds.base.text import table_lines

if TYPE_CHECKING:
    import pyarrow as pa

    from paimon_pyds.metadata.snapshot import Snapshot
    from paimon_pyds.table import Table

_WIDEST_CHARACTERS = 60
"""Longer cells of a table are cut, so that several columns fit a terminal."""
_PLAIN_SIGNS = {"—": "--", "−": "-", "…": "...", "▕": "|", "▏": "|", "░": ".", "▒": ":", "▓": "+", "█": "#"}


def drawn(text: str, out: TextIO | None = None) -> str:
    """A text of ours, without the dashes and shades that the encoding of ``out`` (standard output) does not have."""
    encoding = getattr(out or sys.stdout, "encoding", None) or "utf-8"
    lacking = [sign for sign in _PLAIN_SIGNS if not _has(encoding, sign)]
    return text.translate({ord(sign): _PLAIN_SIGNS[sign] for sign in lacking})


def _has(encoding: str, sign: str) -> bool:
    try:
        sign.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def line(text: str = "") -> None:
    """A line of text for people: what a terminal would obey is written out."""
    print(visible(text))


def answer(form: str, value: Any, *texts: str) -> None:
    """A value as JSON, or texts of ours that say the same to people."""
    if form == "json":
        json_value(value)
        return
    for text in texts:
        print(drawn(text))


def json_value(value: Any) -> None:
    """One JSON value on a line of its own."""
    print(_json(_plain(value)))


def _json(value: Any) -> str:
    """JSON in which a terminal finds nothing to obey, and which any encoding has: the values are exact."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    exotic = not encoding.lower().startswith("utf")
    text = json.dumps(value, ensure_ascii=exotic, separators=(",", ":"))
    return text if exotic else re.sub(UNSEEN, lambda match: f"\\u{ord(match[0]):04x}", text)


def json_rows(batch: pa.RecordBatch) -> None:
    """One JSON object a row. Dates and times are ISO text, decimals text, bytes base64, NaN and infinities text."""
    out = sys.stdout
    names = batch.schema.names
    for row in zip(*map(_values, batch.columns), strict=True):
        values = dict(zip(names, map(_plain, row), strict=True))
        out.write(_json(values))
        out.write("\n")


def _values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The column's values as Python objects; years that Python's dates do not have come as numpy's."""
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):
        return [_value(scalar) for scalar in column]


def _value(scalar: Any) -> Any:
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        import pyarrow as pa

        from paimon_pyds.engine.query.aggregate_parts import python_value

        if pa.types.is_struct(scalar.type):
            return {name: _value(value) for name, value in scalar.items()}
        if pa.types.is_map(scalar.type):
            return [(_value(entry["key"]), _value(entry["value"])) for entry in scalar.values]
        if pa.types.is_list(scalar.type):
            return [_value(value) for value in scalar.values]
        return python_value(scalar)


def _plain(value: Any) -> Any:
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case decimal.Decimal():
            return str(value)
        case datetime.date() | datetime.time():
            return value.isoformat()
        case bytes():
            return base64.b64encode(value).decode()
        case Mapping():
            return {str(k): _plain(v) for k, v in value.items()}
        case Sequence():
            return [_plain(v) for v in value]
    return str(value)


def plain_values(column: pa.Array) -> list[Any]:
    """The column's values as JSON has them."""
    return list(map(_plain, _values(column)))


def whole_texts(column: pa.Array) -> list[str]:
    """The column's values as texts of one line, whole."""
    return list(map(_whole_text, _values(column)))


def text_table(table: pa.Table, *, whole: bool = False) -> None:
    """An aligned table of an Arrow table's rows; long values are cut unless they are wanted ``whole``."""
    columns = [[(_whole_text if whole else _text)(v) for v in _values(column)] for column in table.columns]
    _aligned(table.schema.names, [list(row) for row in zip(*columns, strict=True)])


def text_rows(rows: Sequence[Mapping[str, Any]]) -> None:
    """An aligned table of dictionaries with the same keys; nothing without rows."""
    if not rows:
        return
    names = list(rows[0])
    _aligned(names, [[_text(row[name]) for name in names] for row in rows])


def _aligned(names: Sequence[str], rows: list[list[str]]) -> None:
    head = [visible(name) for name in names]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for line in table_lines([head, ["-" * width for width in widths], *rows], words=range(len(head))):
        print(line)


def _whole_text(value: Any) -> str:
    plain = _plain(value)
    text = "NULL" if plain is None else plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)
    return visible(text)


def _text(value: Any) -> str:
    text = _whole_text(value)
    return text if len(text) <= _WIDEST_CHARACTERS else f"{text[: _WIDEST_CHARACTERS - 1]}{drawn('…')}"


def text_value(value: Any) -> None:
    """One value on a line of its own, whole."""
    print(_whole_text(value))


def snapshot_row(snapshot: Snapshot) -> dict[str, Any]:
    """A snapshot for people."""
    moment = datetime.datetime.fromtimestamp(snapshot.time_millis / 1000, datetime.UTC)
    return {
        "snapshot": snapshot.id,
        "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "kind": snapshot.commit_kind.value,
        "rows": snapshot.row_count,
        "stored_rows": snapshot.total_record_count,
        "stored_rows_added": snapshot.delta_record_count,
        "schema": snapshot.schema_id,
        "user": snapshot.commit_user,
    }


def describe(table: Table, options: Sequence[Mapping[str, Any]]) -> None:
    """A table's description as text."""
    from paimon_pyds.engine.scan.known_rows import rows_text

    schema, snapshot = table.schema, table.snapshots.latest()
    line(f"Table      {redact(table.path)}")
    if schema.comment:
        line(f"Comment    {schema.comment}")
    line(f"Snapshot   {'never written' if snapshot is None else snapshot.id}")
    if snapshot is not None:
        line(f"Rows       {rows_text(schema, snapshot)}")
    line(f"Schema     {schema.id}")
    if schema.partition_keys:
        line(f"Partition  {', '.join(schema.partition_keys)}")
    if schema.primary_keys:
        line(f"Key        {', '.join(schema.primary_keys)}")
    bucket = schema.options.get("bucket", "-1")
    if bucket != "-1":
        totals = {row["total_buckets"] for row in table.system.read("partitions").to_pylist()}
        others = ", ".join(str(total) for total in sorted(totals) if total > 0 and str(total) != bucket)
        line(f"Buckets    {bucket}{f'; partitions of {others}' if others else ''}")
    line()
    text_rows([{"id": f.id, "column": f.name, "type": str(f.type)} for f in schema.fields])
    if options:
        line()
        text_rows([{k: o[k] for k in ("key", "value", "status", "why")} for o in options])
