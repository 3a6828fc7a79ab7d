"""Turns of the ACP adapter against a real child process."""

import base64
import json
import os
import shlex
import signal
from pathlib import Path

import pytest
import trio

from agentconnect.adapters import acp_conversation
from agentconnect.adapters.acp_session import AcpSession
from agentconnect.core.task import Attachment
from agentconnect.core.turns.events import (
    Done,
    Event,
    FileOffered,
    MessageChunk,
    Reason,
    Thinking,
    ToolFinished,
    ToolStarted,
)
from tests.shell.acp.rig import ROOM, alive, fake_command, number_in, room, running, until


async def test_a_turn_streams_text_steps_and_thoughts(tmp_path: Path) -> None:
    """In wire order, with a new block after a tool, and a plain ending."""
    async with running(tmp_path) as rig:
        outcome = await rig.turn(
            "#say first\n#think hm\n#tool t1 read Read notes\n#tool-end t1 completed\n"
            "#tool t2 edit Change notes\n#tool-end t2 failed\n#say second"
        )
    assert Done(reason=Reason.COMPLETED) == outcome.done
    assert "first\n\nsecond" == outcome.answer
    assert [
        MessageChunk,
        Thinking,
        ToolStarted,
        ToolFinished,
        ToolStarted,
        ToolFinished,
        MessageChunk,
    ] == [type(event) for event in outcome.events]
    failed = [e for e in outcome.events if isinstance(e, ToolFinished) and e.failed]
    assert ["Change notes"] == [event.title for event in failed]


async def test_a_retried_model_call_is_said_once(tmp_path: Path) -> None:
    """The superseded copy is taken back."""
    async with running(tmp_path) as rig:
        outcome = await rig.turn("#say-id a half a\n#say-id b half a sentence")
    assert "half a sentence" == outcome.answer


async def test_writes_inside_are_allowed_all_else_is_refused(tmp_path: Path) -> None:
    """By the kind of the options, with the reason reported."""
    async with running(tmp_path) as rig:
        outcome = await rig.turn(
            "#ask-write notes.txt\n#ask-write /etc/passwd\n#ask-command rm -rf ~\n"
            "#tool bare execute ls\n#ask-bare bare"
        )
    assert "[yes][no][no]\n\n[no]" == outcome.answer
    assert [True, False, False, False] == [asked.allowed for asked in outcome.asked]
    assert "/etc/passwd" in outcome.asked[1].reason
    assert "AGENT_CONNECT_ACP_EXECUTE" in outcome.asked[2].reason
    assert "ls" == outcome.asked[3].title


async def test_the_owner_may_allow_commands(tmp_path: Path) -> None:
    """The setting, and only it."""
    async with running(tmp_path, execute="allow") as rig:
        assert "[yes]" == (await rig.turn("#ask-command make")).answer


@pytest.mark.parametrize("method", ["fs/write_text_file", "terminal/create", "_ag2/deliver", "_x"])
async def test_what_we_do_not_serve_is_no_method(method: str, tmp_path: Path) -> None:
    """Never a success that nothing was done for."""
    async with running(tmp_path) as rig:
        assert "[-32601]" == (await rig.turn(f"#unknown {method}")).answer


async def test_a_follow_up_meets_the_same_process(tmp_path: Path) -> None:
    """Warm: no spawn, no load, the same conversation."""
    async with running(tmp_path) as rig:
        first = number_in((await rig.turn("#pid")).answer, "pid")
        second = await rig.turn("#pid\n#history")
        assert first == number_in(second.answer, "pid")
        assert 2 == number_in(second.answer, "turns")
        other = number_in((await rig.turn("#pid", room(2))).answer, "pid")
        assert other != first


async def test_text_after_the_answer_belongs_to_nobody(tmp_path: Path) -> None:
    """Neither to its own turn nor to the next one."""
    async with running(tmp_path) as rig:
        first = await rig.turn("#say-id m1 one\n#late LATE\n#late-id 0.2 m1 LATER")
        second = await rig.turn("#sleep 0.4\n#say-id m2 two")
    assert ("one", "two") == (first.answer, second.answer)


