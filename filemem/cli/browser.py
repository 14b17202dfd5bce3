"""Open a page in the user's browser."""

from __future__ import annotations

import sys
import time
import webbrowser
from pathlib import Path

from filemem.config import has_display
from filemem.repo import served

OPENING = 5.0  # seconds after which a browser has read the file that it was started with


def open_page(private: Path, page: str) -> None:
    """Open a page, if this is a terminal with a display.

    Other users can see the arguments of a program. So the browser gets a file in the folder
    `private`, which only this user can read; it redirects to the page with its token.
    """
    if not sys.stderr.isatty() or not has_display():
        return
    with served.redirect_page(private, page) as address:
        if webbrowser.open(address):
            time.sleep(OPENING)
