"""README and the pages of docs/ say what is so: their snippets run, in order, and show what the pages show.

A page is one session, in a directory of its own, with the tables of `make demo` under warehouse/. Blocks that are
marked ``python`` and ``sql`` are executed, ``$ paimon-pyds …`` in ``console`` blocks, too; a ``text`` block that
follows is what they must show. An ellipsis stands for anything, and one time for another. A block that can't run here
follows a comment that says why (``<!-- not executed: … -->``), as does a section with such blocks only, and its Python
is compiled.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import paimon_pyds as pp
from paimon_pyds.cli.main import main
from support.fixtures import ROOT
from support.snippets import run_typed
from support.surface import NAMESPACES, calls_of, namespace, spark_calls

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_REASON = re.compile(r"<!-- not executed: (\S[^>]*) -->\n+$")
_REASON_OF_SECTION = re.compile(r"<!-- no block of this section is executed here: (\S[^>]*) -->(?!.*^#)", re.M | re.S)
_TIME = re.compile(r"\b\d[\d,.]*\s?(?:ms|µs|s)\b")
LANGUAGES = {"python", "sql", "console", "text", "sh"}


class Block(NamedTuple):
    line: int
    language: str
    code: str
    shown: str | None
    reason: str | None


def blocks(text: str) -> Iterator[Block]:
    """The blocks of a page; one of text belongs to the one before it, where nothing else is between them."""
    found = list(_BLOCK.finditer(text))
    for n, match in enumerate(found):
        before = text[: match.start()]
        reason = _REASON.search(before) or _REASON_OF_SECTION.search(before)
        after = found[n + 1] if n + 1 < len(found) else None
        shows = after is not None and after[1] == "text" and not text[match.end() : after.start()].strip()
        line = text.count("\n", 0, match.start()) + 1
        yield Block(line, match[1], match[2], after[2] if after and shows else None, reason and reason[1])


class Reader:
    """Types what a page has.

    ``directory``: where it is typed; its ``warehouse/`` is spelled out for a Spark that was started elsewhere.
    """

    def __init__(self, directory: Path, names: dict[str, Any]) -> None:
        self._directory = str(directory)
        self._names = names

    def see(self, block: Block) -> str:
        """What the block shows. Errors of the command line are shown, others raised."""
        out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            {"python": self._python, "sql": self._sql}[block.language](self._typed(block.code))
        return self._shown(out.buffer.getvalue())  # type: ignore[attr-defined]

    def _typed(self, code: str) -> str:
        if "spark" not in self._names:
            return code
        return re.sub(r"(?<![\w/])warehouse(?=/|\"\))", f"{self._directory}/warehouse", code)

    def _shown(self, data: bytes) -> str:
        return data.decode().replace(f"{self._directory}/", "")

    def _python(self, code: str) -> None:
        value = run_typed(code, self._names)
        if value is not None:
            print(value)

    def _sql(self, code: str) -> None:
        for statement in filter(str.strip, code.split(";")):
            found = self._names["spark"].sql(statement)
            if found.columns:
                print("\n".join(" | ".join(map(str, row)) for row in found.collect()))

    def commands(self, block: Block) -> Iterator[tuple[str, str, str]]:
        """Each command of a console block, what the page shows of it, and what it shows."""
        for part in re.split(r"^\$ ", block.code, flags=re.MULTILINE)[1:]:
            line, _, shown = part.partition("\n")
            data = b""
            for command in line.split(" | "):
                data = self._run(shlex.split(command), data)
            yield line, shown.rstrip("\n"), self._shown(data).rstrip("\n")

    def _run(self, words: list[str], data: bytes) -> bytes:
        assert words[0] == "paimon-pyds", f"only paimon-pyds runs here, not {words[0]}"
        out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
        before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(data), encoding="utf-8")
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out), contextlib.suppress(SystemExit):
                main(words[1:])
        finally:
            sys.stdin = before
        return out.buffer.getvalue()  # type: ignore[attr-defined]


def same(shown: str, seen: str) -> bool:
    """Whether a page shows what is seen, but for times, blanks at the end of lines, and what an ellipsis stands for."""
    wanted, got = (
        _TIME.sub("0 s", "\n".join(line.rstrip() for line in text.strip("\n").split("\n"))) for text in (shown, seen)
    )
    return re.fullmatch(".*".join(map(re.escape, wanted.split("…"))), got, re.DOTALL) is not None


def differences(page: Path, reader: Reader) -> list[str]:
    """What a page says that is not so."""
    wrong = []
    for block in blocks(page.read_text(encoding="utf-8")):
        where = f"{page.name}:{block.line}"
        assert block.language in LANGUAGES, f"{where}: a block of {block.language or 'nothing'}"
        if block.reason is not None or block.language in ("text", "sh"):
            if block.language == "python":
                ast.parse(re.sub(r"^%.*$", "", block.code, flags=re.MULTILINE))
            continue
        try:
            if block.language == "console":
                pairs = list(reader.commands(block))
            else:
                pairs = [(block.code, block.shown or "", reader.see(block))]
        except Exception as error:  # noqa: BLE001 - the place in the page is worth more than the trace
            wrong.append(f"{where}: {block.code}\n{type(error).__name__}: {error}")
            continue
        wrong += [f"{where}: {t}\npage: {s}\nseen: {g}" for t, s, g in pairs if s and not same(s, g)]
    return wrong


def needs_spark(page: Path) -> bool:
    return any(
        block.language == "sql" or (block.language == "python" and re.search(r"\b(spark|df)\b", block.code))
        for block in blocks(page.read_text(encoding="utf-8"))
        if block.reason is None
    )


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables that pages speak of."""
    from demo import flights, shop, story

    root = tmp_path_factory.mktemp("pages") / "warehouse"
    options = {key: value for key, value in story.OPTIONS.items() if key != "partition-by"}
    data = flights.load(progress=False)
    pp.Table.create(root / "travel.db" / "flights", data.schema, (), ["month"], options).append(data)
    shop.write(root)
    return root


