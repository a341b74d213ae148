from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest

from paimon_pyds.errors import CorruptFileError, UnsupportedError
from paimon_pyds.metadata.snapshot import (
    CommitKind,
    Snapshot,
    parse_snapshot,
    snapshot_to_json,
)
from support.fixtures import DEV, requires_shared
from support.metadata_samples import SNAPSHOT as SAMPLE

OPTIONAL = [
    "baseManifestListSize", "deltaManifestListSize", "changelogManifestList", "changelogManifestListSize",
    "indexManifest", "logOffsets", "totalRecordCount", "deltaRecordCount", "changelogRecordCount", "watermark",
    "statistics", "properties", "nextRowId", "writerVersion", "operation", "uuid",
]  # fmt: skip


def _data(**changes: Any) -> bytes:
    return json.dumps({**SAMPLE, **changes}).encode()


@requires_shared
def test_every_snapshot_and_tag_of_java_comes_back_byte_for_byte() -> None:
    assert DEV is not None
    paths = [p for kind in ("snapshot", "tag") for p in DEV.glob(f"*/table/db.db/t/**/{kind}-*") if p.is_file()]
    assert len(paths) > 200
    for path in paths:
        data = path.read_bytes()
        assert snapshot_to_json(parse_snapshot(data, str(path))).encode() == data, path


def test_every_member_is_read_and_written() -> None:
    snapshot = parse_snapshot(_data(), "s")
    assert [f.name for f in fields(Snapshot) if getattr(snapshot, f.name) is None] == ["row_count"]  # in no file
    assert snapshot.commit_kind is CommitKind.APPEND
    assert json.loads(snapshot_to_json(snapshot)) == SAMPLE
    assert list(json.loads(snapshot_to_json(snapshot))) == list(SAMPLE)


@pytest.mark.parametrize("member", OPTIONAL)
def test_absent_members_are_none_and_stay_absent(member: str) -> None:
    members = {k: v for k, v in SAMPLE.items() if k != member}
    assert json.loads(snapshot_to_json(parse_snapshot(json.dumps(members).encode(), "s"))) == members
    assert json.loads(snapshot_to_json(parse_snapshot(_data(**{member: None}), "s"))) == members


def test_members_of_newer_versions_stay() -> None:
    """But for those of tags, which have their own places."""
    new = {"newMember": {"x": [1, 0.5, None, "é"]}, "newer": True}
    found = parse_snapshot(_data(**new, nothing=None, tagCreateTime=[2024, 1, 1]), "s")
    assert found != parse_snapshot(_data(), "s")
    assert json.loads(snapshot_to_json(found)) == {**SAMPLE, **new}
    assert parse_snapshot(snapshot_to_json(found).encode(), "s") == found


def test_newer_versions_are_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match="snapshot version 4"):
        parse_snapshot(_data(version=4), "s")


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "empty"),
        (_data()[:100], "not valid JSON"),
        (b"[]", "object"),
        (_data(commitKind="MERGE"), "kind of commit.*commitKind"),
        (_data(commitKind=None), "missing"),
        (_data(id=None), "missing.*id"),
        (_data(baseManifestList=3), "string"),
        (_data(totalRecordCount="60"), "64-bit integer"),
        (_data(properties={"a": 1}), "strings"),
        (_data(logOffsets={"0": "1"}), "integers"),
        (_data(properties=[]), "object"),
        (_data(timeMillis=2**63), "64-bit integer"),
    ],
)
def test_what_is_no_snapshot_is_corrupt(data: bytes, what: str) -> None:
    with pytest.raises(CorruptFileError, match=what) as caught:
        parse_snapshot(data, "/t/snapshot/snapshot-2")
    assert "/t/snapshot/snapshot-2" in str(caught.value)
