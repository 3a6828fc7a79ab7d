"""Real channel workers under the manager: sixteen at a time, killed, frozen, stopped."""

import os
import signal
from pathlib import Path

import msgspec
import pytest
import trio

from agentconnect.channels.link import Process, spawner
from agentconnect.channels.manager import Attempt, ChannelWorkers, Pace
from agentconnect.core.channels.ipc import Channel
from agentconnect.core.destination import Code
from tests.shell.channels.rig import QUICK, Slow, hook, managed, request
from tests.support.raw_server import RawServer, patient, raw_server


async def test_a_delivery_reaches_the_provider_and_is_counted() -> None:
    """With the channel's name outside the target."""
    async with raw_server(patient) as server, managed({"main": {"ops": hook(server.port)}}) as rig:
        assert Attempt() == await rig.workers.deliver("main", request(), source="notify")
        assert {
            "state": "running",
            "channels": {"ops": "running"},
            "in_flight": 0,
            "delivered": 1,
            "failed": 0,
            "skipped": 0,
            "last_code": "",
        } == rig.block("main")
        body = msgspec.json.decode(server.seen[0][1])
    assert {"type": "chat", "id": "planted-target-id"} == body["target"]


async def test_a_request_that_cannot_be_written_ends_alone() -> None:
    """Half a character, nothing but white, too long: invalid, and the next one is sent."""
    async with raw_server(patient) as server, managed({"main": {"ops": hook(server.port)}}) as rig:
        for text in ("a\ud800", " \n", "x" * 100_001):
            ended = await rig.workers.deliver("main", request(text=text), source="notify")
            assert Attempt(code=Code.INVALID) == ended
        largest = request(text="\x01" * 99_999 + "x")
        assert (await rig.workers.deliver("main", largest, source="notify")).delivered
        assert 1 == len(server.seen)


async def test_two_hundred_at_once_are_sixteen_and_the_rest_is_told_at_once() -> None:
    """Nothing waits in a queue; the sixteen arrive."""
    slow = Slow()
    async with raw_server(slow) as server, managed({"main": {"ops": hook(server.port)}}) as rig:
        ended: list[Attempt] = []

        async def one(number: int) -> None:
            ended.append(await rig.workers.deliver("main", request(f"d-{number}"), source="notify"))

        async with trio.open_nursery() as sending:
            for number in range(200):
                sending.start_soon(one, number)
            await server.until(lambda: slow.asked == 16)
            assert [Attempt(code=Code.QUEUE_FULL)] * 184 == ended
            assert 16 == rig.block("main")["in_flight"]
            slow.open.set()
        assert [Attempt()] * 16 == ended[184:]
        assert 16 == slow.asked
        assert (await rig.workers.deliver("main", request("after"), source="notify")).delivered


async def test_a_worker_that_is_killed_mid_send_tells_everybody_at_once() -> None:
    """Nothing is sent again; a new one serves soon; the other workspace notices nothing."""
    slow = Slow()
    async with raw_server(slow) as server, raw_server(patient) as other:
        places = {"main": {"ops": hook(server.port)}, "side": {"ops": hook(other.port)}}
        async with managed(places) as rig:
            ended: list[Attempt] = []

            async def one(number: int) -> None:
                ended.append(
                    await rig.workers.deliver("main", request(f"d-{number}"), source="prompt")
                )

            async with trio.open_nursery() as sending:
                for number in range(3):
                    sending.start_soon(one, number)
                await server.until(lambda: slow.asked == 3)
                assert (await rig.workers.deliver("side", request(), source="notify")).delivered
                pids = {child.pid for child in rig.children}
                (victim,) = [pid for pid in pids if _holds(pid, server)]
                with trio.fail_after(20):  # before they would be given up as late
                    os.kill(victim, signal.SIGKILL)
                    while len(ended) < 3:
                        await trio.sleep(0.01)
            assert [Attempt(code=Code.UNAVAILABLE)] * 3 == ended
            await rig.until("main", "running")
            slow.open.set()
            assert (await rig.workers.deliver("main", request("new"), source="notify")).delivered
            assert 4 == slow.asked
            assert 3 == len(rig.children)


def _holds(pid: int, server: RawServer) -> bool:
    """Whether that process has a connection to the server."""
    wanted = f":{server.port:04X} "
    inodes = {
        line.split()[9]
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]
        if wanted in f"{line.split()[2]} "
    }
    links = {str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir()}
    return bool({f"socket:[{inode}]" for inode in inodes} & links)


