"""Dialects: sets of tools as data. A dialect knows names, schemas and reply shapes, and no transport.

`profiles` says what a dialect is and which there are; a module of each name lists its tools, and the one beside it with
`_calls` does what they ask, which is imported when the first is called.
"""
