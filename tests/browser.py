"""A page in headless Chromium: what it complains of, how large its parts are, and what comes of typing and pressing."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
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


class Driven:
    """A browser that is driven by Chrome's protocol over two pipes: one page, in which a person types and presses."""

    def __init__(self, folder: Path, address: str) -> None:
        (given, self._out), (answers, taken) = os.pipe(), os.pipe()
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (given, taken)]  # out of the way of 3 and 4

        def spoken_on() -> None:  # the descriptors of the protocol
            for descriptor, end in zip((3, 4), ends, strict=True):
                os.dup2(end, descriptor)

        command = [str(CHROMIUM), *FLAGS, "--remote-debugging-pipe", f"--user-data-dir={folder / 'driven'}"]
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._child = subprocess.Popen(command, pass_fds=(3, 4), preexec_fn=spoken_on, **silent)
        for end in (given, taken, *ends):
            os.close(end)
        self._answers, self._asked, self._session = os.fdopen(answers, "rb"), 0, {}
        page = self.ask("Target.createTarget", url=address)["targetId"]
        session = self.ask("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        self._session = {"sessionId": session}

    def ask(self, method: str, **params: Any) -> Any:
        """What the browser answers to a call; what it tells by itself is passed over."""
        self._asked += 1
        call = {"id": self._asked, "method": method, "params": params, **self._session}
        os.write(self._out, json.dumps(call).encode() + b"\0")
        while True:
            answer = json.loads(self._message())
            if answer.get("id") == self._asked:
                return answer["result"]

    def _message(self) -> bytes:
        """What comes up to the next zero byte."""
        message = bytearray()
        while (byte := self._answers.read(1)) != b"\0":
            assert byte, "the browser is gone"
            message += byte
        return bytes(message)

    def value(self, script: str) -> Any:
        """What a script gives in the page."""
        return self.ask("Runtime.evaluate", expression=script, returnByValue=True)["result"].get("value")

    def wait(self, script: str, seconds: float = 30.0) -> Any:
        """What a script gives once that is something."""
        end = time.monotonic() + seconds
        while not (found := self.value(script)):
            assert time.monotonic() < end, f"nothing after {seconds:g} s: {script}"
            time.sleep(0.05)
        return found

    def type(self, selector: str, text: str) -> None:
        """Type into a field."""
        self.wait(f"(one => one && !one.focus())(document.querySelector({selector!r}))")
        self.ask("Input.insertText", text=text)

    def press(self, selector: str) -> None:
        """Press in the middle of an element."""
        box = f"(({{x, y, width, height}}) => [x + width / 2, y + height / 2])(document.querySelector({selector!r})"
        x, y = self.value(f"{box}.getBoundingClientRect())")
        for kind in ("mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def close(self) -> None:
        """End the browser."""
        self._child.terminate()
        self._child.wait()
        self._answers.close()
        os.close(self._out)


@contextmanager
def driven(folder: Path, address: str) -> Iterator[Driven]:
    """A browser at an address."""
    browser = Driven(folder, address)
    try:
        yield browser
    finally:
        browser.close()
