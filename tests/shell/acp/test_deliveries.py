"""Both ends of a delivery: a real child agent, the real desk and relay client, a scripted relay."""

import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from agentconnect.core.delivery.answers import FINAL_CODE, INVALID_CODE
from tests.shell.acp.later import Json, LateFolder, until
from tests.shell.acp.rig import Outcome, Rig, alive, room
from tests.shell.delivery import rig as desks
from tests.support.fake_broker import Answer, FakeBroker, open_broker

ECHO = {"Idempotency-Status": "created"}


class Stand(Rig):
    """An adapter whose agent delivers to a desk."""

    def __init__(self, folder: Path, desk: desks.Rig) -> None:
        self.desk = desk
        self.late = LateFolder(folder)
        options = {"late": str(self.late.path), "delivers": "capabilities"}
        super().__init__(folder, options, {"listener_pause_s": 0.05, "keepalive_s": 0.0})
        self.adapter.deliver_by(desk.desk, desk.desk.destinations)

    @property
    def broker(self) -> FakeBroker:
        return self.desk.broker

    async def told(self, number: int = 0) -> Json:
        """What a session reads of where its results go."""
        outcome = await (self.turn("#meta", room(number)) if number else self.turn("#meta"))
        meta: Json = json.loads(outcome.answer)[1]
        return meta

    def send(self, name: str, to: Json, text: str, *paths: Path) -> None:
        """Have the agent's listener deliver."""
        params: Json = {"id": name, "binding": to["binding"], "text": text}
        if paths:
            params["files"] = [{"uri": path.as_uri()} for path in paths]
        self.late.send({"id": name, "method": "_ag2/deliver", "params": params})

    async def answer(self, name: str) -> Any:
        """Its result, or its error."""
        await until(lambda: name in self.late.answers)
        answer = self.late.answers[name]
        return answer.get("error", answer.get("result"))

    async def listening(self, *, declared: bool = True) -> int:
        """The pid of the listener, once there is one that does or does not declare deliveries."""

        def found() -> list[int]:
            left = [pid for pid in self.late.starts if alive(pid)]  # no turn's, when none runs
            fits = len(left) == 1 and (left[0] in self.late.listeners) == declared
            return left if fits and self.block["listener"] == "up" else []

        await until(found)
        return found()[0]

    @property
    def block(self) -> dict[str, Any]:
        """The status block as it would be written last."""
        last = self.desk.blocks[-1] if self.desk.blocks else None
        return {
            "state": last.state if last else "",
            "listener": last.listener if last else "",
        }


@asynccontextmanager
async def standing(folder: Path, **settings: Any) -> AsyncIterator[Stand]:
    """Relay, desk, adapter and listener."""
    async with (
        open_broker() as broker,
        desks.running(broker, folder / "worker", declared=False, **settings) as desk,
        trio.open_nursery() as agents,
    ):
        stand = Stand(folder, desk)
        await agents.start(stand.adapter.run)
        await stand.adapter.preflight()
        await agents.start(stand.adapter.listener)
        yield stand
        agents.cancel_scope.cancel()


async def test_a_result_after_the_turn(tmp_path: Path) -> None:
    """Told in a Turn, sent by the listener, posted in that Turn's room: files first, then text."""
    async with standing(tmp_path) as stand:
        await stand.listening()
        to = (await stand.told())["ag2/delivery"]
        report = Path(to["export_dir"]) / "report.txt"
        report.write_text("all green")
        stand.send("build-1", to, "Done.", report)
        answer = await stand.answer("build-1")
        assert "delivered" == answer["outcome"]
        assert [(0, "created"), (1, "created")] == [
            (part["part"], part["status"]) for part in answer["delivered"]
        ]
        assert [{"!room:test"}, ["report.txt"]] == [
            {message["room"] for message in stand.broker.messages.values()},
            [file["filename"] for file in stand.broker.files],
        ]
        stand.send("again", to | {"binding": "f" * 32 + ".x"}, "Done.")
        answer = await stand.answer("again")
        assert (FINAL_CODE, "not_mine") == (answer["code"], answer["data"]["reason"])


async def test_a_connection_that_closes_amid_a_delivery(tmp_path: Path) -> None:
    """It completes, and what the agent sends again gets the stored answer."""
    async with standing(tmp_path) as stand:
        first = await stand.listening()
        to = (await stand.told())["ag2/delivery"]
        held = trio.Event()
        stand.broker.script(
            "messages", Answer(apply=True, hold=held, headers=ECHO, body={"event_id": "$e"})
        )
        stand.send("build-1", to, "Done.")
        await stand.broker.seen("messages")
        os.kill(first, signal.SIGKILL)
        await until(lambda: not alive(first))
        held.set()
        answer = await stand.answer("build-1")  # of the next listener, which sends all again
        assert ("delivered", "created") == (answer["outcome"], answer["delivered"][0]["status"])
        assert 1 == len(stand.broker.of("messages"))
        assert first != await stand.listening()


