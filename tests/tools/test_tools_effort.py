"""What is left out of `make test`."""

from __future__ import annotations

from itertools import product

from support.effort import LONG, covering


def test_of_a_matrix_each_value_is_met() -> None:
    cells = list(product("abc", "xy", "12"))
    chosen = [cells[at] for at in covering(cells)]
    assert [set(values) for values in zip(*chosen, strict=True)] == [set("abc"), set("xy"), set("12")]
    assert len(chosen) == (len(cells) if LONG else 3)


def test_of_one_list_and_of_tests_without_parameters_all_are_chosen() -> None:
    assert covering([["a"], ["b"], ["c"]]) == [0, 1, 2]
    assert covering([[]]) == [0]
