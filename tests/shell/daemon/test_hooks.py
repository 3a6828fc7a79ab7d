"""Webhooks: a path of their own, with their own secret, and no word of a delivery (§14)."""

from pathlib import Path
from typing import Any

import trio

from agentconnect.channels.file import Channels, Source
from agentconnect.core.daemon.webhook import MAX_WAITING
from agentconnect.core.destination import Target
from tests.support.daemon import Api, FakeTalk, running, said, until
from tests.support.http_client import Reply, call

PATH = "/channels/ops/webhooks/ci"
BODY = {"eventType": "build", "targetRef": "team", "title": "It broke", "payload": {"n": 1}}


def files() -> dict[str, Channels]:
    """The same channel and source in two workspaces, each with its secret."""
    target = Target(type="chat", id="planted-target")
    return {
        name: Channels(webhooks={"ops": {"ci": Source(secret=secret, targets={"team": target})}})
        for name, secret in (("main", "of-main"), ("side", "of-side"))
    }


async def posted(
    api: Api, body: Any = BODY, secret: str = "of-main", path: str = PATH, **headers: str
) -> Reply:
    return await api.call("POST", path, body, {"x-agentconnect-webhook-secret": secret, **headers})


async def test_an_event_starts_a_turn_and_its_answer_is_sent(tmp_path: Path) -> None:
    """In the workspace whose secret it was; nothing is authorized, nothing is an event."""
    async with running(tmp_path, files=files()) as api:
        reply = await posted(api, secret="of-side")
        assert (202, {"accepted": True}) == (reply.status, reply.json)
        await until(lambda: len(api.channels.sent) == 1)
        workspace, wanted, source = api.channels.sent[0]
        assert ("side", "webhook", "ops") == (workspace, source, wanted.channel_name)
        assert ("chat", "planted-target") == (wanted.target_type, wanted.target_id)
        assert "It broke" in wanted.text
        assert 0 == len(api.daemon.authorizations)
        (talk,) = api.bridges["side"].talks.values()
        assert "planted-target" not in str(talk.prompts)
        assert 0 == api.daemon.sessions.get(talk.id).last_event_id


async def test_the_secret_is_looked_at_first(tmp_path: Path) -> None:
    """One answer for an unknown channel, an unknown source and a wrong secret; no body is read."""
    async with running(tmp_path, files=files()) as api:
        host = {"Host": f"127.0.0.1:{api.port}"}
        found = [
            await posted(api, b"{", secret="wrong"),
            await posted(api, b"{", path="/channels/x/webhooks/ci"),
            await posted(api, b"{", path="/channels/ops/webhooks/x"),
            await api.call("POST", PATH, BODY),
            await api.call("GET", PATH),
        ]
        assert [401] * 5 == [reply.status for reply in found]
        assert [{"error": "Invalid webhook secret"}] * 5 == [reply.json for reply in found]
        bearer = host | {"Authorization": "Bearer of-main"}
        assert 401 == (await call(api.port, "GET", "/capabilities", bearer)).status
        evil = await posted(api, Host="evil.example")
        assert 403 == evil.status


async def test_a_body_that_is_wrong_starts_nothing(tmp_path: Path) -> None:
    """A missing field, two targets, a long title, an unknown target, too many bytes, no JSON."""
    async with running(tmp_path, files=files()) as api:
        found = [
            await posted(api, {key: BODY[key] for key in ("eventType", "targetRef")}),
            await posted(api, b'{"eventType":"a","targetRef":"x","targetRef":"y","title":"t"}'),
            await posted(api, BODY | {"title": "x" * 2049}),
            await posted(api, BODY | {"targetRef": "nobody"}),
            await posted(api, b" " * (1024 * 1024 + 1)),
            await posted(api, BODY, **{"Content-Type": "text/plain"}),
        ]
        assert {} == api.agent.talks
    assert [400, 400, 400, 404, 413, 415] == [reply.status for reply in found]


async def test_where_no_worker_runs_nothing_is_taken(tmp_path: Path) -> None:
    """503 with the worker's code."""
    async with running(tmp_path, files=files()) as api:
        api.channels.default = "missing"
        reply = await posted(api)
    assert (503, "channel_worker_unavailable") == (reply.status, reply.code)


async def test_sixteen_may_wait(tmp_path: Path) -> None:
    """The next is refused; answers that say nothing are not sent."""
    may = trio.Event()

    async def script(_talk: FakeTalk, _text: str, tell: Any) -> str:
        await may.wait()
        tell(said("  "))
        return "end_turn"

    async with running(tmp_path, files=files()) as api:
        api.agent.script = script
        taken = [(await posted(api)).status for _ in range(MAX_WAITING)]
        full = await posted(api)
        may.set()
        (talk,) = api.agent.talks.values()
        await until(lambda: len(talk.prompts) == MAX_WAITING)
    assert [202] * MAX_WAITING == taken
    assert (503, "channel_webhook_queue_full") == (full.status, full.code)
    assert [] == api.channels.sent
