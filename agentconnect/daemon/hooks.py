"""Webhooks that start an unattended turn (§14): a path of its own beside Notify and prompts.

The answer goes to the configured target by the workers' ``send``, and that is all it shares: no
authorization, no event.
"""

import logging
from collections.abc import Mapping
from urllib.parse import unquote_to_bytes
from uuid import uuid4

import msgspec

from agentconnect.channels.file import Channels as ChannelsFile
from agentconnect.channels.file import Source
from agentconnect.core.daemon.guard import check_secret, token_digest
from agentconnect.core.daemon.host import worker_request
from agentconnect.core.daemon.refusals import WEBHOOK_UNAUTHORIZED, Refusal, delivery_refusal
from agentconnect.core.daemon.target import Target, TargetType
from agentconnect.core.daemon.webhook import (
    MAX_WAITING,
    UNKNOWN_TARGET,
    WEBHOOKS_FULL,
    WebhookCall,
    read_webhook,
)
from agentconnect.core.daemon.workspaces import Workspace
from agentconnect.core.destination import Code, blank
from agentconnect.daemon.asking import Answer, Asked, RefusedError, ok
from agentconnect.daemon.edge import SECRET_HEADER
from agentconnect.daemon.ports import Channels
from agentconnect.daemon.session import Job, Session
from agentconnect.daemon.sessions import Sessions

log = logging.getLogger("agentconnect.daemon")


class _Found(msgspec.Struct, frozen=True):
    workspace: Workspace
    channel: str
    source: Source


class Hooks:
    """The webhooks of all workspaces."""

    def __init__(
        self,
        workspaces: tuple[Workspace, ...],
        files: Mapping[str, ChannelsFile],
        channels: Channels,
        sessions: Sessions,
    ) -> None:
        self._known: dict[tuple[str, str], list[_Found]] = {}
        self._channels = channels
        self._sessions = sessions
        self._session: dict[str, Session] = {}
        for workspace in workspaces:
            file = files.get(workspace.id, ChannelsFile())
            for channel, sources in file.webhooks.items():
                for name, source in sources.items():
                    found = _Found(workspace, channel, source)
                    self._known.setdefault((channel, name), []).append(found)

    def check(self, channel: bytes, source: bytes, secrets: tuple[str, ...]) -> bool:
        """Whether the secret is right; before the body is read."""
        return self._find(channel, source, secrets) is not None

    async def accept(self, asked: Asked) -> Answer:
        """Queue the turn: taken, not delivered."""
        secrets = asked.headers.get(SECRET_HEADER, ())
        found = self._find(asked.params["channel"], asked.params["source"], secrets)
        if found is None:
            raise RefusedError(WEBHOOK_UNAUTHORIZED)
        body = asked.json()
        call = read_webhook(body)
        if isinstance(call, Refusal):
            raise RefusedError(call)
        target = found.source.targets.get(call.target_ref)
        if target is None:
            raise RefusedError(UNKNOWN_TARGET)
        if self._channels.refusal(found.workspace.id) is Code.UNAVAILABLE:
            raise RefusedError(delivery_refusal(Code.UNAVAILABLE))
        self._sessions.check(found.workspace)
        session = self._open(found.workspace)
        if session.pending >= MAX_WAITING:
            raise RefusedError(WEBHOOKS_FULL)
        to = Target(channel_name=found.channel, type=TargetType(target.type), id=target.id)
        self._queue(session, call, to)
        return ok({"accepted": True}, 202)

    def _queue(self, session: Session, call: WebhookCall, to: Target) -> None:
        run_id = str(uuid4())

        def ended(final: str | None) -> None:
            if final is not None and not blank(final):
                self._sessions.host.start(self._send, session.workspace, run_id, to, final)

        block = {"type": "text", "text": call.prompt()}
        session.queue(
            Job(id=run_id, blocks=(block,), of={}, captures=True, ended=ended, unheard=True),
            bounded=False,
        )

    async def _send(self, workspace: Workspace, run_id: str, to: Target, text: str) -> None:
        try:
            request = worker_request(run_id, to, text)
            await self._channels.deliver(workspace.id, request, source="webhook")
        except Exception as error:  # noqa: BLE001 - nobody waits for it
            log.error("an attempt failed by our mistake: %s", type(error).__name__)  # noqa: TRY400

    def _open(self, workspace: Workspace) -> Session:
        known = self._session.get(workspace.id)
        if known is None or known.over.is_set():
            known = self._session[workspace.id] = self._sessions.revived(str(uuid4()), workspace)
        return known

    def _find(self, channel: bytes, source: bytes, secrets: tuple[str, ...]) -> _Found | None:
        key = tuple(unquote_to_bytes(raw).decode("utf-8", "replace") for raw in (channel, source))
        known = self._known.get((key[0], key[1]), [])
        right = [each for each in known if check_secret(secrets, token_digest(each.source.secret))]
        if not known:
            check_secret(secrets, None)  # as long as with one
        return right[0] if right else None
