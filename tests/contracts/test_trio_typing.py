"""What holds for trio-typing beside this Trio (docs/dependencies.md); needs the extra."""

import inspect
from pathlib import Path
from typing import Any

import trio

from tests.support.optional import optional

trio_typing: Any = optional("trio_typing")


def test_its_task_status_knows_trios(repo_root: Path) -> None:
    """A task status of Trio's passes its runtime check."""
    assert isinstance(trio.TASK_STATUS_IGNORED, trio_typing.TaskStatus)


def test_its_nursery_is_trios() -> None:
    """What code annotated with the extra means is the class that Trio hands out."""
    assert trio_typing.Nursery is trio.Nursery


def test_its_async_generator_check_agrees_with_the_language() -> None:
    """A native async generator is one for it too."""

    async def generate() -> Any:
        yield 1

    assert isinstance(generate(), trio_typing.AsyncGenerator)
    assert inspect.isasyncgenfunction(generate)


async def test_a_trio_run_takes_functions_that_it_annotates(nursery: trio.Nursery) -> None:
    """``nursery.start`` works with a function annotated by the extra's own types."""

    async def ready(*, task_status: "trio_typing.TaskStatus[int]") -> None:
        task_status.started(7)

    assert 7 == await nursery.start(ready)


def test_the_package_takes_its_types_from_trio(repo_root: Path) -> None:
    """The worker never imports the extra, and no configuration names its mypy plugin."""
    for path in (repo_root / "agentconnect").rglob("*.py"):
        assert "trio_typing" not in path.read_text(encoding="utf-8"), path
    assert "trio_typing.plugin" not in (repo_root / "pyproject.toml").read_text(encoding="utf-8")
