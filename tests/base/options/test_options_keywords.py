"""Arguments have one name everywhere: in Python, in functions of Spark, on the command line, in options of Spark."""

from __future__ import annotations

import inspect
import re
import shutil
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.row_stream import RowStream
from paimon_pyds.cli.main import main
from paimon_pyds.engine.compact.options import CompactOptions
from paimon_pyds.engine.rowlevel.clauses import MergeOptions
from paimon_pyds.ops.explain.explain import Explanation
from support.surface import catalog_calls, spark_calls, table_calls

TRIED = ("index.cost", "index.advise", "index.advise_partition")
"""What takes filters to try, in a list, and a condition on the partitions that are looked into."""
CALLS: dict[str, tuple[Any, ...]] = {
    "count": (), "exists": (), "distinct": ("id",), "min": ("id",), "max": ("id",), "sum": ("id",), "top_n": ("id, 9",),
    "scan": (), "explain": (), "lookup": (), "delete": (), "update": ({"id": "id + 1"},), "compact": (),
    "maintenance.drop_partitions": (), "index.build": (), "index.layout": (), "index.dump": (), "index.verify": (),
    "maintenance.rescale": (4,), "maintenance.clone": (), "system.audit_log": (), "system.read": ("files",),
    "system.scan": ("files",),
}  # fmt: skip
"""The methods of tables that take a condition, with what they need besides."""


@pytest.mark.parametrize(("name", "options"), [("compact", CompactOptions), ("merge", MergeOptions)])
def test_compact_and_merge_have_the_same_parameters_everywhere(name: str, options: type) -> None:
    spark = pytest.importorskip("paimon_pyds.spark")
    of_streams = {"tiers"}  # what follows their commits gives it, and no user
    parameters = inspect.signature(options).parameters
    defaults = {name: p.default for name, p in parameters.items() if name not in of_streams}
    method = inspect.signature(getattr(pp.Table, name)).parameters
    for function in (getattr(pp.Table, name), getattr(spark, name)):
        shown = inspect.signature(function).parameters
        assert {p: shown[p].default for p in defaults} == defaults
        assert {p: shown[p].kind for p in defaults} == {p: method[p].kind for p in defaults}
        assert all(f"    {p}: " in (inspect.getdoc(function) or "") for p in defaults)


def _names(call: Callable[..., Any]) -> set[str]:
    return set(inspect.signature(call).parameters)


def test_conditions_are_named_where_everywhere() -> None:
    spark = pytest.importorskip("paimon_pyds.spark")
    owners = [("Table", table_calls()), ("Catalog", catalog_calls()), ("spark", spark_calls(spark))]
    found = {f"{owner}.{name}": call for owner, calls in owners for name, call in calls.items()}
    assert not [name for name, call in found.items() if _names(call) & {"which", "condition", "partitions", "filter_"}
                if name != "Table.maintenance.mark_partitions_done"]  # fmt: skip
    assert not [name for name, call in found.items() if "filter" in _names(call) and "where" not in _names(call)]
    takes = {name for name, call in found.items() if "where" in _names(call)}
    assert {name.removeprefix("Table.") for name in takes if name.startswith("Table.")} == {
        *CALLS, *TRIED, "index.evaluate", "follow",
    } - {"lookup"}  # fmt: skip
    assert {name for name in takes if not name.startswith("Table.")} == {
        "Catalog.system.read", "Catalog.system.scan", "spark.compact", "spark.delete", "spark.update",
        "spark.index.build", "spark.index.verify", "spark.maintenance.rescale",
    }  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table in partitions, some of whose files have an index."""
    path = tmp_path_factory.mktemp("made") / "t"
    options = {"bucket": "2", "bucket-key": "id"}
    table = pp.Table.create(path, "id BIGINT, p INT", partition_by=["p"], options=options)
    table.append({"id": [1, 3], "p": [1, 2]})
    table.alter({"file-index.bitmap.columns": "id"})
    table.append({"id": [2, 4], "p": [1, 2]})
    return path


def _copy(made: Path, path: Path) -> pp.Table:
    return pp.Table.open(shutil.copytree(made, path / "t"))


def _keyed(path: Path) -> pp.Table:
    return pp.Table.create(path / "k", {"id": [1, 2], "p": [1, 2]}, primary_key=["id"], options={"bucket": "1"})


def _answer(found: Any) -> Any:
    """What a call found, as a value that compares: without times, and without places."""
    if isinstance(found, RowStream):
        found = found.to_arrow()
    if isinstance(found, Explanation):
        return [step.rows for step in found.steps]
    if isinstance(found, list):
        return len(found)
    return found if isinstance(found, pa.Table) else re.sub(r"[0-9.,]+ m?s\b|/\S+", "", str(found))


@pytest.mark.parametrize("name", CALLS)
def test_filter_is_another_name_for_where(name: str, made: Path, tmp_path: Path) -> None:
    def called(number: str, **given: Any) -> Any:
        path = tmp_path / number
        table = _keyed(path) if name == "lookup" else _copy(made, path)
        needed = {"lookup": ([1, 2],), "maintenance.clone": (path / "copy",)}.get(name, CALLS[name])
        return _answer(attrgetter(name)(table)(*needed, **given))

    condition = "level < 0" if name in ("system.read", "system.scan") else "p = 9"
    found = called("1", where=condition)
    assert found == called("2", filter=condition)
    if name not in ("delete", "maintenance.drop_partitions"):  # which need one
        assert found != called("3")
    with pytest.raises(pp.errors.OptionError, match="where and filter are two names of one condition"):
        called("5", where=condition, filter=condition)


def test_a_catalog_takes_both_names(tmp_path: Path) -> None:
    catalog = pp.Catalog(tmp_path)
    catalog.create_table("default.a", "id INT")
    catalog.create_table("default.b", "id INT")
    assert catalog.system.read("sys.tables", where="table_name = 'a'") == catalog.system.read(
        "sys.tables", filter="table_name = 'a'"
    )
    with pytest.raises(pp.errors.OptionError, match="two names of one condition"):
        catalog.system.read("sys.tables", "table_name = 'a'", filter="table_name = 'a'")


@pytest.mark.parametrize("call", ["delete", "maintenance.drop_partitions"])
def test_what_removes_rows_needs_a_condition(call: str, made: Path, tmp_path: Path) -> None:
    table = _copy(made, tmp_path)
    with pytest.raises(pp.errors.OptionError, match="condition"):
        attrgetter(call)(table)()
    assert table.count() == 4


COMMANDS = [
    "scan T", "count T", "exists T", "distinct T id", "min T id", "max T id", "sum T id", "explain T", "index layout T",
    "system read T files", "delete T", "update T --set id=7", "compact T", "maintenance rescale T 4",
    "maintenance clone T COPY", "maintenance drop-partitions T --yes", "index dump T", "index verify T",
    "index build T",
]  # fmt: skip


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_take_both_names(
    line: str, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    condition = "level >= 0" if line.startswith("system") else "p = 1"

    def run(number: str, *more: str) -> int:
        named = {"T": _copy(made, tmp_path / number).path, "COPY": f"copy-{number}"}
        return main([*(named.get(word, word) for word in line.split()), *more])

    found = 1 if line.startswith("index verify") else 0  # files without an index are found
    assert run("1", "--where", condition) == run("2", "--filter", condition) == found
    assert run("3", "--where", condition, "--filter", condition) == 2
    error = capfd.readouterr().err.splitlines()[-1]
    assert "--where and --filter are two names of one condition, and it is given twice" in error
    assert run("4", "--where", condition, "--where", condition) == 2
