"""Which files a compaction picks: Java's rules, and where this package's differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from paimon_pyds.engine.compact.append_plan import LiveFile, PickRules, pick_bucket, pick_unaware

MB = 1 << 20
RULES = PickRules(
    target_size=100 * MB,
    target_rows=2**63 - 1,
    open_cost=4 * MB,
    min_files=5,
    small_share=0.7,
    deleted_share=0.2,
)
FULL, EVERY = replace(RULES, full=True), replace(RULES, every=True)


def _files(*sizes: int) -> list[LiveFile]:
    """Files of so many MB, with 1,000 rows each, in the order of their sequence numbers."""
    return [LiveFile(i, size * MB, 1000, i * 1000) for i, size in enumerate(sizes)]


def _marked(file: LiveFile, deleted: int | None, vector_file: str = "v") -> LiveFile:
    return replace(file, vector_file=vector_file, deleted=deleted)


def _at(groups: Sequence[Sequence[LiveFile]]) -> list[list[int]]:
    return [[file.at for file in group] for group in groups]


def test_fewer_small_files_than_the_minimum_stay() -> None:
    assert pick_unaware(_files(1, 1, 1, 1), RULES) == []
    assert _at(pick_unaware(_files(1, 1, 1, 1, 1), RULES)) == [[0, 1, 2, 3, 4]]
    assert _at(pick_unaware(_files(1, 1), FULL)) == [[0, 1]]
    assert pick_unaware(_files(1), FULL) == []
    assert pick_unaware([], RULES) == []


def test_a_file_is_small_below_seven_tenths_of_the_target() -> None:
    assert pick_unaware(_files(70, 70, 71, 99, 100, 500), RULES) == []
    assert _at(pick_unaware(_files(69, 69, 69, 69, 69, 70), RULES)) == [[0, 1, 2]]  # 3 x 73 MB are two full files
    many_rows = [replace(f, rows=700) for f in _files(1, 1, 1, 1, 1)]
    assert pick_unaware(many_rows, replace(RULES, target_rows=1000)) == []
    assert _at(pick_unaware(many_rows, replace(RULES, target_rows=1001))) == [[0, 1, 2]]


def test_bins_take_the_smallest_first_and_end_at_two_full_files() -> None:
    files = _files(60, 10, 50, 20, 40, 30, 1)
    groups = _at(pick_unaware(files, RULES))
    # 1 + 10 + 20 + 30 + 40 + 50 MB and 4 MB for each make 175; with 60 MB they make 239.
    assert groups == [[0, 1, 2, 3, 4, 5, 6]]
    assert _at(pick_unaware(_files(60, 60, 60, 60), RULES)) == [[0, 1, 2, 3]]
    assert _at(pick_unaware(_files(*[1] * 100), RULES)) == [list(range(40)), list(range(40, 80)), list(range(80, 100))]
    assert _at(pick_unaware(_files(*[1] * 100), FULL)) == [list(range(100))]


def test_deleted_rows_count_from_the_threshold_on() -> None:
    large = _files(100)[0]
    assert pick_unaware([_marked(large, 200)], RULES) == []
    assert _at(pick_unaware([_marked(large, 201)], RULES)) == [[0]]
    assert _at(pick_unaware([_marked(large, None)], RULES)) == [[0]]
    assert _at(pick_unaware([_marked(large, 1)], FULL)) == [[0]]
    small = _files(1)[0]
    assert _at(pick_unaware([_marked(small, 1)], RULES)) == [[0]]
    assert pick_unaware([small], EVERY) != []


def test_files_of_one_vector_file_go_together() -> None:
    files = [_marked(f, 1, f"v{i % 2}") for i, f in enumerate(_files(68, 68, 68, 68, 68, 68, 1, 1))]
    assert _at(pick_unaware(files, RULES)) == [[0, 2, 4, 6], [1, 3, 5, 7]]
    assert _at(pick_unaware(files, replace(RULES, target_size=120 * MB))) == [list(range(8))]
    mixed = [*files[:2], *_files(1, 1, 1, 1, 1, 1, 1)[2:]]
    assert _at(pick_unaware(mixed, RULES)) == [[0, 1], [2, 3, 4, 5, 6]]


def test_buckets_keep_the_order_of_their_rows() -> None:
    assert _at(pick_bucket(_files(100, 1, 1, 1, 100), RULES)) == [[1, 2, 3]]
    assert _at(pick_bucket(_files(1, 100, 1, 1), RULES)) == [[0, 1, 2, 3]]
    assert pick_bucket(_files(1, 100, 100, 1), RULES) == []  # as many large ones as small ones
    assert pick_bucket(_files(100, 1, 1), RULES) == []  # two are too few
    assert _at(pick_bucket(_files(100, 1, 1), FULL)) == [[1, 2]]
    assert pick_bucket(_files(100, 1), FULL) == []
    assert _at(pick_bucket(list(reversed(_files(1, 1, 1))), RULES)) == [[0, 1, 2]]
    assert _at(pick_bucket(_files(100, 100), EVERY)) == [[0, 1]]
    assert pick_bucket([], RULES) == []


def test_deleted_rows_in_buckets() -> None:
    large, small = _files(100, 1)
    assert pick_bucket([_marked(large, 200)], RULES) == []
    assert _at(pick_bucket([_marked(large, 201)], RULES)) == [[0]]
    assert _at(pick_bucket([large, _marked(small, 1)], RULES)) == [[1]]
    assert pick_bucket([large, small], RULES) == []


@given(
    st.lists(st.tuples(st.integers(1, 300), st.integers(0, 1000), st.sampled_from([None, "a", "b"])), max_size=40),
    st.booleans(),
    st.booleans(),
)
def test_no_file_is_picked_twice_and_what_must_go_is_picked(
    given_: list[tuple[int, int, str | None]], full: bool, every: bool
) -> None:
    rules = replace(RULES, full=full, every=every)
    files = [
        LiveFile(i, size * MB, 1000, i * 1000, vector, deleted if vector else 0)
        for i, (size, deleted, vector) in enumerate(given_)
    ]
    for pick in (pick_unaware, pick_bucket):
        groups = pick(files, rules)
        picked = [file.at for group in groups for file in group]
        assert len(picked) == len(set(picked))
        assert all(group for group in groups)
        must = [f.at for f in files if every or rules.many_deleted(f)]
        assert set(must) <= set(picked)
        alone = [group for group in groups if len(group) == 1]
        assert all(every or group[0].vector_file is not None for group in alone)
    for group in pick_bucket(files, rules):
        at = [file.at for file in group]
        assert at == list(range(at[0], at[-1] + 1))


@given(st.lists(st.integers(1, 300), max_size=60))
def test_what_was_merged_is_not_merged_for_ever(sizes: list[int]) -> None:
    """A table that nobody writes to comes to rest."""
    for pick in (pick_unaware, pick_bucket):
        files = _files(*sizes)
        for _ in range(20):
            groups = pick(files, RULES)
            if not groups:
                break
            gone = {file.at for group in groups for file in group}
            made = []
            for group in groups:
                left = sum(file.size for file in group)
                while left > 0:
                    made.append((group[0].sequence, min(left, RULES.target_size)))
                    left -= RULES.target_size
            stay = [(file.sequence, file.size) for file in files if file.at not in gone]
            files = [LiveFile(i, size, 1000, seq) for i, (seq, size) in enumerate(sorted([*stay, *made]))]
        assert pick(files, RULES) == []
