"""``agent-connect schedule``: scheduled tasks of the running worker (channel-delivery.md §7)."""

import time
from typing import Any

import msgspec

from agentconnect.cli.api import Api, destination, segment
from agentconnect.cli.console import put, say, warn
from agentconnect.cli.options import SENTENCE_CHARS, Options, UsageError, printable

_NOT_A_CHANNEL = (
    '"{}" is not a channel of this workspace now; runs will not be delivered until it is. See: '
    "agent-connect channels check (docs/channels.md); a change takes a restart of the worker"
)
"""The task is taken all the same: whether a channel is there counts when it runs (§4)."""


def run_schedule(options: Options) -> int:
    """List, add, remove or run."""
    action, *rest = options.words
    if action == "list" and not rest:
        return _list(options)
    if action == "add" and rest and options.cron:
        return _add(options, rest[0])
    if action in ("rm", "run") and rest:
        return _one(options, action, rest[0])
    needs = {
        "list": "takes nothing more",
        "add": "needs --cron EXPRESSION and a prompt",
        "rm": "needs the id of a task",
        "run": "needs the id of a task",
    }
    raise UsageError(f"schedule {action} {needs[action]}")


def _list(options: Options) -> int:
    api = Api(options)
    found = api.call("GET", api.tasks())
    if options.json:
        put(msgspec.json.format(msgspec.json.encode(found), indent=2).decode().splitlines())
        return 0
    tasks = found.get("tasks", [])
    for task in tasks:
        say(_line(task))
    if not tasks:
        say("no scheduled tasks")
    return 0


def _add(options: Options, prompt: str) -> int:
    body: dict[str, Any] = {
        "cron": options.cron,
        "prompt": prompt,
        "recurring": not options.once,
    }
    if options.name is not None:
        body["name"] = options.name
    if (delivery := destination(options)) is not None:
        body["delivery"] = delivery
    api = Api(options)
    task = api.call("POST", api.tasks(), body)
    say(f"added: {_line(task)}")
    if options.channel and not api.has_channel(options.channel):
        warn([_NOT_A_CHANNEL.format(printable(options.channel))])
    return 0


def _one(options: Options, action: str, task_id: str) -> int:
    api, at = Api(options), f"/{segment(task_id)}"
    if action == "rm":
        api.call("DELETE", api.tasks(at))
        say(f"removed: {printable(task_id)}")
    else:
        api.call("POST", api.tasks(f"{at}/run"))
        say(f"started: {printable(task_id)}")
    return 0


def _line(task: Any) -> str:
    """One task: id, when, next, name or prompt, where to, and what came of its last run."""
    words = [str(task.get("id")), str(task.get("cron"))]
    if not task.get("enabled"):
        words.append("disabled")
    elif at := task.get("nextRunAt"):
        words.append(time.strftime("next %Y-%m-%d %H:%M", time.localtime(at / 1000)))
    if not task.get("recurring"):
        words.append("once")
    words.append(printable(str(task.get("name") or task.get("prompt"))))
    if delivery := task.get("delivery"):
        words.append(f"to {printable(str(delivery['target']['channelName']))}")
    if outcome := task.get("outcome"):
        words.append(_outcome(outcome))
    return "  ".join(words)


def _outcome(outcome: Any) -> str:
    said = [str(outcome[name]) for name in ("result", "delivery") if outcome.get(name)]
    at = outcome.get("at")
    when = f" {time.strftime('%Y-%m-%d %H:%M', time.localtime(at / 1000))}" if at else ""
    return printable(f"last{when}: {' '.join(said)}", SENTENCE_CHARS)
