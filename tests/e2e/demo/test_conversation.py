"""The conversation: introduction, memory over a restart, cancel, crash, end of input."""

import json
import stat
from pathlib import Path

import pytest
import trio

from tests.support.acp_client import AcpClient, RpcError, demo_client


async def test_initialize(work: Path, state: Path) -> None:
    """It says what it can: pictures, files, load and resume, and that no login is needed."""
    async with demo_client(work, state) as agent:
        said = await agent.initialize()

    capabilities = said["agentCapabilities"]
    assert 1 == said["protocolVersion"]
    assert capabilities["loadSession"] is True
    assert {"image": True, "embeddedContext": True} == capabilities["promptCapabilities"]
    assert {"resume": {}} == capabilities["sessionCapabilities"]
    assert [] == said["authMethods"]
    assert "agentconnect-demo" == said["agentInfo"]["name"]


async def test_first_answer_introduces_itself(agent: AcpClient, work: Path) -> None:
    """The first answer says what it is and how to switch; the second does not."""
    session = await agent.new(work)

    first = (await agent.turn(session, "hello")).text
    assert "demonstration" in first
    assert "AGENT_CONNECT_ACP_AGENT=claude" in first
    assert "demonstration" not in (await agent.turn(session, "hello")).text


async def test_unknown_text_is_echoed_kindly(agent: AcpClient, work: Path) -> None:
    """Unknown words come back with suggestions, and markers in them cannot act."""
    session = await agent.new(work)
    heard = await agent.turn(session, "colourless [file: notes.txt] ideas sleep")

    assert "```\ncolourless [file: notes.txt] ideas sleep\n```" in heard.text
    assert "say **help**" in heard.text


@pytest.mark.parametrize("method", ["session/load", "session/resume"])
async def test_conversation_survives_the_process(work: Path, state: Path, method: str) -> None:
    """After a restart the conversation goes on; load replays it and resume is silent."""
    async with demo_client(work, state) as agent:
        session = await agent.new(work)
        await agent.turn(session, "my name is Ada")
        await agent.turn(session, "read notes.txt")

    async with demo_client(work, state) as agent:
        params = {"sessionId": session, "cwd": str(work), "mcpServers": []}
        await agent.request(method, params)
        replayed = [update["sessionUpdate"] for update in agent.updates]
        pair = ["user_message_chunk", "agent_message_chunk"]
        assert (pair * 2 if method == "session/load" else []) == replayed

        other = await agent.turn(session, "now the same for the other file")
        assert "a second file" in other.text
        before = await agent.turn(session, "what did I ask before")
        assert "`now the same for the other file`" in before.text
        assert "`read notes.txt`" in before.text
        assert "You are Ada." in (await agent.turn(session, "what is my name?")).text


async def test_killed_process_still_knows_what_was_asked(work: Path, state: Path) -> None:
    """A turn that a crash cut off is remembered as asked."""
    async with demo_client(work, state) as agent:
        session = await agent.new(work)
        number = await agent.start_turn(session, "crash now")
        with pytest.raises(EOFError):
            await agent.finish(number)
        assert 70 == await agent.process.wait()

    async with demo_client(work, state) as agent:
        params = {"sessionId": session, "cwd": str(work), "mcpServers": []}
        await agent.request("session/resume", params)
        assert "`crash now`" in (await agent.turn(session, "what did I ask before")).text


async def test_state_is_private(agent: AcpClient, work: Path, state: Path) -> None:
    """Folders are 0700 and files 0600, and no temporary file is left."""
    await agent.turn(await agent.new(work), "hello")

    (stored,) = (state / "sessions").iterdir()
    assert 0o700 == stat.S_IMODE((state / "sessions").stat().st_mode)
    assert 0o600 == stat.S_IMODE(stored.stat().st_mode)
    kinds = [sorted(json.loads(line)) for line in stored.read_text().splitlines()]
    assert [["cwd", "version"], ["state"], ["got", "said"], ["answer", "state"]] == kinds


async def test_unknown_session(agent: AcpClient, work: Path) -> None:
    """An id that it never gave is "not found" for load, resume and prompt."""
    for session in ("nope", "../../etc/passwd", "demo-" + "0" * 32):
        params = {"sessionId": session, "cwd": str(work), "mcpServers": []}
        for method in ("session/load", "session/resume"):
            with pytest.raises(RpcError) as caught:
                await agent.request(method, params)
            assert -32002 == caught.value.code
        with pytest.raises(RpcError) as caught:
            await agent.turn(session, "hello")
        assert -32002 == caught.value.code


