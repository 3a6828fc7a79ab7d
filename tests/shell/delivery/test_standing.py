"""When deliveries are offered, what an agent is told otherwise, and who hears of it (§2)."""

from pathlib import Path
from typing import Any

import pytest
import trio

from tests.shell.delivery.rig import OWNER, Answer, running
from tests.support.fake_broker import KEYED, open_broker


def _keyed(**changes: Any) -> Answer:
    return Answer(body={"room_post_idempotency": {**KEYED["room_post_idempotency"], **changes}})


@pytest.mark.parametrize(
    "answer",
    [
        Answer(404),
        Answer(500),
        Answer(401),
        Answer(drop=True),
        Answer(body=b"<html>"),
        Answer(body={}),
        Answer(body=[KEYED]),
        _keyed(ttl_seconds=3600),
        _keyed(ttl_seconds="86400"),
        _keyed(header="X-Key"),
        _keyed(routes=["POST /v1/rooms/{room}/messages"]),
    ],
)
async def test_a_probe_that_fails_enables_nothing(tmp_path: Path, answer: Answer) -> None:
    """No binding, Retry for what comes all the same; asked again until it passes."""
    async with open_broker() as broker:
        broker.always("capabilities", answer)
        async with running(broker, tmp_path, keyed=False, recheck_s=0.3) as rig:
            assert not rig.desk.enabled
            assert await rig.desk.destinations.delivery(OWNER) is None
            binding = (await rig.store.bind(OWNER)).id
            told = await rig.send("x", binding, "t")
            assert ("retry", 60) == (told["outcome"], told["retry_after_s"])
            assert "relay" in told["reason"]
            assert rig.entry("x") is None
            broker.keyed()
            with trio.fail_after(60):
                assert await rig.desk.changed(False)
            assert "delivered" == (await rig.send("x", binding, "t"))["outcome"]


async def test_placeholders_by_any_name_and_unknown_members(tmp_path: Path) -> None:
    """A newer relay says more."""
    async with open_broker() as broker:
        routes = ["POST /v1/rooms/{roomId}/messages", "POST /v1/rooms/:id/media", "PUT /v2"]
        broker.always("capabilities", _keyed(routes=routes, more=1, ttl_seconds=172_800))
        async with running(broker, tmp_path, keyed=False) as rig:
            assert rig.desk.enabled


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"overlap": "/home/me"}, "lies inside /home/me"),
        ({"folder": "/x: Permission denied"}, "export folder cannot be used"),
        ({"declared": False}, "does not say that it delivers"),
    ],
)
async def test_every_condition_has_its_sentence(
    tmp_path: Path, settings: dict[str, Any], words: str
) -> None:
    """In the status block; the agent is told Retry."""
    async with open_broker() as broker, running(broker, tmp_path, **settings) as rig:
        assert not rig.desk.enabled
        assert await rig.desk.destinations.delivery(OWNER) is None
        await rig.until(lambda: rig.blocks)
        assert words in rig.blocks[-1].reason
        binding = (await rig.store.bind(OWNER)).id
        assert "retry" == (await rig.send("x", binding, "t"))["outcome"]
        assert await rig.desk.destinations.destination(OWNER) is not None


async def test_a_broker_that_comes_late_is_asked_before_a_listener_starts(tmp_path: Path) -> None:
    """Each start of a listener asks anew."""
    async with open_broker() as broker, running(broker, tmp_path, keyed=False) as rig:
        before = len(broker.of("capabilities"))
        broker.keyed()
        await trio.sleep(1.1)  # an answer of just now is not asked for again
        await rig.desk.probe()
        assert rig.desk.enabled
        assert before < len(broker.of("capabilities"))


async def test_a_withdrawal_outlasts_the_next_listener_start(tmp_path: Path) -> None:
    """The probe was as sure before: only a later one lifts it."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        meta = await rig.bind()
        broker.script("messages", Answer(body={"ok": True, "event_id": "$bare"}))
        await rig.send("x", meta.binding, "t")
        await trio.sleep(1.1)
        await rig.desk.probe()
        assert not rig.desk.enabled
        await rig.until(lambda: rig.blocks[-1].state == "withdrawn")


async def test_room_ops_and_deliveries_share_one_withdrawal(tmp_path: Path) -> None:
    """A placeholder's post that was not echoed says as much."""
    async with open_broker() as broker, running(broker, tmp_path) as rig:
        broker.script("messages", Answer(body={"ok": True, "event_id": "$bare"}))
        assert (await rig.relay.rooms.message("!r:h", "x", key="k")).ok
        assert not rig.desk.enabled


async def test_an_agent_elsewhere_is_named_as_the_cause(tmp_path: Path) -> None:
    """Whatever it declares: it has no export folder to fill."""
    async with open_broker() as broker, running(broker, tmp_path, declared=False) as rig:
        rig.desk.declared(False, elsewhere=True)
        await rig.until(lambda: rig.blocks and "another machine" in rig.blocks[-1].reason)
        assert "does not say" not in rig.blocks[-1].reason
        assert not rig.desk.enabled
