"""What the broker's answer to one keyed post means, and how long to wait (§10).

Tables and arithmetic only; ``courier`` walks them. A refusal says nothing of an attempt before it
whose response was lost: then the end is ``unknown``.
"""

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from agentconnect.core.delivery.ledger import Reason

WITHIN_RUN_S = (1.0, 4.0, 15.0)
"""Waits between the attempts of one run, before the agent is told Retry."""
RETRY_FIRST_S = 30.0
RETRY_CAP_S = 15 * 60.0
JITTER_SHARE = 0.2


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one keyed post, as the relay client saw it.

    ``status`` None: no answer. ``event_id`` and ``echo`` of a 200; ``state`` of a 409. ``sent``
    false: nothing left this machine for sure (no connection, a cooldown of ours for
    ``cooling_s``). ``unfit``: a file that is gone or is not the one that was judged; nothing left.
    """

    status: int | None = None
    event_id: str = ""
    echo: str = ""
    state: str = ""
    retry_after_s: float = 0.0
    cooling_s: float = 0.0
    sent: bool = True
    unfit: str = ""


class Step(StrEnum):
    """What follows from a reply."""

    POSTED = "posted"
    UNECHOED = "unechoed"
    AGAIN = "again"
    END = "end"


class Meaning(msgspec.Struct, frozen=True, kw_only=True):
    """``unsure``: this attempt may have posted the part. ``wait_s``: no sooner than that."""

    step: Step
    unsure: bool = False
    wait_s: float = 0.0
    why: str = ""
    reason: Reason | None = None


_REFUSED = {
    400: "the relay does not take it",
    403: "this agent may not post in the room",
    404: "the room is not there",
    413: "it is too large",
    422: "the relay does not take it",
}
_NOTHING_POSTED = frozenset({401, 408, 425, 429, 503})
"""Said before a post was begun; after any other failure it may have been."""


def meaning(reply: Reply) -> Meaning:
    """The table of §10."""
    if reply.unfit:
        return _end(Reason.REJECTED, reply.unfit)
    if not reply.sent:
        why = "the room takes no posts for a moment" if reply.cooling_s else "no connection"
        return Meaning(step=Step.AGAIN, wait_s=reply.cooling_s, why=why)
    status = reply.status
    if status is not None and 200 <= status < 300:
        return _landed(reply)
    if status == 409:
        return _held(reply)
    if status in _REFUSED:
        return _end(Reason.REJECTED, _REFUSED[status])
    if status is not None and 400 <= status < 500 and status not in _NOTHING_POSTED:
        return _end(Reason.REJECTED, f"the relay refuses it (HTTP {status})")
    said = "no answer" if status is None else f"HTTP {status}"
    return Meaning(
        step=Step.AGAIN,
        unsure=status not in _NOTHING_POSTED,
        wait_s=reply.retry_after_s,
        why=f"the relay gives {said}",
    )


def settled(found: Meaning, *, unsure_before: bool) -> Meaning:
    """A refusal after an attempt that may have landed does not mean that nothing was posted."""
    if found.step is Step.END and unsure_before and found.reason is Reason.REJECTED:
        return _end(Reason.UNKNOWN, f"{found.why}, but an earlier attempt may have been posted")
    return found


def wait_within_run_s(attempt: int, asked_s: float, unit: float) -> float | None:
    """How long to wait after the ``attempt``-th failure (from 0) of a run; None: answer Retry.

    ``unit`` is a random number in [0, 1); what the relay asked for is kept, and is not waited for
    here if it is longer than a run waits anyway.
    """
    if attempt >= len(WITHIN_RUN_S) or asked_s > WITHIN_RUN_S[-1]:
        return None
    nominal = WITHIN_RUN_S[attempt]
    return max(asked_s, nominal * (1 - JITTER_SHARE + 2 * JITTER_SHARE * unit))


def retry_after_s(attempts: int, asked_s: float) -> float:
    """What the agent is told after ``attempts`` earlier runs: 30 s doubling to 15 min."""
    return max(asked_s, min(RETRY_FIRST_S * 2.0 ** min(attempts, 10), RETRY_CAP_S))


def notice_text(names: Sequence[str], *, unsure: bool) -> str:
    """The one line in the room. ``names``: the files, "" for the text."""
    listed = [f"the file “{_plain(name)}”" if name else "the text" for name in names]
    what = ", ".join(listed[:-1]) + " and " + listed[-1] if len(listed) > 1 else listed[0]
    may = "may not have been sent" if unsure else "could not be sent"
    return f"Part of a result that was to arrive here later: {what} {may}."


def _landed(reply: Reply) -> Meaning:
    if not reply.event_id:
        return Meaning(step=Step.AGAIN, unsure=True, why="the relay's answer makes no sense")
    if reply.echo in ("created", "replayed"):
        return Meaning(step=Step.POSTED)
    return Meaning(step=Step.UNECHOED)


def _held(reply: Reply) -> Meaning:
    match reply.state:
        case "unknown":
            return _end(Reason.UNKNOWN, "the relay cannot say whether it was posted")
        case "conflict":
            return _end(Reason.CONFLICT, "the relay knows this part with other content")
        case _:  # "running", or a word from tomorrow: nothing is known
            return Meaning(
                step=Step.AGAIN,
                unsure=True,
                wait_s=reply.retry_after_s,
                why="the relay is still at an earlier attempt",
            )


def _end(reason: Reason, why: str) -> Meaning:
    return Meaning(step=Step.END, reason=reason, why=why)


def _plain(name: str) -> str:
    """A name that stays within its line and its quotes."""
    kept = "".join(c if c.isprintable() and c not in "`*_[]<>“”" else "·" for c in name)
    return kept if len(kept) <= 100 else f"{kept[:99]}…"
