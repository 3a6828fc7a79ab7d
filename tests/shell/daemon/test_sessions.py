"""Sessions: prompts in order, events with replay, and what of an answer is sent (§6, §8, §12)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from agentconnect.core.daemon.events import MAX_BEHIND
from agentconnect.daemon.session import Pace
from tests.support.daemon import DELIVERY, FakeTalk, running, said, until

Tell = Callable[[dict[str, Any]], None]


class Held:
    """An agent that answers when it may."""

    def __init__(self) -> None:
        self.may = trio.Event()
        self.began = 0

    async def __call__(self, talk: FakeTalk, text: str, tell: Tell) -> str:
        self.began += 1
        async with trio.open_nursery() as either:
            either.start_soon(self._wait, self.may, either)
            either.start_soon(self._wait, talk.stopped, either)
        if talk.stopped.is_set():
            return "cancelled"
        tell(said(f"You said: {text}"))
        return "end_turn"

    async def _wait(self, event: trio.Event, nursery: trio.Nursery) -> None:
        await event.wait()
        nursery.cancel_scope.cancel()


async def test_the_result_comes_after_the_turn(tmp_path: Path) -> None:
    """202, then turn_complete, then the one result, with exactly their members."""
    async with running(tmp_path) as api:
        session = await api.session()
        admitted = await api.prompt(session, "hi", delivery=DELIVERY)
        done, result = await api.collected(session, 2)
    prompt_id = admitted["promptId"]
    assert 0 == admitted["lastEventId"]
    assert {
        "id": 1,
        "v": 1,
        "type": "turn_complete",
        "promptId": prompt_id,
        "data": {"sessionId": session, "stopReason": "end_turn", "promptId": prompt_id},
    } == done["data"]
    assert {
        "id": 2,
        "v": 1,
        "type": "channel_delivery_result",
        "promptId": prompt_id,
        "data": {
            "sessionId": session,
            "deliveryId": prompt_id,
            "source": "prompt",
            "status": "delivered",
            "promptId": prompt_id,
        },
    } == result["data"]
    (workspace, wanted, source) = api.channels.sent[0]
    assert ("main", "You said: hi", "prompt") == (workspace, wanted.text, source)


async def test_the_agent_learns_no_target(tmp_path: Path) -> None:
    """Neither its blocks nor its meta hold the delivery; a client's ag2 keys are dropped."""
    meta = {"ag2/delivery": DELIVERY, "mine": 1}
    async with running(tmp_path) as api:
        session = await api.session()
        await api.prompt(session, "hi", delivery=DELIVERY, _meta=meta, other=True)
        await api.collected(session, 2)
        prompts = api.agent.talks[session].prompts
    assert [(({"type": "text", "text": "hi"},), {"mine": 1})] == prompts


async def test_a_prompt_without_delivery_captures_nothing(tmp_path: Path) -> None:
    """No result, and no ear for updates."""
    async with running(tmp_path) as api:
        session = await api.session()
        await api.prompt(session, "hi")
        (done,) = await api.collected(session, 1)
        await api.prompt(session, "again")
        (_, second) = await api.collected(session, 2)
        assert not api.agent.talks[session].heard
    assert ["turn_complete"] * 2 == [done["event"], second["event"]]
    assert [] == api.channels.sent


@pytest.mark.parametrize("reason", ["max_tokens", "max_turn_requests", "refusal", "cancelled"])
async def test_only_a_good_end_delivers(tmp_path: Path, reason: str) -> None:
    """Any other stop reason is told, and nothing is sent, however whole the text looks."""

    async def script(_talk: FakeTalk, _text: str, tell: Tell) -> str:
        tell(said("The whole answer."))
        return reason

    async with running(tmp_path) as api:
        api.agent.script = script
        session = await api.session()
        await api.prompt(session, "a", delivery=DELIVERY)
        await api.prompt(session, "b", delivery=DELIVERY)
        found = await api.collected(session, 2)
        assert [reason] * 2 == [event["data"]["data"]["stopReason"] for event in found]
        assert 0 == len(api.daemon.authorizations)
    assert [] == api.channels.sent


async def test_an_agent_that_fails_is_an_error(tmp_path: Path) -> None:
    """No result; the message is ours, not what the agent or a mistake said."""

    async def script(_talk: FakeTalk, text: str, tell: Tell) -> str:
        tell(said("planted"))
        if text == "raise":
            raise RuntimeError("planted")
        return "" if text == "fail" else "an unknown reason"

    async with running(tmp_path) as api:
        api.agent.script = script
        session = await api.session()
        for text in ("raise", "fail", "odd"):
            await api.prompt(session, text, delivery=DELIVERY)
        found = await api.collected(session, 3)
        assert 0 == len(api.daemon.authorizations)
    for event in found:
        assert "turn_error" == event["event"]
        assert "agent_failed" == event["data"]["data"]["code"]
        assert {"sessionId", "message", "code", "promptId"} == set(event["data"]["data"])
        assert "planted" not in event["raw"]


