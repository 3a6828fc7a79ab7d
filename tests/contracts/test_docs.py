"""The docs as a reader walks through them."""

import re
from pathlib import Path

_LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")


def test_every_link_inside_the_repository_leads_somewhere(repo_root: Path) -> None:
    """No page points to a page that is not there."""
    for page in [*repo_root.glob("*.md"), *(repo_root / "docs").rglob("*.md")]:
        for link in _LINK.findall(page.read_text(encoding="utf-8")):
            if not link.startswith(("http:", "https:", "mailto:")):
                assert (page.parent / link).exists(), (page.name, link)


def test_every_dependency_has_its_reason(repo_root: Path) -> None:
    """What pyproject.toml asks for, docs/dependencies.md explains."""
    project = (repo_root / "pyproject.toml").read_text(encoding="utf-8")
    wanted = re.findall(r'"([a-z][a-z0-9-]+)(?:==|>=)', project)
    reasons = (repo_root / "docs" / "dependencies.md").read_text(encoding="utf-8")
    assert [] == [name for name in wanted if name not in reasons]
    assert "trio" in wanted


def test_every_known_agent_is_in_the_docs(repo_root: Path) -> None:
    """A name that can be set can be looked up, with the version that is pinned."""
    presets = (repo_root / "agentconnect" / "acp" / "presets.py").read_text(encoding="utf-8")
    agents = (repo_root / "docs" / "agents.md").read_text(encoding="utf-8")
    names = re.findall(r'name="([a-z]+)"', presets)
    assert names
    assert [] == [name for name in names if f"`{name}`" not in agents]
    pins = re.findall(r'"(?:npm install -g )?(@?[a-z/-]+@[0-9][0-9.]+)"', presets)
    assert [] == [pin for pin in pins if pin not in agents]
