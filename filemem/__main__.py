"""The command `filemem`, also as `python -m filemem`: asked of a running server, else done here."""

from __future__ import annotations

import sys
from importlib import import_module

from filemem import VERSION, ask


def main() -> None:
    """Run the command line."""
    code = ask.run_by_server(sys.argv[1:], VERSION)
    if code is None:
        import_module("filemem.cli").main()  # which a server's answer does without
    sys.exit(code)


if __name__ == "__main__":
    main()
