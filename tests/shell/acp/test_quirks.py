"""What real agents do beside the protocol, each done by the scripted agent (acp-agents.md §6).

``tests/contracts/test_acp_quirks.py`` says which quirk of which agent is tried where.
"""

import json
import os
import shlex
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from agentconnect.adapters.acp_session import AcpSession
from agentconnect.core.task import Attachment
from agentconnect.core.turns.events import (
    Done,
    Event,
    Notice,
    Reason,
    ToolFinished,
    ToolRetitled,
    ToolStarted,
)
from agentconnect.store.sessions import SessionStore
from tests.shell.acp.rig import (
    Outcome,
    alive,
    fake_command,
    number_in,
    room,
    running,
    until,
)


def ask(**call: Any) -> str:
    """The directive that asks with this tool call."""
    return f"#ask-json {json.dumps(call)}"


def update(of: str, **fields: Any) -> str:
    """The directive that sends this update."""
    return f"#update {json.dumps({'sessionUpdate': of, **fields})}"


def installed(folder: Path, binary: str, options: dict[str, Any]) -> dict[str, str]:
    """A PATH on which the scripted agent is a known one."""
    folder = folder / "bin"
    folder.mkdir(exist_ok=True)
    options = {"state": str(folder / "sessions.json")} | options
    script = folder / binary
    script.write_text(f"#!/bin/sh\nexec {shlex.join(fake_command(options))}\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


def log_of(path: Path) -> list[dict[str, Any]]:
    """What the agent was sent."""
    return [json.loads(line) for line in path.read_bytes().splitlines()]


@asynccontextmanager
async def undecided() -> AsyncIterator[None]:
    """Within the block a permission request waits: there is no thread to look at the disk."""
    limiter = trio.to_thread.current_default_thread_limiter()
    held = limiter.total_tokens
    limiter.total_tokens = 1
    try:
        async with limiter:
            await until(lambda: limiter.statistics().tasks_waiting > 0)
            yield
    finally:
        limiter.total_tokens = held


# --- permission requests


@pytest.mark.parametrize(
    "options",
    [
        [("reject", "reject_once"), ("allow", "allow_once"), ("allow_always", "allow_always")],
        [
            ("allow-once", "allow_once"),
            ("allow-with-updates", "allow_always"),
            ("r", "reject_once"),
        ],
        [
            ("zzz", "allow_always"),
            ("a1", "allow_always"),
            ("yyy", "allow_once"),
            ("n", "reject_once"),
        ],
        [("p", "allow_once"), ("p2", "allow_once"), ("c", "reject_once")],
        [("ok", "allow_always"), ("forever", "a_new_kind"), ("no", "reject_always")],
    ],
    ids=["reject first", "other ids", "always first", "two of a kind", "no once"],
)
async def test_options_are_chosen_by_kind(options: list[tuple[str, str]], tmp_path: Path) -> None:
    """Whatever their ids and their order: once before always, never one that was not offered."""
    offered = [{"optionId": each, "name": each, "kind": kind} for each, kind in options]
    by_kind = {kind: each for each, kind in reversed(options)}
    allow = by_kind.get("allow_once") or by_kind["allow_always"]
    refuse = next(each for each, kind in options if kind.startswith("reject"))
    async with running(tmp_path, {"options": offered}) as rig:
        outcome = await rig.turn("#ask-write in.txt\n#ask-write /etc/out")
    assert f"[{allow}][{refuse}]" == outcome.answer


@pytest.mark.parametrize(
    ("options", "answer", "reason"),
    [
        ([{"optionId": "n", "name": "n", "kind": "reject_once"}], "[n]", "no way to allow"),
        ([], "[cancelled]", "no way to allow"),
    ],
)
async def test_without_a_way_to_allow_it_is_refused(
    options: list[dict[str, str]], answer: str, reason: str, tmp_path: Path
) -> None:
    """And the reply says why; an empty list is answered ``cancelled``."""
    async with running(tmp_path, {"options": options}) as rig:
        outcome = await rig.turn("#ask-write in.txt")
    assert answer == outcome.answer
    assert reason in outcome.asked[0].reason


async def test_request_ids_may_be_texts(tmp_path: Path) -> None:
    """UUIDs go back as they came."""
    async with running(tmp_path, {"ids": "uuid"}) as rig:
        assert "[yes][no]" == (await rig.turn("#ask-write a\n#ask-write /b")).answer


async def test_what_an_earlier_update_said_counts(tmp_path: Path) -> None:
    """Empty at first, filled by an update, and the request names nothing but the id."""
    async with running(tmp_path) as rig:
        outcome = await rig.turn(
            "\n".join(
                (
                    update("tool_call", toolCallId="t", title="", kind="edit", rawInput={}),
                    update(
                        "tool_call_update",
                        toolCallId="t",
                        title="Write in.txt",
                        rawInput={"file_path": "in.txt"},
                    ),
                    ask(toolCallId="t"),
                    update("tool_call_update", toolCallId="t", rawInput={"file_path": "/out"}),
                    ask(toolCallId="t", title=None),
                )
            )
        )
    assert "[yes][no]" == outcome.answer.replace("\n", "")
    assert ["Write in.txt"] * 2 == [asked.title for asked in outcome.asked]
    (started,) = [e for e in outcome.events if isinstance(e, ToolStarted)]
    (retitled,) = [e for e in outcome.events if isinstance(e, ToolRetitled)]
    assert ("", "Write in.txt") == (started.title, retitled.title)


@pytest.mark.parametrize(
    "call",
    [
        {"kind": "execute", "rawInput": {"command": "make"}},
        {"kind": "execute", "rawInput": {"command": ["make"], "cwd": "."}},
        {"kind": "execute", "title": "make", "locations": []},
        {"kind": "other", "rawInput": {"command": "make"}},
        {"rawInput": {"cmd": "make", "cwd": "."}},
        {"kind": "execute", "locations": [{"path": "."}]},
    ],
    ids=["no location", "cwd inside", "only a title", "other", "no kind", "location is cwd"],
)
async def test_a_command_is_never_made_safe_by_a_path(call: dict[str, Any], tmp_path: Path) -> None:
    """However an agent describes it."""
    async with running(tmp_path) as rig:
        outcome = await rig.turn(ask(toolCallId="c", **call))
        assert "[no]" == outcome.answer
        assert "AGENT_CONNECT_ACP_EXECUTE" in outcome.asked[0].reason


async def test_a_call_may_first_be_seen_in_its_request_or_its_end(tmp_path: Path) -> None:
    """No ``tool_call`` at all: the step is there once, with its title."""
    async with running(tmp_path) as rig:
        outcome = await rig.turn(
            ask(toolCallId="g", title="hello.txt", kind="edit", locations=[{"path": "hello.txt"}])
            + "\n"
            + update("tool_call_update", toolCallId="g", status="completed")
        )
    steps = [type(e) for e in outcome.events if isinstance(e, ToolStarted | ToolFinished)]
    assert [ToolStarted, ToolFinished] == steps
    assert "hello.txt" == next(e.title for e in outcome.events if isinstance(e, ToolStarted))


async def test_a_request_that_the_agent_takes_back(tmp_path: Path) -> None:
    """``$/cancel_request`` with the id 0, in the same write: answered, and the turn goes on."""
    async with running(tmp_path) as rig:
        outcome = await rig.turn("#ask-and-take-back in.txt\n#say on")
    assert "[cancelled]on" == outcome.answer
    assert [] == outcome.asked


async def test_a_refused_step_may_end_the_turn_without_a_word(tmp_path: Path) -> None:
    """``end_turn`` and no text: the refusal is all there is to tell."""
    async with running(tmp_path) as rig:
        outcome = await rig.turn(
            ask(
                toolCallId="x",
                title="/etc/passwd",
                kind="edit",
                locations=[{"path": "/etc/passwd"}],
            ).replace("#ask-json", "#ask-silently")
        )
    assert (Done(reason=Reason.COMPLETED), "") == (outcome.done, outcome.answer)
    assert [("/etc/passwd", False)] == [(a.title, a.allowed) for a in outcome.asked]


async def test_a_refused_step_may_end_the_turn_as_cancelled(tmp_path: Path) -> None:
    """Not by us: that is a turn that stopped early, with the refusal told."""
    async with running(tmp_path) as rig:
        outcome = await rig.turn("#say first\n#ask-write /out\n#stop cancelled")
    assert Reason.CANCELLED is outcome.done.reason
    assert "stopped early" in outcome.done.note
    assert [False] == [asked.allowed for asked in outcome.asked]


# --- the three phases of a cancel with a permission request


async def test_a_cancel_while_a_request_is_being_judged(tmp_path: Path) -> None:
    """It is answered ``cancelled`` at once, reported nowhere, and the agent then ends."""
    log = tmp_path / "log"

    async def cancel(session: AcpSession, events: list[Event]) -> None:
        await until(lambda: events)
        async with undecided():
            await session.interrupt()
            await until(lambda: b'"cancelled"' in log.read_bytes())

    async with running(tmp_path, {"log": str(log)}) as rig:
        with trio.fail_after(60):
            outcome = await rig.turn(
                "#say so\n#sleep 0.2\n#ask-write in.txt\n#sleep 60\n#say no", during=cancel
            )
    assert Done(reason=Reason.CANCELLED) == outcome.done
    assert "so[cancelled]" == outcome.answer
    assert [] == outcome.asked
    assert 1 == sum(message.get("method") == "session/cancel" for message in log_of(log))


async def test_a_cancel_after_a_request_was_allowed(tmp_path: Path) -> None:
    """What was allowed stays told; the tool that runs is the agent's to stop."""

    async def cancel(session: AcpSession, events: list[Event]) -> None:
        await until(lambda: any("[yes]" in str(e) for e in events))
        await session.interrupt()

    async with running(tmp_path) as rig:
        outcome = await rig.turn("#ask-write in.txt\n#sleep 60\n#say no", during=cancel)
    assert Done(reason=Reason.CANCELLED) == outcome.done
    assert [True] == [asked.allowed for asked in outcome.asked]


async def test_a_cancel_before_the_agent_asks(tmp_path: Path) -> None:
    """A turn that is held until its late request is answered ends all the same."""

    async def cancel(session: AcpSession, events: list[Event]) -> None:
        await until(lambda: events)
        await session.interrupt()

    async with running(tmp_path) as rig:
        with trio.fail_after(60):
            outcome = await rig.turn("#say on\n#ask-after-cancel /etc/out", during=cancel)
        assert Done(reason=Reason.CANCELLED) == outcome.done
        assert "on[cancelled]" == outcome.answer
        assert [] == outcome.asked
        assert "next" == (await rig.turn("#say next")).answer


# --- text


async def test_a_retried_answer_is_said_once_however_often(tmp_path: Path) -> None:
    """Seven copies under new message ids, then the token limit."""
    copies = "\n".join(f"#say-id assistan-{n} half a sentence" for n in range(7))
    async with running(tmp_path) as rig:
        outcome = await rig.turn(f"{copies}\n#stop max_tokens")
    assert "half a sentence" == outcome.answer
    assert Reason.TOKEN_LIMIT is outcome.done.reason


async def test_a_chunk_without_an_id_is_a_message_of_its_own(tmp_path: Path) -> None:
    """A notice amid an answer; warnings before one; both stay text."""
    async with running(tmp_path) as rig:
        outcome = await rig.turn("#say Warning: no metadata.\n#say-id m1 the answer\n#say a notice")
    assert "Warning: no metadata.\n\nthe answer\n\na notice" == outcome.answer


async def test_an_echo_of_the_prompt_is_not_an_answer(tmp_path: Path) -> None:
    """``user_message_chunk`` in a live turn."""
    echo = update("user_message_chunk", content={"type": "text", "text": "ECHO"})
    async with running(tmp_path) as rig:
        outcome = await rig.turn(f"{echo}\n#say answer")
    assert "answer" == outcome.answer
    assert 1 == len(outcome.events)


async def test_empty_chunks_and_strange_meta_change_nothing(tmp_path: Path) -> None:
    """The last chunk is empty and carries usage; ``_meta`` has any shape; new kinds appear."""
    text = {"type": "text", "text": ""}
    noise = "\n".join(
        (
            update("agent_message_chunk", content=text, _meta={"usage": {"total": 3}}),
            update("agent_message_chunk", content=text, _meta={"field_meta": {}}),
            update("usage_update", used=1, size=2, _meta=7),
            update("session_info_update", title="T"),
            update("something_new", content=[1]),
            update("plan_update", entries=None),
        )
    )
    async with running(tmp_path) as rig:
        outcome = await rig.turn(f"#say one\n{noise}\n#say , two")
    assert "one, two" == outcome.answer
    assert 2 == len(outcome.events)


async def test_updates_between_cancel_and_answer_are_heard(tmp_path: Path) -> None:
    """The partial text is all that came before the answer; what comes after it is nobody's."""

    async def cancel(session: AcpSession, events: list[Event]) -> None:
        await until(lambda: events)
        await session.interrupt()

    async with running(tmp_path, {"extra": {"usage": None}}) as rig:
        outcome = await rig.turn("#say part\n#late LATE\n#last-words  and a bit", during=cancel)
        assert "part and a bit" == outcome.answer
        assert Done(reason=Reason.CANCELLED) == outcome.done
        assert "next" == (await rig.turn("#say next")).answer


async def test_an_error_text_and_an_error_are_both_told(tmp_path: Path) -> None:
    """ "API Error" as an answer, and the same as the end of the turn."""
    async with running(tmp_path) as rig:
        outcome = await rig.turn("#say API Error: 400 bad thing\n#error -32603 400 bad thing")
    assert "API Error: 400 bad thing" == outcome.answer
    assert Reason.FAILED is outcome.done.reason
    assert "400 bad thing" in outcome.done.note


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            {"code": -32603, "message": "Internal error", "data": {"message": "no model"}},
            "no model",
        ),
        (
            {
                "code": -32603,
                "message": "Internal error",
                "data": {"errorKind": "max_output_tokens"},
            },
            "max_output_tokens",
        ),
        ({"code": 500, "message": "terminated"}, "terminated"),
        ({"code": 401, "message": '{"error":{"message":"nope"}}'}, "nope"),
        ({"code": -31002, "message": "Invalid API key"}, "Invalid API key"),
        ({"code": -32600, "message": "Invalid request", "data": "inner died"}, "inner died"),
        ({"code": "x", "data": [1]}, "unnamed error"),
    ],
)
async def test_errors_of_every_shape(error: dict[str, Any], words: str, tmp_path: Path) -> None:
    """Codes of HTTP, codes of their own, the words in ``data`` or in JSON inside the message."""
    async with running(tmp_path) as rig:
        outcome = await rig.turn(f"#say part\n#error-json {json.dumps(error)}")
        assert Reason.FAILED is outcome.done.reason
        assert words in outcome.done.note
        assert "part" == outcome.answer
        assert "next" == (await rig.turn("#say next")).answer


