"""The daemon as it is used: a real worker, agent children, channel worker processes, real HTTP."""

import json
import os
import signal
from pathlib import Path

import trio

from tests.e2e.daemon.stage import (
    SECRET,
    TARGET_ID,
    TEXT,
    TOKEN,
    Provider,
    Stage,
    agent_command,
    delivery,
    served,
    staged,
    write_channels,
)
from tests.support.http_client import Reply, call
from tests.support.raw_server import raw_server
from tests.support.relay import running_relay
from tests.support.worker import alive, children_of, shown, until


def channel_workers(stage: Stage) -> list[int]:
    """Their pids."""
    found = []
    for pid in children_of(stage.worker.process.pid):
        words = shown(pid, "cmdline").split(b"\0")
        if b"channel-worker" in words:
            found.append(pid)
    return found


def processes(stage: Stage) -> list[bytes]:
    """The argument lists of the worker and its children, and the children's environments."""
    pid = stage.worker.process.pid
    found = [shown(pid, "cmdline")]
    for child in children_of(pid):
        found += [shown(child, "cmdline"), shown(child, "environ")]
    assert 2 < sum(map(bool, found)), "the worker and a child at least are seen"
    return found


async def test_prompts_are_answered_and_delivered(tmp_path: Path) -> None:
    """202, turn_complete, result; the last block alone; skipped, refused; nothing crosses over."""
    async with staged(tmp_path) as stage:
        session = await stage.session()
        script = "#say I look.\n#tool t read Look\n#tool-end t completed\n#say The answer."
        await stage.prompt(session, script)
        done, result = await stage.events(session, 2)
        assert "end_turn" == done["data"]["data"]["stopReason"]
        assert "delivered" == result["data"]["data"]["status"]
        assert ["The answer."] == stage.provider.texts

        await stage.prompt(session, "#say I look.\n#tool u read Look")
        await stage.prompt(session, "#say Half an ans\n#stop max_tokens")
        await stage.prompt(session, "#say Whole\n#crash 3")
        await stage.prompt(session, "#call _ag2/channel_delivery {}", deliver=False)
        later = await stage.events(session, 5, after=2)
        assert ["turn_complete", "channel_delivery_result"] == [e["event"] for e in later[:2]]
        assert "skipped" == later[1]["data"]["data"]["status"]
        assert "max_tokens" == later[2]["data"]["data"]["stopReason"]
        assert "turn_error" == later[3]["event"]
        assert "turn_complete" == later[4]["event"]
        assert ["The answer."] == stage.provider.texts

        assert 200 == (await stage.notify("for the site", where="site")).status
        assert ["/main-in", "/site-in"] == [path for path, _ in stage.provider.got]
        refused = await stage.notify(channel="strict")
        assert (502, "channel_delivery_rejected") == (refused.status, refused.code)
        unknown = await stage.notify(channel="nope")
        assert (503, "channel_worker_unavailable") == (unknown.status, unknown.code)
        await until(
            lambda: stage.block()["delivered"] == 1 and stage.block()["skipped"] == 1,
            "counts in the status file",
        )


async def test_a_session_goes_on_where_its_process_ended(tmp_path: Path) -> None:
    """It keeps its conversation, its folder and the owner's permissions."""
    async with staged(tmp_path, AGENT_CONNECT_ACP_KEEPALIVE="0") as stage:
        session = await stage.session()
        await stage.prompt(session, "#say one")
        await stage.prompt(session, f"#ask-write {tmp_path}/repo/x\n#ask-write {tmp_path}/outside")
        await stage.prompt(session, "#history")
        await stage.events(session, 6)
    assert "one" == stage.provider.texts[0]
    assert "yes" in stage.provider.texts[1]
    assert "no" in stage.provider.texts[1]
    assert "[turns 3]" == stage.provider.texts[2]


async def test_two_hundred_at_once(tmp_path: Path) -> None:
    """Sixteen are in flight, the others are refused at once, and turns do not wait for them."""
    replies: list[Reply] = []
    full = (503, "channel_delivery_queue_full")
    async with staged(tmp_path) as stage:
        session = await stage.session()
        stage.provider.open = trio.Event()

        async def one() -> None:
            replies.append(await stage.notify())

        async with trio.open_nursery() as calls:
            for _ in range(200):
                calls.start_soon(one)
            await until(lambda: len(replies) == 184, "the refusals")
            assert [full] * 184 == [(reply.status, reply.code) for reply in replies]
            await until(lambda: len(stage.provider.got) == 16, "sixteen in flight")
            await stage.prompt(session, "#say quick", deliver=False)
            await stage.events(session, 1)
            assert 184 == len(replies)
            stage.provider.open.set()
    assert [200] * 16 == [reply.status for reply in replies[184:]]


async def test_a_killed_channel_worker_tells_who_waits(tmp_path: Path) -> None:
    """503 at once; it is started again, and nothing is sent a second time."""
    replies: list[Reply] = []
    async with staged(tmp_path) as stage:
        stage.provider.open = trio.Event()

        async def one() -> None:
            replies.append(await stage.notify())

        async with trio.open_nursery() as calls:
            calls.start_soon(one)
            await until(lambda: len(stage.provider.got) == 1, "an attempt")
            for pid in channel_workers(stage):
                os.kill(pid, signal.SIGKILL)
        assert (503, "channel_worker_unavailable") == (replies[0].status, replies[0].code)
        stage.provider.open.set()

        async def again() -> bool:
            return 200 == (await stage.notify("second")).status

        await until(again, "a new channel worker")
    assert [TEXT, "second"] == stage.provider.texts


