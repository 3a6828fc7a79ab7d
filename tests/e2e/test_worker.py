"""The whole product over real processes: embedded relay, our worker, the bundled agent."""

import os
import signal
import struct
import zlib
from pathlib import Path

import pytest
import trio

from agentconnect.embedded.records import Message
from tests.support.relay import Relay, running_relay
from tests.support.worker import (
    Worker,
    alive,
    environment,
    running_worker,
    start,
    until,
)

PLACEHOLDER = "⏳ On it..."


def png(width: int, height: int) -> bytes:
    """A small valid PNG."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = b"".join(b"\0" + b"\x80" * width for _ in range(height))
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


def current_umask() -> int:
    """This process's umask."""
    umask = os.umask(0o077)
    os.umask(umask)
    return umask


async def ask(relay: Relay, body: str, *, room: str = "", sender: str = "") -> str:
    """Ask in a room and wait for the answer."""
    answer = await relay.relay.ask(room or relay.room, sender or relay.owner, body, 60)
    assert answer is not None, f"no answer to {body!r}"
    return answer


async def from_agent(relay: Relay, room: str = "") -> list[Message]:
    """What the agent identity has in the room now."""
    return [m for m in await relay.relay.messages(room or relay.room) if m.sender == relay.agent]


async def test_a_message_gets_one_answer_in_one_message(tmp_path: Path) -> None:
    """The placeholder becomes the answer: one message, the message itself marked as taken."""
    async with (
        running_relay(tmp_path / "relay") as relay,
        running_worker(relay.token, tmp_path),
    ):
        event_id = await relay.say("hello")
        answer = await relay.relay.answer_to(event_id)
        assert "demonstration" in answer
        mine = await from_agent(relay)
        assert [m.body for m in mine] == [answer]
        assert mine[0].edited
        assert ("🫡", relay.agent) in await relay.reactions(event_id)


async def test_steps_are_shown_live_and_named_in_the_summary(tmp_path: Path) -> None:
    """A running turn shows its step in the same message that becomes the answer."""
    async with running_relay(tmp_path / "relay") as relay:
        settings = {"AGENT_CONNECT_PROGRESS_THROTTLE": "0.1"}
        async with running_worker(relay.token, tmp_path, **settings):
            event_id = await relay.say("slow job 2 seconds")
            seen: set[str] = set()

            async def a_step_is_shown() -> bool:
                seen.update(m.body for m in await from_agent(relay))
                return any(body.startswith(PLACEHOLDER + "\n\n") for body in seen)

            await until(a_step_is_shown, "a live step")
            answer = await relay.relay.answer_to(event_id)
            assert [m.body for m in await from_agent(relay)] == [answer]
            assert "— did:" in answer


async def test_a_follow_up_continues_and_a_restart_keeps_the_conversation(tmp_path: Path) -> None:
    """Follow-ups, a new worker process and an old conversation; nothing old is posted again."""
    repo = tmp_path / "repo"
    repo.mkdir()
    (repo / "one.txt").write_text("alpha\n")
    (repo / "two.txt").write_text("beta\n")
    async with (
        running_relay(tmp_path / "relay") as relay,
        running_worker(relay.token, tmp_path) as worker,
    ):
        assert "alpha" in await ask(relay, "read one.txt")
        assert "beta" in await ask(relay, "now the same for two.txt")
        assert await worker.stop() == 0
        assert worker.status["state"] == "stopped"
        before = len(await from_agent(relay))
        async with running_worker(relay.token, tmp_path):
            assert "two.txt" in await ask(relay, "what did I ask before?")
        assert len(await from_agent(relay)) == before + 1


async def test_a_picture_is_seen_and_a_file_arrives(tmp_path: Path) -> None:
    """Bytes go both ways: the agent names the picture's size, its report opens in the room."""
    async with (
        running_relay(tmp_path / "relay") as relay,
        running_worker(relay.token, tmp_path),
    ):
        event_id = await relay.relay.post_file(
            relay.room, relay.owner, "shot.png", png(31, 17), caption="what is this?"
        )
        answer = await relay.relay.answer_to(event_id)
        assert "31" in answer
        assert "17" in answer
        answer = await ask(relay, "write a report about penguins")
        assert "[file:" not in answer
        files = [m for m in await from_agent(relay) if m.kind == "file"]
        assert len(files) == 1
        made = list((tmp_path / "repo").iterdir())
        assert [path.stat().st_mode & 0o777 for path in made] == [0o666 & ~current_umask()]


