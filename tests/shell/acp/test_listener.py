"""The standing listener: when there is one, what it serves, how it ends and comes back."""

import json
import logging
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from agentconnect.adapters.acp_later import AT_ONCE
from tests.shell.acp.later import DELIVERED, RETRY, LateFolder, Service, until
from tests.shell.acp.rig import Rig, alive, room, running
from tests.support.waits import count_only_waits
from tests.support.worker import children_of

BOTH = {"ag2/receive": True, "ag2/deliver": True}
ONE = {"ag2/receive": True}


class Stand(Rig):
    """The adapter with its listener."""

    def __init__(
        self, folder: Path, options: dict[str, Any], settings: dict[str, Any], *, offered: bool
    ) -> None:
        self.late = LateFolder(folder)
        self.service = Service(folder, offered=offered)
        told = {"late": str(self.late.path), "delivers": "capabilities"} | options
        super().__init__(
            folder, told, {"service": self.service, "listener_pause_s": 0.05} | settings
        )

    def pids(self) -> list[int]:
        """The agents that run."""
        return [pid for pid in children_of(os.getpid()) if alive(pid)]

    async def up(self, count: int = 1) -> int:
        """The pid of the newest listener, once so many have been up."""
        await until(lambda: self.service.states.count("up") >= count)
        return self.late.listeners[-1]


@asynccontextmanager
async def standing(
    folder: Path, options: dict[str, Any] | None = None, *, offered: bool = True, **settings: Any
) -> AsyncIterator[Stand]:
    """Adapter and listener, after the check of the start."""
    stand = Stand(folder, options or {}, settings, offered=offered)
    async with trio.open_nursery() as agents:
        await agents.start(stand.adapter.run)
        await stand.adapter.preflight()
        async with trio.open_nursery() as intake:
            await intake.start(stand.adapter.listener)
            yield stand
            intake.cancel_scope.cancel()
        agents.cancel_scope.cancel()


@pytest.mark.parametrize("where", ["capabilities", "result"])
async def test_the_agent_says_it_and_gets_a_listener(tmp_path: Path, where: str) -> None:
    """A process of its own, without a session; it alone is told that deliveries are taken."""
    log = tmp_path / "log"
    async with standing(tmp_path, {"delivers": where, "log": str(log)}) as stand:
        pid = await stand.up()
        await stand.turn("#say x")
        starts = stand.late.starts
        assert [pid] == stand.late.listeners
        listener = starts.pop(pid)
        assert (BOTH, BOTH) == (listener["_meta"], listener["clientCapabilities"]["_meta"])
        assert len(starts) >= 1
        for turn in starts.values():
            assert (ONE, ONE) == (turn["_meta"], turn["clientCapabilities"]["_meta"])
        assert ["down", "up"] == stand.service.states
        recorded = json.loads((stand.state / "children.json").read_text())["children"]
        assert pid in [child["pid"] for child in recorded]
    methods = [json.loads(line)["method"] for line in log.read_bytes().splitlines()]
    assert 1 == methods.count("session/new")
    await until(lambda: not alive(pid))


@pytest.mark.parametrize("declared", [None, "elsewhere"])
async def test_an_agent_that_does_not_say_it_gets_none(
    tmp_path: Path, declared: str | None
) -> None:
    """No process for it at all, and nobody asks the relay."""
    async with standing(tmp_path, {"delivers": declared}) as stand:
        await stand.turn("#say x")
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert [] == stand.late.listeners
        assert (0, ["down"]) == (stand.service.probes, sorted(set(stand.service.states)))
        assert 1 == len(stand.pids())


async def test_nothing_is_declared_while_deliveries_are_not_offered(tmp_path: Path) -> None:
    """No listener, no word to sessions; both come when they are offered."""
    async with standing(tmp_path, offered=False) as stand:
        told = (await stand.turn("#meta")).answer
        assert [None, None] == json.loads(told)
        assert [] == stand.late.listeners
        stand.service.switch(offered=True)
        await stand.up()
        opened, prompted = json.loads((await stand.turn("#meta")).answer)
        assert (None, {"ag2/delivery", "ag2/destination"}) == (opened, set(prompted))


