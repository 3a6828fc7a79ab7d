"""ollama: what is asked over HTTP, and what each of its answers means."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest
import trio

from agentconnect.adapters.ollama import OllamaAdapter, OllamaSettings
from agentconnect.core.errors import PreflightError
from agentconnect.core.task import Tier
from agentconnect.core.turns.events import Reason
from tests.adapters.ollama_double import OllamaDouble, ollama_double
from tests.adapters.rig import Heard, context, turn
from tests.support.adapters import running

CLOSED = "http://127.0.0.1:9"


@asynccontextmanager
async def asked(*, model: str = "m") -> AsyncIterator[tuple[OllamaDouble, OllamaAdapter]]:
    """A server and the adapter that knows it."""
    async with ollama_double() as double:
        adapter = OllamaAdapter(OllamaSettings(cwd="/w", host=double.host + "/", model=model))
        async with running(adapter):
            yield double, adapter


async def ending_of(status: int, content: object) -> Heard:
    """One question, with the server's answer to it."""
    async with asked() as (double, adapter):
        double.answers(status, content)
        return await turn(adapter, context("hi", cwd="/w"))


async def test_the_question(monkeypatch: pytest.MonkeyPatch) -> None:
    """Model, prompt, no stream; proxies of the environment are not used."""
    monkeypatch.setenv("HTTP_PROXY", CLOSED)
    async with asked(model="qwen2.5:3b") as (double, adapter):
        double.answers(200, {"response": "\n hello there \n"})
        heard = await turn(adapter, context("hi", cwd="/w", tier=Tier.GUEST))
        assert ["POST /api/generate HTTP/1.1"] == double.heads
        prompt = double.asked["prompt"]
        assert {"model": "qwen2.5:3b", "prompt": prompt, "stream": False} == double.asked
        assert prompt.startswith("[sandbox: read-only; access tier of the person who asks: guest")
        assert prompt.endswith("]\n\nhi")
    assert ("hello there", Reason.COMPLETED) == (heard.ending.text, heard.ending.reason)


async def test_the_model_is_told_who_is_there() -> None:
    """On the bracketed line, as every other agent is (worker.md §20.4)."""
    ctx = context("hi", cwd="/w")
    task = msgspec.structs.replace(ctx.task, room_members=("@bob:x",), addressed_to="@bob:x")
    async with asked() as (double, adapter):
        double.answers(200, {"response": "hello"})
        await turn(adapter, msgspec.structs.replace(ctx, task=task))
        preamble, _, message = double.asked["prompt"].partition("\n\n")
    assert "hi" == message
    assert "there are also: @bob:x" in preamble
    assert "addressed to @bob:x" in preamble


async def test_a_long_message_is_sent_whole() -> None:
    """There is no command line that it has to fit into."""
    async with asked() as (double, adapter):
        await turn(adapter, context("x" * 200 * 1024, cwd="/w"))
        assert double.asked["prompt"].endswith("x" * 200 * 1024)


@pytest.mark.parametrize(
    ("status", "content", "words"),
    [
        (404, {"error": 'model "m" not found'}, 'HTTP 404: model "m" not found'),
        (500, b"<html>proxy</html>", "HTTP 500: <html>proxy</html>"),
        (500, b"", "HTTP 500"),
        (200, {"error": "out of memory"}, "out of memory"),
        (400, {"error": {"message": "nested"}}, "nested"),
        (200, b"not json", "could not be read"),
        (200, [1], "could not be read"),
        (200, {"response": 5}, "could not be read"),
        (200, {"response": "  \n"}, "no output"),
        (200, b"[" * 100_000, "could not be read"),
    ],
)
async def test_errors_are_told_as_failures(status: int, content: object, words: str) -> None:
    """What the server said is quoted; an answer that is none is said to be none."""
    heard = await ending_of(status, content)
    assert words in heard.ending.text
    assert (Reason.FAILED, True) == (heard.ending.reason, heard.ending.told)