async def test_an_empty_answer_is_skipped(tmp_path: Path) -> None:
    """No worker is asked, even where none runs."""

    async def script(_talk: FakeTalk, _text: str, tell: Tell) -> str:
        tell(said("I look."))
        tell({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "Look"})
        return "end_turn"

    async with running(tmp_path) as api:
        api.agent.script, api.channels.default = script, "missing"
        session = await api.session()
        await api.prompt(session, "hi", delivery=DELIVERY)
        _, result = await api.collected(session, 2)
    assert "skipped" == result["data"]["data"]["status"]
    assert {"code", "error"}.isdisjoint(result["data"]["data"])
    assert ["main"] == api.channels.empty


@pytest.mark.parametrize(
    ("state", "code"),
    [
        ("missing", "channel_worker_unavailable"),
        ("full", "channel_delivery_queue_full"),
        ("timeout", "channel_delivery_timeout"),
        ("reject", "channel_delivery_rejected"),
        ("fail", "channel_delivery_failed"),
    ],
)
async def test_a_failed_delivery_leaves_the_turn_good(
    tmp_path: Path, state: str, code: str
) -> None:
    """turn_complete stands; the result has the code and its fixed text. The try is used up."""
    async with running(tmp_path) as api:
        api.channels.default = state
        session = await api.session()
        await api.prompt(session, "hi", delivery=DELIVERY)
        done, result = await api.collected(session, 2)
        assert 0 == len(api.daemon.authorizations)
    assert "turn_complete" == done["event"]
    assert ("failed", code) == (result["data"]["data"]["status"], result["data"]["data"]["code"])
    assert result["data"]["data"]["error"]


async def test_five_prompts_may_wait(tmp_path: Path) -> None:
    """The sixth is refused; a place that becomes free is taken."""
    held = Held()
    async with running(tmp_path) as api:
        api.agent.script = held
        session = await api.session()
        for number in range(5):
            await api.prompt(session, str(number), delivery=DELIVERY)
        body = {"prompt": [{"type": "text", "text": "6"}], "delivery": DELIVERY}
        full = await api.call("POST", f"/session/{session}/prompt", body)
        assert 5 == len(api.daemon.authorizations)
        held.may.set()
        await api.collected(session, 10)
        await api.prompt(session, "7")
        assert [str(n) for n in range(5)] == [
            wanted.text.removeprefix("You said: ") for _, wanted, _ in api.channels.sent
        ]
    assert (503, "prompt_queue_full") == (full.status, full.code)
    assert "5" == full.header("retry-after")


async def test_cancel_stops_the_running_prompt_alone(tmp_path: Path) -> None:
    """The next one runs on; the cancelled one has no result."""
    held = Held()
    async with running(tmp_path) as api:
        api.agent.script = held
        session = await api.session()
        assert 204 == (await api.call("POST", f"/session/{session}/cancel")).status
        await api.prompt(session, "a", delivery=DELIVERY)
        await api.prompt(session, "b", delivery=DELIVERY)
        await until(lambda: held.began == 1)
        assert 204 == (await api.call("POST", f"/session/{session}/cancel")).status
        await until(lambda: held.began == 2)
        held.may.set()
        found = await api.collected(session, 3)
    assert ["turn_complete", "turn_complete", "channel_delivery_result"] == [
        event["event"] for event in found
    ]
    assert "cancelled" == found[0]["data"]["data"]["stopReason"]
    assert ["You said: b"] == [wanted.text for _, wanted, _ in api.channels.sent]


@pytest.mark.parametrize("limit_s", [0.0, 0.2], ids=["cancelled", "too late"])
async def test_a_good_end_behind_a_stop_delivers_nothing(tmp_path: Path, limit_s: float) -> None:
    """The agent answers all the same, after it was told to stop: nobody waits for that answer."""

    async def stubborn(talk: FakeTalk, _text: str, tell: Tell) -> str:
        await talk.stopped.wait()
        tell(said("The whole answer."))
        return "end_turn"

    async with running(tmp_path, pace=Pace(turn_timeout_s=limit_s, cancel_grace_s=5.0)) as api:
        api.agent.script = stubborn
        session = await api.session()
        await api.prompt(session, "hi", delivery=DELIVERY)
        if not limit_s:
            await until(lambda: bool(api.agent.talks[session].prompts))
            await api.call("POST", f"/session/{session}/cancel")
        (event,) = await api.collected(session, 1)
        assert 0 == len(api.daemon.authorizations)
    word = event["data"]["data"].get("stopReason") or event["data"]["data"]["code"]
    assert ("turn_timeout" if limit_s else "cancelled") == word
    assert [] == api.channels.sent