async def test_a_refusal_with_an_apology_keeps_the_apology(tmp_path: Path) -> None:
    """Its own service answered 401, and it says so as text."""
    async with running(tmp_path) as rig:
        outcome = await rig.turn("#say I am sorry: 401\n#stop refusal")
    assert ("I am sorry: 401", Reason.REFUSED) == (outcome.answer, outcome.done.reason)
    assert "declined" in outcome.done.note


# --- the wire


async def test_answers_that_belong_to_nothing_are_passed_over(tmp_path: Path) -> None:
    """Errors without an id or with ``null``, answers twice, a batch, a number, ANSI colours."""
    junk = (
        '{"jsonrpc":"2.0","error":{"code":-32601,"message":"x"}}',
        '{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"x"}}',
        '{"jsonrpc":"2.0","id":1,"result":{"again":true}}',
        '{"jsonrpc":"2.0","id":9999,"result":{}}',
        "[]",
        "42",
        '"x"',
        "null",
        "}",
        "",
        "\x1b[31mred\x1b[0m",
        '{"jsonrpc":"2.0","method":"_vendor/news","params":{}}',
        '{"jsonrpc":"2.0","method":"$/progress"}',
    )
    async with running(tmp_path) as rig:
        lines = "\n".join(f"#junk {line}" for line in junk)
        assert "fine" == (await rig.turn(f"{lines}\n#say fine")).answer


