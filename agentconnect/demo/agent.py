"""The demonstration agent: ACP methods in, turns out. Runs on the official SDK (asyncio).

One conversation per session id, one turn at a time in each. A turn records what was asked before
it works and what it answered before it ends; the end of stdin ends the process at once.
"""

import asyncio
import logging
import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import acp
from acp import RequestError, update_agent_message_text, update_user_message_text
from acp.interfaces import Client
from acp.schema import (
    AgentCapabilities,
    Implementation,
    InitializeResponse,
    LoadSessionResponse,
    NewSessionResponse,
    PromptCapabilities,
    PromptResponse,
    ResumeSessionResponse,
    SessionCapabilities,
    SessionResumeCapabilities,
)

from agentconnect.deliver import CAPABILITY, Destination, declared, destination
from agentconnect.demo import talk, wording
from agentconnect.demo.files import FileProblemError, Folder
from agentconnect.demo.followups import ABOUT_A_FILE, REPEATABLE, settle
from agentconnect.demo.intents import Intent, Kind
from agentconnect.demo.job import Job
from agentconnect.demo.later import send_late
from agentconnect.demo.memory import Conversation, Memory, Turn, home_of
from agentconnect.demo.prompt import read_prompt
from agentconnect.demo.requests import parse
from agentconnect.demo.stage import Stage, TurnStoppedError
from agentconnect.demo.work import WORK, about_attached, received

log = logging.getLogger("agentconnect.demo")

VERSION = "0.1.0"
NAME = "agentconnect demonstration agent"
_QUESTION = "Which one do you mean?"


class DemoAgent:
    """The methods the SDK calls. A plain class: what is not here is answered "not found"."""

    def __init__(self, home: Path) -> None:
        self._memory = Memory(home)
        self._outbox = home / "outbox.db"
        self._late: asyncio.Task[None] | None = None
        self._open: dict[str, Conversation] = {}
        self._running: dict[str, Stage] = {}
        self._client: Client | None = None

    def on_connect(self, conn: Client) -> None:
        """The SDK hands over the client's side."""
        self._client = conn

    async def initialize(
        self, protocol_version: int, client_capabilities: Any = None, **meta: Any
    ) -> InitializeResponse:
        """Who we are and what we can; the members of the request's ``_meta`` come by name.

        A client that takes deliveries on this connection gets those that wait.
        """
        if declared(client_capabilities, meta) and self._late is None:
            # begins after this answer is on its way: nothing in between gives it the turn
            self._late = asyncio.create_task(send_late(self._outbox, self._request))
        return InitializeResponse(
            protocol_version=acp.PROTOCOL_VERSION,
            agent_capabilities=AgentCapabilities(
                load_session=True,
                prompt_capabilities=PromptCapabilities(image=True, embedded_context=True),
                session_capabilities=SessionCapabilities(resume=SessionResumeCapabilities()),
                field_meta=dict(CAPABILITY),
            ),
            agent_info=Implementation(name="agentconnect-demo", title=NAME, version=VERSION),
            auth_methods=[],
        )

    async def new_session(self, cwd: str, **_: Any) -> NewSessionResponse:
        """A fresh conversation in a folder."""
        _require_folder(cwd)
        conversation = self._memory.new(cwd)
        self._open[conversation.id] = conversation
        return NewSessionResponse(session_id=conversation.id)

    async def load_session(self, session_id: str, cwd: str, **_: Any) -> LoadSessionResponse:
        """Continue a conversation, after showing it once more."""
        conversation = self._continue(session_id, cwd)
        for turn in conversation.turns:
            await self._update(session_id, update_user_message_text(turn.said))
            if turn.answer:
                await self._update(session_id, update_agent_message_text(turn.answer))
        return LoadSessionResponse()

    async def resume_session(self, session_id: str, cwd: str, **_: Any) -> ResumeSessionResponse:
        """Continue a conversation in silence."""
        self._continue(session_id, cwd)
        return ResumeSessionResponse()

    async def cancel(self, session_id: str, **_: Any) -> None:
        """Stop the running turn, if there is one."""
        stage = self._running.get(session_id)
        if stage is not None:
            stage.stop()

    async def prompt(self, session_id: str, prompt: Sequence[Any], **meta: Any) -> PromptResponse:
        """One turn. Each prompt says anew where late results go, or that there is no such place."""
        conversation = self._open.get(session_id)
        if conversation is None or self._client is None:
            raise RequestError.resource_not_found(session_id)
        if session_id in self._running:
            raise RequestError(-32600, "A turn is already running in this session.")
        stage = Stage(self._client, session_id)
        self._running[session_id] = stage
        try:
            stopped = await self._turn(conversation, stage, prompt, destination(meta))
        finally:
            del self._running[session_id]
        return PromptResponse(stop_reason="cancelled" if stopped else "end_turn")

    async def _turn(
        self,
        conversation: Conversation,
        stage: Stage,
        blocks: Sequence[Any],
        later: Destination | None,
    ) -> bool:
        """Answer one prompt; True when the client stopped it."""
        asked = read_prompt(blocks)
        record = Turn(said=asked.message, got=[item.describe() for item in asked.attached])
        if asked.attached:
            conversation.kept = asked.attached
        self._memory.begin(conversation, record)
        job = Job(
            stage=stage,
            folder=Folder(conversation.cwd),
            conversation=conversation,
            attached=asked.attached,
            now=datetime.now().astimezone(),
            later=later,
            outbox=self._outbox,
        )
        stopped = False
        intent = parse(asked.message)
        try:
            await stage.say(await _answer(job, intent))
            if conversation.count == 1 and intent.kind is not Kind.ABOUT:
                await stage.say(f"\n\n{wording.INTRODUCTION}")
        except TurnStoppedError as stop:
            stopped = True
            if str(stop):
                await stage.say(str(stop))
        except Exception:  # the boundary of a turn: the conversation goes on
            log.exception("a turn failed")
            await stage.say(wording.FAILED)
        record.answer = "".join(stage.said)
        self._memory.end(conversation)
        return stopped

    def _continue(self, session_id: str, cwd: str) -> Conversation:
        _require_folder(cwd)
        conversation = self._open.get(session_id) or self._memory.load(session_id)
        if conversation is None:
            raise RequestError.resource_not_found(session_id)
        conversation.cwd = cwd
        self._open[session_id] = conversation
        return conversation

    async def _request(self, method: str, params: dict[str, Any]) -> Any:
        """An extension request to the client; the SDK puts the underscore there by itself."""
        if self._client is None:
            raise ConnectionError("no client")
        return await self._client.ext_method(method.removeprefix("_"), params)

    async def _update(self, session_id: str, update: Any) -> None:
        if self._client is not None:
            await self._client.session_update(session_id=session_id, update=update)


