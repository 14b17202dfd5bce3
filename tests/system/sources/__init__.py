"""Memories of other systems for tests, in the schemas that those systems make."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

START = 1_763_650_000_000  # milliseconds

MAMA = """
CREATE TABLE schema_version(version INTEGER PRIMARY KEY, applied_at INTEGER, description TEXT);
CREATE TABLE decisions(id TEXT PRIMARY KEY, topic TEXT NOT NULL, decision TEXT NOT NULL, reasoning TEXT,
 outcome TEXT CHECK (outcome IN ('SUCCESS', 'FAILED', 'PARTIAL') OR outcome IS NULL), failure_reason TEXT,
 limitation TEXT, duration_days INTEGER, user_involvement TEXT, session_id TEXT, supersedes TEXT, superseded_by TEXT,
 refined_from TEXT, confidence REAL DEFAULT 0.5, created_at INTEGER DEFAULT (unixepoch()), updated_at INTEGER,
 needs_validation INTEGER DEFAULT 0, usage_count INTEGER DEFAULT 0, trust_context TEXT, evidence TEXT,
 alternatives TEXT, risks TEXT);
CREATE TABLE decision_edges(from_id TEXT, to_id TEXT, relationship TEXT, reason TEXT, weight REAL DEFAULT 1.0,
 created_at INTEGER, created_by TEXT DEFAULT 'user', approved_by_user INTEGER DEFAULT 1,
 PRIMARY KEY (from_id, to_id, relationship));
CREATE TABLE checkpoints(id INTEGER PRIMARY KEY AUTOINCREMENT, timestamp INTEGER NOT NULL, summary TEXT NOT NULL,
 open_files TEXT, next_steps TEXT, status TEXT DEFAULT 'active');
"""
MAMA_NEW = """
ALTER TABLE decisions ADD COLUMN kind TEXT DEFAULT 'decision';
ALTER TABLE decisions ADD COLUMN status TEXT DEFAULT 'active';
CREATE TABLE memory_scopes(id TEXT PRIMARY KEY, kind TEXT, external_id TEXT);
CREATE TABLE memory_scope_bindings(memory_id TEXT, scope_id TEXT, is_primary INTEGER);
"""
CLAUDE_MEM = """
CREATE TABLE schema_versions(id INTEGER PRIMARY KEY, version INTEGER UNIQUE NOT NULL, applied_at TEXT NOT NULL);
CREATE TABLE sdk_sessions(id INTEGER PRIMARY KEY AUTOINCREMENT, content_session_id TEXT UNIQUE, memory_session_id TEXT,
 project TEXT NOT NULL, user_prompt TEXT, started_at TEXT, started_at_epoch INTEGER, status TEXT);
CREATE TABLE observations(id INTEGER PRIMARY KEY AUTOINCREMENT, memory_session_id TEXT NOT NULL, project TEXT NOT NULL,
 text TEXT, type TEXT NOT NULL, title TEXT, subtitle TEXT, facts TEXT, narrative TEXT, concepts TEXT, files_read TEXT,
 files_modified TEXT, prompt_number INTEGER, discovery_tokens INTEGER DEFAULT 0, created_at TEXT NOT NULL,
 created_at_epoch INTEGER NOT NULL);
CREATE TABLE session_summaries(id INTEGER PRIMARY KEY AUTOINCREMENT, memory_session_id TEXT NOT NULL,
 project TEXT NOT NULL, request TEXT, investigated TEXT, learned TEXT, completed TEXT, next_steps TEXT, files_read TEXT,
 files_edited TEXT, notes TEXT, prompt_number INTEGER, discovery_tokens INTEGER DEFAULT 0, created_at TEXT NOT NULL,
 created_at_epoch INTEGER NOT NULL);
CREATE TABLE user_prompts(id INTEGER PRIMARY KEY AUTOINCREMENT, content_session_id TEXT, prompt_number INTEGER,
 prompt_text TEXT, created_at TEXT, created_at_epoch INTEGER);
"""
MEM_CLAUDE = """
ALTER TABLE observations ADD COLUMN agent TEXT DEFAULT 'legacy';
ALTER TABLE observations ADD COLUMN department TEXT DEFAULT 'default';
ALTER TABLE observations ADD COLUMN visibility TEXT DEFAULT 'project';
CREATE TABLE project_aliases(id INTEGER PRIMARY KEY, old_project TEXT, new_project TEXT);
"""
POWERMEM = """
CREATE TABLE memories(id INTEGER PRIMARY KEY, vector TEXT, payload TEXT, fulltext_content TEXT,
 created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP);
"""


def database(path: Path, schema: str, rows: Iterable[tuple[str, Mapping[str, Any]]]) -> Path:
    """A database with a write-ahead log, as those systems have; `rows`: table, and values by column."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as found:
        found.execute("PRAGMA journal_mode = wal")
        found.executescript(schema)
        insert(found, rows)
    return path


def insert(into: sqlite3.Connection, rows: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
    """Add rows, and commit them."""
    for table, values in rows:
        into.execute(
            f"INSERT INTO {table}({', '.join(values)}) VALUES({', '.join('?' * len(values))})",
            [*values.values()],
        )
    into.commit()


def changed(path: Path, *statements: str) -> None:
    """Run statements on a database."""
    with closing(sqlite3.connect(path)) as found:
        for statement in statements:
            found.execute(statement)
        found.commit()


def decided(number: int, **more: Any) -> tuple[str, Mapping[str, Any]]:
    """A decision of MAMA."""
    at = START + number * 1000
    row = {
        "id": f"decision_topic_{number}_{at}_a{number:03}",
        "topic": f"topic_{number}",
        "created_at": at,
    }
    words = {
        "decision": f"Use approach {number}",
        "reasoning": f"It is simple, measured {number} times",
    }
    return "decisions", {**row, **words, **more}


def observed(number: int, project: str = "repo", **more: Any) -> tuple[str, Mapping[str, Any]]:
    """An observation of claude-mem."""
    at = START + number * 1000
    row = {
        "memory_session_id": "s1",
        "project": project,
        "type": "discovery",
        "title": f"Finding {number}",
    }
    return "observations", {
        **row,
        "narrative": f"Seen {number} times",
        "created_at": "",
        "created_at_epoch": at,
        **more,
    }


def remembered(number: int, **payload: Any) -> tuple[str, Mapping[str, Any]]:
    """A memory of powermem."""
    said = {
        "data": f"The build takes {number} minutes",
        "created_at": "2025-11-20T14:46:40+00:00",
        **payload,
    }
    return "memories", {
        "id": 7_000_000_000_000_000_000 + number,
        "vector": "[]",
        "payload": json.dumps(said),
    }


def entities(path: Path, *rows: Mapping[str, Any]) -> Path:
    """A file of the reference server `memory`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def note(path: Path, text: str, at: int = START) -> Path:
    """A Markdown file that was written at a time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (at / 1000, at / 1000))
    return path