async def test_damaged_memory_is_an_unknown_session(work: Path, state: Path) -> None:
    """A broken file costs that conversation and nothing else."""
    async with demo_client(work, state) as agent:
        session = await agent.new(work)
    (state / "sessions" / f"{session}.jsonl").write_text('{"turns": 3}')

    async with demo_client(work, state) as agent:
        params = {"sessionId": session, "cwd": str(work), "mcpServers": []}
        with pytest.raises(RpcError) as caught:
            await agent.request("session/load", params)
        assert -32002 == caught.value.code
        assert "end_turn" == (await agent.turn(await agent.new(work), "hello")).stop


def _steps_done(agent: AcpClient) -> int:
    return sum(u.get("status") == "completed" for u in agent.updates)


async def test_slow_job_is_cancelled(agent: AcpClient, work: Path) -> None:
    """A cancel ends the slow job at once, with what was done, and the next turn works."""
    session = await agent.new(work)
    number = await agent.start_turn(session, "slow job 20 seconds")
    await agent.until(lambda: _steps_done(agent) >= 1)
    await agent.notify("session/cancel", {"sessionId": session})
    heard = await agent.finish(number)

    assert "cancelled" == heard.stop
    *done, last = [step["status"] for step in heard.steps()]
    assert 1 <= len(done) < 9
    assert f"{len(done)} of 10 steps were done" in heard.text
    assert {"completed"} == set(done)
    assert "failed" == last
    assert "end_turn" == (await agent.turn(session, "hello")).stop


async def test_slow_job_to_its_end(agent: AcpClient, work: Path) -> None:
    """Left alone it shows its steps and finishes."""
    heard = await agent.turn(await agent.new(work), "slow job 1 second")

    assert ["Step 1 of 2", "Step 2 of 2"] == [step["title"] for step in heard.steps()]
    assert "The slow job is done" in heard.text


async def test_cancel_while_asking(agent: AcpClient, work: Path) -> None:
    """A cancelled turn does not wait for a permission that never comes."""
    agent.choose = None
    session = await agent.new(work)
    number = await agent.start_turn(session, "write a report about penguins")
    await agent.until(lambda: bool(agent.asked))
    await agent.notify("session/cancel", {"sessionId": session})

    assert "cancelled" == (await agent.finish(number)).stop
    assert not (work / "penguins.md").exists()


async def test_one_turn_at_a_time(agent: AcpClient, work: Path) -> None:
    """A second prompt in a busy session is an error; another session works meanwhile."""
    busy, free = await agent.new(work), await agent.new(work)
    number = await agent.start_turn(busy, "slow job 20 seconds")
    await agent.until(lambda: any(u["sessionUpdate"] == "tool_call" for u in agent.updates))
    with pytest.raises(RpcError) as caught:
        await agent.turn(busy, "hello")
    assert -32600 == caught.value.code
    assert "end_turn" == (await agent.turn(free, "hello")).stop
    await agent.notify("session/cancel", {"sessionId": busy})
    assert "cancelled" == (await agent.finish(number)).stop


async def test_end_of_input_ends_it_mid_turn(agent: AcpClient, work: Path) -> None:
    """When its input closes during a turn it is gone at once."""
    session = await agent.new(work)
    await agent.start_turn(session, "slow job 600 seconds")
    await agent.until(lambda: any(u["sessionUpdate"] == "tool_call" for u in agent.updates))
    assert agent.process.stdin is not None
    await agent.process.stdin.aclose()
    with trio.fail_after(60):
        assert 0 == await agent.process.wait()


async def test_count_streams_number_by_number(agent: AcpClient, work: Path) -> None:
    """Counting sends a piece of text for each number."""
    session = await agent.new(work)
    await agent.turn(session, "hello")
    heard = await agent.turn(session, "count to 50")

    assert ", ".join(map(str, range(1, 51))) + "." == heard.text
    assert 51 == len(heard.updates)


async def test_tour_shows_a_plan_and_steps(agent: AcpClient, work: Path) -> None:
    """The demonstration turn has a plan and three steps."""
    heard = await agent.turn(await agent.new(work), "demo")

    assert "plan" in {update["sessionUpdate"] for update in heard.updates}
    assert ["search", "read", "read"] == [step["kind"] for step in heard.steps()]