async def _answer(job: Job, intent: Intent) -> str:
    """The text that answers one request; what a file made impossible is an answer, too."""
    if not job.attached:
        return await _plain_answer(job, intent)
    head = received(job)
    about = about_attached(job, intent)
    return f"{head}\n\n{about if about is not None else await _plain_answer(job, intent)}"


async def _plain_answer(job: Job, intent: Intent) -> str:
    conversation = job.conversation
    followed = intent.kind not in talk.ALONE
    plan = settle(intent, conversation.past(), job.folder.names() if followed else [])
    if plan.question:
        if intent.kind in ABOUT_A_FILE:
            conversation.last = intent
        conversation.asked = plan.question.endswith(_QUESTION)
        return plan.question
    conversation.asked = False
    answers = [await _one(job, single) for single in plan.intents]
    return "\n\n".join(answers)


async def _one(job: Job, intent: Intent) -> str:
    if intent.kind in REPEATABLE:
        job.conversation.last = intent
    simple = talk.simple(intent, job.conversation, job.now)
    if simple is not None:
        return simple
    try:
        return await WORK[intent.kind](job, intent)
    except FileProblemError as problem:
        job.conversation.asked = str(problem).endswith(_QUESTION)
        return str(problem)


def _require_folder(cwd: str) -> None:
    if not os.path.isabs(cwd) or not os.path.isdir(cwd):  # noqa: PTH112, PTH117 - asked once, no Path needed
        raise RequestError.invalid_params({"details": "cwd must be an existing absolute path"})


def serve() -> None:
    """Run until stdin ends, and be gone at once then, whatever a turn was doing."""
    asyncio.run(_serve())


async def _serve() -> None:
    agent = DemoAgent(home_of(dict(os.environ)))
    try:
        await acp.run_agent(agent, use_unstable_protocol=True)  # type: ignore[arg-type]
    finally:
        os._exit(0)  # nothing is left to flush: every message and every file was written whole