async def test_while_it_is_away_nothing_is_started_for_a_delivery() -> None:
    """Crashed and waiting: unavailable at once; so are unknown workspaces and channels."""
    pace = msgspec.structs.replace(QUICK, backoff_s=600.0)
    async with raw_server(patient) as server:
        async with managed({"main": {"ops": hook(server.port)}, "empty": {}}, pace) as rig:
            for workspace, wanted in (
                ("none", request()),
                ("empty", request()),
                ("main", request(channel="other")),
            ):
                ended = await rig.workers.deliver(workspace, wanted, source="notify")
                assert Code.UNAVAILABLE == ended.code
            assert None is rig.workers.refusal("main")
            assert Code.UNAVAILABLE == rig.workers.refusal("none")
            os.kill(rig.children[0].pid, signal.SIGKILL)
            await rig.until("main", "crashed")
            assert Code.UNAVAILABLE == rig.workers.refusal("main")
            ended = await rig.workers.deliver("main", request(), source="notify")
            assert Attempt(code=Code.UNAVAILABLE) == ended
            assert 1 == len(rig.children)
        assert [] == server.seen


async def test_a_frozen_worker_times_out_and_its_late_answer_is_nobodys() -> None:
    """The outcome is unknown; the next delivery gets its own answer."""
    pace = msgspec.structs.replace(QUICK, answer_s=3.0)
    slow = Slow()
    async with raw_server(slow) as server:  # noqa: SIM117
        async with managed({"main": {"ops": hook(server.port)}}, pace) as rig:
            ended = await rig.workers.deliver("main", request("late"), source="notify")
            assert Attempt(code=Code.TIMEOUT) == ended
            assert 0 == rig.block("main")["in_flight"]
            slow.open.set()
            assert (await rig.workers.deliver("main", request("next"), source="notify")).delivered
            assert 1 == rig.block("main")["failed"]


async def test_a_worker_that_falls_silent_is_replaced() -> None:
    """Stopped by a signal, it neither answers nor beats; it is killed and one comes anew."""
    pace = msgspec.structs.replace(QUICK, silence_s=6.0, answer_s=2.0)
    async with raw_server(patient) as server:  # noqa: SIM117
        async with managed({"main": {"ops": hook(server.port)}}, pace) as rig:
            os.kill(rig.children[0].pid, signal.SIGSTOP)
            ended = await rig.workers.deliver("main", request(), source="notify")
            assert Attempt(code=Code.TIMEOUT) == ended
            with trio.fail_after(60):
                while len(rig.children) < 2:
                    await trio.sleep(0.01)
            assert -signal.SIGKILL == rig.children[0].returncode
            await rig.until("main", "running")


async def test_who_asked_may_leave_and_the_attempt_goes_on() -> None:
    """It ends by itself and is counted."""
    slow = Slow()
    async with raw_server(slow) as server, managed({"main": {"ops": hook(server.port)}}) as rig:
        async with trio.open_nursery() as asking:

            async def ask() -> None:
                await rig.workers.deliver("main", request(), source="notify")

            asking.start_soon(ask)
            await server.until(lambda: slow.asked == 1)
            asking.cancel_scope.cancel()
        assert 1 == rig.block("main")["in_flight"]
        slow.open.set()
        with trio.fail_after(60):
            while rig.block("main")["delivered"] != 1:
                await trio.sleep(0.01)


async def test_a_stop_lets_attempts_finish_and_takes_no_new_one() -> None:
    """The workers end by the closing of their pipe, with nothing left over."""
    slow = Slow()
    async with raw_server(slow) as server, managed({"main": {"ops": hook(server.port)}}) as rig:
        ended: list[Attempt] = []

        async def one() -> None:
            ended.append(await rig.workers.deliver("main", request(), source="notify"))

        async with trio.open_nursery() as both:
            both.start_soon(one)
            await server.until(lambda: slow.asked == 1)
            both.start_soon(rig.workers.stop)
            await rig.until("main", "draining")
            refused = await rig.workers.deliver("main", request("new"), source="notify")
            assert Attempt(code=Code.UNAVAILABLE) == refused
            slow.open.set()
        assert [Attempt()] == ended
        assert "stopped" == rig.state("main")
        assert 0 == rig.children[0].returncode


