"""What may only fall: `make lint` fails if the product is above tools/ratchet.toml.

`python -m tools.ratchet --write` lowers the limits to what was measured.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

from tools.measure import Figures, measured

LIMITS = Path(__file__).with_suffix(".toml")
LONGEST = 380  # lines of a module
WIDEST = 12  # imports of our own in a module
TALLEST = 60  # lines of a function


def counted(found: Figures) -> dict[str, int]:
    """The figures that are held, by name."""
    imports: dict[str, set[str]] = {}
    for one in found.imports:
        imports.setdefault(one.source, set()).add(one.target)
    return {
        "lines": sum(found.lines.values()),
        "modules": len(found.lines),
        "late_imports": found.late,
        "gerund_names": len(found.gerunds),
        "circles": len(found.circles),
        "modules_over_380_lines": sum(count > LONGEST for count in found.lines.values()),
        "modules_over_12_imports": sum(len(targets) > WIDEST for targets in imports.values()),
        "functions_over_60_lines": sum(count > TALLEST for count in found.functions),
    }


def grown(now: Mapping[str, int], limits: Mapping[str, int]) -> list[str]:
    """Say what is above its limit."""
    above = {name: limit for name, limit in limits.items() if now[name] > limit}
    return [
        f"{name}: {now[name]:,}, and at most {limit:,} is allowed" for name, limit in above.items()
    ]


def main() -> int:
    """Compare, or write the limits anew where they fell."""
    now = counted(measured())
    limits = tomllib.loads(LIMITS.read_text(encoding="utf-8"))
    if "--write" in sys.argv:
        lowered = {name: min(count, limits.get(name, count)) for name, count in now.items()}
        LIMITS.write_text(
            "".join(f"{name} = {count}\n" for name, count in lowered.items()), encoding="utf-8"
        )
        return 0
    for line in (told := grown(now, limits)):
        print(f"tools/ratchet.toml: {line}", file=sys.stderr)
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
