"""Functions of Spark take the parameters of the table's methods."""

from __future__ import annotations

import inspect

import pytest

import paimon_pyds as pp
from paimon_pyds.compact.options import CompactOptions
from paimon_pyds.rowlevel.clauses import MergeOptions


@pytest.mark.parametrize(("name", "options"), [("compact", CompactOptions), ("merge", MergeOptions)])
def test_compact_and_merge_have_the_same_parameters_everywhere(name: str, options: type) -> None:
    spark = pytest.importorskip("paimon_pyds.spark")
    defaults = {p.name: p.default for p in inspect.signature(options).parameters.values()}
    method = inspect.signature(getattr(pp.Table, name)).parameters
    for function in (getattr(pp.Table, name), getattr(spark, name)):
        shown = inspect.signature(function).parameters
        assert {p: shown[p].default for p in defaults} == defaults
        assert {p: shown[p].kind for p in defaults} == {p: method[p].kind for p in defaults}
        assert all(f"    {p}: " in (inspect.getdoc(function) or "") for p in defaults)
