"""Where the user's own files are looked for."""

from pathlib import Path

import pytest

from filemem.config import load, user_folder
from filemem.errors import BadInput


@pytest.mark.parametrize("stated", ["", "/somewhere/else", "relative", " "])
def test_user_folders_are_those_of_xdg(
    stated: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    environment = {"XDG_CONFIG_HOME": stated, "XDG_CACHE_HOME": stated}
    own = Path(stated) if stated.startswith("/") else None
    assert user_folder("config", environment) == (own or tmp_path / ".config") / "filemem"
    assert user_folder("cache", environment) == (own or tmp_path / ".cache") / "filemem"


def test_an_unknown_setting_is_answered_with_what_stands_in_files(tmp_path: Path) -> None:
    (tmp_path / ".filemem.toml").write_text("stroe = 'x'\n")
    with pytest.raises(BadInput) as refused:
        load(tmp_path, environment={})
    assert refused.value.hint == "known here: store, branch, [commit], [hooks]"


def test_the_commit_policy_is_commit_or_leave(tmp_path: Path) -> None:
    assert set(load(tmp_path, {}).policy.values()) == {"commit"}
    stated = tmp_path / ".filemem.toml"
    stated.write_text('[commit]\ncheckpoint = "leave"\n', encoding="utf-8")
    assert load(tmp_path, {}).policy == {
        "decision": "commit",
        "checkpoint": "leave",
        "observation": "commit",
    }
    stated.write_text('[commit]\nobservation = "later"\n', encoding="utf-8")
    with pytest.raises(BadInput, match="commit, leave, not 'later'"):
        load(tmp_path, {})
