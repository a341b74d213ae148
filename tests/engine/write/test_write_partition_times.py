"""Partitions that are no times, where `partition.timestamp-format.strict` refuses them: here as in Java."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.errors import SchemaError
from support.maintenance import files_there
from support.oracle import Oracle, requires_java_oracle

_SCHEMA = pa.schema([("day", pa.string()), ("hour", pa.int32()), ("id", pa.int64())])
_STRICT = {"partition.timestamp-format.strict": "true"}
_DAYS = {"partition.timestamp-formatter": "yyyyMMdd"}
_HOURS = {"partition.timestamp-pattern": "$day $hour:00:00"}
_CASES: list[tuple[dict[str, str], str | None, int, bool]] = [
    # options, the partition, whether rows may go there
    ({**_STRICT, **_DAYS}, "20260131", 7, True),
    ({**_STRICT, **_DAYS}, "2026-01-31", 7, False),
    ({**_STRICT, **_DAYS}, "red", 7, False),
    ({**_STRICT, **_DAYS}, None, 7, False),
    ({**_STRICT, **_HOURS}, "2026-01-31", 7, True),
    ({**_STRICT, **_HOURS}, "2026-01-31", 777, False),
    ({**_STRICT, **_HOURS}, "20260131", 7, False),
    (_STRICT, "red", 7, True),
    (_DAYS, "red", 7, True),
    ({**_HOURS, "partition.timestamp-format.strict": "false"}, "red", 7, True),
]


def _made(path: Path, options: dict[str, str], primary_key: tuple[str, ...] = ()) -> pp.Table:
    key = {"bucket": "1"} if primary_key else {}
    return pp.Table.create(path, _SCHEMA, primary_key, ["day", "hour"], {**options, **key})


def _rows(day: str | None, hour: int) -> pa.Table:
    return pa.table({"day": [day], "hour": [hour], "id": [1]}, _SCHEMA)


_KEYS = [(), ("day", "hour", "id")]


@pytest.mark.parametrize(
    ("options", "day", "hour", "may", "key"),
    [(*case, key) for case in _CASES for key in _KEYS if not key or case[1] is not None],
)
def test_rows(
    tmp_path: Path, options: dict[str, str], day: str | None, hour: int, may: bool, key: tuple[str, ...]
) -> None:
    table = _made(tmp_path / "t", options, key)
    if may:
        table.append(_rows(day, hour))
        assert table.count() == 1
        return
    before = files_there(tmp_path / "t")
    for write in (table.append, table.overwrite):
        with pytest.raises(
            SchemaError, match=r"partition day=.* is no time by partition\.timestamp-(formatter|pattern)"
        ):
            write(pa.concat_tables([_rows("20260131" if _DAYS.items() <= options.items() else "2026-01-31", 5),
                                    _rows(day, hour)]))  # fmt: skip
        assert files_there(tmp_path / "t") == before
    table.alter(unset_options=["partition.timestamp-format.strict"])
    table.append(_rows(day, hour))
    assert table.count() == 1


@pytest.mark.java
@requires_java_oracle
def test_java_refuses_the_same(oracle: Oracle, tmp_path: Path) -> None:
    replies = {}
    with oracle.batch() as batch:
        for number, (options, day, hour, _) in enumerate(_CASES):
            _made(tmp_path / str(number) / "db.db/t", options)
            rows = [{"day": day, "hour": hour, "id": 1}]
            replies[number] = batch.write(tmp_path / str(number), "db.t", rows, allow_fail=True)
    assert [reply.ok for reply in replies.values()] == [may for *_, may in _CASES]
