"""Cases of Channel Delivery that are answered by a running daemon, over real HTTP."""

import json
import tempfile
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import trio

from agentconnect.core.destination import units
from tests.support.cases.case import CaseError, Given
from tests.support.daemon import NOTIFY, Api, running
from tests.support.http_client import call

_CASE_PORT = "4170"
"""The address of the case file; the daemon of a test has a free port instead."""

Ask = Callable[[Given, Api], Awaitable[object]]


def _asked(ask: Ask, line: Given) -> object:
    async def main() -> object:
        with tempfile.TemporaryDirectory() as folder:
            async with running(Path(folder)) as api:
                return await ask(line, api)

    return trio.run(main)


async def _notify(line: Given, api: Api) -> object:
    route = line["route"]
    named = route.split("/")[2] if route.startswith("/workspaces/") else "main"
    api.channels.workers[named] = line.get("worker", "ok")
    raw = line["raw"].encode() if "raw" in line else json.dumps(line["body"]).encode()
    reply = await api.call("POST", route, raw, line.get("headers"))
    found: dict[str, object] = {"status": reply.status, "attempts": len(api.channels.sent)}
    if reply.code:
        found["code"] = reply.code
    if api.channels.sent:
        workspace, wanted, _ = api.channels.sent[0]
        assert workspace == named
        wish = line["expect"].get("sent", {})
        start, end = len(wish.get("starts", "")), len(wish.get("ends", ""))
        found["sent"] = {
            "text": wanted.text,
            "units": units(wanted.text),
            "starts": wanted.text[:start],
            "ends": wanted.text[len(wanted.text) - end :],
        }
    return found


async def _auth(line: Given, api: Api) -> object:
    method, path = line["route"].split()
    headers = {k: v.replace(_CASE_PORT, str(api.port)) for k, v in line["headers"].items()}
    body = json.dumps(NOTIFY).encode() if method == "POST" else None
    return {"status": (await call(api.port, method, path, headers, body)).status}


async def _prompt(line: Given, api: Api) -> object:
    session = await api.session()
    reply = await api.call("POST", f"/session/{session}/prompt", line["body"])
    return {"status": reply.status} | ({"code": reply.code} if reply.code else {})


async def _task_create(line: Given, api: Api) -> object:
    reply = await api.call("POST", "/scheduled-tasks", line["body"])
    return await _stored(api, reply.status, reply.code)


async def _task_patch(line: Given, api: Api) -> object:
    body = {"cron": "0 9 * * *", "prompt": "digest"}
    if line["before"] is not None:
        body |= {"delivery": line["before"]}
    made = await api.call("POST", "/scheduled-tasks", body)
    reply = await api.call("PATCH", f"/scheduled-tasks/{made.json['id']}", line["body"])
    return await _stored(api, reply.status, reply.code)


async def _stored(api: Api, status: int, code: str) -> object:
    """With what is in the file afterwards, as the API shows it."""
    tasks = (await api.call("GET", "/scheduled-tasks")).json["tasks"]
    if len(tasks) > 1:
        raise CaseError("one task at most was made")
    found: dict[str, object] = {"status": status, "delivery": None}
    for task in tasks:
        found["delivery"] = task.get("delivery")
    return found | ({"code": code} if code else {})


notify = partial(_asked, _notify)
auth = partial(_asked, _auth)
prompt = partial(_asked, _prompt)
task_create = partial(_asked, _task_create)
task_patch = partial(_asked, _task_patch)