async def test_we_write_objects_only(tmp_path: Path) -> None:
    """Never a batch and never a blank line: one agent exits at the first, one hears no more."""
    log = tmp_path / "log"
    picture = tmp_path / "p.png"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n")
    files = (Attachment(path=str(picture), mime="image/png", name="p.png", ok=True),)
    async with running(tmp_path, {"log": str(log)}) as rig:
        await rig.turn("#ask-write a\n#unknown fs/write_text_file", attachments=files)
    sent = log_of(log)
    assert all(isinstance(message, dict) for message in sent)
    (prompt,) = [m for m in sent if m.get("method") == "session/prompt"]
    assert ["text", "image"] == [block["type"] for block in prompt["params"]["prompt"]]


async def test_a_greeting_of_half_a_megabyte(tmp_path: Path) -> None:
    """One line with all its skills, before the first prompt."""
    async with running(tmp_path, {"big_new": 563_234}) as rig:
        assert "hello" == (await rig.turn("#say hello")).answer


async def test_ten_megabytes_in_and_three_out(tmp_path: Path) -> None:
    """One line each way, whole, without keeping it in memory (field report D8)."""
    picture = tmp_path / "big.png"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n" + os.urandom(10 * 1024 * 1024 - 8))
    files = (Attachment(path=str(picture), mime="image/png", name="big.png", ok=True),)
    async with running(tmp_path) as rig:
        await rig.turn("#say warm")
        before = resident_mb()
        outcome = await rig.turn("#blocks\n#huge 3000000", attachments=files)
        assert "[text image]" == outcome.answer[:12]
        assert 3_000_012 == len(outcome.answer)
        assert resident_mb() < before + 100


