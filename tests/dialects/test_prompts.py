"""What prompts say: nothing that is stored, and what the user fills in."""

from __future__ import annotations

import pytest

from filemem.dialects.tool import DIALECTS, load_profile


@pytest.mark.requirement("profiles", "prompts")
@pytest.mark.parametrize("name", DIALECTS)
def test_every_profile_offers_the_prompts(name: str) -> None:
    prompts = load_profile(name).prompts
    assert [one.name for one in prompts] == ["resume", "record-decision"]
    for prompt in prompts:
        names = {one.name for one in prompt.arguments}
        assert {name for name in names if f"{{{name}}}" in prompt.text} == names
