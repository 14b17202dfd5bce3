"""What looks like a secret is refused before it reaches the disk, unless the caller says that it is none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from filemem import secrets
from filemem.errors import BadInput


def refuse_secrets(fields: Mapping[str, Any]) -> bool:
    """Refuse fields of a save or an update that hold something secret-shaped.

    Returns:
        True where something secret-shaped was found and the caller allowed it.

    Raises:
        BadInput: names field, line and kind, never the secret.
    """
    for name, value in fields.items():
        found = secrets.find("\n".join(map(str, value)) if isinstance(value, tuple) else str(value))
        if found and fields.get("allow_secret"):
            return True
        if found:
            raise BadInput(
                f"{name}, line {found[0].line}: this looks like a secret ({found[0].kind}); nothing was saved",
                "leave it out and say where it is kept; if it is no secret, save again with allow_secret",
                field=name,
            )
    return False
