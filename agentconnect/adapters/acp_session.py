"""One conversation with an ACP agent: opened or continued, prompted, ended (worker.md §8.4, §12).

Owns the process of its room while that is warm. A turn never raises for what the agent did; only
cancellation passes through, and then the process is ended, since what it was told is unknown.
"""

import logging
from collections.abc import Awaitable, Callable
from functools import partial

import trio

from agentconnect.acp import Agent, Meta, Modes, PromptBlock, attach, words
from agentconnect.adapters import acp_endings as endings
from agentconnect.adapters.acp_conversation import Conversation, Reach
from agentconnect.adapters.acp_pool import AgentPool
from agentconnect.adapters.acp_shared import SessionSettings, Shared, framing_of
from agentconnect.adapters.contract import Emit, TurnContext
from agentconnect.core.acp.jsonrpc import METHOD_NOT_FOUND, detail_of
from agentconnect.core.errors import AgentConnectError, AgentError, AgentExitedError, PeerError
from agentconnect.core.task import SessionId, SessionKey
from agentconnect.core.turns import session as sessions
from agentconnect.core.turns import wording_acp as wording
from agentconnect.core.turns.events import Done, Notice, Reason
from agentconnect.core.turns.session import SessionRecord
from agentconnect.store.sessions import SessionStore

log = logging.getLogger("agentconnect.adapters")


Ask = Callable[[Agent, Conversation, Emit], Awaitable[Done]]
"""What is done with a conversation that is open."""


class _ModeMissingError(AgentConnectError):
    """The configured mode is not offered: that turn fails with its sentence."""