async def test_a_guest_is_refused_aloud_and_the_agent_is_not_asked(tmp_path: Path) -> None:
    """The refusal takes the placeholder over and names who could change it."""
    async with running_relay(tmp_path / "relay") as relay:
        guest, _link = await relay.relay.add_person(relay.room, "Gus", "guest")
        async with running_worker(relay.token, tmp_path) as worker:
            answer = await ask(relay, "read secrets.txt", sender=guest)
            assert "@sutando-concierge:" in answer
            assert [m.body for m in await from_agent(relay)] == [answer]
            sessions = worker.state_dir / "sessions.json"
            assert not sessions.exists() or "session_id" not in sessions.read_text()


async def test_two_rooms_run_side_by_side(tmp_path: Path) -> None:
    """A busy room holds up no other: the second room's answer comes while the first still works."""
    async with running_relay(tmp_path / "relay") as relay:
        other = await relay.relay.create_room("Other", relay.owner, (relay.agent,))
        async with running_worker(relay.token, tmp_path):
            slow = await relay.say("slow job 30 seconds")
            await until(lambda: pending(relay), "the slow turn's start")
            assert await ask(relay, "echo quick", room=other)
            tasks = await relay.relay.tasks_of(slow)
            assert [task.state for task in tasks] == ["leased"]


async def pending(relay: Relay) -> bool:
    """A placeholder stands in the first room."""
    return any(m.body.startswith(PLACEHOLDER) for m in await from_agent(relay))


async def working(relay: Relay) -> bool:
    """A step stands below it: the agent has the message, and has written down what was asked."""
    begun = [m.body for m in await from_agent(relay) if m.body.startswith(PLACEHOLDER)]
    return any(body.strip() != PLACEHOLDER for body in begun)


async def test_killing_the_agent_costs_one_turn(tmp_path: Path) -> None:
    """A dead agent ends its turn with words; the next message is answered by a new process."""
    async with (
        running_relay(tmp_path / "relay") as relay,
        running_worker(relay.token, tmp_path) as worker,
    ):
        await ask(relay, "hello")
        event_id = await relay.say("slow job 30 seconds")
        await until(lambda: working(relay), "the turn's first step")
        for pid in worker.children():
            os.kill(pid, signal.SIGKILL)
        await relay.relay.answer_to(event_id)
        assert not await pending(relay)
        assert "slow job" in await ask(relay, "what did I ask before?")


async def test_ctrl_c_stops_everything_and_leaves_no_process(tmp_path: Path) -> None:
    """SIGINT: exit 0, status stopped, no agent left, no traceback."""
    async with (
        running_relay(tmp_path / "relay") as relay,
        running_worker(relay.token, tmp_path) as worker,
    ):
        await ask(relay, "hello")
        agents = worker.children()
        assert agents
        assert await worker.stop(signal.SIGINT) == 0
        assert worker.status["detail"] == "interrupted"
        await until(lambda: not any(map(alive, agents)), "the agents' end")
        assert "Traceback" not in worker.output()


async def test_a_second_signal_ends_at_once_and_loses_nothing(tmp_path: Path) -> None:
    """Exit 128 + its number while a turn runs; the next start answers that message."""
    async with running_relay(tmp_path / "relay") as relay:
        async with running_worker(relay.token, tmp_path) as worker:
            event_id = await relay.say("slow job 4 seconds")
            await until(lambda: pending(relay), "the turn's start")
            agents = worker.children()
            worker.process.send_signal(signal.SIGTERM)
            worker.process.send_signal(signal.SIGINT)
            code = await worker.ended()
            assert code in (128 + signal.SIGINT, 128 + signal.SIGTERM)
            await until(lambda: not any(map(alive, agents)), "the agents' end")
        async with running_worker(relay.token, tmp_path):
            answer = await relay.relay.answer_to(event_id)
            assert [m.body for m in await from_agent(relay)] == [answer]


async def test_a_stop_keeps_a_partial_answer(tmp_path: Path) -> None:
    """A turn that has produced something is answered, saying that the worker was stopped."""
    async with (
        running_relay(tmp_path / "relay") as relay,
        running_worker(relay.token, tmp_path) as worker,
    ):
        event_id = await relay.say("slow job 60 seconds")
        await until(lambda: pending(relay), "the turn's start")
        assert await worker.stop() == 0
        with trio.fail_after(60):
            tasks = await relay.relay.tasks_of(event_id)
        left = tasks[0].state in ("leased", "queued")
        shown = (await from_agent(relay))[-1].body
        assert left or "stopped" in shown
        assert shown != PLACEHOLDER


