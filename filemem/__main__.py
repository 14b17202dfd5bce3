"""`python -m filemem` is the command `filemem`."""

from filemem.cli import main

main()