async def test_tool_ids_may_be_numbered_anew_in_each_turn(tmp_path: Path) -> None:
    """A call that begins is a new one; only an update of an old one is late."""
    steps = "#tool call-1 read Read it\n#tool-end call-1 completed"
    async with running(tmp_path) as rig:
        first, second = await rig.turn(steps), await rig.turn(steps)
        third = await rig.turn("#tool-end call-1 failed\n#say done")
    assert 2 == len(first.events) == len(second.events)
    assert 1 == len(third.events)


async def test_the_prompt_says_who_asks_and_carries_the_text_verbatim(tmp_path: Path) -> None:
    """Names cannot add lines to the framing."""
    async with running(tmp_path) as rig:
        outcome = await rig.turn("#prompt\nlast line")
    framing, _, text = outcome.answer.partition("\n\n")
    assert "$prompt\nlast line" == text
    assert "Ada" in framing
    assert "Den" in framing
    assert "[file: <path>]" in framing or "(file: <path>]" in framing
    assert "\n" not in framing


async def test_a_picture_goes_in_and_what_cannot_is_named(tmp_path: Path) -> None:
    """One notice for all that did not pass; the message itself does."""
    picture = tmp_path / "cat.png"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(10))
    song = tmp_path / "song.mp3"
    song.write_bytes(b"ID3")
    files = (
        Attachment(path=str(picture), mime="image/png", name="cat.png", ok=True),
        Attachment(path=str(song), mime="audio/mpeg", name="song.mp3", ok=True),
        Attachment(name="gone.txt", mime="text/plain", reason="the relay has lost it"),
    )
    async with running(tmp_path) as rig:
        outcome = await rig.turn("#blocks\n#prompt", attachments=files)
    assert outcome.answer.startswith("[text image]")
    assert "cat.png" in outcome.answer
    (notice,) = outcome.notices
    assert "song.mp3 (audio/mpeg): this agent takes no audio" in notice
    assert "gone.txt (text/plain): the relay has lost it" in notice
    assert "This agent takes text and images." in notice


async def test_files_an_agent_offers(tmp_path: Path) -> None:
    """A file link and a picture go out; a web link is text; the rest is named."""
    data = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(20)).decode()
    async with running(tmp_path) as rig:
        outcome = await rig.turn(
            "#say see\n#link file:///tmp/a%20b.txt it\n#link https://x.test/y page\n"
            f"#link ssh://host/z far\n#link file://other/z far\n#image {data}\n#image eHh4"
        )
        offered = [event for event in outcome.events if isinstance(event, FileOffered)]
        assert "/tmp/a b.txt" == offered[0].path
        saved = Path(offered[1].path)
        assert rig.state / "inline" / "t1" == saved.parent
        assert (base64.b64decode(data), 0o600) == bytes_and_mode(saved)
    assert "see\n\npage: https://x.test/y" == outcome.answer
    assert 3 == len(outcome.notices)


def offering(count: int, block: str) -> str:
    """A script with so many chunks of one kind, numbered."""
    update = {"sessionUpdate": "agent_message_chunk", "content": json.loads(block)}
    line = json.dumps(update)
    return "\n".join("#update " + line.replace("NUMBER", str(n)) for n in range(count))


async def test_what_cannot_be_posted_is_said_once(tmp_path: Path) -> None:
    """An agent in a loop does not fill the room with messages."""
    audio = '{"type": "audio", "mimeType": "audio/wav", "data": ""}'
    foreign = '{"type": "resource_link", "uri": "ftp://a/NUMBER", "name": "f"}'
    async with running(tmp_path) as rig:
        same = await rig.turn(offering(40, audio))
        many = await rig.turn(offering(40, foreign))
    assert 1 == len(same.notices)
    assert 11 == len(many.notices)
    assert "ftp://a/9" in many.notices[9]
    assert "not listed one by one" in many.notices[10]


async def test_an_agent_in_a_loop_of_files_is_bounded(tmp_path: Path) -> None:
    """Ten pictures are kept, fifty files are named; the rest is one sentence."""
    png = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(16)).decode()
    picture = json.dumps({"type": "image", "mimeType": "image/png", "data": png})
    link = '{"type": "resource_link", "uri": "file:///a/NUMBER", "name": "f"}'
    async with running(tmp_path) as rig:
        pictures = await rig.turn(offering(12, picture))
        links = await rig.turn(offering(60, link))
        kept = list((rig.state / "inline" / "t1").iterdir())
    assert 10 == len(kept)
    assert [10, 50] == [
        sum(isinstance(event, FileOffered) for event in outcome.events)
        for outcome in (pictures, links)
    ]
    assert ["more than 10 files", "more than 50 files"] == [
        outcome.notices[0][18:36] for outcome in (pictures, links)
    ]