async def test_a_killed_worker_goes_on_where_it_was(tmp_path: Path) -> None:
    """``kill -9`` mid-turn: the next process answers in the same message, once."""
    async with (
        running_relay(tmp_path / "relay") as relay,
        running_worker(relay.token, tmp_path) as worker,
    ):
        event_id = await relay.say("slow job 3 seconds")
        await until(lambda: pending(relay), "the turn's start")
        await worker.kill()
        async with running_worker(relay.token, tmp_path):
            answer = await relay.relay.answer_to(event_id)
            assert [m.body for m in await from_agent(relay)] == [answer]


async def test_a_second_worker_on_the_folder_is_refused_by_pid(tmp_path: Path) -> None:
    """Exit 4, the holder's pid in the sentence, and the holder's status file untouched."""
    async with (
        running_relay(tmp_path / "relay") as relay,
        running_worker(relay.token, tmp_path) as worker,
    ):
        second = start(environment(relay.token, tmp_path), tmp_path)
        assert await second.ended() == 4
        assert f"pid {worker.process.pid}" in second.output()
        assert worker.status["pid"] == worker.process.pid


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        ({"AGENT_CONNECT_TOKEN": ""}, 2, "AGENT_CONNECT_TOKEN"),
        ({"AGENT_CONNECT_ADAPTER": "nosuch"}, 2, "nosuch"),
        ({"AGENT_CONNECT_ACP_COMMAND": "no-such-agent-here"}, 3, "no-such-agent-here"),
        ({"AGENT_CONNECT_REPO": "/no/such/folder"}, 2, "AGENT_CONNECT_REPO"),
        ({"AGENT_CONNECT_INSTANCE": "a b"}, 2, "AGENT_CONNECT_INSTANCE"),
        ({"AGENT_CONNECT_TOKEN": "https://relay.example"}, 2, "agent-connect:"),
    ],
)
async def test_a_wrong_setting_is_one_sentence(
    tmp_path: Path, changes: dict[str, str], code: int, words: str
) -> None:
    """Every refusal is readable on stderr and in the status file, with its exit code."""
    env = environment("http://127.0.0.1:9/relay|secret-of-test", tmp_path, **changes)
    worker = start(env, tmp_path)
    assert await worker.ended() == code
    assert words in worker.output()
    assert "Traceback" not in worker.output()
    assert "secret-of-test" not in worker.output()
    assert worker.status["state"] == "error"
    assert worker.status["last_error"]["message"] in worker.output()


async def test_a_workspace_that_is_no_folder_is_a_sentence(tmp_path: Path) -> None:
    """Exit 2 and the setting's name; there is no place for a status file then."""
    (tmp_path / "file").write_text("")
    env = environment("http://127.0.0.1:9/relay|s", tmp_path)
    env["AGENT_CONNECT_WORKSPACE"] = str(tmp_path / "file")
    worker = start(env, tmp_path)
    assert await worker.ended() == 2
    assert "AGENT_CONNECT_WORKSPACE" in worker.output()


async def test_the_status_file_tells_who_serves_and_holds_no_secret(tmp_path: Path) -> None:
    """The fields of the contract while serving; the heartbeat moves; no token anywhere."""
    async with (
        running_relay(tmp_path / "relay") as relay,
        running_worker(relay.token, tmp_path) as worker,
    ):
        await until(lambda: bool(worker.status.get("agent")), "the agent's name")
        status = worker.status
        assert status["adapter"] == "acp"
        assert "demonstration" in status["agent"]
        first = status["updated_at"]
        await until(lambda: worker.status["updated_at"] > first, "a heartbeat")
        check_no_secret(relay, worker, tmp_path)


def check_no_secret(relay: Relay, worker: Worker, folder: Path) -> None:
    """The bearer is in no file of the worker and in no line it printed."""
    secret = relay.secret.encode()
    assert secret not in worker.log.read_bytes()
    for path in worker.state_dir.rglob("*"):
        if path.is_file():
            assert secret not in path.read_bytes(), path
            assert path.stat().st_mode & 0o077 == 0, path