async def test_a_probe_that_fails_right_before_the_start(tmp_path: Path) -> None:
    """Then it is not started, until it passes."""
    late, service = LateFolder(tmp_path), Service(tmp_path)
    service.probe_finds = lambda: service.switch(offered=False)
    options = {"late": str(late.path), "delivers": "capabilities"}
    async with running(tmp_path, options, service=service) as rig, trio.open_nursery() as intake:
        await rig.adapter.preflight()
        await intake.start(rig.adapter.listener)
        await until(lambda: service.probes == 1)
        service.probe_finds = lambda: None
        service.switch(offered=True)
        await until(lambda: "up" in service.states)
        assert 2 == service.probes
        assert 1 == len(late.listeners)
        intake.cancel_scope.cancel()


async def test_a_slow_delivery_blocks_no_other(tmp_path: Path) -> None:
    """Nor a notification, nor a request that is refused."""
    async with standing(tmp_path) as stand:
        await stand.up()
        stand.service.gates["slow"] = trio.Event()
        stand.late.deliver("slow", "quick")
        notice = {"method": "_ag2/notify", "params": {"destination": "d", "text": "hello"}}
        stand.late.send(
            notice,
            {"id": "n", **notice},
            {"id": "x", "method": "_ag2/other", "params": {}},
            {"id": "empty", "method": "_ag2/notify", "params": {}},
        )
        await until(lambda: len(stand.late.answers) == 4)
        assert [None, DELIVERED] == stand.late.results(["slow", "quick"])
        assert [{"posted": True, "reason": None}] == stand.late.results(["n"])
        assert -32601 == stand.late.answers["x"]["error"]["code"]
        refused = {"code": -32602, "message": "Invalid params", "data": {"field": "text"}}
        assert refused == stand.late.answers["empty"]["error"]
        assert [notice["params"]] * 2 == stand.service.noticed
        stand.service.gates["slow"].set()
        await until(lambda: stand.late.results(["slow"]) == [DELIVERED])


async def test_the_same_agent_on_a_turns_connection(tmp_path: Path) -> None:
    """A delivery is no method there, whatever else is; text for the room is taken on both."""
    delivery = '{"id": "d1", "binding": "b", "text": "x"}'
    notice = '{"destination": "d", "text": "hello"}'
    async with standing(tmp_path) as stand:
        await stand.up()
        answer = (await stand.turn(f"#call _ag2/deliver {delivery}")).answer
        assert {"code": -32601, "message": "Method not found"} == json.loads(answer)
        answer = (await stand.turn("#call _ag2/else {}")).answer
        assert -32601 == json.loads(answer)["code"]
        assert [] == stand.service.delivered
        answer = (await stand.turn(f"#call _ag2/notify {notice}")).answer
        assert {"posted": True, "reason": None} == json.loads(answer)
        stand.late.deliver("d1")
        await until(lambda: stand.late.results(["d1"]) == [DELIVERED])


async def test_without_a_service_nothing_is_served(tmp_path: Path) -> None:
    """As when a doctor asks an agent who it is: nothing is declared either."""
    late = LateFolder(tmp_path)
    async with running(tmp_path, {"late": str(late.path), "delivers": "result"}) as rig:
        await rig.adapter.listener()
        for method in ("_ag2/notify", "_ag2/deliver"):
            answer = (await rig.turn(f"#call {method} {{}}\n")).answer
            assert -32601 == json.loads(answer)["code"]
        (start,) = late.starts.values()
        assert "_meta" not in start
        assert "_meta" not in start["clientCapabilities"]


async def test_a_killed_listener_comes_back(tmp_path: Path) -> None:
    """After a pause and a new question to the relay."""
    async with standing(tmp_path) as stand:
        first = await stand.up()
        os.kill(first, signal.SIGKILL)
        second = await stand.up(2)
        assert second != first
        assert ["down", "up", "restarting", "up"] == stand.service.states
        assert 2 == stand.service.probes
        stand.late.deliver("after")
        await until(lambda: stand.late.results(["after"]) == [DELIVERED])


async def test_a_delivery_is_not_the_listeners(tmp_path: Path) -> None:
    """The one that waited for an answer is forgotten; nobody else hears of it."""
    async with standing(tmp_path) as stand:
        first = await stand.up()
        stand.service.gates["slow"] = trio.Event()
        stand.late.deliver("slow")
        await until(lambda: stand.service.delivered)
        os.kill(first, signal.SIGKILL)
        await stand.up(2)
        assert 1 == stand.service.forgotten


