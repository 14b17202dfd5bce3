"""Opening a page in the user's browser."""

from __future__ import annotations

import sys
import time
import webbrowser
from pathlib import Path

from filemem.config import has_display
from filemem.repo import served

OPENING = 5.0  # seconds in which a browser has read the file that it was started with


def open_page(private: Path, page: str) -> None:
    """Open a page, if this is a terminal with a display; `private`: a folder of the Git directory.

    Other users see what a program is started with. So it is started with a file of the user's own,
    which leads to the page and its token.
    """
    if sys.stderr.isatty() and has_display():
        with served.redirect_page(private, page) as address:
            if webbrowser.open(address):
                time.sleep(OPENING)
