"""Build the documentation: ``python tools/docs.py DIRECTORY``. The pages of docs/, and a reference made of the code.

Sphinx with MyST (Markdown) and Furo (a theme that brings its fonts and scripts along), since MkDocs has had no release
since 2024 and its theme Material ends in May 2027. No network is needed, and a warning is an error.
"""

from __future__ import annotations

import gc
import inspect
import re
import shutil
import sys
import tempfile
from pathlib import Path
from pydoc import locate

import click
from sphinx.cmd.build import main as sphinx

from paimon_pyds import errors
from paimon_pyds.base.options import OPTIONS
from paimon_pyds.base.options.option import Option, Status
from paimon_pyds.cli import main as _main  # noqa: F401 - adds the commands
from paimon_pyds.cli.program import Group, program
from paimon_pyds.cli.program import commands as program_commands

ROOT = Path(__file__).resolve().parents[1]
PLAIN_PYTHON = {
    "Table": "paimon_pyds.Table",
    "Tags: table.tags": "paimon_pyds.namespaces.tags.Tags",
    "Branches: table.branches": "paimon_pyds.namespaces.branches.Branches",
    "Snapshots: table.snapshots": "paimon_pyds.namespaces.snapshots.Snapshots",
    "Indexes and layout: table.index": "paimon_pyds.namespaces.index.Index",
    "Maintenance: table.maintenance": "paimon_pyds.namespaces.maintenance.Maintenance",
    "System tables: table.system": "paimon_pyds.namespaces.system.System",
    "Scan": "paimon_pyds.scan.Scan",
    "Scans as frames and streams": "paimon_pyds.base.row_stream.RowStream",
    "Catalog": "paimon_pyds.Catalog",
    "System tables: catalog.system": "paimon_pyds.catalog.system.CatalogSystem",
    "Explanation": "paimon_pyds.ops.explain.explain.Explanation",
    "Clauses of a merge": ("paimon_pyds.Update", "paimon_pyds.Insert", "paimon_pyds.Delete"),
    "Progress": ("paimon_pyds.ProgressEvent",),
}
ABOUT_STATUS = {
    Status.HONOURED: "does what it does in Java Paimon.",
    Status.IGNORABLE: "changes nothing here; the reason stands beside it.",
    Status.REFUSED: "values other than the default are refused, for the reason beside it.",
}


def api() -> str:
    """The reference of classes and functions, which Sphinx fills from docstrings."""
    from paimon_pyds import cdc, spark

    lines = ["# Python reference", ""]
    for heading, names in PLAIN_PYTHON.items():
        lines += [f"## {heading}", ""]
        for name in [names] if isinstance(names, str) else names:
            internal = sorted(getattr(locate(name), "_INTERNAL", ()))
            without = [f":exclude-members: {', '.join(internal)}"] if internal else []
            lines += _directive("autoclass", name, ":members:", *without)
    lines += [*_directive("autofunction", "paimon_pyds.show_progress"), "## On Spark", ""]
    lines += _directive("autofunction", "paimon_pyds.register")
    for name in spark.__all__:
        member = getattr(spark, name)
        calls = [f"{name}.{call}" for call in member.__all__] if inspect.ismodule(member) else [name]
        if name != "register" and not inspect.isclass(member):
            lines += [line for call in calls for line in _directive("autofunction", f"paimon_pyds.spark.{call}")]
    lines += ["## Change data capture: paimon_pyds.cdc", ""]
    for name in cdc.__all__:
        kind = ["autoclass", ":members:"] if name[0].isupper() else ["autofunction"]
        lines += _directive(kind[0], f"paimon_pyds.cdc.{name}", *kind[1:])
    return "\n".join(lines)


def _directive(kind: str, name: str, *options: str) -> list[str]:
    return ["```{eval-rst}", f".. {kind}:: {name}", *(f"   {o}" for o in options), "```", ""]


def options() -> str:
    """The reference of table options."""
    lines = ["# Table options", "", "The options of Java Paimon, with its defaults.", ""]
    for status, about in ABOUT_STATUS.items():
        chosen = sorted((o for o in OPTIONS.values() if o.status is status), key=lambda o: o.key)
        lines += [f"## {status.value.capitalize()}", "", f"Such an option {about}", ""]
        lines += ["| option | values | meaning |", "| --- | --- | --- |", *map(_option_row, chosen), ""]
    return "\n".join(lines)


def _option_row(option: Option) -> str:
    default = "" if option.default is None else f"; default `{option.default}`"
    kind = ", ".join(f"`{c}`" for c in option.choices) or option.kind.name.lower()
    facts = [option.doc, option.why, "only with a primary key" if option.primary_key_only else ""]
    facts += ["fixed once there is a snapshot" if option.immutable else ""]
    return f"| `{option.key}` | {kind}{default} | {'; '.join(_cell(f) for f in facts if f)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def commands() -> str:
    """The reference of the command line: each command's help."""
    lines = ["# Commands", ""]
    root = click.Context(program, info_name="paimon-pyds")
    for name, command in program_commands(program):
        if not isinstance(command, Group):
            context = click.Context(command, info_name=name, parent=root, max_content_width=100, terminal_width=100)
            lines += [f"## {name}", "", "```text", command.get_help(context).rstrip(), "```", ""]
    return "\n".join(lines)


def errors_page() -> str:
    """The reference of errors: the tree below PaimonError."""
    lines = ["# Errors", "", "All errors that are raised on purpose, below `paimon_pyds.errors.PaimonError`.", ""]

    def add(kind: type, depth: int) -> None:
        about = " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].split())
        lines.append(f"{'    ' * depth}- `{kind.__name__}`: {_cell(re.sub(r'``', '`', about))}")
        for below in kind.__subclasses__():
            if below.__module__ == errors.__name__:
                add(below, depth + 1)

    add(errors.PaimonError, 0)
    return "\n".join([*lines, ""])


def build(target: Path) -> int:
    """Build everything into a directory; the exit status of Sphinx."""
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "docs"
        shutil.copytree(ROOT / "docs", source, ignore=shutil.ignore_patterns("__pycache__"))
        reference = source / "reference"
        reference.mkdir()
        pages = {"api": api(), "options": options(), "commands": commands(), "errors": errors_page()}
        for name, text in pages.items():
            (reference / f"{name}.md").write_text(text, encoding="utf-8")
        for page in source.glob("*.md"):  # files beside docs/ are shown in the repository, and not built
            text = re.sub(r"\[([^\]]+)\]\(\.\./([^)]+)\)", r"\1 (`\2`)", page.read_text(encoding="utf-8"))
            page.write_text(text, encoding="utf-8")
        return int(sphinx(["-q", "-W", "--keep-going", "-E", "-b", "html", str(source), str(target)]))


if __name__ == "__main__":
    gc.disable()  # nearly all stays until the end, and to look for what does not is a fifth of the work
    status = build(Path(sys.argv[1]))
    if status == 0:
        print(f"open {Path(sys.argv[1]) / 'index.html'}")
    sys.exit(status)
