"""Which sorted runs a compaction of a table with a primary key picks, and what becomes of their files: Java's rules."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paimon_pyds.base.options import TableOptions
from paimon_pyds.engine.compact.universal import (
    CompactUnit,
    LevelFile,
    RewritePlan,
    Run,
    UniversalRules,
    pick,
    pick_full,
    sorted_runs,
    steps_of,
)

RULES = UniversalRules(small_size=70)
QUICK = replace(RULES, size_amplification=25, trigger=3, highest_level=2)


def _runs(*runs: tuple[int, int]) -> list[Run]:
    """Runs of one file, by level and size, the newest first."""
    return [
        (LevelFile(at=at, size=size, level=level, key_range=(0, 9), age=(at, 0, 0, "")),)
        for at, (level, size) in enumerate(runs)
    ]


def _picked(runs: Sequence[Run], rules: UniversalRules = QUICK, now: int = 0) -> tuple[list[int], int] | None:
    """The sizes that are picked, and their output level."""
    unit = pick(runs, rules, now)
    return None if unit is None else ([file.size for file in unit.files], unit.output_level)


def test_few_runs_stay() -> None:
    assert _picked([], RULES) is None
    assert _picked(_runs((0, 1), (0, 1), (0, 1), (0, 1)), RULES) is None
    assert _picked(_runs(*[(0, 1)] * 5), RULES) == ([1] * 5, 5)


def test_newer_runs_that_are_large_beside_the_oldest() -> None:
    """More than ``compaction.max-size-amplification-percent`` of it."""
    assert _picked(_runs((0, 1), (0, 2), (0, 3), (0, 3))) == ([1, 2, 3, 3], 2)
    rules = replace(RULES, trigger=3, highest_level=3)
    assert _picked(_runs((0, 101), (0, 100), (3, 100)), rules) == ([101, 100, 100], 3)
    assert _picked(_runs((0, 100), (1, 100), (3, 100)), rules) == ([100, 100, 100], 3)  # by their ratio
    assert _picked(_runs((0, 80), (1, 120), (3, 100)), rules) is None


def test_runs_of_about_one_size() -> None:
    rules = replace(QUICK, highest_level=3)
    assert _picked(_runs((0, 1), (1, 1), (2, 1), (3, 50)), rules) == ([1, 1, 1], 2)
    assert _picked(_runs((0, 1), (1, 2), (2, 3), (3, 50)), rules) == ([1, 2, 3], 2)  # too many, and then by ratio
    hundred = _runs((0, 100), (2, 102), (3, 1000))
    assert _picked(hundred, rules) is None
    assert _picked(hundred, replace(rules, size_ratio=2)) == ([100, 102], 2)


def test_no_result_lies_on_level_0() -> None:
    assert _picked(_runs((0, 1), (0, 1), (1, 1), (2, 50))) == ([1, 1, 1], 1)
    assert _picked(_runs((0, 1), (0, 2), (1, 3), (2, 50))) == ([1, 2, 3], 1)
    one_large = _runs((0, 1), (0, 1), (0, 1), (0, 1024), (0, 1024 * 1024))
    assert _picked(one_large, RULES) == ([1, 1, 1, 1024, 1024 * 1024], 5)


@pytest.mark.parametrize(("count", "level"), [(2, 1), (3, 2), (4, 3), (5, 5)])
def test_the_result_lies_below_the_next_run(count: int, level: int) -> None:
    sizes = [1] * count + [1000] * (5 - count)
    runs = _runs(*zip((0, 0, 1, 3, 4), sizes, strict=True))
    rules = replace(RULES, trigger=6 - count, size_amplification=10**6)
    assert _picked(runs, rules) == (sizes[: max(count, 3)], level)


def test_all_runs_when_an_interval_has_passed() -> None:
    rules = replace(RULES, full_interval=1000, trigger=3, highest_level=2)
    young, old = _runs((0, 1), (1, 3), (2, 5)), _runs((0, 1), (1, 3))
    young[2] = (replace(young[2][0], created=5000),)
    assert _picked(young, rules, now=6000) is None
    assert _picked(young, rules, now=6001) == ([1, 3, 5], 2)
    assert _picked(old, rules, now=0) == ([1, 3], 2)  # never
    assert _picked(old[:1], rules, now=10**12) is None


def test_all_runs_by_their_sizes() -> None:
    rules = replace(RULES, total_size=10, trigger=3, highest_level=2)
    assert _picked(_runs((0, 1), (1, 3), (2, 5)), rules) == ([1, 3, 5], 2)
    assert _picked(_runs((0, 1), (1, 3), (2, 6)), rules) is None
    assert _picked(_runs((2, 5)), rules) is None
    rules = replace(RULES, incremental_size=10)
    assert _picked(_runs((0, 4), (1, 6), (5, 99)), rules) is None
    assert _picked(_runs((0, 5), (1, 6), (5, 99)), rules) == ([5, 6, 99], 5)


def test_level_0_is_left_empty_on_request() -> None:
    runs = _runs((0, 1), (0, 2), (3, 90))
    assert _picked(runs, RULES) is None
    assert _picked(runs, replace(RULES, lift_level_0=True)) == ([1, 2], 2)
    assert _picked(_runs((0, 1)), replace(RULES, lift_level_0=True)) == ([1], 5)
    assert _picked(_runs((3, 90), (4, 990)), replace(RULES, lift_level_0=True)) is None


def test_options() -> None:
    options = {
        "num-sorted-run.compaction-trigger": "3",
        "compaction.offpeak.start.hour": "22",
        "compaction.offpeak.end.hour": "6",
        "compaction.offpeak-ratio": "40",
        "force-lookup": "true",
    }
    at_night = UniversalRules.of(TableOptions(options), 100, 23)
    assert at_night == UniversalRules(small_size=70, trigger=3, highest_level=3, size_ratio=41, lift_level_0=True)
    assert [UniversalRules.of(TableOptions(options), 100, hour).size_ratio for hour in (5, 6, 21, 22)] == [41, 1, 1, 41]
    assert UniversalRules.of(TableOptions({}), 100, 3) == RULES
    for own in ({"deletion-vectors.enabled": "true"}, {"merge-engine": "first-row"}, {"changelog-producer": "lookup"}):
        assert UniversalRules.of(TableOptions(own), 100, 3).lift_level_0
        assert not UniversalRules.of(TableOptions({**own, "lookup-compact": "gentle"}), 100, 3).lift_level_0
    eager = {"force-lookup": "true", "lookup-compact": "gentle", "lookup-compact.max-interval": "1"}
    assert UniversalRules.of(TableOptions({**eager, "num-sorted-run.compaction-trigger": "1"}), 100, 3).lift_level_0
    assert not UniversalRules.of(TableOptions(eager), 100, 3).lift_level_0
    assert UniversalRules.of(TableOptions({"num-levels": "9"}), 100, 3).highest_level == 8
    sizes = {
        "compaction.max-size-amplification-percent": "150", "compaction.size-ratio": "5",
        "compaction.small-file-ratio": "0.5", "compaction.total-size-threshold": "1 mb",
        "compaction.incremental-size-threshold": "2 kb", "compaction.optimization-interval": "2 min",
        "compaction.force-up-level-0": "true", "compaction.force-rewrite-all-files": "true",
    }  # fmt: skip
    assert UniversalRules.of(TableOptions(sizes), 100, 3) == replace(
        RULES, size_amplification=150, size_ratio=5, small_size=50, total_size=1 << 20, incremental_size=2 << 10,
        full_interval=120_000, lift_level_0=True, rewrite_all=True,
    )  # fmt: skip


def _file(at: int, level: int, keys: tuple[int, int], size: int = 100, **more: bool) -> LevelFile:
    return LevelFile(at=at, size=size, level=level, key_range=keys, age=(-at, 0, 0, ""), **more)


def _steps(*files: LevelFile, rules: UniversalRules = RULES, unit: CompactUnit | None = None) -> RewritePlan:
    runs = sorted_runs(files)
    unit = unit or pick_full(runs, rules)
    assert unit is not None
    return steps_of(unit, runs, rules)


def _shape(steps: RewritePlan) -> tuple[list[list[list[int]]], list[int]]:
    """What is rewritten together, section by section, and what changes its level, as places."""
    rewrites = [[[file.at for file in section] for section in rewrite] for rewrite in steps.rewrites]
    return rewrites, [file.at for file in steps.upgrades]


def test_runs_are_newest_first() -> None:
    files = [
        replace(_file(0, 0, (0, 1)), age=(-5, 1, 0, "a")),
        replace(_file(1, 0, (0, 1)), age=(-9, 3, 0, "b")),
        replace(_file(2, 0, (0, 1)), age=(-9, 2, 0, "c")),
        _file(3, 4, (5, 9)), _file(4, 2, (0, 9)), _file(5, 4, (0, 4)),
    ]  # fmt: skip
    assert [[file.at for file in run] for run in sorted_runs(files)] == [[2], [1], [0], [4], [5, 3]]


def test_files_with_keys_of_their_own_change_their_level_only() -> None:
    steps = _steps(_file(0, 0, (0, 3)), _file(1, 0, (4, 6)), _file(2, 5, (7, 9)))
    assert _shape(steps) == ([], [0, 1])
    assert steps.output_level == 5


def test_files_that_share_keys_are_merged() -> None:
    steps = _steps(_file(0, 0, (0, 3)), _file(1, 0, (3, 6)), _file(2, 5, (7, 9)), _file(3, 0, (20, 22)))
    assert _shape(steps) == ([[[0, 1]]], [3])
    nested = _steps(_file(0, 5, (0, 9)), _file(1, 0, (2, 3)), _file(2, 0, (5, 6)), _file(3, 0, (10, 10)))
    assert _shape(nested) == ([[[0, 1, 2]]], [3])


def test_small_files_are_merged_with_their_neighbours() -> None:
    small = [_file(at, 0, (at, at), 69) for at in range(3)]
    assert _shape(_steps(*small)) == ([[[0], [1], [2]]], [])
    assert _shape(_steps(small[0], _file(1, 0, (1, 1), 70), small[2])) == ([], [0, 1, 2])
    between = [small[0], small[1], _file(5, 0, (2, 2), 70), _file(6, 0, (3, 3), 1)]
    assert _shape(_steps(*between)) == ([[[0], [1]]], [5, 6])


def test_files_whose_rows_go_are_rewritten() -> None:
    deletes, vector = _file(0, 0, (0, 1), has_deletes=True), _file(1, 4, (2, 3), loses_rows=True)
    assert _shape(_steps(deletes, vector)) == ([[[0]], [[1]]], [])
    below = CompactUnit(((deletes,),), 3)
    assert _shape(_steps(deletes, vector, unit=below)) == ([], [0])
    every = replace(RULES, rewrite_all=True)
    assert _shape(_steps(_file(0, 0, (0, 1)), _file(1, 5, (2, 3)), rules=every)) == ([[[0]], [[1]]], [])


def test_files_that_leave_level_0_are_rewritten_where_older_rows_have_a_say() -> None:
    options = {"force-lookup": "true", "file.format.per.level": "3:orc", "num-levels": "6"}
    newest_counts = UniversalRules.of(TableOptions(options), 100, 3)
    merging = UniversalRules.of(TableOptions({**options, "sequence.field": "s"}), 100, 3)
    vectors = UniversalRules.of(TableOptions({"deletion-vectors.enabled": "true"}), 100, 3)
    file, older = _file(0, 0, (0, 9)), [_file(at, 5, (10 * at - 5, 10 * at - 1)) for at in (1, 2)]
    cases = [(newest_counts, 4, False), (newest_counts, 3, True), (merging, 4, True), (merging, 5, False)]
    for rules, level, rewritten in [*cases, (vectors, 4, False)]:
        steps = _steps(file, *older, rules=rules, unit=CompactUnit(((file,),), level))
        assert bool(steps.rewrites) == rewritten
        assert bool(steps.upgrades) != rewritten
        assert [file.at for file in steps.older] == [1]
        assert steps.drop_deletes == (rules is vectors or level == 5)
    deletes = replace(file, has_deletes=True)
    assert _steps(deletes, *older, rules=vectors, unit=CompactUnit(((deletes,),), 4)).rewrites
    assert not _steps(deletes, *older, rules=newest_counts, unit=CompactUnit(((deletes,),), 4)).rewrites


def test_deletes_go_where_nothing_is_older() -> None:
    files = _file(0, 0, (0, 3), has_deletes=True), _file(1, 1, (0, 6)), _file(2, 4, (7, 9))
    runs = sorted_runs(files)
    assert not _steps(*files, unit=CompactUnit(tuple(runs[:2]), 3)).drop_deletes
    assert _steps(*files, unit=CompactUnit(tuple(runs), 5)).drop_deletes
    assert _steps(*files[:2], unit=CompactUnit(tuple(runs[:2]), 3)).drop_deletes


def test_a_bucket_that_is_compacted_stays() -> None:
    files = [_file(0, 5, (0, 3), 1), _file(1, 5, (4, 6), 1)]
    assert pick_full(sorted_runs(files), RULES) is None
    assert pick_full([], RULES) is None
    files[1] = replace(files[1], loses_rows=True)
    assert _shape(_steps(*files)) == ([[[1]]], [])
    assert pick_full(sorted_runs(files[:1]), replace(RULES, highest_level=8)) is not None
    every = replace(RULES, rewrite_all=True)
    assert _shape(_steps(*files, rules=every)) == ([[[0]], [[1]]], [])


_FILES = st.lists(
    st.tuples(st.sampled_from([0, 0, 0, 1, 2, 5]), st.integers(0, 20), st.integers(0, 5), st.integers(1, 200)),
    min_size=1,
    max_size=12,
)


@given(_FILES, st.booleans(), st.integers(2, 6), st.booleans())
def test_what_is_picked_keeps_the_order_of_versions(
    shapes: list[tuple[int, int, int, int]], full: bool, trigger: int, lift: bool
) -> None:
    """What stays above is newer, what stays below is older, and the levels above 0 have no key twice."""
    files: list[LevelFile] = []
    for at, (level, low, width, size) in enumerate(shapes):
        keys = (low, low + width)
        if level and any(f.level == level and _overlap(f.key_range, keys) for f in files):
            continue
        files.append(_file(at, level, keys, size, has_deletes=at % 3 == 0))
    rules = replace(RULES, trigger=trigger, highest_level=trigger, lift_level_0=lift)
    runs = sorted_runs(files)
    unit = pick_full(runs, rules) if full else pick(runs, rules, 0)
    if unit is None:
        return
    steps = steps_of(unit, runs, rules)
    assert list(unit.runs) == runs[: len(unit.runs)]
    assert unit.output_level > 0
    kept = [file for file in files if file not in unit.files]
    assert all(file.level > unit.output_level for file in kept)
    touched = steps.files
    assert len({file.at for file in touched}) == len(touched)
    untouched = [file for file in unit.files if file not in touched]
    assert all(file.level == unit.output_level for file in untouched)
    assert steps.drop_deletes == all(file.level <= unit.output_level for file in files)
    _check_run(steps, untouched)


def _check_run(steps: RewritePlan, untouched: Sequence[LevelFile]) -> None:
    """The new run: sections in the order of keys within a rewrite, and no two parts of it with one key."""
    parts = [file.key_range for file in (*untouched, *steps.upgrades)]
    for rewrite in steps.rewrites:
        spans = [(min(f.key_range[0] for f in s), max(f.key_range[1] for f in s)) for s in rewrite]
        assert all(a[1] < b[0] for a, b in itertools.pairwise(spans))
        parts.append((spans[0][0], spans[-1][1]))
    parts.sort()
    assert all(a[1] < b[0] for a, b in itertools.pairwise(parts))


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]