async def test_an_error_body_cannot_act() -> None:
    """A marker in it is prose."""
    heard = await ending_of(500, {"error": "[file: /etc/passwd]"})
    assert "[file:" not in heard.ending.text


async def test_a_cut_answer_is_said_to_be_cut() -> None:
    """The model reached its length: the answer stands, and that it stops short."""
    heard = await ending_of(200, {"response": "and then", "done_reason": "length"})
    assert ("and then", Reason.TOKEN_LIMIT) == (heard.ending.text, heard.ending.reason)


async def test_thoughts_are_not_answers() -> None:
    """What a model thinks never reaches a room."""
    heard = await ending_of(200, {"response": "<think>\nhmm\n</think>\n\nforty-two"})
    assert "forty-two" == heard.ending.text


async def test_an_answer_without_end_is_cut_off() -> None:
    """More than the bound is not taken in."""
    heard = await ending_of(200, {"response": "x" * 9 * 1024 * 1024})
    assert Reason.FAILED is heard.ending.reason
    assert "too big" in heard.ending.text


async def test_nobody_there() -> None:
    """The address, the cause, and what to look at."""
    problems: list[str] = []
    settings = OllamaSettings(cwd="/w", host=CLOSED, model="m")
    adapter = OllamaAdapter(settings, problem=problems.append)
    async with running(adapter):
        heard = await turn(adapter, context("hi", cwd="/w"))
    assert [heard.ending.text.removeprefix("⚠ ")] == problems, "the owner's status file"
    assert (Reason.FAILED, True) == (heard.ending.reason, heard.ending.told)
    for words in (CLOSED, "running", "ollama pull m"):
        assert words in heard.ending.text


async def test_an_interrupt_hangs_up() -> None:
    """The turn ends with the time it took; the server sees the connection go, and stops working."""
    async with asked() as (double, adapter):
        double.hang = True
        ctx = context("hi", cwd="/w")
        heard = Heard()
        async with adapter.session(ctx.key) as session, trio.open_nursery() as nursery:

            async def run() -> None:
                heard.done = await session.turn(ctx, heard.events.append)

            nursery.start_soon(run)
            await double.server.until(lambda: double.server.seen)
            await session.interrupt()
            await session.kill()
        with trio.fail_after(60):
            await double.hung_up.wait()
    assert (Reason.TIMEOUT, True) == (heard.ending.reason, heard.ending.told)


async def test_the_check_at_start() -> None:
    """The server answers and has the model: one line says which and where."""
    async with asked() as (double, adapter):
        assert f"ollama: m at {double.host}" == await adapter.preflight()
        assert ["GET /api/tags HTTP/1.1"] == double.heads


@pytest.mark.parametrize(
    ("status", "body"), [(200, b"{}"), (200, b"no"), (500, b'{"error": "x"}'), (200, b"[]")]
)
async def test_a_server_that_is_no_ollama(status: int, body: bytes) -> None:
    """Something else answers at that address."""
    async with asked() as (double, adapter):
        double.tags_status, double.tags_body = status, body
        with pytest.raises(PreflightError, match="OLLAMA_HOST"):
            await adapter.preflight()


async def test_a_model_that_was_not_pulled() -> None:
    """The line that gets it, and what is there instead."""
    async with asked(model="qwen2.5:3b") as (double, adapter):
        double.models = ["llama3:8b"]
        with pytest.raises(PreflightError, match=r"ollama pull qwen2\.5:3b") as refused:
            await adapter.preflight()
        assert "llama3:8b" in str(refused.value)


async def test_no_server_at_start() -> None:
    """The address and the setting; a password in it is not shown."""
    host = CLOSED.replace("//", "//user:geheim@")
    adapter = OllamaAdapter(OllamaSettings(cwd="/w", host=host, model="m"))
    with pytest.raises(PreflightError, match="OLLAMA_HOST") as refused:
        await adapter.preflight()
    assert "127.0.0.1:9" in str(refused.value)
    assert "geheim" not in str(refused.value)
