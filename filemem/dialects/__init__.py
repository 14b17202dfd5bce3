"""Dialects: sets of tools as data. A dialect knows names, schemas and reply shapes, and no transport.

`tool` defines what a dialect is and lists them; one module for each has its table of tools and their functions.
"""
