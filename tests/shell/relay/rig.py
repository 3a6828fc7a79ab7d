"""A relay client against the scriptable broker, with a journal on disk."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trio

from agentconnect.core.relay.credential import build
from agentconnect.core.task import Task
from agentconnect.relay import Relay, RelayConfig, RelayStatus, open_relay
from agentconnect.store.journal import Journal, open_journal
from agentconnect.store.layout import Layout


@dataclass
class Rig:
    """What a test looks at."""

    relay: Relay
    journal: Journal
    layout: Layout
    taken: list[Task] = field(default_factory=list)
    statuses: list[RelayStatus] = field(default_factory=list)
    failure: BaseException | None = None
    changed: trio.Event = field(default_factory=trio.Event)

    refuse: bool = False

    def hand_over(self, task: Task) -> None:
        if self.refuse:
            raise RuntimeError("a consumer's mistake")
        self.taken.append(task)
        self.poke()

    def poke(self) -> None:
        self.changed.set()
        self.changed = trio.Event()

    async def tasks(self, count: int = 1) -> list[Task]:
        """Wait for so many tasks."""
        with trio.fail_after(60):
            while len(self.taken) < count:
                await self.changed.wait()
        return self.taken

    async def state(self, state: str, *, error: bool = False) -> RelayStatus:
        """Wait for a state of the client, with an error to show if asked for."""
        with trio.fail_after(60):
            while True:
                for status in self.statuses:
                    if status.state == state and bool(status.error) >= error:
                        return status
                await self.changed.wait()

    async def until(self, condition: Callable[[], Any], within_s: float = 60.0) -> None:
        """Wait for a state that nobody announces."""
        with trio.fail_after(within_s):
            while not condition():
                await trio.sleep(0.01)

    async def sql(self, statement: str) -> None:
        """Change the journal's file behind its back."""
        connection = sqlite3.connect(self.layout.journal)
        connection.execute(statement)
        connection.commit()
        connection.close()


@asynccontextmanager
async def running(
    broker: Any,
    state_dir: Path,
    *,
    polling: bool = True,
    posting: bool = True,
    **config: Any,
) -> AsyncIterator[Rig]:
    """The client with its poller and outbox, stopped with the context."""
    layout = Layout(state_dir=state_dir)
    layout.prepare()
    credential = config.pop("credential", None) or build(token=f"{broker.base}|{broker.secret}")
    settings = RelayConfig(
        credential=credential,
        status_path=layout.connection_status,
        guard_path=layout.guard,
        media_dir=layout.media,
        **config,
    )
    statuses: list[RelayStatus] = []
    holder: list[Rig] = []

    def on_status(status: RelayStatus) -> None:
        statuses.append(status)
        for rig in holder:
            rig.poke()

    async with (
        open_journal(layout.journal) as journal,
        open_relay(settings, journal, on_status=on_status) as relay,
        trio.open_nursery() as work,
    ):
        rig = Rig(relay, journal, layout, statuses=statuses)
        holder.append(rig)

        async def poll() -> None:
            try:
                await relay.take_tasks(rig.hand_over)
            except Exception as error:  # noqa: BLE001 - the test looks at it
                rig.failure = error
                rig.poke()

        if posting:
            work.start_soon(relay.post_results)
        if polling:
            work.start_soon(poll)
        yield rig
        work.cancel_scope.cancel()
