"""Prompts, Notify and tasks through the whole worker to a real Matrix server, and read back."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.daemon.stage import Provider, Stage, served
from tests.im.conftest import House
from tests.support.relay import running_relay
from tests.support.synapse_up import Synapse
from tests.support.worker import until

pytestmark = [pytest.mark.im, pytest.mark.timeout(300)]


def write_matrix(folder: Path, homeserver: str, token: str) -> None:
    """One Matrix channel in each of the two workspaces."""
    state, secret = folder / "workspace", folder / "matrix-token"
    secret.write_text(token)
    (folder / "site").mkdir()
    channel = {"type": "matrix", "homeserver": homeserver, "token_file": str(secret)}
    for name in ("main", "site"):
        file = state / "workspaces" / name / "channels.json"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps({"v": 1, "channels": {"ops": channel}}))
        file.chmod(0o600)
    known = {"id": "site", "cwd": str(folder / "site"), "trusted": True}
    (state / "workspaces.json").write_text(json.dumps({"v": 1, "workspaces": [known]}))
    (state / "workspaces.json").chmod(0o600)


def to(kind: str, name: str) -> dict[str, Any]:
    return {"kind": "channel", "target": {"channelName": "ops", "type": kind, "id": name}}


async def prompted(stage: Stage, session: str, text: str, delivery: object) -> None:
    body = {"prompt": [{"type": "text", "text": text}], "delivery": delivery}
    reply = await stage.call("POST", f"/session/{session}/prompt", body)
    assert 202 == reply.status, reply.body


async def result(stage: Stage, session: str, after: int) -> dict[str, Any]:
    """The result behind a turn_complete."""
    done, found = await stage.events(session, 2, after)
    assert ["turn_complete", "channel_delivery_result"] == [done["event"], found["event"]]
    data: dict[str, Any] = found["data"]["data"]
    return data


async def test_answers_are_read_by_somebody_else(synapse: Path, tmp_path: Path) -> None:
    """Delivered to a room and a person; rejected after a kick; failed when the server is down."""
    with Synapse(python=str(synapse)) as server:
        house = House(server)
        bot, ann = house.person("bot"), house.person("ann")
        room = await ann.room(bot)
        write_matrix(tmp_path, house.url, bot.token)
        async with (
            running_relay(tmp_path / "relay") as relay,
            served(tmp_path, relay.token, Provider()) as stage,
        ):
            session = await stage.session()
            await prompted(stage, session, "#say The answer.", to("chat", room))
            assert "delivered" == (await result(stage, session, 0))["status"]
            assert "The answer." in [content["body"] for content in await ann.texts(room)]

            body = {"text": "for you alone", "delivery": to("user", ann.id)}
            assert 200 == (await stage.call("POST", "/workspace/notify", body)).status
            joined = await ann.call("GET", "sync?timeout=0")
            assert 1 == len(joined["rooms"]["invite"])

            task = {"cron": "0 9 1 1 *", "prompt": "#say News.", "delivery": to("chat", room)}
            made = (await stage.call("POST", "/scheduled-tasks", task)).json
            await stage.call("POST", f"/scheduled-tasks/{made['id']}/run")
            assert "scheduled" == (await result(stage, made["sessionId"], 0))["source"]
            assert "News." in [content["body"] for content in await ann.texts(room)]

            await ann.call("POST", f"rooms/{room}/kick", {"user_id": bot.id})
            await prompted(stage, session, "#say Unwanted.", to("chat", room))
            refused = await result(stage, session, 2)
            assert ("failed", "channel_delivery_rejected") == (refused["status"], refused["code"])

            assert server.proc is not None
            server.proc.kill()
            await prompted(stage, session, "#say Unheard.", to("chat", room))
            failed = await result(stage, session, 4)
            assert ("failed", "channel_delivery_failed") == (failed["status"], failed["code"])
            await until(lambda: stage.block()["failed"] == 2, "the count in the status file")
            for hidden in ("The answer.", "News.", room, ann.id, bot.token):
                assert hidden not in stage.worker.output()
