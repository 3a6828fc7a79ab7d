"""From an answer's text to the result that is posted (relay-wire.md §9, §10 end, §11.2).

Pure halves around the uploads: :func:`plan` says which files are wanted, the shell sends them,
:func:`prepare` composes the body from what became of each. The same functions serve the worker
and the case files.
"""

from collections.abc import Sequence

import msgspec

from agentconnect.core.relay.envelope import error_code, is_wire_id
from agentconnect.core.relay.markers import (
    Action,
    Kind,
    Parsed,
    file_refusal_line,
    guard_agent_skip,
    guard_prepared,
    looks_cut_at_bracket,
    parse,
    restitch,
)
from agentconnect.core.surrogates import replace_surrogates

MAX_FILES = 10  # per reply, counted by marker
NO_SEND = "[no-send]"
MISSING = "missing"


class FileOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one named file: sent under ``filename``, or refused for ``reason``."""

    ok: bool
    filename: str = ""
    reason: str = ""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """An answer's markers read once: ``wanted`` files to send, ``over`` those past the limit."""

    original: str
    parsed: Parsed
    wanted: tuple[Action, ...] = ()
    over: tuple[Action, ...] = ()
    max_files: int = MAX_FILES


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """A body ready to be posted, and what it took. ``uploaded`` are file names as sent."""

    body: str
    skip: str = ""
    skip_id: str = ""
    dm_only: bool = False
    redirect: str = ""
    uploaded: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


class ResultPayload(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The JSON of ``POST /v1/results``: an answer or a rejection (§3.3)."""

    id: str
    body: str = ""
    dm_only: bool = False
    status: str = ""
    error_code: str = ""


def plan(body: str, offered: Sequence[str] = (), *, max_files: int = MAX_FILES) -> Plan:
    """Read the markers of an answer; the first ``max_files`` files are wanted.

    ``offered`` are paths of files that no marker names: they follow those of the markers, and a
    body that begins with a skip marker brings none.
    """
    parsed = parse(body)
    more = () if parsed.skip else tuple(Action(Kind.ATTACH, path) for path in offered)
    files = (*parsed.files, *more)
    return Plan(
        original=body,
        parsed=parsed,
        wanted=files[:max_files],
        over=files[max_files:],
        max_files=max_files,
    )


def prepare(planned: Plan, outcomes: Sequence[FileOutcome]) -> Prepared:
    """Compose the body from ``outcomes``, one for each wanted file in order.

    A wanted file without an outcome counts as missing. A body that begins with a skip marker is
    kept verbatim.
    """
    parsed = planned.parsed
    if parsed.skip is not None:
        return Prepared(body=planned.original, skip=parsed.skip.value, skip_id=parsed.skip.extra)
    sent: list[str] = []
    refused: list[str] = []
    typed = len(parsed.files)  # a marker's path as its author wrote it, an offered one by name
    names = [
        action.value if index < typed else action.value.rpartition("/")[2]
        for index, action in enumerate((*planned.wanted, *planned.over))
    ]
    for index, action in enumerate(planned.wanted):
        outcome = outcomes[index] if index < len(outcomes) else FileOutcome(ok=False)
        if outcome.ok:
            sent.append(outcome.filename)
        else:
            refused.append(file_refusal_line(names[index], _reason(action, outcome)))
    limit = f"at most {planned.max_files} files per reply"
    refused += [file_refusal_line(name, limit) for name in names[len(planned.wanted) :]]
    guard = guard_agent_skip if parsed.redirect else guard_prepared
    text = guard(parsed.body)
    if not text and sent:
        text = f"📎 {', '.join(sent)}"
    body = "\n\n".join(part for part in (text, "\n".join(refused)) if part)
    return Prepared(
        body=restitch(body, parsed.redirect) if body else "",
        dm_only=parsed.dm_only,
        redirect=parsed.redirect,
        uploaded=tuple(sent),
        refused=tuple(refused),
    )


def answer_problem(task_id: object, body: object) -> str:
    """Why an answer cannot be taken: ``bad_id``, ``not_text``, ``blank``; ``""`` if it can (§9).

    A blank answer means "not ready"; silence is ``[no-send]``.
    """
    if not is_wire_id(task_id):
        return "bad_id"
    if not isinstance(body, str):
        return "not_text"
    return "" if body.strip() else "blank"


def answer_payload(task_id: str, prepared: Prepared) -> ResultPayload:
    """What to post for an answer; a body of nothing but markers still closes the lease."""
    return ResultPayload(
        id=task_id,
        body=replace_surrogates(prepared.body) or NO_SEND,
        dm_only=prepared.dm_only,
    )


def reject_payload(task_id: str, reason: object) -> ResultPayload:
    """What to post to dead-letter a task."""
    return ResultPayload(id=task_id, status="rejected", error_code=error_code(reason))


def _reason(action: Action, outcome: FileOutcome) -> str:
    reason = outcome.reason or MISSING
    if reason == MISSING and looks_cut_at_bracket(action):
        return "a file name cannot hold a closing bracket here; rename it"
    return reason
