"""ollama: a local chat model over its HTTP API (worker.md §7.1). It touches no files and needs no
login, so guests are served too.
"""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
import msgspec
import trio

from agentconnect.adapters.contract import Emit, TurnContext
from agentconnect.adapters.oneshot import begun
from agentconnect.adapters.trouble import Problem, Trouble, unheard
from agentconnect.core.errors import PreflightError
from agentconnect.core.task import SessionKey
from agentconnect.core.turns import cli_text, oneshot
from agentconnect.core.turns import wording_cli as wording
from agentconnect.core.turns.events import Done, Reason
from agentconnect.core.turns.oneshot import Ask

PREFLIGHT_S = 5.0
CONNECT_S = 10.0
ANSWER_BYTES = 8 * 1024 * 1024


class OllamaSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Which model, where, and the working directory that the preamble speaks of."""

    cwd: str
    host: str
    model: str


class _Reply(msgspec.Struct, frozen=True):
    status: int
    body: bytes


class OllamaAdapter:
    """The adapter ``ollama``."""

    name = "ollama"
    serves_guests = True
    remote = False
    shares_files = True

    def __init__(self, settings: OllamaSettings, *, problem: Problem = unheard) -> None:
        """Raises: SettingsError when the host is no address."""
        self.trouble = Trouble(problem)
        self._settings = settings
        self._base = cli_text.ollama_base(settings.host)
        self.shown = cli_text.shown_address(self._base)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """There are no processes of ours."""
        task_status.started()
        await trio.sleep_forever()

    async def preflight(self) -> str:
        """Ask the server for its models, for 5 s at most.

        Raises: PreflightError when it does not answer, or does not have the model.
        """
        model = self._settings.model
        try:
            with trio.fail_after(PREFLIGHT_S):
                reply = await self.call("GET", "/api/tags")
        except (httpx.HTTPError, OSError, trio.TooSlowError) as error:
            raise PreflightError(wording.ollama_absent(self.shown, _cause(error))) from error
        found = _read(reply.body)
        models = found.get("models") if found is not None else None
        if reply.status != 200 or not isinstance(models, list):
            cause = f"HTTP {reply.status} without a list of models"
            raise PreflightError(wording.ollama_absent(self.shown, cause))
        known = tuple(_name(item) for item in models)
        if not cli_text.model_present(model, known):
            raise PreflightError(wording.ollama_model_absent(self.shown, model, known))
        return wording.described(self.name, f"{model} at {self.shown}")

    @asynccontextmanager
    async def session(self, key: SessionKey) -> AsyncIterator["OllamaSession"]:
        """Nothing is kept from one message to the next."""
        yield OllamaSession(self, self._settings)

    async def call(self, method: str, path: str, content: object = None) -> _Reply:
        """One request, its answer bounded.

        Raises: httpx.HTTPError, OSError.
        """
        timeout = httpx.Timeout(None, connect=CONNECT_S)  # the turn has the deadline
        transport = httpx.AsyncHTTPTransport(trust_env=False)
        with trio.CancelScope() as reading:  # may end: the answer is too big
            async with (
                httpx.AsyncClient(transport=transport, timeout=timeout, trust_env=False) as client,
                client.stream(method, self._base + path, json=content) as response,
            ):
                body = bytearray()
                async for block in response.aiter_bytes():
                    body += block
                    if len(body) > ANSWER_BYTES:  # no break: that leaves the stream half open
                        reading.cancel()
                return _Reply(response.status_code, bytes(body))
        raise httpx.ReadError("the answer is too big")


class OllamaSession:
    """One message's request."""

    def __init__(self, adapter: OllamaAdapter, settings: OllamaSettings) -> None:
        self._adapter = adapter
        self._settings = settings
        self._asking = trio.CancelScope()

    async def turn(self, ctx: TurnContext, emit: Emit) -> Done:
        """Ask the model. Cancellation: the connection is closed, which stops the model."""
        began = trio.current_time()
        ask = begun(ctx, self._settings.cwd, emit)
        with self._asking:  # may end: the turn is stopped
            done = await self._ask(ask)
            self._adapter.trouble.failed(oneshot.problem_of(done))
            self._adapter.trouble.ended(done)
            return done
        return oneshot.stopped(self._adapter.name, trio.current_time() - began, "")

    async def interrupt(self) -> None:
        """Hang up. Idempotent."""
        self._asking.cancel()

    async def kill(self) -> None:
        """Hang up. Idempotent."""
        self._asking.cancel()

    async def _ask(self, ask: Ask) -> Done:
        model = self._settings.model
        content = {
            "model": model,
            "prompt": oneshot.encoded(ask.prompt).decode(),
            "stream": False,
        }
        try:
            reply = await self._adapter.call("POST", "/api/generate", content)
        except (httpx.HTTPError, OSError) as error:
            sentence = wording.ollama_unreachable(self._adapter.shown, _cause(error), model)
            return oneshot.failure(sentence)
        found = _read(reply.body)
        if reply.status != 200 or (found is not None and "error" in found):
            return oneshot.failure(wording.ollama_error(reply.status, _error(found, reply.body)))
        text = found.get("response") if found is not None else None
        if found is None or not isinstance(text, str):
            return oneshot.failure(wording.ollama_unreadable())
        answer = cli_text.without_thoughts(text)
        if not answer:
            return oneshot.failure(wording.no_output(self._adapter.name, ""))
        cut = found.get("done_reason") == "length"
        return Done(reason=Reason.TOKEN_LIMIT if cut else Reason.COMPLETED, text=answer)


def _read(body: bytes) -> Mapping[str, Any] | None:
    try:
        found = json.loads(body.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _name(item: object) -> str:
    name = item.get("name") or item.get("model") if isinstance(item, dict) else ""
    return name if isinstance(name, str) else ""


def _error(found: Mapping[str, Any] | None, body: bytes) -> str:
    said = found.get("error") if found is not None else None
    if isinstance(said, dict):
        said = said.get("message")
    return said if isinstance(said, str) else body[:300].decode("utf-8", "replace")


def _cause(error: Exception) -> str:
    if isinstance(error, trio.TooSlowError):
        return f"no answer within {PREFLIGHT_S:.0f} s"
    return str(error) or type(error).__name__
