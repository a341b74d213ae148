"""Conventions of the package that ruff has no rule for."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import paimon_pyds
from paimon_pyds import Catalog, Table, spark
from paimon_pyds.base.row_stream import RowStream
from paimon_pyds.scan import Scan
from support.surface import NAMESPACES, calls_of, catalog_calls, namespace, spark_calls, table_calls

_USED = ("cdc.py", "errors.py", "table.py", "scan.py", "typing.py", "spark/index.py", "spark/maintenance.py")
"""The modules that users import from, besides packages."""


def _modules(having: str) -> Iterator[tuple[Path, str, ast.Module]]:
    """Modules of the package in whose text a pattern is found: where each is, its text, and what that parses to."""
    for path in sorted(Path(paimon_pyds.__file__).parent.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if re.search(having, text, re.M):
            yield path, text, ast.parse(text)


def test_packages_and_what_users_import_list_their_names() -> None:
    """A leading underscore says what is private within a module; these say what is public at all."""
    root = Path(paimon_pyds.__file__).parent
    modules = [path for path in root.rglob("*.py") if path.name != "__init__.py"]
    listing = [path for path in modules if re.search(r"^__all__\b", path.read_text(encoding="utf-8"), re.M)]
    assert {str(path.relative_to(root)) for path in listing} == set(_USED)


def _called_by_users() -> Iterator[tuple[str, Any]]:
    """What the Python reference of the documentation has."""
    for one in (
        Table,
        Scan,
        RowStream,
        Catalog,
        paimon_pyds.migrate,
        *(paimon_pyds.cdc.canal, paimon_pyds.cdc.debezium, paimon_pyds.cdc.maxwell),
        *map(namespace, NAMESPACES),
        *(spark.PaimonDataSource, spark.PaimonPydsDataSource),
        *spark_calls(spark).values(),
    ):
        if inspect.isfunction(one):
            yield one.__name__, one
            continue
        for method, value in vars(one).items():
            function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
            if inspect.isfunction(function) and not method.startswith("_"):
                yield f"{one.__name__}.{method}", function


_LOADS_PANDAS = {"to_numpy", "fill_null", "empty_table", "group_by"}
_WITH_PANDAS = {"arrays.py", "compat.py"}
_OF_FLAGS = re.compile(r"np\.as?array\([^()]*\.is_(null|valid)\(\)\)")


def test_arrow_is_converted_without_pandas() -> None:
    """Methods with which pyarrow imports pandas: functions of the package do the same without it."""
    found = []
    for path, _, tree in _modules("|".join((r"\bas?array\b", *_LOADS_PANDAS))):
        for node in () if path.name in _WITH_PANDAS else ast.walk(tree):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            name, owner = node.func.attr, node.func.value.id if isinstance(node.func.value, ast.Name) else ""
            loads = name in _LOADS_PANDAS and owner != "pc"
            if loads or (name in ("array", "asarray") and owner == "np" and _OF_FLAGS.fullmatch(ast.unparse(node))):
                found.append(f"{path.name}:{node.lineno} {ast.unparse(node)}")
    assert not found, "\n".join(found)


def test_what_users_call_lists_its_arguments() -> None:
    """Those with three or more; or says whose they are."""
    lacking = []
    for name, function in _called_by_users():
        arguments = [one for one in inspect.signature(function).parameters if one not in ("self", "cls")]
        text = inspect.getdoc(function) or ""
        if len(arguments) >= 3 and not re.search(r"arguments (are )?as", text, re.I):
            lacking += [f"{name}: {one}" for one in arguments if not re.search(rf"^ +\W*(.*, )?{one}\b.*:", text, re.M)]
    assert not lacking, "\n".join(lacking)


def test_architecture_names_modules_that_are_there() -> None:
    """Each path in ARCHITECTURE.md is one of the package; each room has its row there."""
    package = Path(paimon_pyds.__file__).parent
    text = (package.parent / "ARCHITECTURE.md").read_text(encoding="utf-8")
    paths = set(re.findall(r"`((?:[a-z_]+/)+[a-z_]*)`", text)) - {"tests/support", "tests/sql/expression"}
    gone = [path for path in paths if not (package / path).is_dir() and not (package / f"{path}.py").is_file()]
    rooms = {path.name for path in package.iterdir() if (path / "__init__.py").is_file()}
    assert (gone, {room for room in rooms if f"`{room}/`" not in text}) == ([], set())
    assert len(text.splitlines()) <= 100


def test_rooms_say_what_goes_in_and_out_and_name_their_modules() -> None:
    """Five lines or so in each room's docstring, of modules that are there; each folder in it has a sentence."""
    package = Path(paimon_pyds.__file__).parent
    defined = "".join(path.read_text(encoding="utf-8") for path in package.rglob("*.py"))
    for init in package.rglob("*/__init__.py"):
        text = ast.get_docstring(ast.parse(init.read_text(encoding="utf-8"))) or ""
        assert len(text) >= 20, init
        if init.parent.parent == package:
            assert re.search(r"\bIn: .*\bOut: ", text, re.S), init
            assert len(text.splitlines()) <= 8, init
        below = {path.stem for path in init.parent.rglob("*")} | {path.stem for path in package.iterdir()}
        for name in re.findall(r"(?<!`)`([a-z][a-z_.]*)`(?!`)", text):
            is_module = name.split(".")[0] in below or name.startswith("paimon_pyds.")
            last = name.rpartition(".")[2]
            assert is_module or f"def {last}(" in defined or re.search(rf"^    {last}\b", defined, re.M), (
                f"{init}: {name}"
            )


