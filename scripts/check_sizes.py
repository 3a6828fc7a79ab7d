"""Counts lines: modules stay small enough to be read in one go (docs/architecture.md)."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODULE_LINES = 400
MAP_LINES = 150


def main() -> int:
    """Name every module above its limit; 1 when there is one."""
    too_long = 0
    for path in sorted((ROOT / "agentconnect").rglob("*.py")):
        limit = MAP_LINES if path == ROOT / "agentconnect" / "app.py" else MODULE_LINES
        count = len(path.read_text(encoding="utf-8").splitlines())
        if count > limit:
            too_long += 1
            print(f"{path.relative_to(ROOT)}: {count} lines, {limit} allowed", file=sys.stderr)
    return 1 if too_long else 0


if __name__ == "__main__":
    sys.exit(main())
