"""The worker with the adapter codex, as real processes: relay, worker, and what plays codex."""

import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.adapters.ollama_double import ollama_double
from tests.support.fake_cli import FakeCli, install, path_with
from tests.support.relay import Relay, running_relay
from tests.support.worker import Worker, alive, environment, running_worker, start, until

PLACEHOLDER = "⏳ On it..."


@asynccontextmanager
async def codex(
    folder: Path, *plans: dict[str, Any], **settings: str
) -> AsyncIterator[tuple[Relay, Worker, FakeCli]]:
    """A room whose agent is driven through codex."""
    fake = install(folder / "bin", "codex", plans)
    settings = {"AGENT_CONNECT_ADAPTER": "codex", "PATH": path_with(folder / "bin"), **settings}
    async with (
        running_relay(folder / "relay") as relay,
        running_worker(relay.token, folder, **settings) as worker,
    ):
        yield relay, worker, fake


async def ask(relay: Relay, body: str, *, sender: str = "") -> str:
    """Ask and wait for the answer."""
    answer = await relay.relay.ask(relay.room, sender or relay.owner, body, 60)
    assert answer is not None, f"no answer to {body!r}"
    return answer


async def mine(relay: Relay) -> list[str]:
    """What the agent has in the room."""
    return [m.body for m in await relay.relay.messages(relay.room) if m.sender == relay.agent]


async def test_an_owner_and_a_guest_are_served(tmp_path: Path) -> None:
    """One message each, the sandbox by tier; no credential of ours reaches codex."""
    async with codex(tmp_path, {"out": "for the owner"}, {"out": "for the guest"}) as stage:
        relay, worker, fake = stage
        guest, _ = await relay.relay.add_person(relay.room, "Gus", "guest")
        assert "for the owner" == await ask(relay, "--help")
        assert "for the guest" == await ask(relay, "read it", sender=guest)
        assert ["for the owner", "for the guest"] == await mine(relay)
        first, second = fake.runs
        assert ("workspace-write", "read-only") == (first.argv[2], second.argv[2])
        assert first.argv[-1].endswith("\n\n--help")
        assert relay.secret not in str(first) + str(second) + worker.output()
        assert {"codex"} == {worker.status["adapter"]}
        assert f"codex: {fake.path}" == worker.status["agent"]


async def test_a_failure_is_said_in_one_message(tmp_path: Path) -> None:
    """The exit code and stderr; no second line about the ending."""
    async with codex(tmp_path, {"err": "not logged in", "code": 1}) as (relay, worker, _):
        answer = await ask(relay, "hi")
        assert "exit code 1" in answer
        assert "not logged in" in answer
        assert "This turn failed" not in answer
        assert [answer] == await mine(relay)
        await worker.says("reason=failed")
        await until(lambda: bool(worker.status["last_error"]), "the reason in the status file")
        assert "exit code 1" in worker.status["last_error"]["message"]
        assert "serving" == worker.status["state"]


async def test_a_turn_over_its_deadline_leaves_no_process(tmp_path: Path) -> None:
    """The adapter and the seconds are said, once; the whole group is gone."""
    plan = {"sleep": 600, "grandchild": True}
    async with codex(tmp_path, plan, AGENT_CONNECT_TURN_TIMEOUT="2") as (relay, worker, fake):
        answer = await ask(relay, "hi")
        assert "codex did not finish within 2 s" in answer
        assert "deadline" not in answer
        await until(lambda: not any(map(alive, fake.run.pids)), "the group's end")
        await worker.says("reason=timeout")


async def test_a_stop_ends_the_run_and_leaves_the_message(tmp_path: Path) -> None:
    """Nothing of codex is left running; the next worker runs the message again."""
    async with codex(tmp_path, {"sleep": 600, "grandchild": True}, {"out": "at last"}) as stage:
        relay, worker, fake = stage
        event_id = await relay.say("work")
        await until(lambda: bool(fake.runs), "the run")
        assert 0 == await worker.stop(signal.SIGTERM)
        await until(lambda: not any(map(alive, fake.runs[0].pids)), "the group's end")
        assert "did not finish" not in str(await mine(relay))
        settings = {"AGENT_CONNECT_ADAPTER": "codex", "PATH": path_with(tmp_path / "bin")}
        async with running_worker(relay.token, tmp_path, **settings):
            assert "at last" == await relay.relay.answer_to(event_id)
            assert ["at last"] == await mine(relay)


