"""Dialects: sets of tools as data. A dialect knows names, schemas and replies, not transports.

`tool` defines what a dialect is and lists them; one module for each has its tools.
"""
