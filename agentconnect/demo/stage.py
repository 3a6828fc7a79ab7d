"""One turn as its client sees it: text, steps, permission, and being stopped.

The only module besides the agent that knows the SDK's message types.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from acp import plan_entry, start_tool_call, update_plan, update_tool_call
from acp.helpers import text_block, tool_content, tool_diff_content
from acp.interfaces import Client
from acp.schema import (
    AgentMessageChunk,
    PermissionOption,
    ToolCallLocation,
    ToolCallUpdate,
    ToolKind,
)

CHUNK_CHARACTERS = 2000

_OPTIONS = (
    ("allow", "Allow", "allow_once"),
    ("allow-always", "Allow for this conversation", "allow_always"),
    ("reject", "Refuse", "reject_once"),
    ("reject-always", "Refuse for this conversation", "reject_always"),
)


class TurnStoppedError(Exception):
    """The client cancelled the turn; the message is what can be said of the work so far."""


class Stage:
    """What a turn does in the room."""

    def __init__(self, client: Client, session_id: str) -> None:
        self._client = client
        self._session_id = session_id
        self._stop = asyncio.Event()
        self._message_id = uuid.uuid4().hex
        self.said: list[str] = []

    def stop(self) -> None:
        """The client asked for the end of this turn."""
        self._stop.set()

    def check(self, so_far: str = "") -> None:
        """Raises: TurnStoppedError once the turn was cancelled."""
        if self._stop.is_set():
            raise TurnStoppedError(so_far)

    async def pause(self, seconds: float, so_far: str = "") -> None:
        """Wait, but not past a cancel. Raises: TurnStoppedError."""
        try:
            await asyncio.wait_for(self._stop.wait(), seconds)
        except TimeoutError:
            return
        raise TurnStoppedError(so_far)

    async def say(self, text: str) -> None:
        """Answer text, in pieces of a bounded size."""
        self.said.append(text)
        for start in range(0, len(text), CHUNK_CHARACTERS):
            piece = text_block(text[start : start + CHUNK_CHARACTERS])
            await self._send(
                AgentMessageChunk(
                    session_update="agent_message_chunk",
                    content=piece,
                    message_id=self._message_id,
                )
            )

    async def plan(self, entries: list[str], done: int) -> None:
        """The plan, with the first ``done`` entries completed."""
        await self._send(
            update_plan(
                plan_entry(
                    text,
                    status="completed" if i < done else "in_progress" if i == done else "pending",
                )
                for i, text in enumerate(entries)
            )
        )

    @asynccontextmanager
    async def step(self, title: str, kind: ToolKind, path: str = "") -> AsyncIterator[None]:
        """One step, shown as running and then as done, or as failed when it raises."""
        call = uuid.uuid4().hex
        await self._send(
            start_tool_call(
                call,
                title,
                kind=kind,
                status="in_progress",
                locations=[ToolCallLocation(path=path)] if path else None,
                raw_input={"path": path} if path else None,
            )
        )
        try:
            yield
        except Exception:
            await self._send(update_tool_call(call, status="failed"))
            raise
        await self._send(update_tool_call(call, status="completed"))

    async def write_step(
        self, title: str, path: str, text: str | None, *, ask: bool
    ) -> tuple[str, str]:
        """Open a step for a write and ask for it: (the step's id, the option's kind).

        The kind is ``allow_always`` without asking where ``ask`` is false, and ``cancelled``
        where the client chose nothing. Raises: TurnStoppedError.
        """
        call = uuid.uuid4().hex
        details: dict[str, Any] = {
            "kind": "edit",
            "locations": [ToolCallLocation(path=path)],
            "raw_input": {"path": path},
            "content": [tool_diff_content(path, text)] if text is not None else None,
        }
        await self._send(start_tool_call(call, title, status="pending", **details))
        kind = "allow_always"
        if ask:
            kind = await self._permission(
                ToolCallUpdate(tool_call_id=call, title=title, status="pending", **details)
            )
        if kind.startswith("allow"):
            await self._send(update_tool_call(call, status="in_progress"))
        else:
            await self.close_step(call, failed=True)
        return call, kind

    async def close_step(self, call: str, *, failed: bool, note: str = "") -> None:
        """The end of a step that :meth:`write_step` opened."""
        await self._send(
            update_tool_call(
                call,
                status="failed" if failed else "completed",
                content=[tool_content(text_block(note))] if note else None,
            )
        )

    async def _permission(self, call: ToolCallUpdate) -> str:
        """The kind of the chosen option; a cancelled turn does not wait for the answer."""
        options = [PermissionOption(option_id=i, name=n, kind=k) for i, n, k in _OPTIONS]  # type: ignore[arg-type]
        asked = asyncio.ensure_future(
            self._client.request_permission(
                session_id=self._session_id, tool_call=call, options=options
            )
        )
        stopped = asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait({asked, stopped}, return_when=asyncio.FIRST_COMPLETED)
            self.check("I was waiting for a permission and had written nothing.")
            outcome = (await asked).outcome
        finally:
            asked.cancel()
            stopped.cancel()
        chosen = getattr(outcome, "option_id", "")
        return next((kind for ident, _, kind in _OPTIONS if ident == chosen), "cancelled")

    async def _send(self, update: Any) -> None:
        await self._client.session_update(session_id=self._session_id, update=update)
