"""Tables that JVMs in other time zones write and read: instants and clock times stay what they were, filters too."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

import paimon_pyds as pp
from paimon_pyds.base.types import DataField, arrow_schema, parse_type
from paimon_pyds.errors import UnsupportedError
from support.effort import LONG
from support.oracle import Oracle, Reply
from support.oracle_filters import from_oracle
from support.values import arrow_rows, dumps, in_order, lines

pytestmark = pytest.mark.filterwarnings("ignore:the bsi index:DeprecationWarning")

ZONES = ["America/New_York", "Pacific/Auckland", "Asia/Kolkata", "Asia/Tokyo", "Europe/London"][: 5 if LONG else 1]
ROWS = 400 if LONG else 40
PARTS = 2
FILTERS = (10, 5) if LONG else (3, 1)
"""Columns that are asked for, and the filters on each."""

LEGACY = "orc.timestamp-ltz.legacy.type"
ZONE = "orc.timestamp-ltz.legacy.timezone"
_INDEXES = {
    "file-index.bitmap.columns": "t3,z6",
    "file-index.bsi.columns": "z0,t6,d",
    "file-index.bloom-filter.columns": "t0,z3",
    "file-index.range-bitmap.columns": "z6,t3",
}
_EARLY = dt.timedelta(days=3)

MOMENTS = [
    "1600-02-29T12:00:00", "1850-06-01T00:00:00.25", "1883-11-18T17:00:00", "1899-06-01T00:00:00.999999999",
    "1901-01-01T00:00:00", "1945-08-14T23:00:00", "1955-06-01T00:00:00.123456789", "1969-12-31T12:00:00.5",
    "1970-01-01T14:00:00.000000001", "2020-01-01T12:00:00", "2020-03-08T06:59:59.999999999", "2020-03-08T07:00:00",
    "2020-03-29T00:59:59.5", "2020-04-04T14:00:00", "2020-07-01T12:00:00.1", "2020-09-26T13:59:59",
    "2020-10-25T01:00:00", "2020-11-01T05:59:59", "2020-11-01T06:00:00", "2020-11-01T01:30:00", "2100-07-01T00:00:00",
    "9998-12-31T00:00:00",
]  # fmt: skip


def _spans_no_gap(moment: dt.datetime, zone: str) -> bool:
    """Whether clocks of the zone showed this time, and Java's take it back to where it was.

    Java writes others as later ones. At the beginning of 1900 and within a second of 1970 its own files are not right.
    """
    if abs(moment - dt.datetime(1900, 1, 1)) < _EARLY or abs(moment - dt.datetime(1970, 1, 1)) < dt.timedelta(hours=12):
        return False
    there = ZoneInfo(zone)
    return moment.year < 1900 or _back(moment, there) == moment


def _back(moment: dt.datetime, zone: ZoneInfo) -> dt.datetime:
    return moment.replace(tzinfo=zone).astimezone(dt.UTC).astimezone(zone).replace(tzinfo=None)


def _moments(zone: str, seed: int) -> list[tuple[dt.datetime, int]]:
    """Times in whole seconds with nanoseconds, without those that no clock of the zone showed."""
    rng = random.Random(f"{zone} {seed}")
    found = []
    for text in MOMENTS:
        whole, _, fraction = text.partition(".")
        found.append((dt.datetime.fromisoformat(whole), int((fraction + "0" * 9)[:9])))
    start = dt.datetime(1600, 1, 1)
    while len(found) < ROWS:
        years = rng.choice([660, 130, 130])
        first = start if years == 660 else dt.datetime(1930, 1, 1)
        nanos = rng.choice([0, 5 * 10**8, rng.randrange(10**9), rng.randrange(10**6) * 1000])
        found.append((first + dt.timedelta(seconds=rng.randrange(years * 365 * 86_400)), nanos))
    return [(moment, nanos) for moment, nanos in found if _spans_no_gap(moment, zone)]


def _text(moment: dt.datetime, nanos: int, precision: int) -> str:
    digits = 9 if precision > 6 else 6
    kept = f"{nanos:09d}"[:precision].ljust(digits, "0")
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{kept}"


def _rows(zone: str, types: Mapping[str, Any], seed: int = 0) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    rows = []
    for i, (moment, nanos) in enumerate(_moments(zone, seed)):
        row: dict[str, Any] = {"id": i}
        for name in list(types)[1:]:
            wide = name[-1] in "9ar" and not 1680 < moment.year < 2260  # more than nanoseconds hold
            row[name] = None if wide or rng.random() < 0.05 else _value(name, moment, nanos)
        rows.append(row)
    return rows


def _value(name: str, moment: dt.datetime, nanos: int) -> Any:
    if name == "d":
        return f"{moment:%Y-%m-%d}"
    if name == "a":
        return [_value("z6", moment, nanos), None]
    if name == "r":
        return {"t3": _value("t3", moment, nanos), "z3": _value("z3", moment, nanos)}
    return _text(moment, nanos, int(name[1])) + ("Z" if name[0] == "z" else "")


def _types(fmt: str, names: Iterable[str] = ("t", "z", "d", "a", "r")) -> dict[str, Any]:
    ltz = "TIMESTAMP({}) WITH LOCAL TIME ZONE".format
    types: dict[str, Any] = {"id": "INT"}
    for name in names:
        if name in "tz":
            of = ltz if name == "z" else "TIMESTAMP({})".format
            types |= {f"{name}{p}": of(p) for p in ((0, 3, 6) if fmt == "avro" else (0, 3, 6, 9))}
    inner = [{"id": 90, "name": "t3", "type": "TIMESTAMP(3)"}, {"id": 91, "name": "z3", "type": ltz(3)}]
    nested = {"d": "DATE", "a": {"type": "ARRAY", "element": ltz(6)}, "r": {"type": "ROW", "fields": inner}}
    return types | {name: nested[name] for name in names if name in nested}


@dataclass
class Shape:
    """A kind of table: its columns and options."""

    name: str
    types: dict[str, Any]
    options: dict[str, str]
    zone_given: bool = False

    @property
    def fields(self) -> tuple[DataField, ...]:
        return tuple(DataField(i, name, parse_type(t)) for i, (name, t) in enumerate(self.types.items()))


def _shapes() -> list[Shape]:
    found = []
    for fmt in ("parquet", "orc", "avro"):
        plain = {"bucket": "-1", "file.format": fmt}
        found += [Shape(fmt, _types(fmt), plain), Shape(f"{fmt}_indexed", _types(fmt), plain | _INDEXES)]
    orc = {"bucket": "-1", "file.format": "orc"}
    only = {k: ",".join(c for c in v.split(",") if c[0] == "z") for k, v in _INDEXES.items()}
    return [
        *found,
        Shape("orc_instants", _types("orc", "z"), orc, zone_given=True),
        Shape("orc_instants_indexed", _types("orc", "z"), orc | only, zone_given=True),
        Shape("orc_as_such", _types("orc"), orc | {LEGACY: "false"}),
        Shape("orc_instants_as_such", _types("orc", "z"), orc | {LEGACY: "false"} | only),
    ]


SHAPES = _shapes()


def _filters(shape: Shape, rows: list[dict[str, Any]], seed: str) -> list[tuple[dict[str, Any], list[str]]]:
    """Filters as the oracle takes them, and the rows that match."""
    rng = random.Random(seed)
    found = []
    columns = [c for c in shape.types if c not in ("id", "a", "r")]
    for name in rng.sample(columns, min(FILTERS[0], len(columns))):
        values = sorted({row[name] for row in rows if row[name] is not None})
        for op in rng.sample(["eq", "lt", "ge", "in", "between"], FILTERS[1]):
            literals = sorted(rng.sample(values, {"in": 3, "between": 2}.get(op, 1)))
            kept = [row for row in rows if row[name] is not None and _holds(op, row[name], literals)]
            found.append(({"op": op, "field": name, "literals": literals}, _lines(kept)))
    return found


def _holds(op: str, value: str, literals: list[str]) -> bool:
    match op:
        case "eq" | "in":
            return value in literals
        case "lt":
            return value < literals[0]
        case "ge":
            return value >= literals[0]
    return literals[0] <= value <= literals[1]


def _lines(rows: list[dict[str, Any]]) -> list[str]:
    return in_order(dumps(row) for row in rows)


@dataclass
class Asked:
    """What Java answered of one table: all rows, and those of filters."""

    shape: Shape
    rows: list[dict[str, Any]]
    all: Reply
    some: list[tuple[dict[str, Any], list[str], Reply]] = field(default_factory=list)


def _ours(warehouse: Path, zone: str) -> dict[str, list[dict[str, Any]]]:
    found = {}
    for shape in SHAPES:
        rows = _rows(zone, shape.types, 1)
        table = pp.Table.create(warehouse / "db.db" / shape.name, arrow_schema(shape.fields), options=shape.options)
        for part in range(PARTS):
            table.append(arrow_rows(rows[part::PARTS], arrow_schema(shape.fields)))
        found[shape.name] = rows
    return found


@pytest.mark.parametrize("zone", ZONES)
def test_both_read_what_the_other_wrote(zone: str, oracle: Oracle, tmp_path: Path) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    written = _ours(ours, zone)
    javas: dict[str, Asked] = {}
    read: list[Asked] = []
    with oracle.in_zone(zone).batch() as batch:
        for shape in SHAPES:
            rows = _rows(zone, shape.types)
            batch.create(theirs, f"db.{shape.name}", shape.fields, options=shape.options)
            for part in range(PARTS):
                batch.write(theirs, f"db.{shape.name}", rows[part::PARTS])
            javas[shape.name] = Asked(shape, rows, batch.read(theirs, f"db.{shape.name}"))
        for shape in SHAPES:
            if shape.name.startswith("orc_instants") and LEGACY not in shape.options:
                continue  # the option is set in all tables that are made here
            rows = written[shape.name]
            asked = Asked(shape, rows, batch.read(ours, f"db.{shape.name}"))
            for condition, kept in _filters(shape, rows, f"java {zone} {shape.name}"):
                asked.some.append((condition, kept, batch.read(ours, f"db.{shape.name}", filter=condition)))
            read.append(asked)
    for name, java in javas.items():
        assert java.all.lines == _lines(java.rows), name
        _check_ours(theirs, zone, java)
    for asked in read:
        assert asked.all.lines == _lines(asked.rows), asked.shape.name
        for condition, kept, reply in asked.some:
            assert reply.lines == kept, f"{asked.shape.name} {condition}"


def _check_ours(warehouse: Path, zone: str, java: Asked) -> None:
    shape = java.shape
    table = pp.Table.open(warehouse / "db.db" / shape.name)
    options = {ZONE: zone} if shape.zone_given else None
    if shape.zone_given:
        assert table.scan(columns=["id"]).to_arrow().num_rows == len(java.rows)
        with pytest.raises(UnsupportedError, match="time zone"):
            table.scan().to_arrow()
    assert lines(table.scan(options=options).to_arrow()) == java.all.lines, shape.name
    for condition, kept in _filters(shape, java.rows, f"{zone} {shape.name}"):
        found = table.scan(from_oracle(condition, shape.fields), options=options).to_arrow()
        assert lines(found) == kept, f"{shape.name} {condition}"
        assert table.scan(from_oracle(condition, shape.fields)).count() == len(kept) if not shape.zone_given else True


def test_a_table_of_writers_in_several_zones(oracle: Oracle, tmp_path: Path) -> None:
    """A table option says where files come from that don't tell; those of UTC, and ours, are known all the same."""
    named, unnamed = (next(s for s in SHAPES if s.name == name) for name in ("orc", "orc_instants"))
    zone = "GMT+08:00"  # Java's name for an offset
    rows = {shape.name: _rows("UTC", shape.types) for shape in (named, unnamed)}
    for i, writer in enumerate([zone, "UTC"]):
        with oracle.in_zone(writer).batch() as batch:
            for shape in (named, unnamed):
                if not i:
                    batch.create(tmp_path, f"db.{shape.name}", shape.fields, options=shape.options | {ZONE: zone})
                batch.write(tmp_path, f"db.{shape.name}", rows[shape.name][i::3])
    for shape in (named, unnamed):
        table, mine = pp.Table.open(tmp_path / "db.db" / shape.name), rows[shape.name]
        assert lines(table.scan().to_arrow()) == _lines([*mine[::3], *mine[1::3]])
        more = arrow_rows(mine[2::3], arrow_schema(shape.fields))
        with pytest.raises(UnsupportedError, match="by the clocks of"):
            table.append(more)
        table.alter(unset_options=[ZONE])
        table = pp.Table.open(table.path)  # the last who wrote was in UTC
        table.append(more)
        assert lines(table.scan(options={ZONE: zone}).to_arrow()) == _lines(mine)


def test_who_would_read_ours_shifted_is_not_written_for(oracle: Oracle, tmp_path: Path) -> None:
    shapes = [s for s in SHAPES if s.name in ("orc", "orc_instants", "orc_as_such")]
    with oracle.in_zone("America/New_York").batch() as batch:
        for shape in shapes:
            batch.create(tmp_path, f"db.{shape.name}", shape.fields, options=shape.options)
            batch.write(tmp_path, f"db.{shape.name}", _rows("America/New_York", shape.types))
    for shape in shapes:
        table = pp.Table.open(tmp_path / "db.db" / shape.name)
        more = arrow_rows(_rows("America/New_York", shape.types, 1), arrow_schema(shape.fields))
        if LEGACY not in shape.options:
            for change in (lambda t=table, m=more: t.append(m), lambda t=table: t.delete("id = 1"), table.compact):
                with pytest.raises(UnsupportedError, match=r"JVM in (America/New_York|another time zone)"):
                    change()
        table.append(more, options={} if LEGACY in shape.options else {ZONE: "UTC"})