async def test_a_pipe_that_closes_ends_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The process behind it goes too, and its last words are in the log."""
    caplog.set_level(logging.INFO, "agentconnect")
    async with standing(tmp_path) as stand:
        first = await stand.up()
        (stand.late.path / "end-stderr").write_text("out of paper\n")
        await stand.up(2)
        assert not alive(first)
    assert "out of paper" in caplog.text
    assert "starts again" in caplog.text


async def test_withdrawn_and_offered_again(tmp_path: Path) -> None:
    """New ones are told Retry at once, what runs gets its answer, then it declares nothing."""
    async with standing(tmp_path) as stand:
        first = await stand.up()
        slow = stand.service.gates["slow"] = trio.Event()
        stand.late.deliver("slow")
        await until(lambda: stand.service.delivered)
        stand.service.switch(offered=False)
        stand.late.deliver("new")
        await until(lambda: "new" in stand.late.answers)
        error = stand.late.answers["new"]["error"]
        assert {"code": -32010, "message": "Not yet", "data": RETRY} == error
        assert ["down", "up"] == stand.service.states
        assert alive(first)
        slow.set()
        await until(lambda: stand.late.results(["slow"]) == [DELIVERED])
        await until(lambda: stand.service.states.count("up") == 2)
        assert [first] == stand.late.listeners
        assert not alive(first)
        mute = [p for p in stand.late.starts if alive(p) and p in stand.pids()]
        assert ONE == stand.late.starts[mute[-1]]["_meta"]
        stand.service.switch(offered=True)
        third = await stand.up(3)
        assert [first, third] == stand.late.listeners


async def test_an_agent_that_no_longer_says_it_loses_it(tmp_path: Path) -> None:
    """A new version of it, say: the process is ended and none takes its place."""
    changed = tmp_path / "changed"
    async with standing(tmp_path, {"delivers_unless": str(changed)}) as stand:
        pid = await stand.up()
        changed.touch()
        await stand.turn("#say x", room(2))
        await until(lambda: not alive(pid))
        await until(lambda: stand.service.states[-1] == "down")
        assert [pid] == stand.late.listeners


async def test_five_hundred_at_once(tmp_path: Path) -> None:
    """All are answered, with none of them ended yet; beyond the bound with Retry."""
    many = [f"d{n}" for n in range(500)]
    more = [f"e{n}" for n in range(AT_ONCE.handled)]
    async with standing(tmp_path) as stand:
        await stand.up()
        gate = trio.Event()
        stand.service.gates = dict.fromkeys((*many, *more), gate)
        stand.late.deliver(*many)
        await until(lambda: len(stand.service.delivered) == len(many))
        stand.late.deliver(*more)
        await until(lambda: len(stand.late.answers) == len(many))
        refused = stand.late.answers["e1023"]["error"]
        assert (-32010, "retry", 5) == (
            refused["code"],
            refused["data"]["outcome"],
            refused["data"]["retry_after_s"],
        )
        assert len(stand.service.delivered) == AT_ONCE.handled
        gate.set()
        await until(lambda: len(stand.late.answers) == len(many) + len(more))
        assert [DELIVERED] * len(many) == stand.late.results(many)
        assert ["down", "up"] == stand.service.states


async def test_hostile_params(tmp_path: Path) -> None:
    """Each gets an error, and the connection goes on."""
    shapes: list[Any] = [None, [], "x", 7, {}, {"id": None}, [[[[]]]], {"x": "y" * 3_000_000}]
    async with standing(tmp_path) as stand:
        await stand.up()
        stand.late.send(
            *({"id": n, "method": "_ag2/deliver", "params": p} for n, p in enumerate(shapes))
        )
        stand.late.send({"id": "none", "method": "_ag2/deliver"})
        stand.late.send({"id": None, "method": "_ag2/deliver", "params": {"id": "null"}})
        await until(lambda: len(stand.late.answers) == len(shapes) + 2)
        codes = {i: a.get("error", {}).get("code") for i, a in stand.late.answers.items()}
        assert dict.fromkeys((0, 1, 2, 3, 4, 6, 7, "none"), -32602) | {5: None, None: None} == codes
        stand.late.deliver("after")
        await until(lambda: stand.late.results(["after"]) == [DELIVERED])
        assert ["down", "up"] == stand.service.states


async def test_an_agent_that_lists_logins(tmp_path: Path) -> None:
    """Means nothing here: it was judged at the start."""
    async with standing(tmp_path, {"auth": ["a", "b"]}, skip_auth_check=True) as stand:
        await stand.up()
        stand.late.deliver("d")
        await until(lambda: stand.late.results(["d"]) == [DELIVERED])


async def test_one_that_never_answers_is_given_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Bounded, ended, tried again after pauses; the turns do not notice."""
    caplog.set_level(logging.INFO, "agentconnect")
    mute = {"mute_listener": True, "init_stderr": 100}
    async with standing(tmp_path, mute, start_limit_s=5.0) as stand:
        await until(lambda: len(stand.late.listeners) >= 2)
        first = stand.late.listeners[0]
        await until(lambda: not alive(first))
        assert {"down", "restarting"} == set(stand.service.states)
        assert "x" == (await stand.turn("#say x")).answer
    assert "no answer to initialize in 5 s" in caplog.text