class AcpSession:
    """The conversation of one key. ``store`` is None where memory is off."""

    def __init__(
        self,
        key: SessionKey,
        *,
        settings: SessionSettings,
        pool: AgentPool,
        store: SessionStore | None,
        shared: Shared,
    ) -> None:
        self.key = key
        self.users = 0
        self._settings = settings
        self._pool = pool
        self._store = store
        self._shared = shared
        self._agent: Agent | None = None
        self._ending: Agent | None = None
        self._conversation: Conversation | None = None
        self._one_turn = trio.Lock()
        self._running = False
        self._interrupted = False
        self._opening = trio.CancelScope()
        self._prompting = False
        self._unsent_said = False
        self._modes = Modes()
        self._mode = ""

    @property
    def warm(self) -> bool:
        """It has a process that could be prompted."""
        return self._agent is not None and self._agent.usable

    @property
    def pid(self) -> int:
        """The warm process; 0 when there is none."""
        return self._agent.pid if self._agent is not None and self._agent.usable else 0

    # --- the contract -----------------------------------------------------------------------

    async def turn(self, ctx: TurnContext, emit: Emit) -> Done:
        """Run one turn to its end; every ending is a value."""
        return await self._alone(partial(self._prompt, ctx), emit)

    async def _alone(self, ask: Ask, emit: Emit) -> Done:
        """``ask`` with the conversation open, one at a time."""
        if self._one_turn.locked():
            await self._one_turn.acquire()
        else:  # no checkpoint: an interrupt may come right behind the call
            self._one_turn.acquire_nowait()
        try:
            self._interrupted = False
            self._running = True
            self._unsent_said = False
            settled = False
            try:
                if self._agent is not None:
                    self._pool.unpark(self._agent)
                if self._conversation is not None:
                    self._conversation.heard_prompt = False
                done = await self._turn(ask, emit)
                self._shared.trouble.ended(done)
                settled = True
                return done
            finally:
                self._running = False
                self._prompting = False
                self._after(settled=settled)
        finally:
            self._one_turn.release()

    async def interrupt(self) -> None:
        """Stop the running turn: ``session/cancel``, or no prompt at all when none was sent.

        An opening that is under way is given up: it may last as long as an agent takes to start.
        """
        if not self._running or self._interrupted:
            return
        self._interrupted = True
        self._opening.cancel()
        if self._prompting and self._agent is not None and self._conversation is not None:
            self._conversation.cancelled = True
            await self._agent.cancel(self._conversation.session_id)

    async def kill(self) -> None:
        """End its process group now."""
        agent = self._agent or self._ending
        if agent is not None:
            agent.stop(quick=True)
            with trio.CancelScope(shield=True):
                await agent.gone()

    async def retire(self) -> None:
        """The conversation is over for good: forget it and end its process."""
        self._let_go(over=True)
        if self._store is not None:
            await self._store.forget(self.key)

    # --- one turn ---------------------------------------------------------------------------

    def _after(self, *, settled: bool) -> None:
        agent = self._agent
        if agent is None:
            return
        if not settled:  # cancelled from outside
            self._cut_off()
        elif self._store is None:
            self._let_go(over=True)
        elif agent.usable:
            self._pool.park(agent)
        else:
            self._agent = None

    async def _turn(self, ask: Ask, emit: Emit) -> Done:
        stored = False
        try:
            while True:
                try:
                    opened, self._opening = None, trio.CancelScope()
                    with self._opening:  # may end: told to stop before anything was prompted
                        opened = await self._opened(emit)
                    if opened is None:
                        self._cut_off()
                    if opened is None or self._interrupted:
                        return Done(reason=Reason.CANCELLED)
                    agent, conversation = opened
                    if not stored:
                        await self._count_attempt(conversation)
                        stored = self._store is not None
                    return await ask(agent, conversation, emit)
                except AgentExitedError:
                    if not self._died_waiting():
                        raise
        except _ModeMissingError as error:
            self._let_go()
            return Done(reason=Reason.FAILED, note=str(error))
        except AgentConnectError as error:
            return self._failed(error, stored=stored)

    def _died_waiting(self) -> bool:
        """It died before this turn and nobody had noticed: it never got the prompt."""
        agent, conversation = self._agent, self._conversation
        heard = conversation is not None and conversation.heard_prompt
        return agent is not None and agent.waited and not heard and not self._interrupted

    def _failed(self, error: AgentConnectError, *, stored: bool) -> Done:
        if self._interrupted:
            return Done(reason=Reason.CANCELLED)  # an error after our cancel is the cancel's end
        agent = self._agent
        offered = tuple(m.name or m.id for m in agent.info.auth_methods) if agent else ()
        if endings.is_auth(error) or endings.lost_session(error) or isinstance(error, PeerError):
            self._let_go()
        resumable = stored or (self._store is not None and self._store.get(self.key) is not None)
        done = endings.failed(
            error,
            resumable=resumable,
            login=self._settings.login,
            offered=offered,
            dialled=self._settings.reach is not Reach.CHILD,
        )
        self._shared.trouble.failed(endings.problem_of(error, done))
        return done

    async def _prompt(
        self, ctx: TurnContext, agent: Agent, conversation: Conversation, emit: Emit
    ) -> Done:
        files = await attach(
            ctx.task.attachments,
            agent.info.accepts,
            self._settings.attachment_max_bytes,
            local=self._settings.reach is not Reach.ELSEWHERE,
        )
        if files.unsent and not self._unsent_said:
            self._unsent_said = True
            lines = [(item.label, item.mime, item.reason) for item in files.unsent]
            emit(Notice(text=wording.unsent_files_notice(lines, files.accepts)))
        meta = await self._shared.later.meta(self.key)
        if self._interrupted:
            return Done(reason=Reason.CANCELLED)
        framing = framing_of(
            ctx, self._settings, files.labels, [item.label for item in files.unsent]
        )
        inline = self._settings.inline_dir
        begin = conversation.open(emit, inline / ctx.task.id if inline else None)
        blocks = (words(f"{framing}\n\n{ctx.prompt}"), *files.blocks)
        stop_reason = await self._settled(agent, conversation, blocks, meta, begin)
        return endings.stopped(stop_reason, by_us=self._interrupted)

    async def _settled(
        self,
        agent: Agent,
        conversation: Conversation,
        blocks: tuple[PromptBlock, ...],
        meta: Meta | None,
        begin: Callable[[], None],
    ) -> str:
        """The agent's word for how this prompt ended; from then on the conversation hears nothing.

        ``begin`` is called once the prompt is out.
        """
        self._prompting = True
        try:
            stop_reason = await agent.prompt(
                conversation.session_id,
                blocks,
                meta=meta,
                on_sent=begin,
                on_settled=conversation.close,
            )
        finally:
            self._prompting = False
            conversation.close()
        await self._note_end()
        return stop_reason

    async def _count_attempt(self, conversation: Conversation) -> None:
        """Before the prompt: a turn that crashes still counts."""
        if self._store is None:
            return
        known = self._store.get(self.key) or SessionRecord(
            key=self.key, session_id=SessionId(conversation.session_id), cwd=self._settings.cwd
        )
        await self._store.put(sessions.attempt(known, self._shared.wall_clock()))
        if self._store.due:
            self._pool.later(self._store.settle)

    async def _note_end(self) -> None:
        if self._store is not None and (record := self._store.get(self.key)):
            self._store.note(sessions.touched(record, self._shared.wall_clock()))

    # --- opening ----------------------------------------------------------------------------

    async def _opened(self, emit: Emit) -> tuple[Agent, Conversation]:
        """The agent with this conversation open: warm, reopened or fresh."""
        record = await self._usable_record(emit)
        agent, conversation = self._agent, self._conversation
        if agent is not None and conversation is not None:
            if record and agent.usable and conversation.session_id == record.session_id:
                if conversation.mode != self._mode:
                    log.warning("the agent went into the mode %s by itself", conversation.mode)
                    await self._set_mode(agent, conversation, self._modes)
                return agent, conversation
            self._let_go()
        agent = await self._pool.fresh()
        conversation = Conversation(
            cwd=self._settings.cwd,
            execute_allowed=self._settings.execute_allowed and not self.key.collaborator,
            reach=self._settings.reach,
            own_folder=lambda: self._shared.later.folder(self.key),
        )
        self._agent, self._conversation = agent, conversation
        agent.listener = conversation
        if record is not None and await self._reopened(agent, conversation, record, emit):
            return agent, conversation
        meta = await self._shared.later.meta(self.key)
        conversation.opening()
        opened = await agent.new_session(self._settings.cwd, meta)
        conversation.session_id = opened.session_id
        conversation.mode = opened.modes.current
        await self._set_mode(agent, conversation, opened.modes)
        return agent, conversation

    async def _usable_record(self, emit: Emit) -> SessionRecord | None:
        if self._store is None:
            return None
        record = self._store.get(self.key)
        if record is None:
            if self._store.lost and self.key not in self._shared.unread_said:
                self._shared.unread_said.add(self.key)
                emit(Notice(text=wording.unread_notice()))
            return None
        limits, now = self._settings.limits, self._shared.wall_clock()
        why = sessions.retired(record, limits, cwd=self._settings.cwd, wall_now=now)
        if why is None:
            return record
        await self.retire()
        idle_s = now - record.updated_at
        emit(Notice(text=wording.retired_notice(why, turns=limits.turns, idle_s=idle_s)))
        return None

    async def _reopened(
        self, agent: Agent, conversation: Conversation, record: SessionRecord, emit: Emit
    ) -> bool:
        """Continue the stored conversation; False (announced) when the agent does not."""
        assert self._store is not None
        resume = agent.info.can_resume and not self._shared.resume_broken
        conversation.session_id, cwd = record.session_id, self._settings.cwd
        meta = await self._shared.later.meta(self.key)
        for by_resume in (True, False):
            if not (resume if by_resume else agent.info.can_load):
                continue
            conversation.opening()
            try:
                opened = await agent.reopen(record.session_id, cwd, resume=by_resume, meta=meta)
            except AgentError as error:
                if endings.is_auth(error):
                    raise
                if by_resume and error.code == METHOD_NOT_FOUND:
                    self._shared.resume_broken = True
                    continue
                return await self._lost(wording.refused_notice(detail_of(error)), emit)
            conversation.mode = opened.modes.current
            await self._set_mode(agent, conversation, opened.modes)
            if not by_resume:
                await conversation.quiet()
                if not conversation.replayed and record.turns:
                    return await self._lost(wording.empty_notice(), emit)
            return True
        if self.key in self._shared.load_missing_said:
            return await self._lost("", emit)
        self._shared.load_missing_said.add(self.key)
        return await self._lost(wording.cannot_load_notice(), emit)

    async def _lost(self, notice: str, emit: Emit) -> bool:
        assert self._store is not None
        await self._store.forget(self.key)
        if notice:
            emit(Notice(text=notice))
        return False

    async def _set_mode(self, agent: Agent, conversation: Conversation, modes: Modes) -> None:
        """Put the session into the mode that is due, where it is not in it (acp.md §5).

        Raises: _ModeMissingError or AgentError for a mode of the settings; a preset's own costs one
        line in the log.
        """
        self._modes, self._mode = modes, conversation.mode
        wanted = self._settings.mode or self._settings.asking_mode
        if not wanted or conversation.mode == wanted:
            return
        if modes.offered and wanted not in modes.offered:
            if self._settings.mode:
                raise _ModeMissingError(wording.mode_missing(wanted, modes.offered))
            log.warning("the agent offers no mode %s: it may act without asking", wanted)
            return
        try:
            await agent.set_mode(conversation.session_id, wanted, modes.config_id)
            self._mode = conversation.mode = wanted
        except AgentError as error:
            if self._settings.mode or endings.is_auth(error):
                raise
            log.warning("the mode %s was refused: %s", wanted, detail_of(error))

    def _cut_off(self) -> None:
        """Nobody knows how far its process is: it is not used again."""
        agent, self._agent = self._agent, None
        if agent is not None:
            self._pool.unpark(agent)
            agent.stop(quick=True)
            self._ending = agent

    def _let_go(self, *, over: bool = False) -> None:
        """Its process has no more to do here; ``over``: nor will the conversation be continued."""
        if self._agent is not None:
            self._pool.unpark(self._agent)
            known = self._conversation.session_id if self._conversation is not None else ""
            self._agent.stop(over=known if over else "")
        self._agent = None
        self._conversation = None
