"""The memories of an organisation's repositories in one database.

A worker brings them in, a service answers.
"""

from filemem.index.embed import limit_threads

limit_threads()  # before any module here imports numpy