async def test_a_listener_that_cannot_be_started(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The program is gone since the start: said, and tried again."""
    command = tmp_path / "agent"
    command.symlink_to("/bin/true")
    async with standing(tmp_path) as stand:
        pid = await stand.up()
        stand.work.rmdir()
        os.kill(pid, signal.SIGKILL)
        await until(lambda: "did not start" in caplog.text)
        stand.work.mkdir()
        assert pid != await stand.up(2)


async def test_a_stop_is_within_its_budget(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    """Also of one that ignores the end of its input and SIGTERM, with a delivery that waits."""
    mock_clock.rate = 1.0
    async with standing(tmp_path, {"ignore_eof": True, "ignore_term": True}) as stand:
        pid = await stand.up()
        stand.service.gates["slow"] = trio.Event()
        stand.late.deliver("slow")
        await until(lambda: stand.service.delivered)
        count_only_waits(mock_clock)
        began = trio.current_time()
    assert trio.current_time() - began < 5
    await until(lambda: not alive(pid))
    assert "down" == stand.service.states[-1]


async def test_each_prompt_renews_what_a_session_was_told(tmp_path: Path) -> None:
    """The same binding, told when it is opened, loaded and prompted, with a fresh end."""
    options = {"late": str((late := LateFolder(tmp_path)).path), "delivers": "capabilities"}
    service = Service(tmp_path)
    async with running(tmp_path, options, service=service, keepalive_s=0.0) as rig:
        first = json.loads((await rig.turn("#meta")).answer)
        second = json.loads((await rig.turn("#meta")).answer)
        other = json.loads((await rig.turn("#meta", room(2))).answer)
    deliveries = [told["ag2/delivery"] for told in (*first, *second)]
    assert 1 == len({told["binding"] for told in deliveries})
    ends = [told["expires_at"] for told in deliveries]
    assert sorted(set(ends)) == ends
    assert {"w.-room-test"} == {told["ag2/destination"] for told in (*first, *second)}
    assert other[0]["ag2/delivery"]["binding"] != deliveries[0]["binding"]
    assert [] == late.listeners


async def test_the_own_export_folder_is_a_root_of_permissions(tmp_path: Path) -> None:
    """And no other session's; not where a link was put in its place; and it is told nowhere."""
    options = {"late": str(LateFolder(tmp_path).path), "delivers": "capabilities"}
    service = Service(tmp_path)
    async with running(tmp_path, options, service=service) as rig:
        await rig.turn("#say x", room(2))
        mine, theirs = tmp_path / "export" / "-room-test", tmp_path / "export" / "-room2-test"
        asks = f"#ask-write {mine}/report.pdf\n#ask-write {theirs}/report.pdf\n#ask-write a.txt"
        outcome = await rig.turn(f"{asks}\n#ask-write {mine.parent}/x\n#prompt")
        assert outcome.answer.startswith("[yes][no][yes][no]")
        assert str(mine) not in outcome.answer.replace(f"$ask-write {mine}", "")
        mine.rmdir()
        mine.symlink_to("/etc")
        outcome = await rig.turn(f"#ask-write {mine}/passwd\n#ask-write /etc/passwd")
        assert "[no][no]" == outcome.answer