def test_contributing_names_folders_and_tests_that_are_there() -> None:
    root = Path(paimon_pyds.__file__).parents[1]
    text = (root / "CONTRIBUTING.md").read_text(encoding="utf-8")
    places = [root, root / "paimon_pyds"]
    paths = re.findall(r"`((?:[a-z_]+/)+[a-z_]*(?:\.py)?)`", text)
    gone = [name for name in paths if not any((p / name).exists() or (p / f"{name}.py").exists() for p in places)]
    modules = {path.stem for path in (root / "tests").rglob("*.py")}
    models = re.findall(r"`(\w+)`", "".join(re.findall(r"^\| `\w+/` \|[^|]*\|([^|]*)\|", text, re.M)))
    gone += [name for name in (*re.findall(r"`(test_\w+)`", text), *models) if name not in modules | {"Table"}]
    assert gone == []


def test_no_test_patches_a_private_constant() -> None:
    """What a test sets is an argument, or a constant that is public and has its unit in its name."""
    patched = re.compile(r'\b(?:setattr|patch|patch\.object)\(\s*(?:[\w.]+,\s*)?"(?:[\w.]+\.)?(_[A-Z][A-Z_]+)"')
    tests = Path(__file__).parents[1].rglob("test_*.py")
    found = {name for path in tests for name in patched.findall(path.read_text(encoding="utf-8"))}
    assert found == set()


def test_numbers_that_tune_say_why() -> None:
    """A number with a name has a line that says what it bounds; a group of them shares one."""
    bare = []
    for path, source, tree in _modules(r"^_?[A-Z][A-Z0-9_]* = [-(0-9]"):
        lines, body = source.splitlines(), tree.body
        for node, following in zip(body, [*body[1:], None], strict=True):
            if not isinstance(node, ast.Assign) or not re.fullmatch(r"_?[A-Z][A-Z0-9_]*", ast.unparse(node.targets[0])):
                continue
            is_number = re.fullmatch(r"[-0-9.e+*<()| ]+", ast.unparse(node.value))
            has_comment = "#" in lines[node.lineno - 1] or lines[node.lineno - 2].startswith("#")
            if is_number and not has_comment and not _says_something(following, node):
                bare.append(f"{path.name}:{node.lineno} {ast.unparse(node)}")
    assert not bare, "\n".join(bare)


def _says_something(following: ast.stmt | None, node: ast.stmt) -> bool:
    """Whether a text follows a statement, or another constant right below it, which may have the text."""
    if isinstance(following, ast.Assign | ast.AnnAssign):
        return following.lineno == (node.end_lineno or 0) + 1
    return isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)


def test_docstrings_of_what_users_call_have_one_form() -> None:
    """Sections for arguments, results and errors, in this order; only what takes no argument has none."""
    scans = {name: call for name, call in calls_of(Scan).items() if name not in Scan._INTERNAL}
    others = {**catalog_calls(), "migrate": paimon_pyds.migrate}
    for calls in (table_calls(), spark_calls(spark), scans, others):
        for name, call in calls.items():
            text, signature = inspect.getdoc(call) or "", inspect.signature(call)
            sections = re.findall(r"^(Args|Returns|Raises):$", text, re.M)
            assert sections == [s for s in ("Args", "Returns", "Raises") if s in sections], name
            assert "Args" in sections or not signature.parameters.keys() - {"self", "cls"}, name
            assert "Args" not in sections or signature.return_annotation == "None" or "Returns" in sections, name
            assert not re.search(r"\bRaises \w+Error", text), name
