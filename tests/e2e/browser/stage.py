"""A stage for the browser tests: a real relay, a scripted agent, a person's browser.

Playwright's sync API is bound to one thread and must not see the Trio loop, so a whole scenario is
one plain function run in a thread; it reaches back to the loop through :class:`Stage`.
"""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx
import outcome
import trio
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    expect,
    sync_playwright,
)

from tests.support.relay import Relay, running_relay

T = TypeVar("T")
Script = Callable[[Relay, dict[str, Any]], Awaitable[None]]

WIDE = {"width": 1280, "height": 800}
NARROW = {"width": 390, "height": 844}
PLACEHOLDER = "⏳ On it..."
#: A quiet browser that asks nobody for anything.
_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
_WAIT_MS = 40_000
expect.set_options(timeout=_WAIT_MS)


async def echo(relay: Relay, task: dict[str, Any]) -> None:
    """An agent's turn: placeholder, two steps, the answer in the same message."""
    placed = await placeholder(relay)
    for step in ("Read the question", "Think about it"):
        await relay.op("edit", event_id=placed, body=f"{PLACEHOLDER}\n\n{step}")
    await finish(relay, task, placed, f"You said: **{task['task']}**")


async def placeholder(relay: Relay) -> str:
    """Post the placeholder of the running task; its event id."""
    answer = await relay.op("message", body=PLACEHOLDER)
    assert answer.status_code == 200, answer.text
    event_id: str = answer.json()["event_id"]
    return event_id


async def finish(relay: Relay, task: dict[str, Any], placed: str, body: str) -> None:
    """Edit the placeholder to the answer and complete the task."""
    await relay.op("edit", event_id=placed, body=body)
    await relay.complete(task["id"], f"[REPLIED]{body}")


class Stage:
    """What a scenario may do outside its browser."""

    def __init__(self, folder: Path, **told: Any) -> None:
        self._folder = folder
        self._told = told
        self._relay: Relay | None = None
        self._stopped = trio.Event()
        self._wish = trio.Event()
        self._scope: trio.CancelScope | None = None
        self.script: Script = echo
        self.port = 0
        self.link = ""

    @property
    def relay(self) -> Relay:
        """The relay that is running now."""
        assert self._relay is not None
        return self._relay

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep a relay with its agent until cancelled; :meth:`stop` ends one life of it."""
        with trio.CancelScope() as self._scope:
            async with (
                running_relay(self._folder, port=self.port, **self._told) as self._relay,
                trio.open_nursery() as agents,
            ):
                self.port = int(self.relay.relay.origin.rpartition(":")[2])
                self.link = self.relay.setup.page_url
                agents.start_soon(self._work)
                task_status.started()
                await trio.sleep_forever()
        self._stopped.set()

    async def _work(self) -> None:
        relay = self.relay
        while True:
            try:
                tasks = await relay.poll(20)
            except httpx.HTTPError:  # the relay is being stopped under us
                await trio.sleep_forever()
            for task in tasks:
                await relay.ack(task["id"])
                await self.script(relay, task)

    def call(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        """From the scenario's thread: run something on the loop and wait for it."""
        return trio.from_thread.run(function, *args)

    def say(self, body: str, sender: str = "", room: str = "") -> str:
        """Post as the owner or another member."""

        async def post() -> str:
            return await self.relay.say(body, sender=sender, room=room)

        return self.call(post)

    def stop(self) -> None:
        """End the relay; its folder stays."""

        async def end() -> None:
            assert self._scope is not None
            self._scope.cancel()
            await self._stopped.wait()
            self._stopped = trio.Event()

        self.call(end)

    def start(self) -> None:
        """Run the relay again, on the same port and folder."""

        async def again() -> None:
            await self.nursery.start(self.run)

        self.call(again)

    nursery: trio.Nursery


class Visitor:
    """A browser window of one person, with everything its console complained about."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        page.set_default_timeout(_WAIT_MS)
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def open(self, url: str) -> Page:
        """Go there and wait until the rooms are shown."""
        self.page.goto(url)
        self.page.wait_for_selector("body[data-screen=rooms]")
        return self.page

    def messages(self) -> list[str]:
        """The texts of the open room's messages."""
        return self.page.locator("article.msg .msg-body").all_inner_texts()


def until(page: Page, expression: str) -> None:
    """Wait for a condition; Playwright's own way needs ``eval``, which our policy refuses."""
    for _ in range(_WAIT_MS // 50):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"never true: {expression}")


class Windows:
    """Opens browser windows for people."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self.visitors: list[Visitor] = []

    def new(self, size: dict[str, int] = WIDE, **options: Any) -> Visitor:
        """A window with a cookie jar of its own."""
        context: BrowserContext = self._browser.new_context(viewport=size, **options)  # type: ignore[arg-type]
        visitor = Visitor(context.new_page())
        self.visitors.append(visitor)
        return visitor


@contextmanager
def browser(path: str) -> Iterator[Windows]:
    """A headless Chromium, in the thread that calls it."""
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=path, args=_FLAGS)
        try:
            yield Windows(started)
        finally:
            started.close()


@asynccontextmanager
async def stage(folder: Path, **told: Any) -> AsyncIterator[Stage]:
    """A running relay with its agent; ``told`` is what a worker beside it tells."""
    made = Stage(folder, **told)
    async with trio.open_nursery() as nursery:
        made.nursery = nursery
        await nursery.start(made.run)
        yield made
        nursery.cancel_scope.cancel()


Scenario = Callable[[Stage, Windows], None]


async def play(
    folder: Path,
    chromium_path: str,
    scenario: Scenario,
    *,
    may_fail: tuple[str, ...] = (),
    **told: Any,
) -> None:
    """Run a scenario; afterwards no console may have complained but for ``may_fail``."""
    shots = os.environ.get("AGENTCONNECT_SHOTS")

    async with stage(folder, **told) as made:

        def perform() -> list[str]:
            with browser(chromium_path) as windows:
                try:
                    scenario(made, windows)
                finally:
                    if shots:
                        for number, visitor in enumerate(windows.visitors):
                            name = f"{folder.name}-{number}.png"
                            visitor.page.screenshot(path=Path(shots) / name)
                return [one for visitor in windows.visitors for one in visitor.complaints]

        def attempt() -> outcome.Maybe[list[str]]:
            return outcome.capture(perform)

        # unwrapped outside the nursery, so that a failure is read as it is and not as a group
        result = await trio.to_thread.run_sync(attempt)
    complaints = result.unwrap()
    unexpected = [one for one in complaints if not any(known in one for known in may_fail)]
    assert unexpected == []