async def test_what_a_killed_worker_left_is_ended_at_the_next_start(tmp_path: Path) -> None:
    """``kill -9`` of the worker: neither codex nor what it has started outlives the next start."""
    async with codex(tmp_path, {"sleep": 600, "grandchild": True}, {"out": "again"}) as stage:
        relay, worker, fake = stage
        event_id = await relay.say("work")
        await until(lambda: bool(fake.runs), "the run")
        await until(
            lambda: str(fake.runs[0].pids[0]) in (worker.state_dir / "children.json").read_text(),
            "the record of the child",
        )
        await worker.kill()
        settings = {"AGENT_CONNECT_ADAPTER": "codex", "PATH": path_with(tmp_path / "bin")}
        async with running_worker(relay.token, tmp_path, **settings):
            await until(lambda: not any(map(alive, fake.runs[0].pids)), "the orphans' end")
            assert "again" == await relay.relay.answer_to(event_id)


async def test_a_file_goes_out_and_one_that_came_in_is_named(tmp_path: Path) -> None:
    """``[file:]`` works as with every adapter; a text-only agent takes no picture."""
    async with codex(tmp_path, {"out": "here\n[file: made.txt]"}) as (relay, _, _):
        (tmp_path / "repo" / "made.txt").write_text("made")
        event_id = await relay.relay.post_file(
            relay.room, relay.owner, "shot.png", b"\x89PNG", caption="look"
        )
        await relay.relay.answer_to(event_id)
        messages = [m for m in await relay.relay.messages(relay.room) if m.sender == relay.agent]
        assert ["file"] == [m.kind for m in messages if m.kind == "file"]
        assert any("shot.png" in m.body and "text only" in m.body for m in messages)


@pytest.mark.parametrize("name", ["cline", "kilo", "omnigent"])
async def test_a_guest_is_refused_where_nothing_confines_the_agent(
    tmp_path: Path, name: str
) -> None:
    """The program is not run, and the refusal names the adapter."""
    fake = install(tmp_path / "bin", name)
    settings = {"AGENT_CONNECT_ADAPTER": name, "PATH": path_with(tmp_path / "bin")}
    async with running_relay(tmp_path / "relay") as relay:
        guest, _ = await relay.relay.add_person(relay.room, "Gus", "guest")
        async with running_worker(relay.token, tmp_path, **settings):
            answer = await ask(relay, "hi", sender=guest)
        assert name in answer
        assert "@sutando-concierge:" in answer
        assert [] == fake.runs


async def test_ollama_from_the_config_file(tmp_path: Path) -> None:
    """Host and model of the file are used; the model answers in one message."""
    async with ollama_double() as double, running_relay(tmp_path / "relay") as relay:
        double.models = ["tiny:1b"]
        double.answers(200, {"response": "from the model"})
        config = tmp_path / "config.env"
        config.write_text(
            f"OLLAMA_HOST={double.host}/\nAGENT_CONNECT_OLLAMA_MODEL=tiny:1b\n"
            "AGENT_CONNECT_ADAPTER=ollama\n"
        )
        config.chmod(0o600)
        settings = {"AGENT_CONNECT_CONFIG": str(config), "AGENT_CONNECT_ADAPTER": ""}
        async with running_worker(relay.token, tmp_path, **settings):
            assert "from the model" == await ask(relay, "hi")
            assert "tiny:1b" == double.asked["model"]


@pytest.mark.parametrize(
    ("settings", "code", "words"),
    [
        ({"AGENT_CONNECT_ADAPTER": "codex"}, 3, "npm install -g @openai/codex"),
        (
            {"AGENT_CONNECT_ADAPTER": "cline", "AGENT_CONNECT_CLINE_BIN": "/no/cline"},
            3,
            "/no/cline",
        ),
        ({"AGENT_CONNECT_ADAPTER": "omnigent"}, 3, "uv tool install omnigent"),
        ({"AGENT_CONNECT_ADAPTER": "kilo"}, 3, "kilo"),
        ({"AGENT_CONNECT_ADAPTER": "ollama", "OLLAMA_HOST": "127.0.0.1:9"}, 3, "OLLAMA_HOST"),
        ({"AGENT_CONNECT_ADAPTER": "ollama", "OLLAMA_HOST": "ftp://x"}, 2, "OLLAMA_HOST"),
        (
            {"AGENT_CONNECT_ADAPTER": "Codex"},
            2,
            "one of acp, cline, codex, kilo, ollama, omnigent",
        ),
    ],
)
async def test_the_owner_reads_what_is_missing_before_anybody_asks(
    tmp_path: Path, settings: dict[str, str], code: int, words: str
) -> None:
    """One sentence on stderr and in the status file; nothing is leased."""
    empty = tmp_path / "empty"
    empty.mkdir()
    env = environment("http://127.0.0.1:9/relay|secret", tmp_path, PATH=str(empty), **settings)
    worker = start(env, tmp_path)
    with trio.fail_after(60):
        assert code == await worker.ended()
    assert words in worker.output()
    assert "Traceback" not in worker.output()
    assert "error" == worker.status["state"]