async def test_an_answer_without_end_is_cut_aloud(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came first stays; the room is told that there was more."""
    monkeypatch.setattr(acp_conversation, "MAX_TEXT_CHARS", 1000)
    async with running(tmp_path) as rig:
        outcome = await rig.turn("#huge 900\n#huge 900\n#link https://a b\n#huge 1")
        after = await rig.turn("#huge 900")
    assert (1000, 1) == (len(outcome.answer), len(outcome.notices))
    assert "longer than 1,000 characters" in outcome.notices[0]
    assert (900, []) == (len(after.answer), after.notices)


async def test_a_cancel_ends_the_turn_and_keeps_the_process(tmp_path: Path) -> None:
    """``session/cancel``; the next message finds the agent warm."""

    async def interrupt(session: AcpSession, events: list[Event]) -> None:
        await until(lambda: events)
        await session.interrupt()
        await session.interrupt()

    async with running(tmp_path) as rig:
        pid = number_in((await rig.turn("#pid")).answer, "pid")
        outcome = await rig.turn("#hang", during=interrupt)
        assert Done(reason=Reason.CANCELLED) == outcome.done
        assert "working" == outcome.answer
        assert pid == number_in((await rig.turn("#pid")).answer, "pid")


async def test_a_permission_request_after_the_cancel_is_answered_cancelled(
    tmp_path: Path,
) -> None:
    """Some agents do not end before it is; it is reported nowhere."""

    async def interrupt(session: AcpSession, events: list[Event]) -> None:
        await until(lambda: events)
        await session.interrupt()

    async with running(tmp_path) as rig:
        outcome = await rig.turn("#say on\n#ask-after-cancel notes.txt", during=interrupt)
    assert Reason.CANCELLED is outcome.done.reason
    assert "on[cancelled]" == outcome.answer
    assert [] == outcome.asked


async def test_an_interrupt_before_the_prompt_sends_none(tmp_path: Path) -> None:
    """The deadline came while the agent was starting: that is given up, however long it takes."""

    async def interrupt(session: AcpSession, events: list[Event]) -> None:
        await until(log.exists)
        await session.interrupt()

    log = tmp_path / "log"
    async with running(tmp_path, {"init_delay": 60, "log": str(log)}) as rig:
        with trio.fail_after(60):
            outcome = await rig.turn("#say never", during=interrupt)
    assert Done(reason=Reason.CANCELLED) == outcome.done
    assert b"session/prompt" not in log.read_bytes()


async def test_an_opening_that_was_given_up_leaves_the_conversation(tmp_path: Path) -> None:
    """The next message goes on with it, in a process that is whole."""
    once = tmp_path / "once"
    command = fake_command({"state": str(tmp_path / "agent-sessions.json")})
    script = f"test -e {once} && rm {once} && exec sleep 60; exec {shlex.join(command)}"

    async def interrupt(session: AcpSession, events: list[Event]) -> None:
        await until(lambda: not once.exists())
        await session.interrupt()

    async with running(tmp_path, {}, command=("/bin/sh", "-c", script), keepalive_s=0.0) as rig:
        assert "one" == (await rig.turn("#say one")).answer
        once.touch()
        with trio.fail_after(60):
            outcome = await rig.turn("#say never", during=interrupt)
        assert Done(reason=Reason.CANCELLED) == outcome.done
        again = await rig.turn("#history")
    assert 2 == number_in(again.answer, "turns")


async def test_an_agent_deaf_to_the_cancel_is_killed_with_its_children(tmp_path: Path) -> None:
    """The whole process group, whatever it ignores."""
    pids: list[int] = []

    async def kill(session: AcpSession, events: list[Event]) -> None:
        await until(lambda: len(events) > 2)
        pids.extend(
            number_in(event.text, word)
            for event, word in zip(events, ("pid", "child"), strict=False)
            if isinstance(event, MessageChunk)
        )
        await session.interrupt()
        await session.kill()

    options = {"ignore_eof": True, "ignore_term": True}
    async with running(tmp_path, options) as rig:
        outcome = await rig.turn("#pid\n#child\n#deaf", during=kill)
        assert Reason.CANCELLED is outcome.done.reason
        assert 2 == len(pids)
        await until(lambda: not any(map(alive, pids)))
        assert "again" == (await rig.turn("#say again")).answer


async def test_a_cancelled_turn_takes_its_process_along(tmp_path: Path) -> None:
    """Nobody knows how far it was, so it is not used again."""
    async with running(tmp_path) as rig:
        events: list[Event] = []
        async with rig.adapter.session(ROOM) as session:
            async with trio.open_nursery() as turns:
                turns.start_soon(session.turn, rig.context("#pid\n#hang"), events.append)
                await until(lambda: len(events) > 1)
                turns.cancel_scope.cancel()
            await session.kill()
            first = events[0]
            assert isinstance(first, MessageChunk)
            assert not alive(number_in(first.text, "pid"))


async def test_one_that_takes_no_more_of_a_prompt_is_ended_in_time(tmp_path: Path) -> None:
    """A picture larger than a pipe: half of it is on its way when the turn is given up."""
    proof, picture = tmp_path / "begun", tmp_path / "p.png"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(2_000_000))
    attached = Attachment(path=str(picture), name="p.png", mime="image/png", ok=True)
    async with running(tmp_path, {"stops_reading": str(proof)}) as rig:
        async with rig.adapter.session(ROOM) as session:
            context = rig.context("#say never", attachments=(attached,))
            events: list[Event] = []
            with trio.fail_after(60):
                async with trio.open_nursery() as turns:
                    turns.start_soon(session.turn, context, events.append)
                    await until(proof.exists)
                    pid = session.pid
                    turns.cancel_scope.cancel()
                await session.kill()
        assert pid
        assert not alive(pid)


async def test_what_the_leader_leaves_behind_is_ended(tmp_path: Path) -> None:
    """An agent that goes when its input ends may leave a child that ignores everything."""
    async with running(tmp_path, keepalive_s=0.0) as rig:
        child = number_in((await rig.turn("#child")).answer, "child")
        await until(lambda: not alive(child))


async def test_a_crash_costs_one_turn(tmp_path: Path) -> None:
    """Its text is kept, the code is said, stderr is not, and the conversation goes on."""
    async with running(tmp_path) as rig:
        outcome = await rig.turn("#say so far\n#crash 7")
        assert Reason.FAILED is outcome.done.reason
        assert "so far" == outcome.answer
        assert "exit code 7" in outcome.done.note
        assert "try to continue" in outcome.done.note
        assert "secret" not in outcome.done.note
        (problem,) = rig.problems
        assert "exit code 7" in problem
        assert "secret-in-stderr about to crash" in problem
        again = await rig.turn("#history")
        assert [] == again.notices
        assert 2 == number_in(again.answer, "turns")
        assert [problem, ""] == rig.problems, "it is well again"


async def test_a_death_between_turns_is_nobodys_failure(tmp_path: Path) -> None:
    """The next message starts and reopens."""
    async with running(tmp_path) as rig:
        pid = number_in((await rig.turn("#pid")).answer, "pid")
        os.kill(pid, signal.SIGKILL)
        await until(lambda: not alive(pid))
        outcome = await rig.turn("#history\n#pid")
        assert Reason.COMPLETED is outcome.done.reason
        assert 2 == number_in(outcome.answer, "turns")
        assert pid != number_in(outcome.answer, "pid")


async def test_noise_changes_nothing(tmp_path: Path) -> None:
    """Junk lines, half a megabyte of stderr, an eight-megabyte message."""
    async with running(tmp_path) as rig:
        outcome = await rig.turn(
            "#junk starting...\n#junk {broken\n#junk []\n"
            "#flood-stderr 500000\n#huge 8000000\n#say !"
        )
    assert 8_000_001 == len(outcome.answer)


async def test_a_line_over_the_limit_fails_the_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a sentence; the next turn has a new process."""
    import agentconnect.acp.peer as peer
    from agentconnect.core.acp.framing import LineReader

    monkeypatch.setattr(peer, "LineReader", lambda: LineReader(limit_bytes=1024 * 1024))
    async with running(tmp_path) as rig:
        outcome = await rig.turn("#say before\n#huge 2000000")
        assert Reason.FAILED is outcome.done.reason
        assert "more than 1 MiB" in outcome.done.note
        assert "before" == outcome.answer
        assert "ok" == (await rig.turn("#say ok")).answer


@pytest.mark.parametrize(
    ("stop", "reason", "word"),
    [
        ("refusal", Reason.REFUSED, "declined"),
        ("max_tokens", Reason.TOKEN_LIMIT, "token limit"),
        ("max_turn_requests", Reason.FAILED, "steps"),
        ("cancelled", Reason.CANCELLED, "cancelled"),
        ("bored", Reason.FAILED, "bored"),
    ],
)
async def test_every_other_stop_reason_says_so(
    stop: str, reason: Reason, word: str, tmp_path: Path
) -> None:
    """A turn that stopped short is never told as finished."""
    async with running(tmp_path) as rig:
        outcome = await rig.turn(f"#say part\n#stop {stop}")
    assert reason is outcome.done.reason
    assert word in outcome.done.note
    assert "part" == outcome.answer


async def test_an_error_brings_its_useful_part(tmp_path: Path) -> None:
    """Not just "Internal error"; the text before it stays, the process too."""
    async with running(tmp_path) as rig:
        outcome = await rig.turn("#pid\n#error -32603 the model is [file: overloaded]")
        assert Reason.FAILED is outcome.done.reason
        assert "the model is (file: overloaded]" in outcome.done.note
        pid = number_in(outcome.answer, "pid")
        assert pid == number_in((await rig.turn("#pid")).answer, "pid")


async def test_a_missing_login_is_advised_on(tmp_path: Path) -> None:
    """-32000 at a prompt or at the opening; the agent is started anew afterwards."""
    async with running(tmp_path, {"auth": ["browser"]}) as rig:
        outcome = await rig.turn("#error -32000 x")
        assert [outcome.done.note] == rig.problems
    assert Reason.FAILED is outcome.done.reason
    assert "not logged in" in outcome.done.note
    assert "browser" in outcome.done.note
    async with running(tmp_path, {"new_error": [-32000, "Authentication required"]}) as rig:
        assert "not logged in" in (await rig.turn("#say x", room(2))).done.note


async def test_our_secrets_do_not_reach_the_agent(tmp_path: Path) -> None:
    """Its own keys do."""
    withheld = {
        "AGENT_CONNECT_TOKEN": "t",
        "REMOTE_TASK_TOKEN": "t",
        "AG2_REMOTE_TOKEN": "t",
        "AGENT_CONNECT_ACP_TOKEN": "t",
        "AGENT_CONNECT_DAEMON_TOKEN": "t",
        "NOTIFY_SOCKET": "/run/x",
        "WATCHDOG_USEC": "1",
        "MY_SLACK": "t",
    }
    names = " ".join([*withheld, "MODEL_KEY"])
    environment = withheld | {"MODEL_KEY": "theirs"}
    async with running(tmp_path, environment=environment, secret_env=("MY_SLACK",)) as rig:
        answer = (await rig.turn(f"#env {names}")).answer
    assert "".join(f"[{name}=]" for name in withheld) + "[MODEL_KEY=theirs]" == answer


async def test_an_agent_that_vanished_is_a_sentence(tmp_path: Path) -> None:
    """Missing executable, missing folder: each by its own name."""
    async with running(tmp_path, command=("/nowhere/agent",)) as rig:
        note = (await rig.turn("#say x")).done.note
        assert "/nowhere/agent" in note
        assert "is not there" in note
    async with running(tmp_path) as rig:
        rig.work.rmdir()
        note = (await rig.turn("#say x")).done.note
        assert "working directory" in note
        assert "does not exist" in note


async def test_the_mode_of_the_settings_is_set_or_missed(tmp_path: Path) -> None:
    """Before the prompt; one that is not offered fails the turn with the offered ones."""
    async with running(tmp_path, {"modes": ["auto", "default"]}, mode="default") as rig:
        assert "[mode default]" == (await rig.turn("#mode")).answer
    async with running(tmp_path, {"modes": ["auto", "plan"]}, mode="nope") as rig:
        done = (await rig.turn("#mode", room(2))).done
        assert Reason.FAILED is done.reason
        assert "auto, plan" in done.note


def bytes_and_mode(path: Path) -> tuple[bytes, int]:
    """What a file holds and who may read it."""
    return path.read_bytes(), path.stat().st_mode & 0o777