async def test_a_post_without_an_echo_withdraws_them(tmp_path: Path) -> None:
    """The agent is answered, its listener declares nothing until the relay keeps keys again."""
    async with standing(tmp_path, recheck_s=0.5) as stand:
        first = await stand.listening()
        to = (await stand.told())["ag2/delivery"]
        stand.broker.always("capabilities", Answer(status=404))
        stand.broker.script("messages", Answer(body={"event_id": "$1"}))
        stand.send("build-1", to, "Done.")
        answer = await stand.answer("build-1")
        assert [("delivered", "unechoed")] == [
            (answer["outcome"], part["status"]) for part in answer["delivered"]
        ]
        await stand.listening(declared=False)
        assert not alive(first)
        assert "ag2/delivery" not in await stand.told()
        stand.broker.keyed()
        assert first != await stand.listening()
        assert to["binding"] == (await stand.told())["ag2/delivery"]["binding"]


async def test_a_file_of_another_sessions_folder(tmp_path: Path) -> None:
    """May be written by that session only, and is delivered for it only."""
    async with standing(tmp_path) as stand:
        await stand.listening()
        mine, theirs = (await stand.told())["ag2/delivery"], (await stand.told(2))["ag2/delivery"]
        secret = Path(theirs["export_dir"]) / "secret.txt"
        secret.write_text("theirs")
        asked: Outcome = await stand.turn(
            f"#ask-write {mine['export_dir']}/a.txt\n#ask-write {secret}"
        )
        assert "[yes][no]" == asked.answer
        stand.send("steal", mine, "look", secret)
        answer = await stand.answer("steal")
        assert (FINAL_CODE, "rejected") == (answer["code"], answer["data"]["reason"])
        stand.send("own", theirs, "look", secret)
        assert "delivered" == (await stand.answer("own"))["outcome"]
        assert {"!room2:test"} == {m["room"] for m in stand.broker.messages.values()}


async def test_what_no_request_may_be(tmp_path: Path) -> None:
    """Each is refused with the field, nothing is recorded, and the next one is delivered."""
    async with standing(tmp_path) as stand:
        await stand.listening()
        to = (await stand.told())["ag2/delivery"]
        good = {"binding": to["binding"], "text": "x"}
        shapes: dict[str, Any] = {
            "params": [good],
            "id": good | {"id": "\x1b[2J"},
            "binding": good | {"id": "a", "binding": "../../etc"},
            "text": good | {"id": "a", "text": "x" * (10 * 1024 * 1024)},
            "files": good | {"id": "a", "files": {"uri": "file:///etc/passwd"}},
            "files[0].uri": good | {"id": "a", "files": [{"uri": "https://example.test/x"}]},
        }
        stand.late.send(
            *({"id": field, "method": "_ag2/deliver", "params": p} for field, p in shapes.items())
        )
        for field in shapes:
            error = await stand.answer(field)
            assert (INVALID_CODE, "final", "rejected", field) == (
                error["code"],
                error["data"]["outcome"],
                error["data"]["reason"],
                error["data"]["field"],
            )
        stand.send("good", to, "x")
        assert "delivered" == (await stand.answer("good"))["outcome"]
        assert (None, ["x"]) == (stand.desk.entry("a"), desks.posted(stand.desk))


async def test_five_hundred_at_once_are_posted_once_each(tmp_path: Path) -> None:
    """In one write, by one connection; all have their answer."""
    count = 500
    async with standing(tmp_path) as stand:
        pid = await stand.listening()
        to = (await stand.told())["ag2/delivery"]
        params = {"binding": to["binding"], "text": "x"}
        stand.late.send(
            *(
                {"id": f"d{n}", "method": "_ag2/deliver", "params": {"id": f"d{n}", **params}}
                for n in range(count)
            )
        )
        await until(lambda: len(stand.late.answers) == count, 50)
        outcomes = {a.get("result", {}).get("outcome") for a in stand.late.answers.values()}
        assert {"delivered"} == outcomes
        assert count == len(stand.broker.messages)
        assert pid == await stand.listening()


async def test_a_turns_connection_takes_notices_and_no_deliveries(tmp_path: Path) -> None:
    """As a request with its result, as a notification without one; nothing is recorded."""
    async with standing(tmp_path) as stand:
        await stand.listening()
        meta = await stand.told()
        delivery = {"id": "d", "binding": meta["ag2/delivery"]["binding"], "text": "x"}
        outcome = await stand.turn(f"#call _ag2/deliver {json.dumps(delivery)}")
        assert -32601 == json.loads(outcome.answer)["code"]
        assert stand.desk.entry("d") is None
        notice = {"destination": meta["ag2/destination"], "text": "half way"}
        outcome = await stand.turn(f"#call _ag2/notify {json.dumps(notice)}")
        assert {"posted": True, "reason": None} == json.loads(outcome.answer)
        stand.late.send({"method": "_ag2/notify", "params": notice | {"text": "nearly"}})
        await until(lambda: ["half way", "nearly"] == desks.posted(stand.desk))
