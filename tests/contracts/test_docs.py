"""The docs as a reader walks through them."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+)$", re.M)
_FENCED = re.compile(r"^```.*?^```$", re.M | re.S)


def pages(repo_root: Path) -> list[Path]:
    return [*repo_root.glob("*.md"), *(repo_root / "docs").rglob("*.md")]


def links(page: Path) -> Iterator[tuple[Path, str]]:
    """The target and the anchor of every link that stays inside the repository."""
    for link in _LINK.findall(page.read_text(encoding="utf-8")):
        if not link.startswith(("http:", "https:", "mailto:")):
            path, _, anchor = link.partition("#")
            yield (page.parent / path).resolve() if path else page, anchor


def anchors(page: Path) -> set[str]:
    """What a forge makes of the page's headings."""
    text = _FENCED.sub("", page.read_text(encoding="utf-8"))
    shown = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title) for title in _HEADING.findall(text))
    return {re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-") for title in shown}


def test_every_link_inside_the_repository_leads_somewhere(repo_root: Path) -> None:
    """No page points to a page, or to a heading of one, that is not there."""
    found = [(page, *link) for page in pages(repo_root) for link in links(page)]
    assert [] == [(page.name, path) for page, path, _ in found if not path.exists()]
    named = [(page.name, path, anchor) for page, path, anchor in found if anchor]
    assert 5 < len(named)
    assert [] == [link for link in named if link[2] not in anchors(link[1])]


def test_every_page_is_reached_from_the_readme(repo_root: Path) -> None:
    """Whoever follows links misses no page."""
    seen: set[Path] = set()
    ahead = [repo_root / "README.md"]
    while ahead:
        page = ahead.pop()
        if page not in seen and page.suffix == ".md":
            seen.add(page)
            ahead += [path for path, _ in links(page)]
    assert set() == set(pages(repo_root)) - seen


def test_every_decision_is_in_the_list(repo_root: Path) -> None:
    """The decisions are numbered without a gap, and each is listed with its own title."""
    folder = repo_root / "docs" / "adr"
    listed = re.findall(
        r"^\| \[(\d+)\]\(([^)]+)\) \| (.+) \|$", (folder / "README.md").read_text(), re.M
    )
    files = sorted(path.name for path in folder.glob("[0-9]*.md"))
    assert files == [name for _, name, _ in listed]
    assert list(range(1, len(files) + 1)) == [int(number) for number, _, _ in listed]
    assert [f"{int(name[:4])}" for name in files] == [number for number, _, _ in listed]
    for number, name, title in listed:
        first = (folder / name).read_text(encoding="utf-8").splitlines()[0]
        assert f"# {number}. {title}" == first


def test_every_dependency_has_its_reason(repo_root: Path) -> None:
    """What pyproject.toml asks for, docs/dependencies.md has a row for, and no more."""
    project = tomllib.loads((repo_root / "pyproject.toml").read_text(encoding="utf-8"))
    asked = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    for extra in project["project"]["optional-dependencies"].values():
        asked += extra
    wanted = {re.split(r"[=<>\[]", name)[0] for name in asked} - {"agentconnect"}
    reasons = (repo_root / "docs" / "dependencies.md").read_text(encoding="utf-8")
    rows = set(re.findall(r"^\| ([a-z0-9-]+) \|", reasons, re.M)) - {"package"}
    assert wanted == rows


def test_every_known_agent_is_in_the_docs(repo_root: Path) -> None:
    """A name that can be set can be looked up, with the version that is pinned."""
    presets = (repo_root / "agentconnect" / "acp" / "presets.py").read_text(encoding="utf-8")
    agents = (repo_root / "docs" / "agents.md").read_text(encoding="utf-8")
    names = re.findall(r'name="([a-z]+)"', presets)
    assert names
    assert [] == [name for name in names if f"`{name}`" not in agents]
    pins = re.findall(r'"(?:npm install -g )?(@?[a-z/-]+@[0-9][0-9.]+)"', presets)
    assert [] == [pin for pin in pins if pin not in agents]
