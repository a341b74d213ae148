"""The recipe of docs/change-data-capture.md keeps a copy equal to its source, whatever happens to either of them."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import paimon_pyds as pp
from paimon_pyds.errors import SchemaError
from paimon_pyds.namespaces.tags import Tags
from support.effort import SEED
from support.fixtures import ROOT
from support.snippets import run_typed

PAGE = (ROOT / "docs" / "change-data-capture.md").read_text(encoding="utf-8")
OPTIONS = {"bucket": "2"}


def _function(name: str) -> Callable[..., Any]:
    names: dict[str, Any] = {"pp": pp}
    found = re.search(rf"^def {name}\(.*?(?=^\S)", PAGE, re.M | re.S)
    assert found
    run_typed(found[0], names)
    return names[name]


def _rows(table: pp.Table) -> list[Any]:
    return sorted(table.to_arrow().to_pylist(), key=str)


def test_a_copy_follows_its_source(tmp_path: Path) -> None:
    draw, follow = random.Random(SEED), _function("follow")
    source = pp.Table.create(tmp_path / "source", [{"id": 0, "n": 0}], primary_key="id", options=OPTIONS)
    copy = pp.Table.create(tmp_path / "copy", source.arrow_schema, primary_key="id", options=OPTIONS)
    steps: list[Callable[[], Any]] = [
        lambda: source.append([{"id": draw.randrange(20), "n": draw.randrange(99)} for _ in range(5)]),
        lambda: source.delete(f"id % 5 = {draw.randrange(5)}"),
        lambda: source.update({"n": "n + 1"}, f"id % 3 = {draw.randrange(3)}"),
        lambda: source.compact(full=True),
        lambda: source.snapshots.expire(retain_max=1),
        lambda: source.overwrite([{"id": draw.randrange(20), "n": -1}]),
        lambda: source.snapshots.rollback(min(s.id for s in source.snapshots.list())),
        lambda: follow(source, copy),
    ]
    for _ in range(25):
        draw.choice(steps)()
        if draw.random() < 0.3:
            follow(source, copy)
            assert _rows(copy) == _rows(source)


def test_a_run_that_is_killed_before_its_tag_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    follow = _function("follow")
    source = pp.Table.create(tmp_path / "source", {"id": [1, 2, 3], "n": [1, 2, 3]}, primary_key="id", options=OPTIONS)
    copy = pp.Table.create(tmp_path / "copy", source.arrow_schema, primary_key="id", options=OPTIONS)
    for change in (lambda: None, lambda: source.delete("id = 1"), lambda: source.append([{"id": 1, "n": 5}])):
        change()
        with monkeypatch.context() as patch:
            patch.setattr(Tags, "create", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                follow(source, copy)
        assert _rows(copy) == _rows(source)
        follow(source, copy)
        assert _rows(copy) == _rows(source)


def test_a_new_column_is_refused_until_the_copy_has_it(tmp_path: Path) -> None:
    follow = _function("follow")
    source = pp.Table.create(tmp_path / "source", {"id": [1], "n": [1]}, primary_key="id", options=OPTIONS)
    copy = pp.Table.create(tmp_path / "copy", source.arrow_schema, primary_key="id", options=OPTIONS)
    follow(source, copy)
    source.alter(add_columns={"phone": "STRING"})
    source.append([{"id": 2, "n": 2, "phone": "112"}])
    with pytest.raises(SchemaError, match="phone"):
        follow(source, copy)
    copy.alter(add_columns={"phone": "STRING"})
    follow(source, copy)
    assert _rows(copy) == _rows(source)


def test_each_change_comes_once_though_snapshots_expire(tmp_path: Path) -> None:
    each_change = _function("each_change")
    options = OPTIONS | {"changelog-producer": "lookup"}
    source = pp.Table.create(tmp_path / "source", "id BIGINT, n INT", primary_key="id", options=options)
    source.maintenance.reset_consumer("audit", 1)
    seen: list[tuple[Any, ...]] = []
    for n in range(6):
        source.append([{"id": 1, "n": n}])
        source.snapshots.expire(retain_max=1)
        if n % 2:
            seen += [tuple(row.values()) for batch in each_change(source, "audit") for row in batch.to_pylist()]
    wanted = [("+I", 1, 0)] + [(kind, 1, n + after) for n in range(5) for after, kind in enumerate(("-U", "+U"))]
    assert seen == wanted


def test_a_killed_run_gets_the_same_changes_again(tmp_path: Path) -> None:
    each_change = _function("each_change")
    source = pp.Table.create(
        tmp_path / "t", [{"id": 1}], primary_key="id", options=OPTIONS | {"changelog-producer": "input"}
    )
    source.maintenance.reset_consumer("audit", 1)
    source.append([{"id": 2}])
    first = next(iter(each_change(source, "audit"))).to_pylist()
    again = [row for batch in each_change(source, "audit") for row in batch.to_pylist()]
    assert [row["id"] for row in again] == [1, 2]
    assert first == again[:1]
