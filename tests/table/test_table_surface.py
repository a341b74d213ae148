"""What is public: few members on a table, namespaces for the rest, and nothing that no list names."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import paimon_pyds as pp
from paimon_pyds.cli import main as _main  # noqa: F401 - adds the commands
from paimon_pyds.cli.program import Group, commands, program
from support.surface import NAMESPACES, calls_of, namespace, public, spark_calls, table_calls

MEMBERS = {
    "tags": "create create_due delete expire list rename",
    "branches": "create delete fast_forward list rename",
    "snapshots": "diff expire expire_changelogs latest list rollback",
    "index": "advise advise_partition build build_global cost drop_global dump evaluate layout verify",
    "maintenance": (
        "analyze clear_consumers clone compact_manifests consumers drop_partitions expire_partitions "
        "mark_partitions_done publish_iceberg purge remove_orphan_files remove_unexisting_files repair rescale "
        "reset_consumer statistics verify"
    ),
    "system": "audit_log binlog describe_options read scan",
}


def test_a_table_has_at_most_45_members() -> None:
    assert len(public(pp.Table)) <= 45
    assert set(NAMESPACES) < set(public(pp.Table))


@pytest.mark.parametrize("name", NAMESPACES)
def test_a_namespace_has_these_calls(name: str) -> None:
    assert public(namespace(name)) == MEMBERS[name].split()
    for call in calls_of(namespace(name)).values():
        assert call.__doc__


def test_a_namespace_shows_its_table_and_its_calls(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", {"id": [1, 2]})
    for name in NAMESPACES:
        space = getattr(table, name)
        assert set(MEMBERS[name].split()) <= set(dir(space))
        assert not [member for member in dir(space) if member.startswith("_") and not member.startswith("__")]
        assert repr(space) == f"<{name} of {table!r}: {', '.join(MEMBERS[name].split())}>"


def test_a_namespace_pickles_with_its_table(tmp_path: Path) -> None:
    table = pp.Table.create(tmp_path / "t", {"id": [1, 2]})
    assert [s.id for s in pickle.loads(pickle.dumps(table.snapshots)).list()] == [1]


def test_the_package_has_at_most_17_names() -> None:
    assert len(public(pp)) <= 17
    assert set(pp.__all__) <= set(dir(pp))


def test_each_name_that_the_package_lists_is_there() -> None:
    pytest.importorskip("pyspark")
    assert all(hasattr(pp, name) for name in dir(pp))


@pytest.mark.parametrize(("version", "found"), [("", "pyspark is not installed"), ("3.5.1", "this is pyspark 3.5.1")])
def test_without_spark_4_its_names_say_what_they_need(version: str, found: str, tmp_path: Path) -> None:
    if version:
        (tmp_path / "pyspark" / "sql").mkdir(parents=True)
        (tmp_path / "pyspark" / "__init__.py").write_text(f"__version__ = {version!r}\n")
        (tmp_path / "pyspark" / "sql" / "__init__.py").write_text("")
    blocked = "" if version else "sys.modules['pyspark'] = None\n"
    for use in ("paimon_pyds.register", "paimon_pyds.spark.write", "paimon_pyds.spark.maintenance"):
        code = f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\n{blocked}import paimon_pyds\n{use}"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert done.stderr.splitlines()[-1] == (
            f"ModuleNotFoundError: paimon_pyds.spark needs Spark 4.0 or later, and {found}: "
            "pip install 'paimon-pyds[spark]'"
        )


def test_spark_has_what_workers_can_do_under_the_same_names() -> None:
    """Each call that takes an executor, with the same arguments in the same order, and each of them explained."""
    spark = pytest.importorskip("paimon_pyds.spark")
    pytest.importorskip("pyspark")
    theirs = spark_calls(spark)
    for name, call in table_calls().items():
        ours = inspect.signature(call).parameters
        if "executor" not in ours:
            continue
        known = inspect.signature(theirs[name]).parameters
        assert [p for p in known if p not in ("spark", "path", "branch", "storage_options")] == [
            p for p in ours if p not in ("self", "executor")
        ], name
        assert all((known[p].default, known[p].kind) == (ours[p].default, ours[p].kind) for p in known if p in ours)
        text = inspect.getdoc(theirs[name]) or ""
        assert all(f"\n    {p}: " in text for p in known), name
    assert set(theirs) - set(table_calls()) == {"write", "bucket", "foreach_batch", "register"}


# ------------------------------------------------------------------------------------------------------- command line

ONLY_COMMANDS = {
    "describe", "tables", "rename", "drop", "create-database", "drop-database", "migrate", "iceberg",
    "search", "sql", "repair-table",
}  # fmt: skip
"""Commands on catalogs and files, what a table shows by ``print``, and what a scan can do."""
OTHER_NAMES = {
    "append": {"inputs", "rowkind_column", "create", "partition_by", "primary_key"},
    "overwrite": {"inputs", "rowkind_column", "missing_columns", "create", "partition_by", "primary_key"},
    "create": {"columns"}, "update": {"set"},
    "alter": {
        "set", "unset", "drop_column", "rename_column", "change_type", "allow_null", "forbid_null", "column_comment",
        "column_default", "move_column", "add_columns", "comment",
    },
    "index cost": {"filter"}, "index advise": {"filter"}, "index layout": {"before", "html"},
    "index advise-partition": {"filter"},
    "snapshots diff": {"summary", "exit_code"}, "explain": {"html"}, "system read": {"names", "warehouse"},
}  # fmt: skip
"""Arguments of commands that are files, given one by one, or about what is shown."""


def test_commands_have_the_names_and_arguments_of_python() -> None:
    there = {name: command for name, command in commands(program) if not isinstance(command, Group)}
    calls = {name.replace(".", " ").replace("_", "-"): call for name, call in table_calls().items()}
    below = {name for name in calls if " " in name}
    others = {"system scan", "system describe-options", "maintenance publish-iceberg"}
    assert below - set(there) == others, "which system read, describe and iceberg do"
    assert set(there) - set(calls) == ONLY_COMMANDS
    scan = set(inspect.signature(pp.Table.scan).parameters)
    for name in set(there) & set(calls):
        given = {p.name for p in there[name].params if getattr(p, "section", "") in ("Arguments", "Options")}
        known = set(inspect.signature(calls[name]).parameters)
        known |= scan if "scan" in known or name.startswith("system") else set()
        assert given - known - OTHER_NAMES.get(name, set()) - {"table_path", "yes", "how"} == set(), name