def of_page(page: Path) -> Any:
    marks = [pytest.mark.spark, pytest.mark.slow] if needs_spark(page) else []
    return pytest.param(page, id=page.stem, marks=marks)


@pytest.mark.parametrize("page", [of_page(page) for page in PAGES])
def test_page(page: Path, warehouse: Path, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: Any) -> None:
    pytest.importorskip("polars")
    shutil.copytree(warehouse, tmp_path / "warehouse")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    if needs_spark(page):
        names["spark"] = request.getfixturevalue("spark")
    wrong = differences(page, Reader(tmp_path, names))
    assert not wrong, "\n\n".join(wrong)


def test_a_difference_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "p.md"
    page.write_text(
        "```python\n1 + 1\n```\n```text\n2\n```\n```python\n1 + 1\n```\n\n```text\n3\n```\n"
        "<!-- not executed: elsewhere -->\n```python\nraise ValueError\n```\n"
        "```console\n$ paimon-pyds count nowhere\n5\n```\n```python\nraise KeyError\n```\n"
    )
    wrong = differences(page, Reader(tmp_path, {}))
    assert [text.split(": ")[0] for text in wrong] == ["p.md:7", "p.md:18", "p.md:22"]


def test_tables_lie_where_any_user_may_write() -> None:
    for page in PAGES:
        assert not re.search(r"(?<![\w.])/wh\b", page.read_text(encoding="utf-8")), page.name


def test_every_link_of_a_page_leads_to_a_file() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists() or target.startswith("reference/"), f"{page.name}: {target}"


def test_readme_and_the_page_of_figures_agree() -> None:
    figures = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\|.*×.*\|$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert rows
    assert all(row in figures for row in rows)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The documentation as `make docs` builds it, where a warning is an error."""
    for module in ("sphinx", "myst_parser", "furo", "pyspark"):
        pytest.importorskip(module, reason="needs the extra 'docs' (and pyspark for its reference)")
    built = tmp_path_factory.mktemp("built") / "site"
    done = subprocess.run([sys.executable, ROOT / "tools" / "docs.py", built], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return built


def test_the_documentation_is_complete_and_needs_no_network(site: Path) -> None:
    from paimon_pyds import spark

    for name, word in (("api", "to_polars"), ("options", "deletion-vectors.enabled"), ("commands", "--filter")):
        assert word in (site / "reference" / f"{name}.html").read_text(encoding="utf-8")
    api = (site / "reference" / "api.html").read_text(encoding="utf-8")
    for name in NAMESPACES:
        for call in calls_of(namespace(name)):
            assert f'id="{namespace(name).__module__}.{name.capitalize()}.{call}"' in api
    assert not [
        call for call in spark_calls(spark) if f'id="paimon_pyds.spark.{call}"' not in api if call != "register"
    ]
    pages = (page.read_text(encoding="utf-8") for page in site.glob("**/*.html"))
    assert not [
        url for page in pages for url in re.findall(r"<(?:script|link|img)[^>]*(?:src|href)=\"(https?:[^\"]*)", page)
    ]


_SEARCH = """
const [site, ...queries] = process.argv.slice(1);
const fs = require("fs"), vm = require("vm");
let query = "";
globalThis.document = { getElementById: () => null };
globalThis.window = globalThis;
globalThis.location = { get search() { return "?" + new URLSearchParams({ q: query }); } };
globalThis.SPHINX_HIGHLIGHT_ENABLED = false;
globalThis._ = (text) => text;
globalThis._ready = () => null;
for (const name of ["_static/searchtools.js", "_static/language_data.js", "searchindex.js"])
  vm.runInThisContext(fs.readFileSync(`${site}/${name}`, "utf8"));
const search = (words) => {
  query = words;
  return vm.runInThisContext(`Search._performSearch(...Search._parseQuery(${JSON.stringify(words)})).at(-1)`);
};
console.log(JSON.stringify(queries.map(search).map((found) => found.slice(0, 3))));
"""


def test_search_finds_the_page_that_is_named_like_the_word_first(site: Path) -> None:
    if shutil.which("node") is None:
        pytest.skip("needs Node.js")
    titles = {p.stem: p.read_text(encoding="utf-8").split("\n", 1)[0][2:] for p in (ROOT / "docs").glob("*.md")}
    wanted = {title: [stem, title, ""] for stem, title in titles.items()}
    wanted |= {"catalog": wanted["Catalogs"], "index": wanted["Indexes"], "primary key": wanted[titles["key-tables"]]}
    wanted |= dict.fromkeys(("merge", "delete", "update", "compact"), wanted[titles["row-changes"]])
    wanted |= {"explain": wanted[titles["explain"]], "error": ["reference/errors", "Errors", ""]}
    wanted |= {"table options": ["reference/options", "Table options", ""]}
    wanted |= {"data types": wanted["Types"], "concurrency": wanted["Who may write at the same time"]}
    wanted |= {"CDC": wanted[titles["change-data-capture"]], "MinIO": wanted["Storage"]}
    wanted |= {"top_n": ["reference/api", "paimon_pyds.Table.top_n", "#paimon_pyds.Table.top_n"]}
    done = subprocess.run(["node", "-e", _SEARCH, site, *wanted], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert dict(zip(wanted, json.loads(done.stdout), strict=True)) == wanted
