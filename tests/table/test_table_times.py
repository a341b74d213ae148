"""Every place that takes a time, in several time zones: a datetime without a zone is local time as Python has it, and a
text without one is read in the zone that the call names, else in the local zone."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.zones import local_zone, session_zone
from paimon_pyds.cli.main import main
from paimon_pyds.engine.rowlevel.clauses import Update
from paimon_pyds.errors import OptionError
from paimon_pyds.metadata.manifest_store import METADATA_CACHE
from paimon_pyds.sql.predicate.tree import ColumnRef, Leaf, Op
from paimon_pyds.sql.text.tree import Literal
from support.copies import copied
from support.effort import sampled
from support.local_zone import in_local_zone

ZONES = ("UTC", "Asia/Tokyo", "America/Los_Angeles", "<+05>-5")
MOMENT = datetime(2024, 7, 1, 12, 30, tzinfo=UTC)
"""Between the second and the third snapshot of each table; minutes apart from both."""
MILLIS = int(MOMENT.timestamp()) * 1000
_MINUTE = 60_000


def _local() -> datetime:
    return datetime.fromtimestamp(MOMENT.timestamp())


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S")


FORMS: dict[str, Callable[[], Any]] = {
    "naive": _local,
    "aware": lambda: MOMENT,
    "of another zone": lambda: MOMENT.astimezone(timezone(timedelta(hours=-3))),
    "text": lambda: _text(_local()),
    "text in UTC": lambda: f"{_text(MOMENT)}Z",
    "text with an offset": lambda: f"{_text(MOMENT + timedelta(hours=2))}+02:00",
    "text with a zone": lambda: f"{_text(MOMENT.astimezone(ZoneInfo('Asia/Kolkata')))} Asia/Kolkata",
    "milliseconds": lambda: MILLIS,
}


@pytest.fixture(params=sampled(ZONES, 2))
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with in_local_zone(request.param, monkeypatch) as name:
        yield name


@copied("wh/db.db/t")
def table(path: Path) -> pp.Table:
    """Three snapshots of one row each: the second a minute before `MOMENT`, the third a minute after it."""
    made = pp.Table.create(path, pa.schema([("id", pa.int64())]), options={"num-sorted-run.stop-trigger": "9"})
    for id_, minutes in ((1, -2), (2, -1), (3, 1)):
        made.append(pa.table({"id": [id_]}))
        _set_time(path / "snapshot" / f"snapshot-{id_}", MILLIS + minutes * _MINUTE)
    METADATA_CACHE.clear()
    return pp.Table.open(path)


def _set_time(path: Path, millis: int) -> None:
    snapshot = json.loads(path.read_text())
    path.write_text(json.dumps({**snapshot, "timeMillis": millis}))


def _ids(scan: Any) -> list[int]:
    return sorted(scan.to_arrow()["id"].to_pylist())


def _expired(table: pp.Table, when: Any) -> list[int]:
    table.snapshots.expire(retain_min=1, retain_max=9, older_than=when)
    return [*range(1, table.snapshots.list()[0].id)]


def _changes(table: pp.Table, when: Any) -> list[int]:
    """Those until the time; a text is the end of two."""
    end = when if isinstance(when, str) else f"{MILLIS if isinstance(when, int) else _with_zone(when)}"
    return _ids(table.scan(options={"incremental-between-timestamp": f"0,{end}"}))


def _with_zone(when: datetime) -> str:
    return (when if when.tzinfo else when.astimezone()).isoformat()


def _orphans(table: pp.Table, when: Any) -> list[int]:
    for number, minutes in ((1, -2), (2, -1), (3, 1)):
        orphan = Path(table.path) / "bucket-0" / f"data-{number}.parquet"
        orphan.parent.mkdir(exist_ok=True)
        orphan.write_bytes(b"")
        os.utime(orphan, (MILLIS / 1000 + minutes * 60,) * 2)
    names = table.maintenance.remove_orphan_files(when, dry_run=True).files["path"].to_pylist()
    return sorted(int(name[-len("1.parquet")]) for name in names)


def _tags(table: pp.Table, when: Any) -> list[int]:
    made = _local().replace(tzinfo=None)
    for number, minutes in ((1, -2), (2, -1), (3, 1)):
        table.tags.create(f"t{number}", number, retain="99999 d")
        path = Path(table.path) / "tag" / f"tag-t{number}"
        then = made + timedelta(minutes=minutes)
        parts = [then.year, then.month, then.day, then.hour, then.minute, then.second]
        path.write_text(json.dumps({**json.loads(path.read_text()), "tagCreateTime": parts}))
    METADATA_CACHE.clear()
    return [int(name[1:]) for name in table.tags.expire(when).tags]


Place: TypeAlias = Callable[[pp.Table, Any], list[int]]
PLACES: dict[str, Place] = {
    "scan": lambda t, when: _ids(t.scan(timestamp=when)),
    "count": lambda t, when: [*range(1, t.count(timestamp=when) + 1)],
    "max": lambda t, when: [*range(1, t.max("id", timestamp=when) + 1)],
    "top_n": lambda t, when: sorted(t.top_n("id, 9", timestamp=when)["id"].to_pylist()),
    "an option": lambda t, when: _ids(t.scan(options={_option(when): when})),
    "an option of count": lambda t, when: [*range(1, t.count(options={_option(when): when}) + 1)],
    "what was added": _changes,
    "a system table": lambda t, when: [*range(1, t.system.read("files", options={_option(when): when}).num_rows + 1)],
    "create_tag": lambda t, when: [*range(1, t.tags.create("x", timestamp=when).id + 1)],
    "rollback": lambda t, when: (t.snapshots.rollback(timestamp=when), _ids(t.scan()))[1],
    "clone": lambda t, when: _ids(
        t.maintenance.clone(f"{t.path}_copy", timestamp=when) and pp.Table.open(f"{t.path}_copy").scan()
    ),
    "expire_snapshots": _expired,
    "expire_tags": _tags,
    "remove_orphan_files": _orphans,
}


def _option(when: Any) -> str:
    return "scan.timestamp-millis" if isinstance(when, int) else "scan.timestamp"


@pytest.mark.parametrize("place", PLACES)
def test_a_time(place: str, zone: str, tmp_path: Path, table: pp.Table) -> None:
    path = Path(table.path)
    state = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    for form, when in FORMS.items():
        assert PLACES[place](table, when()) == [1, 2], form
        for file in path.rglob("*"):  # as it was
            if file.is_file() and file not in state:
                file.unlink()
        for file, data in state.items():
            file.write_bytes(data)
        if (copy := Path(f"{path}_copy")).exists():
            copy.rename(tmp_path / f"copy of {form}")
        METADATA_CACHE.clear()


def test_a_diff_between_times(zone: str, table: pp.Table) -> None:
    for when in (_local(), MOMENT):
        assert table.snapshots.diff(when).to_arrow()["id"].to_pylist() == [3]


def test_a_date_is_its_local_midnight(zone: str, table: pp.Table) -> None:
    midnight = datetime(2024, 7, 2).timestamp()
    for id_, seconds in ((2, -60), (3, 60)):
        _set_time(Path(table.path) / "snapshot" / f"snapshot-{id_}", int(midnight + seconds) * 1000)
    METADATA_CACHE.clear()
    for day in (date(2024, 7, 2), "2024-07-02"):
        assert table.count(timestamp=day) == 2
        assert _ids(table.scan(timestamp=day)) == [1, 2]
        assert table.snapshots.expire(retain_min=1, retain_max=9, older_than=day, dry_run=True).snapshots == 2


def test_times_of_system_tables_can_be_given_back(zone: str, table: pp.Table) -> None:
    """Without a zone they are local, as in Java."""
    table.tags.create("x", 2)
    times = table.system.read("snapshots")["commit_time"].to_pylist()
    assert [table.count(timestamp=when) for when in times] == [1, 2, 3]
    assert table.system.read("tags")["commit_time"].to_pylist() == [_local() - timedelta(minutes=1)] == times[1:2]
    now = datetime.now()
    assert abs(table.system.read("schemas")["update_time"].to_pylist()[0] - now) < timedelta(hours=0.5)
    table.branches.create("b", "x")
    assert abs(table.system.read("branches")["create_time"].to_pylist()[0] - now) < timedelta(hours=0.5)
    assert table.system.read("snapshots", f"commit_time < '{_text(_local())}'").num_rows == 2


@pytest.mark.parametrize("form", ["text", "text in UTC", "milliseconds"])
def test_times_of_commands(form: str, zone: str, table: pp.Table, capsys: pytest.CaptureFixture[str]) -> None:
    when, path = str(FORMS[form]()), table.path
    if form != "milliseconds":
        assert main(["count", path, "--timestamp", when]) == 0
        assert capsys.readouterr().out.strip() == "2"
    assert main(["tags", "create", path, "x", "--timestamp", when]) == 0
    assert main(["snapshots", "expire", path, "--retain-min", "1", "--older-than", when]) == 0
    assert [s.id for s in table.snapshots.list()] == [3] and table.tags.list()["x"].id == 2
    assert main(["count", path, "--option", "scan.timestamp=1999-01-01 00:00:00"]) == 1


def test_the_zone_of_a_call_and_of_a_session(zone: str, table: pp.Table) -> None:
    there = _text(MOMENT.astimezone(ZoneInfo("Asia/Kolkata")))
    assert table.count(timestamp=there, options={"timezone": "Asia/Kolkata"}) == 2
    assert table.count(timestamp=there, options={"timezone": ZoneInfo("Asia/Kolkata")}) == 2
    with session_zone("Asia/Kolkata"):
        assert table.count(timestamp=there) == 2
        assert table.tags.create("x", timestamp=there).id == 2
        assert table.count(timestamp=_local()) == 2
        assert table.count(timestamp=_text(MOMENT), options={"timezone": "UTC"}) == 2
    with pytest.raises(OptionError, match="timezone: 'Nowhere' is not a time zone"):
        table.scan(options={"timezone": "Nowhere"})
    # A datetime is no text: neither zone matters.
    assert table.count(timestamp=_local(), options={"timezone": "Asia/Kolkata"}) == 2


# ------------------------------------------------------------------------------------------------------------ literals

INSTANTS = pa.timestamp("us", "UTC")


@pytest.fixture
def moments(tmp_path: Path) -> pp.Table:
    """Rows a minute before and after `MOMENT`: as instants, and as the local clock shows them."""
    schema = pa.schema([("id", pa.int64()), ("ts", INSTANTS), ("clock", pa.timestamp("us")), ("day", pa.date32())])
    table = pp.Table.create(tmp_path / "moments", schema)
    rows = [MOMENT + timedelta(minutes=minutes) for minutes in (-1, 1)]
    clocks = [datetime.fromtimestamp(row.timestamp()) for row in rows]
    days = [clock.date() for clock in clocks]
    table.append(pa.table({"id": [1, 2], "ts": rows, "clock": clocks, "day": days}, schema))
    return table


def _leaf(column: str, value: Any, op: Op = Op.LT) -> Leaf:
    return Leaf(op, ColumnRef(column), (Literal(value, None),))


def test_literals(zone: str, moments: pp.Table) -> None:
    here, day = _text(_local()), _local().date()
    filters = [
        f"ts < '{here}'",
        f"ts < TIMESTAMP '{here}'",
        f"ts < TIMESTAMP_NTZ '{here}'",
        f"ts < '{_text(MOMENT)}Z'",
        f"ts IN ('{_text(_local() - timedelta(minutes=1))}')",
        f"clock < '{here}'",
        f"date(ts) = '{day}' AND minute(ts) < {_local().minute}",
        f"CAST(ts AS STRING) < '{here}'",
        f"CAST(clock AS TIMESTAMP) < TIMESTAMP '{here}'",
        _leaf("ts", _local()),
        _leaf("ts", MOMENT),
        _leaf("clock", _local()),
        _leaf("ts", _local() - timedelta(minutes=1), Op.IN),
    ]
    for filter_ in filters:
        assert _ids(moments.scan(filter_)) == [1], filter_
        assert moments.count(filter_) == 1, filter_
    for filter_ in (_leaf("ts", _local()), _leaf("clock", _local())):
        assert _ids(moments.scan(filter_, options={"timezone": "Asia/Kolkata"})) == [1]
    kolkata = _text(MOMENT.astimezone(ZoneInfo("Asia/Kolkata")))
    assert _ids(moments.scan(f"ts < '{kolkata}'", options={"timezone": "Asia/Kolkata"})) == [1]
    with session_zone("Asia/Kolkata"):
        assert _ids(moments.scan(f"ts < '{kolkata}'")) == [1]


def test_changes_of_rows(zone: str, moments: pp.Table) -> None:
    here, later = _text(_local()), _local() + timedelta(days=1)
    assert moments.update({"ts": later}, f"ts < '{here}'").rows_updated == 1
    assert moments.count(_leaf("ts", MOMENT + timedelta(days=1), Op.EQ)) == 1
    assert moments.update({"ts": "TIMESTAMP_NTZ '2024-01-01 00:00:00'"}, "id = 1").rows_updated == 1
    assert moments.scan("id = 1").to_arrow()["ts"][0].as_py() == datetime(2024, 1, 1).astimezone()
    source = pa.table({"id": [2]})
    moments.merge(source, ["id"], when_matched=Update({"ts": _local(), "clock": _local()}))
    row = moments.scan("id = 2").to_arrow().to_pylist()[0]
    assert (row["ts"], row["clock"]) == (MOMENT, _local())
    assert moments.delete(_leaf("ts", _local(), Op.EQ)).rows_deleted == 1
    assert moments.delete("ts = '2024-01-01 00:00:00'").rows_deleted == 1


def test_times_that_pandas_has(zone: str, moments: pp.Table, table: pp.Table) -> None:
    pd = pytest.importorskip("pandas")
    assert table.count(timestamp=pd.Timestamp(_local())) == table.count(timestamp=pd.Timestamp(MOMENT)) == 2
    assert moments.count(_leaf("ts", pd.Timestamp(_local()))) == 1
    first = pd.Timestamp(_local() - timedelta(minutes=1))
    assert moments.count(_leaf("ts", first, Op.EQ)) == 1
    assert moments.count(_leaf("ts", first + pd.Timedelta(1, "us"), Op.EQ)) == 0


def test_the_hour_that_clocks_show_twice(monkeypatch: pytest.MonkeyPatch, table: pp.Table) -> None:
    first = datetime(2024, 10, 27, 2, 30)  # in Berlin, in summer time
    with in_local_zone("Europe/Berlin", monkeypatch):
        for id_, moment in ((2, first.timestamp() + 60), (3, first.timestamp() + 3660)):
            _set_time(Path(table.path) / "snapshot" / f"snapshot-{id_}", int(moment) * 1000)
        METADATA_CACHE.clear()
        assert table.count(timestamp=first) == 1
        assert table.count(timestamp=first.replace(fold=1)) == 2
        assert table.count(timestamp=datetime.max) == 3


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("UTC", "UTC"), ("Etc/UTC", "UTC"), ("", "UTC"), (":Asia/Tokyo", "Asia/Tokyo"), ("JST-9", "+09:00"),
        ("<-0330>3:30", "-03:30"), ("America/Los_Angeles", "America/Los_Angeles"), ("Nowhere/Nothing", "UTC"),
        ("EST5EDT,M3.2.0,M11.1.0", "America/"),
    ],
)  # fmt: skip
def test_names_of_the_local_zone(variable: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with in_local_zone(variable, monkeypatch):
        found = local_zone()
        assert found.startswith(name) if name.endswith("/") else found == name
