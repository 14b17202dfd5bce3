"""Times as commits state them.

Rule: a commit is data from a stranger, so one that states no time, or an absurd one, has none; nothing else suffers.
"""

import re

_SECONDS = re.compile(r"[0-9]{1,12}")
_LAST = 253_402_300_799  # seconds since 1970 at the end of the year 9999


def millis(stated: str | bytes) -> int:
    """Epoch milliseconds of a time as Git prints it, in seconds; 0 where it states none."""
    text = stated.decode("ascii", "replace") if isinstance(stated, bytes) else stated
    found = int(text) if _SECONDS.fullmatch(text.strip()) else 0
    return found * 1000 if found <= _LAST else 0
