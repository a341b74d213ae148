"""Explanations as text, HTML and pictures: well-formed, escaped, and short however many files there are."""

from __future__ import annotations

import dataclasses
import json
import shlex
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import pyarrow as pa
import pytest

import paimon_pyds as pp
from paimon_pyds.base.selection import STRIP_BINS, RowSelection
from paimon_pyds.cli.main import main
from paimon_pyds.engine.scan.result import PruneStep, SkippedFile
from paimon_pyds.index.evaluate import IndexAnswer
from paimon_pyds.ops.explain.explain import Explanation
from paimon_pyds.ops.explain.file import READ_PART, ExplainedFile, PagePlan, index_balance
from paimon_pyds.ops.explain.html import files_bar, joined_strip, row_strips
from paimon_pyds.ops.explain.scan import outcome_counts, rows_text, short_path, strip_text

HOSTILE = "<script>alert('x')</script>&\"'"
_VOID = {"meta", "br", "hr", "img"}


class _Checker(HTMLParser):
    """Holds that every tag is closed in order, and collects texts."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.attributes += attrs
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def _file(number: int, kept: int, rows: int = 1000) -> ExplainedFile:
    selection = RowSelection.of(range(kept))
    said = IndexAnswer("a = 1", "a", "bitmap", kept, rows, tuple(range(min(kept, 3))), selection.strip(rows), 10)
    return ExplainedFile(
        path=f"/wh/t/bucket-0/data-{number:08d}-1111-2222-3333-444444444444-0.parquet",
        size=10_000,
        rows=rows,
        rows_kept=kept,
        index_bytes=10,
        reason="",
        rows_after_index=kept,
        index_answers=(said,),
        strip=selection.strip(rows),
        pages=PagePlan(kept, 1, 1, 100, 1000, 1, 10, 20.0, 400.0, "pages"),
    )


def _large(files: int) -> Explanation:
    skips = tuple(SkippedFile(f"data-{i}.parquet", 1000, 10_000, "a = 1", "statistics") for i in range(files))
    told = tuple(_file(i, i % 50) for i in range(files))
    steps = (
        PruneStep("table", 2 * files, 2000 * files, 20_000 * files),
        PruneStep("statistics", files, 1000 * files, 9),
    )
    return Explanation("/wh/t", 7, "a = 1", steps, told, skips)


def test_thousands_of_files_are_summed_up() -> None:
    e = _large(5_000)
    assert len(e.html) < 60_000
    assert len(e.text) < 6_000
    counts = outcome_counts(e)
    assert counts == {"statistics": 5_000, "side index": 100, READ_PART: 4_900}
    checked = _Checker(e.page)
    assert {"svg", "table", "details"} <= checked.seen
    assert "5,000 skipped by statistics" in checked.text
    assert "5,000 files, one after the other" in checked.text
    assert "and 4,980 more" in checked.text
    assert "and 4,986 more files" in e.text
    assert e.files_to_arrow().num_rows == 10_000


def test_texts_are_escaped(tmp_path: Path) -> None:
    options = {"file-index.bitmap.columns": HOSTILE, "file-index.in-manifest-threshold": "1b"}
    table = pp.Table.create(tmp_path / "t<b>", pa.schema([("id", pa.int64()), (HOSTILE, pa.string())]), options=options)
    table.append(pa.table({"id": [1, 2], HOSTILE: [HOSTILE, "b"]}))
    literal = HOSTILE.replace("'", "\\'")
    e = table.explain(f"`{HOSTILE}` = '{literal}' AND id < 5", analyze=True)
    assert e.steps[-1].rows == 1
    checked = _Checker(e.page)
    assert "script" not in checked.seen and "b" in checked.seen
    assert not any(name.startswith("on") or name == "src" for name, _ in checked.attributes)
    assert HOSTILE in checked.text
    ET.fromstring(e.html)
    assert HOSTILE in e.text


def test_bars_are_svg_that_any_ground_carries() -> None:
    root = ET.fromstring(files_bar({"partitions": 9_000, "side index": 1, READ_PART: 999}))
    assert root.tag.endswith("svg") and root.get("viewBox")
    bars = [r for r in root if r.tag.endswith("rect")]
    assert len(bars) == 3
    assert all(float(b.get("width", "0")) >= 1 for b in bars)
    assert sum(float(b.get("width", "0")) for b in bars) <= 760


@pytest.mark.parametrize("label", ["W" * 50, "東" * 50, "a & b"])
def test_a_strip_is_as_wide_as_its_line_leaves_it(label: str) -> None:
    html = row_strips([("short", b"\xff" * 120, "all 3 rows"), (label, b"\x00" * 60 + b"\xff" * 60, "9 of 10 rows")])
    lines = [list(row) for row in ET.fromstring(html).iter("tr")]
    assert [line[1].text for line in lines] == ["all 3 rows", "9 of 10 rows"]
    assert lines[1][0][0].get("title") == label and len(lines[1][0][0].text or "") <= 36
    strips = [line[2][0] for line in lines]
    assert all(s.get("width") == "100%" and s.get("preserveAspectRatio") == "none" for s in strips)
    (mark,) = (part for part in strips[1] if part.tag.endswith("rect"))
    assert (float(mark.get("x", "")), float(mark.get("width", ""))) == (380, 380)
    assert "overflow-x" not in html and "min-width:0" in html


def test_joined_strip_weighs_files_by_their_rows() -> None:
    all_kept = ExplainedFile("a", 1, 300, 300, 0, "", strip=b"\xff" * STRIP_BINS)
    none_kept = ExplainedFile("b", 1, 100, 0, 0, "", strip=bytes(STRIP_BINS))
    strip = joined_strip([all_kept, none_kept])
    assert strip == b"\xff" * 90 + bytes(30)
    assert joined_strip([]) == b""
    many = [ExplainedFile(str(i), 1, 10, 10, 0, "", strip=b"\xff" * STRIP_BINS) for i in range(1_000)]
    assert joined_strip(many) == b"\xff" * STRIP_BINS


def test_short_texts() -> None:
    name = "data-75fa1b2c-8ffa-4d4d-895c-25c8648c00e0-0.parquet"
    assert short_path(f"/wh/t/dt=1/bucket-0/{name}", "/wh/t") == "dt=1/bucket-0/data-75fa1b2c…00e0-0.parquet"
    assert short_path(f"s3://elsewhere/{name}", "/wh/t") == "data-75fa1b2c…00e0-0.parquet"
    told = [rows_text(*n) for n in ((4, 29_425), (9, 9), (1, 1), (0, 1), (0, 0))]
    assert told == ["4 of 29,425 rows", "all 9 rows", "its only row", "0 of 1 row", "no row"]
    assert strip_text(bytes(60) + b"\xff" * 60) == "▕" + " " * 20 + "█" * 20 + "▏"
    assert strip_text(bytes(STRIP_BINS)) == strip_text(b"\xff" * STRIP_BINS) == ""


@pytest.fixture
def path(small: pp.Table) -> str:
    return small.path


def test_command_line(path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "why.html"
    assert (
        main(["explain", path, "--filter", "color = 'red'", "--analyze", "--columns", "id", "--html", str(page)]) == 0
    )
    text = capsys.readouterr().out
    assert "bitmap(color)" in text and "result" in text
    assert "svg" in _Checker(page.read_text()).seen
    assert main(["explain", path, "--filter", "color = 'red'", "--output", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["files"][0]["leaves"][0]["index"] == "bitmap"
    assert [s["step"] for s in told["skipped"]] == ["embedded index"]
    assert main(["explain", path, "--html", str(tmp_path / "no" / "where.html")]) == 1
    assert "can't write the page" in capsys.readouterr().err


def test_what_a_file_holds_follows_its_name(small: pp.Table) -> None:
    e = small.explain("color = 'red'")
    assert e.rendered("/x/why.txt") == e.rendered("why") == e.text + "\n"
    assert e.rendered("s3://b/why.HTML").startswith("<!DOCTYPE html>")
    assert json.loads(e.rendered("why.json"))["filter"] == "color = 'red'"


def test_a_page_fits_phones(small: pp.Table) -> None:
    """Cells go to further lines, nothing is scrolled sideways; the ground is light or dark."""
    page = small.explain("color = 'red'").page
    assert 'name="viewport" content="width=device-width,initial-scale=1"' in page
    assert page.count("<tr ") == page.count('<tr style="display:flex;flex-wrap:wrap;') > 2
    assert (
        "overflow-wrap:anywhere" in page and "<text" not in page + small.index.layout().page
    )  # texts of pictures shrink
    assert "prefers-color-scheme:dark" in page and "http" not in page.replace("http://www.w3.org/2000/svg", "")


def _runs(hint: str) -> bool:
    """Whether a hint ends with a command that can be pasted."""
    _, *arguments = shlex.split(hint[hint.index("paimon-pyds ") :])
    return main(arguments) == 0


def test_the_first_line_is_a_verdict(tmp_path: Path) -> None:
    rows = pa.table({"id": range(1000), "s": [f"s{i % 7}" for i in range(1000)]})
    table = pp.Table.create(tmp_path / "t", rows.schema)
    assert table.explain().text.splitlines()[0] == "Nothing to read: there is no data file"
    for start in range(0, 1000, 500):
        table.append(rows.slice(start, 500))
    plain = table.explain("id < 10", analyze=True)
    assert plain.verdict.startswith("Read ") and plain.verdict.endswith(", 1 of 2 files skipped")
    assert plain.text.startswith(f"{plain.verdict}\nNo index was used. To see the effect of one: ")
    assert _runs(plain.hint), plain.hint
    quoted = table.explain(r"s = 'it\'s $HOME' OR s = 's1'")
    assert "$HOME" in quoted.hint and _runs(quoted.hint), quoted.hint
    many = ", ".join(f"'s{n}'" for n in range(100))
    assert table.explain(f"id < 500 AND s IN ({many})").hint.endswith("table.index.advise([filter])")
    assert _Checker(plain.page).text.index(plain.verdict) < _Checker(plain.page).text.index("id < 10")
    assert not table.explain().hint and "No index" not in table.explain("id < 0").page
    table.alter({"file-index.bloom-filter.columns": "s"})
    table.index.build()
    costly = table.explain("s = 's1' OR s = 's2'")
    assert costly.verdict.startswith("Reads up to ") and not costly.hint
    assert "0 of 2 files skipped; the indexes cost more than they saved here (0 B of data for " in costly.verdict
    assert costly.as_dict()["verdict"] == costly.verdict
    assert " KiB where all data has " in costly.verdict


def test_what_indexes_saved_is_what_would_be_read_without_them(tmp_path: Path) -> None:
    """Of files without a row that is wanted, the filter's column; the others are read for rows that it keeps."""
    rows = pa.table(
        {"s": [f"{n * 2654435761 % 2**32:08x}" for n in range(20_000)], "t": [str(n**5) for n in range(20_000)]}
    )
    bloom = {"file-index.bloom-filter.columns": "s", "file-index.bloom-filter.s.items": "10000"}
    for name, options in (("without", {}), ("with", bloom)):
        table = pp.Table.create(tmp_path / name, rows.schema, options=options)
        table.append(rows.slice(0, 10_000))
        table.append(rows.slice(10_000))
        e = table.explain("s = 'absent'", analyze=True)
        if name == "without":
            whole = e.steps[-1].bytes
            continue
        assert "2 of 2 files skipped; the indexes saved more than they cost here (" in e.verdict
        assert whole // 2 < index_balance(e.files, e.skips)[1] <= whole  # which has the footers, too
        assert "for indexes that were in memory)" in table.explain("s = 'another'").verdict


def test_bars_show_bytes_beside_rows(small: pp.Table) -> None:
    e = small.explain("color = 'red'")
    text = _Checker(e.html).text
    assert text.count("rowsbytes") == len(e.steps)


def test_what_shells_show(small: pp.Table) -> None:
    pretty = pytest.importorskip("IPython.lib.pretty", reason="needs IPython (the extra 'notebook')").pretty
    e = small.explain("color = 'red'")
    assert repr(e) == f"Explanation({small.path!r}, \"color = 'red'\": 2 files, 3 rows left)"
    assert pretty(e) == str(e) == e.text
    assert e._repr_html_() == e.html


def test_no_password_of_a_url_is_told() -> None:
    table = "s3://me:canary-7531@bucket/wh/t"
    file = dataclasses.replace(_file(1, 5), path=f"{table}/bucket-0/data-1.parquet")
    e = Explanation(table, 1, "a = 1", (PruneStep("table", 1, 1000, 10_000),), (file,), ())
    told = [e.text, e.page, repr(e), json.dumps(e.as_dict()), e.rendered("a.json")]
    assert all("canary" not in text and "bucket/wh/t" in text for text in told)
