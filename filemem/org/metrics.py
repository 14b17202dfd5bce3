"""Figures of the service and the index, as Prometheus reads them."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest, multiprocess
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from filemem.errors import Locked
from filemem.org.queue import RepositoryStatus

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_ATTEMPTS = 10  # to read the files of other processes
_PAUSE = 0.05  # seconds between two of them
_OWN_REGISTRY = CollectorRegistry()
_REQUESTS = Counter(
    "filemem_org_requests", "Requests answered", ["route", "status"], registry=_OWN_REGISTRY
)
_SECONDS = Histogram(
    "filemem_org_request_seconds", "Time to the answer", ["route"], registry=_OWN_REGISTRY
)


def count_request(route: str, status: int, seconds: float) -> None:
    """Count one answer."""
    _REQUESTS.labels(route, str(status)).inc()
    _SECONDS.labels(route).observe(seconds)


def render_metrics(rows: Sequence[RepositoryStatus], folder: str) -> str:
    """Return all figures.

    Args:
        rows: how the repositories stand.
        folder: where several processes keep their figures; "" if there is one process.

    Raises Locked: the files of the processes cannot be read now.
    """
    requests = _read_all_processes(folder) if folder else generate_latest(_OWN_REGISTRY)
    index = CollectorRegistry()
    index.register(_IndexCollector(rows))
    return (requests + generate_latest(index)).decode()


def _read_all_processes(folder: str) -> bytes:
    """Read what all processes have counted. A file that one of them just begins cannot be read."""
    for _ in range(_ATTEMPTS):
        registry = CollectorRegistry()
        multiprocess.MultiProcessCollector(registry, folder)  # type: ignore[no-untyped-call]
        with suppress(struct.error, RuntimeError, ValueError):
            return generate_latest(registry)
        time.sleep(_PAUSE)
    raise Locked("the figures are being written", "ask again")


class _IndexCollector(Collector):
    """How the index stands."""

    def __init__(self, rows: Sequence[RepositoryStatus]) -> None:
        self._rows = rows

    def collect(self) -> Iterator[Metric]:
        """See `Collector`."""
        rows = self._rows
        totals = {
            "repositories": ("Repositories in the index", len(rows)),
            "records": ("Records in the index", sum(row.records for row in rows)),
            "passages": ("Passages in the index", sum(row.passages for row in rows)),
            "queue_due": (
                "Repositories that wait for a worker",
                sum(row.late_seconds > 0 for row in rows),
            ),
            "queue_held": ("Repositories that a worker reads", sum(row.is_held for row in rows)),
            "queue_late_seconds": (
                "How long the first of them has waited",
                max((row.late_seconds for row in rows), default=0),
            ),
        }
        for name, (help_text, value) in totals.items():
            yield GaugeMetricFamily(f"filemem_org_{name}", help_text, value)
        age = GaugeMetricFamily(
            "filemem_org_repository_age_seconds",
            "Time since a repository was last looked at with success",
            labels=["repository"],
        )
        failure = GaugeMetricFamily(
            "filemem_org_repository_failed",
            "Whether the last look at a repository failed",
            labels=["repository"],
        )
        for row in rows:
            if row.age is not None:
                age.add_metric([row.name], row.age)
            failure.add_metric([row.name], float(bool(row.failure)))
        yield age
        yield failure