async def test_a_turn_has_a_time_limit(tmp_path: Path) -> None:
    """It is asked to stop, then its process is ended; what it said is not sent."""

    async def deaf(_talk: FakeTalk, _text: str, tell: Tell) -> str:
        tell(said("The whole answer."))
        await trio.sleep_forever()
        raise AssertionError

    async with running(tmp_path, pace=Pace(turn_timeout_s=0.2, cancel_grace_s=0.1)) as api:
        api.agent.script = deaf
        session = await api.session()
        await api.prompt(session, "hi", delivery=DELIVERY)
        (event,) = await api.collected(session, 1)
        assert 0 == len(api.daemon.authorizations)
    assert "turn_timeout" == event["data"]["data"]["code"]
    assert [] == api.channels.sent


async def test_a_closed_session_is_gone(tmp_path: Path) -> None:
    """Its streams end, its prompts are dropped, its routes know it no more."""
    held = Held()
    async with running(tmp_path) as api:
        api.agent.script = held
        session = await api.session()
        await api.prompt(session, "a", delivery=DELIVERY)
        await api.prompt(session, "b", delivery=DELIVERY)
        await until(lambda: held.began == 1)
        async with api.events(session) as stream:
            assert 204 == (await api.call("DELETE", f"/session/{session}")).status
            assert {} == await stream.next()
        assert 404 == (await api.call("GET", f"/session/{session}/events")).status
        assert 404 == (await api.call("DELETE", f"/session/{session}")).status
        await until(lambda: api.agent.talks[session].retired)
        assert 0 == len(api.daemon.authorizations)
        assert 1 == held.began
    assert [] == api.channels.sent


async def test_a_delivery_outlives_its_session(tmp_path: Path) -> None:
    """The attempt ends; its event has nowhere to go."""
    async with running(tmp_path) as api:
        api.channels.gate = trio.Event()
        session = await api.session()
        await api.prompt(session, "a", delivery=DELIVERY)
        await until(lambda: len(api.channels.sent) == 1)
        await api.call("DELETE", f"/session/{session}")
        api.channels.gate.set()
        await until(lambda: api.channels.finished == 1)
        assert 200 == (await api.call("GET", "/health")).status


async def test_events_are_replayed_from_a_known_one(tmp_path: Path) -> None:
    """After N; nothing twice; without the header only what comes."""
    async with running(tmp_path) as api:
        session = await api.session()
        for number in range(3):
            await api.prompt(session, str(number), delivery=DELIVERY)
        await api.collected(session, 6)
        async with api.events(session, after=4) as stream, api.events(session, None) as fresh:
            assert [5, 6] == [(await stream.next())["id"] for _ in range(2)]
            late = await api.prompt(session, "late")
            assert 6 == late["lastEventId"]
            assert 7 == (await stream.next())["id"]
            assert 7 == (await fresh.next())["id"]


async def test_a_reader_that_falls_behind_is_let_go(tmp_path: Path) -> None:
    """One event without an id, and the stream ends."""
    async with running(tmp_path) as api:
        session = await api.session()
        async with api.events(session) as stream:
            await api.prompt(session, "a")
            await stream.next()
            for number in range(MAX_BEHIND + 1):
                api.daemon.sessions.get(session).publish("x", {"n": number})
            last = await stream.next()
            assert ("client_evicted", 0) == (last["event"], last["id"])
            assert {} == await stream.next()


async def test_a_session_lives_in_the_workspace_that_was_named(tmp_path: Path) -> None:
    """By path or id; a folder that is not trusted or not registered gets none."""
    side = str((tmp_path / "side").resolve())
    async with running(tmp_path) as api:
        by_path = await api.call("POST", "/session", {"cwd": side})
        by_id = await api.call("POST", "/session", {"cwd": "side"})
        assert [201, 201] == [by_path.status, by_id.status]
        assert side == by_path.json["workspaceCwd"]
        await api.prompt(by_id.json["sessionId"], "hi", delivery=DELIVERY)
        await api.collected(by_id.json["sessionId"], 2)
        assert ["side"] == [workspace for workspace, _, _ in api.channels.sent]
        refused = [
            await api.call("POST", "/session", {"cwd": cwd})
            for cwd in ("dark", "nope", str(tmp_path), 5)
        ]
    assert [403, 400, 400, 400] == [reply.status for reply in refused]


async def test_an_agent_that_does_not_start_opens_no_session(tmp_path: Path) -> None:
    """Nothing is left of it."""
    async with running(tmp_path) as api:
        api.agent.opens = False
        reply = await api.call("POST", "/session", {})
        assert (503, "workspace_runtime_unavailable") == (reply.status, reply.code)
        assert all(talk.retired for talk in api.agent.talks.values())


async def test_a_stop_ends_turns_and_drops_their_answers(tmp_path: Path) -> None:
    """A turn is asked to stop; nothing of it is sent."""
    held = Held()
    async with running(tmp_path) as api:
        api.agent.script = held
        session = await api.session()
        await api.prompt(session, "a", delivery=DELIVERY)
        await until(lambda: held.began == 1)
    assert api.agent.talks[session].stopped.is_set()
    assert not api.agent.talks[session].retired
    assert [] == api.channels.sent
