"""The index of an organisation on the command line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import click

from filemem import config
from filemem.cli.org_service import access, serve, token
from filemem.cli.project import Project
from filemem.errors import BadInput

if TYPE_CHECKING:
    from filemem.org.postgres import Postgres


@contextmanager
def opened(project: Project) -> Iterator[Postgres]:
    from filemem.index import embedder

    try:
        from filemem.org.postgres import Postgres
    except ModuleNotFoundError:
        raise BadInput("this needs a client of PostgreSQL", "pip install 'filemem[org]'") from None
    stated = config.load(project.here)
    with closing(Postgres(stated.org_dsn, embedder(stated.model))) as engine:
        yield engine


@click.group()
def org() -> None:
    """Run one index for all repositories of an organisation: docs/organisation.md.

    \b
    Example:
      filemem org init
    """


for _one in (token, access, serve):
    org.add_command(_one)
