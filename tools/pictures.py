"""Take the pictures of the documentation: ``python tools/pictures.py [DIRECTORY]``.

Pages of the table of ``make demo`` in a headless Chromium (``apt-get install chromium``). Without a directory,
docs/images/ gets the picture that README shows. With one, it gets explain, table and scan at the widths of a phone and
a desktop, light and dark, to look at after a change.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import paimon_pyds as pp
from demo import flights, story

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
FILTER = "tailnum = 'N426US'"
WIDTHS = {"phone": (390, 1900), "desktop": (1200, 1100)}
NARROWEST = 500
"""Chromium makes no narrower window: a phone's page is a frame in one."""


def pages(directory: Path) -> dict[str, str]:
    """The HTML of each page."""
    options = {key: value for key, value in story.OPTIONS.items() if key != "partition-by"}
    data = flights.load(progress=False)
    table = pp.Table.create(directory / "travel.db" / "flights", data.schema, (), ["month"], options)
    table.append(data)
    scan = table.scan(FILTER)
    shown = {"explain": scan.explain(analyze=True), "table": table, "scan": scan}
    return {name: thing._repr_html_().replace(f"{directory}/", "/wh/") for name, thing in shown.items()}


def picture(html: str, to: Path, size: tuple[int, int], *, dark: bool) -> None:
    """A PNG of a page, as a browser shows it."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        raise SystemExit("chromium is missing: apt-get install chromium")
    scheme = "dark" if dark else "light"
    with tempfile.TemporaryDirectory() as scratch:
        page = Path(scratch) / "page.html"
        head = '<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        style = f"<style>:root{{color-scheme:{scheme}}}body{{margin:16px;background:Canvas}}</style>"
        page.write_text(head + style + html, encoding="utf-8")
        if size[0] < NARROWEST:
            frame = f'<iframe src="{page.name}" style="border:0" width="{size[0]}" height="{size[1]}"></iframe>'
            page = page.with_name("phone.html")
            page.write_text(head + style.replace("16px", "0") + frame, encoding="utf-8")
        arguments = [
            "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={scratch}/profile",
            f"--window-size={max(size[0], NARROWEST)},{size[1]}", f"--screenshot={to}", page.as_uri(),
        ]  # fmt: skip
        arguments[:0] = ["--blink-settings=preferredColorScheme=" + ("0" if dark else "1")]
        subprocess.run([chromium, *arguments], check=True, capture_output=True, timeout=120)


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        found = pages(Path(scratch))
    if len(sys.argv) < 2:
        IMAGES.mkdir(parents=True, exist_ok=True)
        picture(found["explain"], IMAGES / "explain.png", (1000, 560), dark=False)
        return
    target = Path(sys.argv[1]).resolve()
    target.mkdir(parents=True, exist_ok=True)
    for name, html in found.items():
        for width, size in WIDTHS.items():
            for dark in (False, True):
                picture(html, target / f"{name}-{width}-{'dark' if dark else 'light'}.png", size, dark=dark)


if __name__ == "__main__":
    main()
