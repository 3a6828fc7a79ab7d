"""The names of the checks, which programs rely on."""

import re
from pathlib import Path

from agentconnect.config.envfile import About

_SAID = re.compile(r"\b(?:ok|warning|failure)\(\s*f?\"([a-z.{}]+)\"")
_STORES = ("journal", "deliveries", "sessions", "access", "children")


def test_every_check_is_explained(repo_root: Path) -> None:
    """What the code can say, docs/doctor.md has a row for."""
    said: set[str] = set()
    for path in (repo_root / "agentconnect" / "doctor").glob("*.py"):
        said |= set(_SAID.findall(path.read_text(encoding="utf-8")))
    assert {"relay.token", "service.linger", "store.{name}"} <= said
    names = {name for name in said if "{" not in name}
    names |= {f"config.{about.value}" for about in About} | {f"store.{name}" for name in _STORES}
    docs = (repo_root / "docs" / "doctor.md").read_text(encoding="utf-8")
    rows = set(re.findall(r"`([a-z.]+)`", "".join(re.findall(r"^\|[^|]*\|", docs, re.M))))
    assert names == rows