async def test_a_stop_does_not_wait_for_a_provider_that_hangs() -> None:
    """After the drain the worker ends and who waits is told."""
    pace = msgspec.structs.replace(QUICK, drain_s=0.2)
    slow = Slow()
    async with raw_server(slow) as server:  # noqa: SIM117
        async with managed({"main": {"ops": hook(server.port)}}, pace) as rig:
            ended: list[Attempt] = []

            async def one() -> None:
                ended.append(await rig.workers.deliver("main", request(), source="notify"))

            async with trio.open_nursery() as both:
                both.start_soon(one)
                await server.until(lambda: slow.asked == 1)
                with trio.fail_after(60):
                    await rig.workers.stop()
            assert [Attempt(code=Code.UNAVAILABLE)] == ended


async def test_a_stop_does_not_wait_for_a_channel_that_starts() -> None:
    """Its provider does not answer: the worker ends by itself when its input closes."""
    slow = Slow()
    children: list[Process] = []
    async with raw_server(slow) as server:
        home = Channel(
            type="matrix",
            options={"homeserver": f"http://127.0.0.1:{server.port}", "msgtype": "m.text"},
            secrets={"token": "planted-token"},
        )
        with spawner(os.environ) as spawn:

            async def noted() -> Process:
                children.append(await spawn())
                return children[-1]

            pace = msgspec.structs.replace(QUICK, end_s=5.0)
            workers = ChannelWorkers({"main": {"ops": home}}, noted, pace=pace)
            async with trio.open_nursery() as standing:
                await standing.start(workers.run)
                await server.until(lambda: slow.asked == 1)
                await workers.stop()
                standing.cancel_scope.cancel()
    assert [0] == [child.returncode for child in children]


async def test_one_channel_that_does_not_start_leaves_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its reason is in the log, and it is unavailable."""
    refused = b'HTTP/1.1 401 X\r\nContent-Length: 29\r\n\r\n{"errcode":"M_UNKNOWN_TOKEN"'

    async def script(server: RawServer, peer: object) -> None:
        await peer.request()  # type: ignore[attr-defined]
        await peer.send(refused + b"}")  # type: ignore[attr-defined]

    async with raw_server(script) as hs, raw_server(patient) as server:
        matrix = Channel(
            type="matrix",
            options={"homeserver": f"http://127.0.0.1:{hs.port}", "msgtype": "m.text"},
            secrets={"token": "bad-token"},
        )
        async with managed({"main": {"chat": matrix, "ops": hook(server.port)}}) as rig:
            assert {"chat": "failed", "ops": "running"} == rig.block("main")["channels"]
            ended = await rig.workers.deliver("main", request(channel="chat"), source="notify")
            assert Code.UNAVAILABLE == ended.code
            assert (await rig.workers.deliver("main", request(), source="notify")).delivered
    assert "channel chat of main did not start: HTTP 401 M_UNKNOWN_TOKEN" in caplog.text
    assert "bad-token" not in caplog.text


async def test_the_same_channel_name_in_two_workspaces_is_two_channels() -> None:
    """A delivery goes to its own workspace's and to no other."""
    async with raw_server(patient) as one, raw_server(patient) as two:
        places = {"main": {"ops": hook(one.port)}, "side": {"ops": hook(two.port)}}
        async with managed(places) as rig:
            assert (await rig.workers.deliver("side", request(), source="notify")).delivered
            assert ([], 1) == (one.seen, len(two.seen))


async def test_the_backoff_doubles_up_to_its_most(caplog: pytest.LogCaptureFixture) -> None:
    """A worker that cannot even be started is tried less and less often."""
    starts = 0

    async def broken() -> object:
        nonlocal starts
        starts += 1
        await trio.lowlevel.checkpoint()
        raise FileNotFoundError(2, "No such file")

    pace = Pace(backoff_s=0.01, backoff_most_s=0.04)
    workers = ChannelWorkers({"main": {"ops": hook(1)}}, broken, pace=pace)  # type: ignore[arg-type]
    async with trio.open_nursery() as standing:
        await standing.start(workers.run)
        with trio.fail_after(60):
            while starts < 5:
                await trio.sleep(0.01)
        await workers.stop()
    said = [line.message for line in caplog.records if "again in" in line.message]
    assert [
        f"channel worker of main: again in {wait} s" for wait in ("0.01", "0.02", "0.04", "0.04")
    ] == said[:4]
