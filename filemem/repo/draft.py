"""What a commit will hold, on disk before the first lock is taken: see `commit`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from filemem.errors import Conflict
from filemem.repo.journal import (
    CommitPlan,
    Edit,
    Journal,
    JournalEntry,
    StagedFiles,
    StoreFiles,
    read_blob_id,
)
from filemem.repo.objects import LooseObject, build_commit, publish_objects
from filemem.repo.settings import find_ignored, find_obstacle
from filemem.repo.state import Branch

if TYPE_CHECKING:
    from filemem.repo import Repo


class Draft(NamedTuple):
    """A commit on top of HEAD, on disk except for the branch, and its files beside their places."""

    head: Branch
    entry: JournalEntry
    objects: list[LooseObject]
    staged_files: StagedFiles


def add_blob_ids(repo: Repo, plan: CommitPlan, head: Branch) -> CommitPlan:
    """Return the plan with the blob that each file has in HEAD, and the one it will have."""
    edits = []
    for edit in plan.edits:
        old_blob = read_blob_id(repo, head.tip, edit.path)
        blob = ""
        if edit.data is not None:
            blob = repo.compute_committed_id(edit.path, edit.data, old_blob)
        edits.append(edit._replace(old_blob=old_blob, blob=blob))
    return plan._replace(edits=tuple(edits))


def find_commit_obstacle(repo: Repo, edits: Iterable[Edit], head: Branch) -> str:
    """Return why files are not ours to commit, or ""."""
    if not head.ref:
        return "HEAD is detached: `git switch` to a branch, then commit it"
    new_edits = [edit for edit in edits if not edit.old_blob]
    new_paths = [edit.path for edit in new_edits]
    ignored_path = find_ignored(repo, *new_paths)
    if ignored_path:
        return f"Git ignores {ignored_path}"
    for edit in new_edits:
        if edit.before is not None and edit.data is not None:
            return f"{edit.path} was never committed; commit it with Git"
    paths = [edit.path for edit in edits]
    return find_obstacle(repo, *paths)


def refuse_edited(repo: Repo, edits: Sequence[Edit]) -> None:
    """Refuse to change a file that has uncommitted edits. Raises Conflict."""
    committed_paths = [edit.path for edit in edits if edit.old_blob]
    staged = repo.read_staged(committed_paths)
    for edit in edits:
        path = edit.path
        if edit.before is None:
            if edit.old_blob and edit.old_blob != edit.blob:
                message = f"{path} was deleted, and the deletion is not committed"
                raise Conflict(message, "commit or undo it first")
            continue
        if not edit.old_blob:
            message = f"{path} was never committed, so it could not be restored"
            raise Conflict(message, "commit it first")
        is_edited = staged.get(path) != edit.old_blob
        if not is_edited:
            current_blob = repo.compute_committed_id(path, edit.before, edit.old_blob)
            is_edited = current_blob != edit.old_blob
        if is_edited:
            message = f"{path} has edits that are not committed"
            raise Conflict(message, "commit or undo that first")


def prepare_draft(
    repo: Repo, files: StoreFiles, plan: CommitPlan, head: Branch, changed_edits: Sequence[Edit]
) -> Draft:
    """Write a commit on top of HEAD, its journal entry, and the files beside their places."""
    loose_objects = _build_objects(repo, plan, head)
    commit = loose_objects[-1].oid
    save_journal = Journal(repo)
    entry = save_journal.build_entry(plan, head.ref, commit)
    staged_files = StagedFiles(files, changed_edits)
    staged_entry: Path | None = None
    try:
        staged_entry = save_journal.stage_entry(entry)
        _publish_draft(loose_objects, staged_files, save_journal, entry, staged_entry)
    except BaseException:
        staged_files.discard()
        if staged_entry is not None:
            staged_entry.unlink(missing_ok=True)
        entry.file.unlink(missing_ok=True)
        raise
    return Draft(head, entry, loose_objects, staged_files)


def _build_objects(repo: Repo, plan: CommitPlan, head: Branch) -> list[LooseObject]:
    """Build the new blobs and trees of a plan, and its commit on top of HEAD, which comes last."""
    contents: dict[str, bytes | None] = {}
    for edit in plan.edits:
        data = edit.data
        if data is not None:
            data = repo.convert_for_commit(edit.path, data, edit.old_blob)
        contents[edit.path] = data
    root = ""
    parents = []
    if head.tip:
        root = repo.objects.read_root(head.tip)
        parents.append(head.tip)
    tree, loose_objects = repo.objects.splice_tree(root, contents)
    if repo.settings.is_signing:  # Git reads the tree
        publish_objects(loose_objects)
    commit = build_commit(repo, tree, parents, plan.message, plan.timestamp)
    loose_objects.append(commit)
    return loose_objects


def _publish_draft(
    loose_objects: Sequence[LooseObject],
    staged_files: StagedFiles,
    save_journal: Journal,
    entry: JournalEntry,
    staged_entry: Path,
) -> None:
    """Wait until objects and files are on disk; the entry takes its name after them."""

    def place_entry() -> Path:
        return save_journal.place_entry(staged_entry, entry)

    publish_objects(loose_objects, [staged_entry, *staged_files.sources], place_entry)


def can_read_files(repo: Repo, plan: CommitPlan, changed_edits: Sequence[Edit]) -> bool:
    """Whether files will be, byte for byte, what is committed: Git may read them for the index."""
    if len(changed_edits) != len(plan.edits):
        return False
    for edit in plan.edits:
        if edit.data is not None and b"\r\n" in edit.data:  # Git would convert the line ends
            return False
    return repo.settings.no_filter_settings is not None
