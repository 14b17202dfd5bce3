"""Signing a commit: the one way that Git itself makes one of ours, as the user's own configuration asks for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from filemem.ending import heard
from filemem.repo.git import Git, GitError
from filemem.repo.refs import NotNow
from filemem.repo.settings import Identity

_LIMIT = 60.0  # seconds; a passphrase may have to be typed


def identified(role: str, identity: Identity, time: str) -> dict[str, str]:
    """Tell `git commit-tree` who has a part in a commit.

    Args:
        role: `AUTHOR` or `COMMITTER`.
        identity: who it is.
        time: seconds and offset, as Git writes them.
    """
    return {f"GIT_{role}_NAME": identity.name, f"GIT_{role}_EMAIL": identity.email, f"GIT_{role}_DATE": time}


def signed(
    git: Git, signing: Sequence[str], tree: str, parents: Sequence[str], message: bytes, who: Mapping[str, str]
) -> str:
    """Make a signed commit, and return its id.

    Args:
        git: runs Git.
        signing: the settings to sign with.
        tree, parents, message: of the commit.
        who: author and committer, as Git's environment names them.

    Raises:
        NotNow: it could not be signed.
    """
    parented = (argument for parent in parents for argument in ("-p", parent))
    config = (*signing, "i18n.commitEncoding=utf-8")
    try:
        with heard():  # a passphrase may be asked for
            answer = git.run(
                "commit-tree", "-S", *parented, tree, input=message, limit=_LIMIT, config=config, extra=who
            )
    except GitError as error:
        raise NotNow(f"the commit could not be signed: {error.message}", "check your signing key") from None
    return answer.decode().strip()
