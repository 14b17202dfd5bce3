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
from filemem.org.commands import open_index
from filemem.org.oidc import build_provider
from filemem.org.service import ServiceOptions, serve
from filemem.server import http


def start_service(
    folder: Path,
    options: Mapping[str, Any],
    workers: int,
    on_crash: Callable[..., None],
    *,
    behind_proxy: bool,
) -> None:
    """Answer until a signal comes.

    Args:
        folder: where the settings are looked for.
        options: fields of `ServiceOptions`.
        workers: how many processes answer.
        on_crash: gets defects; it can be pickled.
        behind_proxy: whether a proxy with TLS is in front.

    Raises BadInput, BrokenStore, before anything listens.
    """
    refuse_unprotected(options["host"], behind_proxy=behind_proxy)
    with open_index(folder) as index:
        index.list_repositories()  # whether the database can be used
    settings = config.load(folder)
    identity_provider = build_provider(
        settings.org_oidc_issuer,
        settings.org_oidc_audience,
        settings.org_oidc_name,
        settings.org_oidc_groups,
    )
    service_options = ServiceOptions(
        **options, hook_secret=settings.org_hook_secret, provider=identity_provider
    )
    run_service(partial(_serve_process, str(folder), on_crash), service_options, workers)


def _serve_process(
    folder: str, on_crash: Callable[..., None], options: ServiceOptions, listener: Any
) -> None:
    """Answer in this process: the only one, or one of several."""
    with open_index(Path(folder)) as index:
        serve(index, options, on_crash, listener)


def refuse_unprotected(host: str, *, behind_proxy: bool) -> None:
    """Refuse an address that others could reach without encryption. Raises BadInput."""
    if not behind_proxy and not http.is_loopback(host):
        hint = "put a proxy with TLS in front and say --behind-proxy, or listen on 127.0.0.1"
        raise BadInput(f"{host} can be reached from other machines", hint, field="host")


def run_service(
    answer: Callable[[ServiceOptions, socket | None], None], options: ServiceOptions, workers: int
) -> None:
    """Answer until a signal comes.

    Args:
        answer: what one process does; if there are several, a function that can be pickled.
        options: how it answers.
        workers: how many processes.
    """
    if workers == 1:
        return answer(options, None)
    address = http.Address(
        options.host, options.port, is_remote_allowed=True, guard=lambda app: app
    )
    with http.open_server_socket(address) as listener, TemporaryDirectory() as folder:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder  # for the processes that begin now
        many.run_processes(partial(answer, options._replace(folder=folder)), listener, workers)
    return None
