"""Starts the service of an organisation: one process that answers, or several on one socket."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from socket import socket
from tempfile import TemporaryDirectory
from typing import Any

from filemem import config
from filemem.errors import BadInput
from filemem.org import many
from filemem.org.commands import opened
from filemem.org.oidc import provider
from filemem.org.service import Serving, serve
from filemem.server import http


def start(
    here: Path,
    how: Mapping[str, Any],
    workers: int,
    on_crash: Callable[..., None],
    *,
    behind_proxy: bool,
) -> None:
    """Answer until a signal comes.

    Args:
        here: where the settings are looked for.
        how: fields of `Serving`.
        workers: how many processes answer.
        on_crash: gets defects; it can be pickled.
        behind_proxy: whether a proxy with TLS is in front.

    Raises BadInput, BrokenStore, before anything listens.
    """
    protected(how["host"], behind_proxy=behind_proxy)
    with opened(here) as index:
        index.repositories()  # whether the database can be used
    stated = config.load(here)
    who = provider(
        stated.org_oidc_issuer,
        stated.org_oidc_audience,
        stated.org_oidc_name,
        stated.org_oidc_groups,
    )
    serving = Serving(**how, hook_secret=stated.org_hook_secret, provider=who)
    run(partial(_answer, str(here), on_crash), serving, workers)


def _answer(here: str, on_crash: Callable[..., None], how: Serving, listening: Any) -> None:
    """Answer in this process: the only one, or one of several."""
    with opened(Path(here)) as index:
        serve(index, how, on_crash, listening)


def protected(host: str, *, behind_proxy: bool) -> None:
    """Refuse an address that others could reach without encryption. Raises BadInput."""
    if not (behind_proxy or http.is_loopback(host)):
        hint = "put a proxy with TLS in front and say --behind-proxy, or listen on 127.0.0.1"
        raise BadInput(f"{host} can be reached from other machines", hint, field="host")


def run(answer: Callable[[Serving, socket | None], None], how: Serving, workers: int) -> None:
    """Answer until a signal comes.

    Args:
        answer: what one process does; if there are several, a function that can be pickled.
        how: how it answers.
        workers: how many processes.
    """
    if workers == 1:
        return answer(how, None)
    address = http.Address(how.host, how.port, remote=True, guard=lambda app: app)
    with http.listen(address) as listening, TemporaryDirectory() as folder:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder  # for the processes that begin now
        many.run(partial(answer, how._replace(folder=folder)), listening, workers)
    return None