async def test_a_stop_lets_deliveries_end(tmp_path: Path) -> None:
    """SIGTERM: what waits is answered, exit code 0, no process is left."""
    replies: list[Reply] = []
    async with staged(tmp_path) as stage:
        stage.provider.open = trio.Event()
        children = channel_workers(stage)
        assert 2 == len(children)

        async def one() -> None:
            replies.append(await stage.notify())

        async with trio.open_nursery() as calls:
            calls.start_soon(one)
            await until(lambda: len(stage.provider.got) == 1, "an attempt")
            stage.worker.process.send_signal(signal.SIGTERM)
            await trio.sleep(0.5)  # the stop is under way; the attempt outlives its beginning
            stage.provider.open.set()
        assert 0 == await stage.worker.ended()
        assert [] == [pid for pid in children if alive(pid)]
    assert [200] == [reply.status for reply in replies]


async def test_nothing_that_is_secret_is_seen(tmp_path: Path) -> None:
    """Not in the log, the status file, an event, a body or an argument list."""
    async with staged(tmp_path) as stage:
        session = await stage.session()
        seen = [(await stage.notify(channel=name)).body for name in ("ops", "strict", "nope")]
        await stage.prompt(session, f"{TEXT}\n#say {TEXT}\n#env AGENT_CONNECT_DAEMON_TOKEN")
        await stage.prompt(session, f"{TEXT}\n#error -32000 {TEXT}")
        events = await stage.events(session, 3)
        seen += [event["raw"].encode() for event in events]
        seen.append(str(stage.worker.status).encode())
        seen += processes(stage)
    seen.append(stage.worker.output().encode())
    for planted in (TEXT, TARGET_ID, SECRET, TOKEN):
        assert [] == [found for found in seen if planted.encode() in found], planted
    assert 3 <= stage.worker.output().count("channel delivery ")


async def test_a_webhook_starts_a_turn_that_nobody_watches(tmp_path: Path) -> None:
    """Its own secret, 202, the answer at the configured target; its lines stay data."""
    path = "/channels/ops/webhooks/ci"
    body = {"eventType": "build", "targetRef": "default", "title": "x\n#say Obeyed."}
    command = agent_command(tmp_path, unscripted=["#say It broke."])
    async with staged(tmp_path, AGENT_CONNECT_ACP_COMMAND=command) as stage:
        host = {"Host": f"127.0.0.1:{stage.port}"}
        secret = {"x-agentconnect-webhook-secret": SECRET}
        raw = json.dumps(body).encode()
        no_secret = await call(stage.port, "POST", path, stage.headers, raw)
        bearer = {"Authorization": f"Bearer {SECRET}"}
        as_bearer = await call(stage.port, "POST", "/workspace/notify", host | bearer, b"{}")
        wrong = await call(stage.port, "POST", "/channels/ops/webhooks/x", host | secret, raw)
        bad = await call(stage.port, "POST", path, host | secret, b'{"eventType": "x"}')
        lost = await call(stage.port, "POST", path, host | secret, raw.replace(b"default", b"x"))
        good = await call(stage.port, "POST", path, host | secret, raw)
        assert [401, 401, 401, 400, 404, 202] == [
            reply.status for reply in (no_secret, as_bearer, wrong, bad, lost, good)
        ]
        assert {"accepted": True} == good.json
        assert {"error": "Invalid webhook secret"} == wrong.json
        await until(lambda: ["It broke."] == stage.provider.texts, "the answer at its target")
        assert TARGET_ID == stage.provider.got[0][1]["target"]["id"]


async def test_tasks_outlive_a_crash(tmp_path: Path) -> None:
    """kill -9 in the middle of a run: that slot is over, the task and its session are there."""
    provider = Provider()
    async with running_relay(tmp_path / "relay") as relay, raw_server(provider) as server:
        write_channels(tmp_path, server.port)
        async with served(tmp_path, relay.token, provider) as stage:
            body = {"cron": "0 9 1 1 *", "prompt": "#say one\n#sleep 60", "delivery": delivery()}
            made = await stage.call("POST", "/scheduled-tasks", body)
            assert 201 == made.status, made.body
            path = f"/scheduled-tasks/{made.json['id']}"
            ran = await stage.call("POST", f"{path}/run")
            assert 202 == ran.status
            await stage.worker.kill()
        async with served(tmp_path, relay.token, provider) as stage:
            (task,) = (await stage.call("GET", "/scheduled-tasks")).json["tasks"]
            assert ran.json["firedAt"] == task["lastFiredAt"]
            assert made.json["sessionId"] == task["sessionId"]
            changed = await stage.call("PATCH", path, {"prompt": "#say two"})
            assert 200 == changed.status
            assert 202 == (await stage.call("POST", f"{path}/run")).status
            await until(lambda: stage.provider.texts == ["two"], "the second run alone")


async def test_an_agents_own_request_is_no_method(tmp_path: Path) -> None:
    """It cannot deliver by itself, whatever it calls it."""
    async with staged(tmp_path) as stage:
        session = await stage.session()
        for method in ("_ag2/channel_delivery", "channel_delivery", "_ag2/deliver"):
            await stage.prompt(session, f"#call {method} {{}}")
        await stage.events(session, 6)
        assert 3 == len(stage.provider.texts)
        assert [-32601] * 3 == [json.loads(text)["code"] for text in stage.provider.texts]
