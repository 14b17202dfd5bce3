"""The files of others that the page uses are those that were looked at, and small."""

from __future__ import annotations

import gzip

from filemem.web.viewer import find_assets
from tools.vendor import changed


def test_vendored_files_are_as_listed() -> None:
    """Each has the checksum of VENDOR.toml, and none stands beside it unlisted; make vendor-check asks npm."""
    assert changed() == []


def test_the_page_is_small() -> None:
    """400 KB in the wheel, and 150 KB over the wire."""
    files = [path.read_bytes() for path in find_assets().values()]
    assert sum(map(len, files)) <= 400_000
    assert sum(len(gzip.compress(data)) for data in files) <= 150_000
