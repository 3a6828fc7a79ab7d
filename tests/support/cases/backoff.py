"""Cases of the poll loop: ``cadence``, ``guard`` and ``journal`` of ``core/relay``."""

import json

from agentconnect.core.relay import cadence, guard, journal
from agentconnect.core.relay.cadence import AuthRule, Backoff, LoopState
from tests.support.cases.case import Given, by_op

_FATAL_AT_ONCE = AuthRule(rejections=1, span_s=0.0)


def _ladder(given: Given) -> object:
    backoff = Backoff(
        given.get("start", cadence.BACKOFF_START_S), given.get("cap", cadence.BACKOFF_CAP_S)
    )
    waits = []
    for event in given["events"]:
        if event == "ok":
            backoff.reset()
        else:
            backoff.next()
        waits.append(backoff.current_s)
    return waits


def _loop(given: Given) -> object:
    state, told = LoopState(), []
    for answer in given["answers"]:
        if isinstance(answer, dict):
            kind = cadence.poll_kind(200, listed=isinstance(answer.get("tasks"), list))
        else:
            kind = cadence.poll_kind(None if answer == "net" else answer, listed=False)
        state, verdict = cadence.after_poll(
            state, kind, mono_now=0.0, has_file=bool(given.get("file")), rule=_FATAL_AT_ONCE
        )
        told.append(
            {
                "state": verdict.state,
                "delay": verdict.delay_s,
                "backoff_s": verdict.backoff_s,
                "stopped": verdict.stopped,
            }
        )
    return told


def _guard(given: Given) -> object:
    held = bool(given.get("held"))
    on_disk = _claimed(None, given["now"]) if held else None
    if "record" in given:
        written = given["record"]
        on_disk = guard.read_record(written if isinstance(written, str) else json.dumps(written))
    now = given["now"] + given.get("advance", 0.0)
    verdict = guard.judge(on_disk, me="me", wall_now=now, held=held)
    if verdict.write:
        on_disk = _claimed(on_disk, now)
    return {
        "verdict": verdict.state.value,
        "held": verdict.state is guard.Guard.HELD,
        "displaced": verdict.displaced,
        "owner_on_disk": on_disk.owner if on_disk else "",
        "stamp_on_disk": on_disk.heartbeat_ts if on_disk else 0.0,
    }


def _claimed(record: guard.GuardRecord | None, now: float) -> guard.GuardRecord:
    return guard.stamped(record, me="me", pid=1, host="h", wall_now=now, flock=False)


def _reconcile(given: Given) -> object:
    entries = dict(given["entries"])
    seen: frozenset[str] = frozenset()
    told = []
    for live in given["passes"]:
        sweep = journal.reconcile(entries.items(), live=frozenset(live), seen=seen)
        seen = sweep.seen
        for task_id in sweep.dropped:
            del entries[task_id]
        told.append({"dropped": sweep.dropped, "inflight": journal.in_flight(entries.values())})
    return told


cases = by_op({"ladder": _ladder, "loop": _loop, "guard": _guard, "reconcile": _reconcile})
