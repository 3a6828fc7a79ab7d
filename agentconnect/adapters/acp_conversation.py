"""What one conversation hears from its agent, turned into our events (worker.md §8.6).

Owns the gate: nothing passes before the prompt is out, nothing after its answer came, and nothing
that carries an id of a replay or of an earlier turn. No ACP type goes past here.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec
import trio

from agentconnect.acp import real_folder, resolve_all
from agentconnect.adapters.acp_pictures import save_picture
from agentconnect.adapters.contract import Emit
from agentconnect.core.acp.capture import Blocks, StaleIds, Step, Tools
from agentconnect.core.acp.endpoint import lexical_all
from agentconnect.core.acp.permission import (
    Option,
    Verdict,
    is_command,
    judge,
    refusal,
    targets,
)
from agentconnect.core.acp.updates import HISTORY, Block, Notified, Other, PlanList, Text, ToolPatch
from agentconnect.core.turns import wording_acp as wording
from agentconnect.core.turns.events import (
    Action,
    BlockSuperseded,
    Event,
    FileOffered,
    MessageChunk,
    Notice,
    PermissionAsked,
    Plan,
    Thinking,
    ToolFinished,
    ToolRetitled,
    ToolStarted,
)

log = logging.getLogger("agentconnect.adapters")

QUIET_S = 0.25
QUIET_CAP_S = 5.0
"""A replay may go on after the answer to ``session/load``: wait for silence (acp.md §5)."""
MAX_PICTURES = 10
"""An answer brings no more files than that (worker.md §10.2), so no more are kept."""
MAX_OFFERED = 50
"""Files of one turn, sent or refused by name; an agent in a loop offers them without end."""
MAX_NOTICES = 10
"""Messages of their own that one turn may cause in the room."""
MAX_TEXT_CHARS = 16_000_000
"""Text of one turn; a relay takes far less of an answer."""

Hear = Callable[[msgspec.Raw], None]
"""Takes the ``update`` objects of one turn as they came, in wire order. Never raises."""

_ACTIONS = {
    "read": Action.READ,
    "edit": Action.EDIT,
    "delete": Action.EDIT,
    "move": Action.EDIT,
    "execute": Action.EXECUTE,
    "search": Action.SEARCH,
}


class Reach(StrEnum):
    """Where the agent is, seen from here."""

    CHILD = "child"
    LOOPBACK = "loopback"
    ELSEWHERE = "elsewhere"
    """Another machine: its paths are not ours, neither to be looked up nor to be sent."""


class _Turn:
    """What belongs to one open turn and is forgotten with it."""

    def __init__(self, emit: Emit, pictures: Path | None, hear: Hear | None) -> None:
        self.emit = emit
        self.hear = hear
        self.pictures = pictures
        self.blocks = Blocks()
        self.tools = Tools()
        self.message_ids: dict[str, None] = {}
        self.own_ids: set[str | None] = set()
        self.images = 0
        self.offered = 0
        self.chars = 0
        self.noticed: set[str] = set()

    def notice(self, text: str) -> None:
        """Say it in the room, once; beyond the limit only that there was more."""
        if text in self.noticed or len(self.noticed) > MAX_NOTICES:
            return
        full = len(self.noticed) == MAX_NOTICES
        self.noticed.add(text)
        self.emit(Notice(text=wording.too_many_notices() if full else text))

    def kept(self, text: str) -> str:
        """As much of this answer text as there is still room for."""
        left = MAX_TEXT_CHARS - self.chars
        self.chars += len(text)
        if len(text) > left:
            self.notice(wording.too_much_text(MAX_TEXT_CHARS))
        return text[: max(left, 0)]

    def offer(self, path: str, name: str) -> None:
        """One more file for the answer."""
        self.offered += 1
        if self.offered > MAX_OFFERED:
            self.notice(wording.too_many_files(MAX_OFFERED))
        else:
            self.emit(FileOffered(path=path, name=name))


class Conversation:
    """The listener of one session, from before it is opened until its process ends."""

    def __init__(
        self,
        *,
        cwd: str,
        execute_allowed: bool,
        reach: Reach = Reach.CHILD,
        own_folder: Callable[[], str | None] = lambda: None,
    ) -> None:
        """``own_folder``: where this session puts what it delivers later, if anywhere."""
        self.session_id = ""
        self.mode = ""
        """The mode the session is in, as far as was told; an agent may change it by itself."""
        self.cancelled = False
        self.late = 0
        """Updates that came too late for their turn and were dropped (design decision 13)."""
        self.replayed = 0
        self.heard_prompt = False
        """The prompt of the last turn went out whole."""
        self._cwd = cwd
        self._execute_allowed = execute_allowed
        self._own_folder = own_folder
        self._local = reach is not Reach.ELSEWHERE
        self._replayed = StaleIds()
        self._finished = StaleIds()
        self._turn: _Turn | None = None
        self._heard_at = 0.0
        self._late_said = False
        self._replaying = False

    # --- the gate ---------------------------------------------------------------------------

    def opening(self) -> None:
        """A session call is about to be written: what comes now is history."""
        self._turn = None
        self._replaying = True
        self.replayed = 0

    async def quiet(self) -> None:
        """Return when the replay has fallen silent, at the latest after the cap."""
        self._heard_at = trio.current_time()
        with trio.move_on_after(QUIET_CAP_S):
            while (  # noqa: ASYNC110 - silence is what is waited for
                left := self._heard_at + QUIET_S - trio.current_time()
            ) > 0:
                await trio.sleep(left)

    def open(
        self, emit: Emit, pictures: Path | None, hear: Hear | None = None
    ) -> Callable[[], None]:
        """Prepare a turn; the returned callable lets updates through, once the prompt is out."""
        self.cancelled = False
        self.heard_prompt = False
        self._late_said = False
        turn = _Turn(emit, pictures, hear)

        def begin() -> None:
            self._replaying = False
            self.heard_prompt = True
            self._turn = turn

        return begin

    def close(self) -> None:
        """The turn's answer was read, in wire order: later updates belong to nobody."""
        if self._turn is not None:
            self._finished.add(self._turn.message_ids)
            self._finished.add(self._turn.tools.ids())
            self._turn = None

    # --- updates (acp.agent.Listener) -------------------------------------------------------

    async def updated(self, notified: Notified) -> None:
        """One update, in wire order."""
        update = notified.update
        mine = notified.session_id == self.session_id
        if mine and self._turn is not None and self._turn.hear and not self._is_stale(update):
            self._turn.hear(notified.raw)
        if isinstance(update, Other) and update.mode_id:
            if mine:
                self.mode = update.mode_id
            return
        if self._turn is None:
            self._outside_a_turn(update)
            return
        if not mine or isinstance(update, Other):
            return
        if self._is_stale(update):
            self._drop_late()
            return
        match update:
            case Text(kind="agent_message_chunk"):
                await self._said(self._turn, update)
            case Text(kind="agent_thought_chunk", block=Block(text=text)) if text:
                self._turn.emit(Thinking(text=text))
            case Text():
                return  # the person's own words: history, or an echo
            case PlanList(entries=entries):
                self._turn.emit(Plan(entries=entries))
            case ToolPatch():
                if update.begins:
                    self._turn.own_ids.add(update.tool_id)
                self._turn.blocks.tool()
                for step in self._turn.tools.step(update):
                    self._turn.emit(_event_of(step))

    def _outside_a_turn(self, update: object) -> None:
        self._heard_at = trio.current_time()
        match update:
            case Text(kind=kind, message_id=message_id):
                self._history_ids.add([message_id])
                self._count_history(kind)
            case ToolPatch(tool_id=tool_id):
                self._history_ids.add([tool_id])
                self._count_history("tool_call")
            case PlanList():
                self._count_history("plan")
            case _:
                pass

    @property
    def _history_ids(self) -> StaleIds:
        return self._replayed if self._replaying else self._finished

    def _count_history(self, kind: str) -> None:
        if kind not in HISTORY:
            return
        if self._replaying:
            self.replayed += 1
        else:
            self._drop_late()

    def _drop_late(self) -> None:
        self.late += 1
        if not self._late_said:
            self._late_said = True
            log.info("session=%s updates after their turn are dropped", self.session_id)

    def _is_stale(self, update: object) -> bool:
        match update:
            case ToolPatch(tool_id=each, begins=True):
                return each in self._replayed  # numbered anew in each turn, by some agents
            case Text(message_id=each) | ToolPatch(tool_id=each):
                if self._turn is not None and each in self._turn.own_ids:
                    return False
                return each in self._replayed or each in self._finished
            case _:
                return False

    async def _said(self, turn: _Turn, update: Text) -> None:
        block = update.block
        if update.message_id is not None:
            turn.message_ids[update.message_id] = None
        match block.type:
            case "text":
                if text := turn.kept(block.text):
                    placed = turn.blocks.chunk(text, update.message_id)
                    turn.emit(MessageChunk(text=text, block=placed.block))
                    for number in placed.superseded:
                        turn.emit(BlockSuperseded(block=number))
            case "resource_link":
                _link(block, turn, local=self._local)
            case "image":
                await self._picture(turn, block)
            case other:
                turn.notice(wording.inline_content_notice(other or "unknown"))

    async def _picture(self, turn: _Turn, block: Block) -> None:
        turn.images += 1
        if turn.images > MAX_PICTURES:
            turn.notice(wording.too_many_files(MAX_PICTURES))
            return
        path = None
        if turn.pictures is not None:
            with trio.CancelScope(shield=True):  # bounded by the size; a half-written file is none
                path = await trio.to_thread.run_sync(
                    save_picture, turn.pictures, turn.images, block.data
                )
        if path is None:
            turn.notice(wording.inline_content_notice(block.mime or "image"))
        else:
            turn.offer(path, Path(path).name)

    # --- permission -------------------------------------------------------------------------

    async def permission(
        self, session_id: str, call: ToolPatch, options: Sequence[Option]
    ) -> str | None:
        """Judge one request by the working directory and the session's own export folder.

        None answers ``cancelled``.
        """
        turn = self._turn
        if turn is None or session_id != self.session_id:
            return refusal(options)  # before the prompt or of another session: refused, not shown
        if self.cancelled:
            return None
        known = turn.tools.known(call)
        roots = await self._roots()
        real = await self._resolved(targets(known)[:1001])
        if self.cancelled or self._turn is not turn:
            return None
        decision = judge(
            known, options, roots=roots, real=real, execute_allowed=self._execute_allowed
        )
        command = decision.reason is Verdict.UNLOCATABLE and is_command(known)
        turn.emit(
            PermissionAsked(
                title=decision.title,
                allowed=decision.allowed,
                reason=wording.permission_reason(
                    "command" if command else decision.reason.value, decision.outside
                ),
                paths=decision.paths,
            )
        )
        return decision.option_id

    async def _roots(self) -> tuple[str, ...]:
        folder = self._own_folder() if self._local else None
        if folder is None:
            return (self._cwd,)
        return (self._cwd, await trio.to_thread.run_sync(real_folder, folder))

    async def _resolved(self, paths: tuple[str, ...]) -> Mapping[str, str | None]:
        if not self._local:
            return lexical_all(paths, self._cwd)
        return await trio.to_thread.run_sync(resolve_all, paths, self._cwd)


def _event_of(step: Step) -> Event:
    action = _ACTIONS.get(step.kind, Action.OTHER)
    if step.finished:
        return ToolFinished(tool_id=step.tool_id, title=step.title, failed=step.failed)
    kind = ToolStarted if step.started else ToolRetitled
    return kind(tool_id=step.tool_id, title=step.title, action=action)


def _link(block: Block, turn: _Turn, *, local: bool) -> None:
    """A link becomes a file to send, text, or a word that it cannot be sent (worker.md §10.3)."""
    try:
        parts = urlsplit(block.uri)
        path = unquote(parts.path, errors="strict")
    except ValueError:
        turn.notice(wording.link_notice(block.name, block.uri))
        return
    scheme = parts.scheme.lower()
    if local and scheme == "file" and parts.netloc.lower() in ("", "localhost") and path:
        turn.offer(path, block.name)
    elif scheme in ("http", "https"):
        if text := turn.kept(wording.link_text(block.name, block.uri)):
            turn.emit(MessageChunk(text=text, block=turn.blocks.alone()))
    else:
        turn.notice(wording.link_notice(block.name, block.uri))
