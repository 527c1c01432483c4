"""A page as headless Chromium sees it: what it complains of, and how large its parts are."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import escape
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--enable-logging=stderr"),
)
MEASURE = """
addEventListener("load", () => {
  const page = document.querySelector("iframe").contentDocument, root = page.documentElement;
  const box = (element) => { const {width, height, right} = element.getBoundingClientRect();
    return {id: element.querySelector("h2")?.id, width, height, right}; };
  document.querySelector("output").textContent = JSON.stringify({
    title: page.title, wide: root.scrollWidth, sections: [...page.querySelectorAll("section")].map(box),
    shading: getComputedStyle(page.querySelector(".heat .w") ?? root).backgroundColor,
    scripts: page.scripts.length});
});
"""


def opened(html: str, width: int, folder: Path) -> tuple[dict[str, Any], list[str]]:
    """Measures of the page in a frame so wide, and what the console says; the page's own policy forbids any script."""
    (folder / "page.html").write_text(html, encoding="utf-8")
    frame = f'<iframe src="page.html" style="width:{width}px;height:900px"></iframe>'
    (folder / "frame.html").write_text(f"<!doctype html>{frame}<output></output><script>{MEASURE}</script>", "utf-8")
    dom, console = visited((folder / "frame.html").as_uri(), folder)
    found = re.search(r"<output>(.*?)</output>", dom, re.S)
    assert found, console
    measures = found.group(1)
    for plain in '"<>&':
        measures = measures.replace(escape(plain), plain)
    return json.loads(measures), console


def visited(address: str, folder: Path) -> tuple[str, list[str]]:
    """The page at an address once its scripts have run, and what the console says."""
    # Virtual time stands still while anything is being fetched: a page that builds itself of an answer is whole.
    options = ("--allow-file-access-from-files", "--dump-dom", "--virtual-time-budget=10000")
    command = [str(CHROMIUM), *FLAGS, *options, f"--user-data-dir={folder / 'profile'}", address]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=120)
    return done.stdout, [line for line in done.stderr.splitlines() if ":CONSOLE" in line]