async def test_five_hundred_chunks_and_the_answer_in_one_write(tmp_path: Path) -> None:
    """Two hundred times, whole and in order."""
    whole = "".join(f"{number} " for number in range(500))
    async with running(tmp_path, session_turns=0) as rig:
        for _ in range(200):
            outcome = await rig.turn("#flood 500")
            assert whole == outcome.answer
            assert Done(reason=Reason.COMPLETED) == outcome.done


# --- the process


async def test_one_that_stays_after_its_input_ended_is_ended(tmp_path: Path) -> None:
    """SIGTERM does it where the end of input does not."""
    async with running(tmp_path, {"ignore_eof": True}, keepalive_s=0.0) as rig:
        pid = number_in((await rig.turn("#pid")).answer, "pid")
        await until(lambda: not alive(pid))


async def test_one_that_takes_its_time_may_leave_by_itself(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    """A second after its input closed is gentle enough for it to write its files."""
    mock_clock.rate = 0.25  # of our seconds; its own are as long as ever
    proof = tmp_path / "left"
    options = {"eof_delay": 4.0, "eof_proof": str(proof)}
    async with running(tmp_path, options, keepalive_s=0.0) as rig:
        pid = number_in((await rig.turn("#pid")).answer, "pid")
        await until(lambda: not alive(pid))
    assert proof.exists()


async def test_a_slow_start_and_a_noisy_one(tmp_path: Path) -> None:
    """Seconds until ``initialize`` is answered, warnings on stderr meanwhile."""
    async with running(tmp_path, {"init_delay": 0.5, "init_stderr": 200_000}) as rig:
        assert "up" == (await rig.turn("#say up")).answer


async def test_a_death_during_initialize_costs_one_turn(tmp_path: Path) -> None:
    """The next message starts another and resumes the same conversation; others are untouched."""
    once = tmp_path / "once"
    options = {"crash_on": "initialize", "crash_unless": str(once), "resume": True}
    once.touch()
    async with running(tmp_path, options) as rig:
        await rig.turn("#say one")
        other = number_in((await rig.turn("#pid", room(2))).answer, "pid")
    async with running(tmp_path, options) as rig:
        other = number_in((await rig.turn("#pid", room(2))).answer, "pid")
        once.unlink()
        failed = await rig.turn("#say two")
        assert Reason.FAILED is failed.done.reason
        assert "exit code 9" in failed.done.note
        assert other == number_in((await rig.turn("#pid", room(2))).answer, "pid")
        once.touch()
        assert "[turns 2]" == (await rig.turn("#history")).answer


async def test_one_that_hangs_in_session_new_can_be_cut_off(tmp_path: Path) -> None:
    """No answer to the opening: the turn is ended from outside, with its process."""
    async with running(tmp_path, {"new_delay": 600}) as rig:

        async def give_up(session: AcpSession, events: list[Event]) -> None:
            await until(lambda: session.pid)
            await session.interrupt()

        with trio.fail_after(60):
            outcome = await rig.turn("#say never", during=give_up)
        assert Done(reason=Reason.CANCELLED) == outcome.done
        await until(lambda: not children())


async def test_a_turn_that_finishes_in_spite_of_the_cancel(tmp_path: Path) -> None:
    """The deadline came, and the agent was done: that is a finished turn, with its answer."""

    async def interrupt(session: AcpSession, events: list[Event]) -> None:
        await until(lambda: events)
        await session.interrupt()

    async with running(tmp_path) as rig:
        outcome = await rig.turn("#say begun\n#last-words-anyway  and done", during=interrupt)
    assert Done(reason=Reason.COMPLETED) == outcome.done
    assert "begun and done" == outcome.answer


# --- conversations


async def test_history_mixed_with_news_is_history(tmp_path: Path) -> None:
    """A warning amid the replay is not the next turn's answer."""
    async with running(tmp_path) as rig:
        await rig.turn("#say one")
    async with running(tmp_path, {"load_says": "Config warning"}) as rig:
        outcome = await rig.turn("#say two\n#history")
    assert "two[turns 2]" == outcome.answer


async def test_an_agent_that_never_asks_is_only_told_of(tmp_path: Path) -> None:
    """Its steps are shown, and there is no decision to report."""
    async with running(tmp_path) as rig:
        outcome = await rig.turn("#tool t execute rm\n#tool-end t completed\n#say done")
    assert [] == outcome.asked
    assert "done" == outcome.answer


# --- modes


@pytest.mark.parametrize("form", ["modes", "config_modes"])
@pytest.mark.parametrize(
    ("preset", "binary", "offered", "asking"),
    [
        ("claude", "claude-agent-acp", ["auto", "default"], "default"),
        ("qwen", "qwen", ["auto", "default", "yolo"], "default"),
        ("vibe", "vibe-acp", ["accept-edits", "ask"], "ask"),
        ("gemini", "gemini", ["default", "yolo"], "default"),
        ("codex", "codex-acp", ["agent", "read-only"], "agent"),
    ],
)
async def test_known_agents_are_put_into_their_asking_mode(
    form: str, preset: str, binary: str, offered: list[str], asking: str, tmp_path: Path
) -> None:
    """Before the prompt, in the way they offer; those that have none keep their own."""
    environment = installed(tmp_path, binary, {form: offered})
    async with running(tmp_path, command=None, preset=preset, environment=environment) as rig:
        assert f"[mode {asking}]" == (await rig.turn("#mode")).answer


@pytest.mark.parametrize("form", ["modes", "config_modes"])
@pytest.mark.parametrize(
    ("opening", "methods"),
    [
        ({}, ["session/new", "SET", "session/prompt"]),
        ({"load": True}, ["session/load", "SET", "session/prompt"]),
        ({"resume": True}, ["session/resume", "SET", "session/prompt"]),
    ],
    ids=["new", "load", "resume"],
)
async def test_the_mode_of_the_settings_is_asked_for_at_every_opening(
    form: str, opening: dict[str, bool], methods: list[str], tmp_path: Path
) -> None:
    """New, loaded or resumed; once, and not again while the process is warm."""
    log = tmp_path / "log"
    options = {form: ["auto", "plan"], **opening}
    if opening:
        async with running(tmp_path, options) as rig:
            await rig.turn("#say before")
    async with running(tmp_path, options | {"log": str(log)}, mode="plan") as rig:
        assert "[mode plan]" == (await rig.turn("#mode")).answer
        assert "[mode plan]" == (await rig.turn("#mode")).answer
    set_by = "session/set_mode" if form == "modes" else "session/set_config_option"
    expected = [set_by if method == "SET" else method for method in methods]
    sent = [message["method"] for message in log_of(log)]
    assert ["initialize", *expected, "session/prompt"] == sent


@pytest.mark.parametrize("form", ["modes", "config_modes"])
async def test_a_mode_that_the_agent_left_by_itself_is_asked_for_again(
    form: str, tmp_path: Path
) -> None:
    """``current_mode_update``: the next prompt meets the asking mode, not the one it chose."""
    async with running(tmp_path, {form: ["auto", "ask"]}, mode="ask") as rig:
        assert "[mode auto]" == (await rig.turn("#change-mode auto\n#mode")).answer
        assert "[mode ask]" == (await rig.turn("#mode")).answer


async def test_a_mode_that_is_refused_fails_the_turn_or_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The owner's own setting fails with the agent's words; a preset's is one line in the log."""
    options = {"modes": ["auto", "default"], "mode_error": [-32602, "no such mode"]}
    async with running(tmp_path, options, mode="default") as rig:
        done = (await rig.turn("#say x")).done
        assert Reason.FAILED is done.reason
        assert "no such mode" in done.note
    environment = installed(tmp_path, "qwen", options)
    async with running(tmp_path, command=None, preset="qwen", environment=environment) as rig:
        assert "x" == (await rig.turn("#say x", room(2))).answer
    assert 1 == sum("was refused" in record.getMessage() for record in caplog.records)


# --- many conversations


async def test_three_hundred_turns_leave_nothing_behind(tmp_path: Path) -> None:
    """Fifty rooms, few idle processes: processes, descriptors and memory are back in the end."""
    limits = {"max_idle": 4, "keepalive_s": 0.5, "session_turns": 0}
    async with running(tmp_path, {"resume": True}, **limits) as rig:
        await many(rig.turn, rooms=5, turns=1)
        await until(lambda: rig.adapter.waiting == (0, 0))
        await until(lambda: not children())
        before = descriptors(), resident_mb()
        await many(rig.turn, rooms=50, turns=6)
        await until(lambda: rig.adapter.waiting == (0, 0))
        await until(lambda: not children())
        await until(lambda: descriptors() <= before[0])
        assert resident_mb() < before[1] + 30
        store = SessionStore(rig.state / "sessions.json")
        store.load(wall_now=0.0, prune=False)
        known = store.get(room(49))
        assert known is not None
        assert 6 == known.turns


async def many(turn: Any, *, rooms: int, turns: int) -> None:
    """So many turns in each room, six rooms at a time; each continues its own conversation."""
    at_once = trio.CapacityLimiter(6)

    async def one_room(number: int) -> None:
        async with at_once:
            for count in range(1, turns + 1):
                outcome: Outcome = await turn("#history", room(number))
                assert f"[turns {count + (turns > 1 and number < 5)}]" == outcome.answer
                assert [] == [e for e in outcome.events if isinstance(e, Notice)]

    async with trio.open_nursery() as nursery:
        for number in range(rooms):
            nursery.start_soon(one_room, number)


def children() -> list[int]:
    """The processes that this one has started and not yet seen end."""
    found: list[int] = []
    for tasks in Path("/proc/self/task").glob("*/children"):
        found += [int(word) for word in tasks.read_text(encoding="utf-8").split()]
    return [pid for pid in found if alive(pid)]


def descriptors() -> int:
    """How many this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def resident_mb() -> float:
    """What this process holds in memory now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
