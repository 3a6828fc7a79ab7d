"""Cases of Channel Delivery: one object a line, ``kind`` says what is tried (§18 of its spec).

A runner takes the line, ``$rep`` already expanded, and returns what happened as an object; of that
the members that the line's ``expect`` names are compared. In the kinds ``store`` and ``host`` each
``op`` carries its own ``expect``: there a runner returns the list of what those ops gave.

What a request is answered is asked of a running daemon (``daemon_http``).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from agentconnect.core.daemon.acp_capture import AcpCapture
from agentconnect.core.daemon.authorizations import Authorizations
from agentconnect.core.daemon.capture import Capture
from agentconnect.core.daemon.fields import read_prompt
from agentconnect.core.daemon.host import Result, attempted, decide
from agentconnect.core.daemon.refusals import Refusal
from agentconnect.core.daemon.reverse import Source, Submission, read_submission
from agentconnect.core.daemon.target import Target, read_delivery, read_target
from agentconnect.core.daemon.text import CUT_MARKER, cut
from agentconnect.core.destination import blank, units
from tests.support.cases import channel_adapters, daemon_http
from tests.support.cases.case import Case, CaseError, Given, Record

Runner = Callable[[Given], object]


def _blank(line: Given) -> object:
    return {"blank": blank(line["text"])}


def _cut(line: Given) -> object:
    made = cut(line["text"])
    marked = made.endswith(CUT_MARKER)
    kept = made.removesuffix(CUT_MARKER)
    assert line["text"].startswith(kept)
    return {"units": units(made), "ends_with_marker": marked, "kept_units": units(kept)}


def _delivery(line: Given) -> object:
    target = read_delivery(line["value"])
    if target is not None:
        return {"ok": True, "target": target.as_target()}
    refused = read_prompt({"prompt": [{}], "delivery": line["value"]})
    assert isinstance(refused, Refusal)
    return {"ok": False, "status": refused.status, "code": refused.code}


def _capture(line: Given) -> object:
    if not line.get("delivery", True):
        return {"result": "nothing"}  # a turn without delivery has no capture at all
    model, acp = Capture(), AcpCapture()
    events: dict[str, Callable[..., None]] = {
        "begin": model.begin,
        "text": model.text,
        "tool": model.tool,
        "retry": model.retry,
        "fallback": model.retry,
        "close": model.close,
    }  # `thought` and `resume` are no events of the machine
    if line["level"] == "acp":
        for update in line["events"]:
            acp.see(update)
        text = acp.end(line["end"])
    else:
        for name, *arguments in line["events"]:
            if name not in ("thought", "resume"):
                events[name](*arguments)
        text = model.end(line["end"])
    if text is None:
        return {"result": "nothing"}
    return {"result": "skipped"} if blank(text) else {"result": "deliver", "text": text}


def _store(line: Given) -> object:
    store = Authorizations()
    found = (_do(store, op) for op in line["ops"])
    return [each for each in found if each is not None]


def _do(store: Authorizations, op: Given) -> bool | None:
    match op["op"]:
        case "authorize_prompt":
            store.authorize_prompt(
                op["workspace"], op["sessionId"], op["deliveryId"], _target(op["target"])
            )
        case "register":
            store.register(
                op["workspace"],
                op["sessionId"],
                op["taskId"],
                _target(op["target"]),
                recurring=op["recurring"],
                last_fired_at=op.get("lastFiredAt"),
            )
        case "revoke_prompt":
            store.revoke_prompt(op["workspace"], op["sessionId"], op["deliveryId"])
        case "revoke_task":
            store.revoke_task(op["workspace"], op["sessionId"], op["taskId"])
        case "consume":
            return store.consume(op["workspace"], _unchecked(op["request"]))
        case other:
            raise CaseError(f"the op {other!r} is unknown")
    return None


_ATTEMPTS = {
    "ok": (1, None),
    "timeout": (1, "channel_delivery_timeout"),
    "exit": (1, "channel_worker_unavailable"),
    "reject": (1, "channel_delivery_rejected"),
    "fail": (1, "a code that nobody knows"),
    "full": (0, "channel_delivery_queue_full"),
}
"""What a worker in that state makes of a request: sends that reach the adapter, the code."""


def _host(line: Given) -> object:
    store, workers, results = Authorizations(), dict[str, str](), list[object]()
    for op in line["ops"]:
        if op["op"] == "worker":
            workers[op["workspace"]] = op["state"]
        elif op["op"] != "submit":
            _do(store, op)
        else:
            submission, attempts = read_submission(op["request"], bool), 0
            assert submission is not None
            step = decide(store, op["workspace"], submission)
            if not isinstance(step, Result):
                state = workers.get(op["workspace"], "missing")
                attempts, code = _ATTEMPTS.get(state, (0, "channel_worker_unavailable"))
                step = attempted(submission, code)
            data = step.event_data()
            assert (step.status.value, step.code) == (data["status"], data.get("code"))
            results.append(
                {"status": step.status.value, "attempts": attempts}
                | ({"code": step.code.value} if step.code else {})
            )
    return results


def _reverse(line: Given) -> object:
    return {"accepted": read_submission(line["params"], {"s1"}.__contains__) is not None}


def _target(value: object) -> Target:
    found = read_target(value)
    assert found is not None
    return found


def _unchecked(request: Given) -> Submission:
    """The request as it is: the store does not rely on the check in front of it."""
    return Submission(
        session_id=request["sessionId"],
        delivery_id=request["deliveryId"],
        source=Source(request["source"]),
        target=_target(request["target"]),
        prompt_id=request.get("promptId", ""),
        task_id=request.get("taskId", ""),
        fired_at=request.get("firedAt", 0),
    )


RUNNERS: Mapping[str, Runner] = {
    "adapter": channel_adapters.disposition,
    "auth": daemon_http.auth,
    "blank": _blank,
    "capture": _capture,
    "cut": _cut,
    "delivery": _delivery,
    "host": _host,
    "notify": daemon_http.notify,
    "prompt": daemon_http.prompt,
    "reverse": _reverse,
    "store": _store,
    "task_create": daemon_http.task_create,
    "task_patch": daemon_http.task_patch,
}


def cases(records: Sequence[Record]) -> Iterator[Case]:
    """Every line whose kind has a runner."""
    for line, value in records:
        kind, expect = value.get("kind"), value.get("expect")
        if not isinstance(kind, str) or not isinstance(expect, dict):
            raise CaseError(f"line {line} needs a `kind` and an `expect` object")
        runner = RUNNERS.get(kind)
        if runner is None:
            known = ", ".join(sorted(RUNNERS))
            raise CaseError(f"line {line} has the unknown kind {kind!r} (of: {known})")
        by_op = [op["expect"] for op in value.get("ops", ()) if "expect" in op]
        yield Case(
            name=f"{kind} {value.get('name', f'line {line}')}",
            line=line,
            given={key: item for key, item in value.items() if key not in ("name", "expect")},
            expected=_expand(line, by_op or expect),
            run=partial(_run, runner, line, value, by_op or expect),
        )


def _run(runner: Runner, line: int, value: Given, expect: object) -> object:
    expanded = _expand(line, value)
    assert isinstance(expanded, dict)
    return _named(expect, runner(expanded))


def _named(expect: object, actual: object) -> object:
    """Of ``actual`` what ``expect`` speaks of."""
    if isinstance(expect, dict) and isinstance(actual, dict):
        return {key: _named(expect[key], actual[key]) for key in expect if key in actual}
    if isinstance(expect, list) and isinstance(actual, list) and len(expect) == len(actual):
        return [_named(one, two) for one, two in zip(expect, actual, strict=True)]
    return actual


def _expand(line: int, value: Any) -> Any:
    """``value`` with each ``{"$rep": [s, n, tail?]}`` replaced by ``s`` n times and ``tail``."""
    if isinstance(value, dict):
        if set(value) != {"$rep"}:
            return {key: _expand(line, item) for key, item in value.items()}
        try:
            piece, times, *tail = value["$rep"]
            return piece * times + "".join(tail)
        except (TypeError, ValueError) as error:
            raise CaseError(f"line {line} holds a broken `$rep`") from error
    if isinstance(value, list):
        return [_expand(line, item) for item in value]
    return value
