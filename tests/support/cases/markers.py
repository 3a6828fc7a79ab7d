"""Cases of result bodies: :mod:`agentconnect.core.relay.markers` and ``prepared``."""

from agentconnect.core.relay import markers, prepared
from agentconnect.core.relay.prepared import FileOutcome
from tests.support.cases.case import Given, by_op

_NO_FILE = {"ok": False, "reason": "missing"}


def _parse(given: Given) -> object:
    parsed = markers.parse(given["body"])
    return {
        "body": parsed.body,
        "actions": [[action.kind.value, action.value, action.extra] for action in parsed.actions],
    }


def _prepare(given: Given) -> object:
    files = given.get("files", {})
    sent: dict[str, FileOutcome] = {}  # by path, as the journal's row keeps them
    asked = []
    planned = prepared.plan(given["body"], max_files=given.get("max_files", prepared.MAX_FILES))
    ready = None
    for _ in range(given.get("calls", 1)):
        outcomes = []
        for action in planned.wanted:
            file = files.get(action.value, _NO_FILE)
            path = file.get("path", action.value)
            if path not in sent:
                asked.append(action.value)
                outcome = FileOutcome(
                    ok=file["ok"], filename=file.get("filename", ""), reason=file.get("reason", "")
                )
                if outcome.ok:
                    sent[path] = outcome
            outcomes.append(sent.get(path, outcome))
        ready = prepared.prepare(planned, outcomes)
    assert ready is not None
    return {**{name: getattr(ready, name) for name in ready.__struct_fields__}, "asked": asked}


def _complete(given: Given) -> object:
    problem = prepared.answer_problem(given["id"], given["body"])
    if problem:
        return {"error": problem}
    planned = prepared.plan(given["body"])
    unknown = FileOutcome(ok=False, reason="room unknown")
    ready = prepared.prepare(planned, [unknown] * len(planned.wanted))
    payload = prepared.answer_payload(given["id"], ready)
    return {"posted": [{"id": payload.id, "body": payload.body}]}


cases = by_op(
    {
        "parse": _parse,
        "prepare": _prepare,
        "complete": _complete,
        "restitch": lambda given: markers.restitch(given["body"], given["redirect"]),
    }
)
