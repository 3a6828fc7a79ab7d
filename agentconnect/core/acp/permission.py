"""May the agent do what it asks? The policy of the working directory (worker.md §8.7).

Owns the decision; never looks at the disk: the shell resolves the targets and hands in real paths.
Allowed only when every declared target is inside a root, and a command never because of a path.
Cooperative: it binds an agent that asks.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from agentconnect.core.acp.updates import ToolPatch

MAX_TARGETS = 1000
"""More declared targets than this are not worth resolving: refused as unlocatable."""

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
UNTITLED = "an operation"


class Verdict(StrEnum):
    """Why a request was allowed or refused."""

    UNDER_ROOT = "under_root"
    EXECUTE_ALLOWED = "execute_allowed"
    OUTSIDE = "outside"
    UNLOCATABLE = "unlocatable"
    NO_ALLOW_OPTION = "no_allow_option"


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """One answer the agent offers; chosen by ``kind``, never by id or position."""

    id: str
    kind: str


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """``option_id`` is None where the answer is ``cancelled``."""

    allowed: bool
    option_id: str | None
    reason: Verdict
    title: str
    paths: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()


def read_options(value: Any) -> tuple[Option, ...]:
    """The usable options of a request; malformed ones are skipped."""
    return tuple(
        Option(id=item["optionId"], kind=item["kind"])
        for item in (value if isinstance(value, list) else ())
        if isinstance(item, dict)
        and isinstance(item.get("optionId"), str)
        and isinstance(item.get("kind"), str)
    )


def merged(known: ToolPatch, patch: ToolPatch) -> ToolPatch:
    """``patch`` laid over what earlier messages said of the same call."""
    said = {
        name: value
        for name in ToolPatch.__struct_fields__
        if (value := getattr(patch, name)) is not None
    }
    return msgspec.structs.replace(known, **said)


def targets(call: ToolPatch) -> tuple[str, ...]:
    """What the call touches, as written, in order, without exact repeats."""
    written = (
        *(call.locations or ()),
        *(call.raw_top or ()),
        *(call.diffs or ()),
        *(call.raw_nested or ()),
    )
    return tuple(dict.fromkeys(path for path in written if path.strip() and not is_url(path)))


def is_url(text: str) -> bool:
    """A URL of any scheme but ``file`` is no path."""
    match = _URL.match(text)
    return match is not None and not text[: match.end()].lower().startswith("file:")


def is_command(call: ToolPatch) -> bool:
    """A command is never made safe by a path beside it."""
    if call.kind == "execute":
        return True
    return bool(call.has_command) and call.kind in (None, "other")


def judge(
    call: ToolPatch,
    options: Sequence[Option],
    *,
    roots: Iterable[str],
    real: Mapping[str, str | None],
    execute_allowed: bool = False,
) -> Decision:
    """The answer to one request. ``real`` has each target's resolved path, or None.

    ``roots`` are resolved absolute paths.
    """
    wanted = targets(call)
    title = call.title or call.tool_id or UNTITLED
    fixed = tuple(roots)
    outside = tuple(path for path in wanted if not _inside(real.get(path), fixed))

    def decide(verdict: Verdict) -> Decision:
        allow = verdict in (Verdict.UNDER_ROOT, Verdict.EXECUTE_ALLOWED)
        option = _pick(options, "allow") if allow else _pick(options, "reject")
        if allow and option is None:
            return decide(Verdict.NO_ALLOW_OPTION)
        return Decision(
            allowed=allow,
            option_id=option,
            reason=verdict,
            title=title,
            paths=wanted,
            outside=outside,
        )

    if len(wanted) > MAX_TARGETS:
        return decide(Verdict.UNLOCATABLE)
    if outside:
        return decide(Verdict.OUTSIDE)
    if is_command(call):
        return decide(Verdict.EXECUTE_ALLOWED if execute_allowed else Verdict.UNLOCATABLE)
    return decide(Verdict.UNDER_ROOT if wanted else Verdict.UNLOCATABLE)


def refusal(options: Sequence[Option]) -> str | None:
    """The option that refuses, or None for ``cancelled``."""
    return _pick(options, "reject")


def _pick(options: Sequence[Option], word: str) -> str | None:
    for kind in (f"{word}_once", f"{word}_always"):
        for option in options:
            if option.kind == kind:
                return option.id
    return None


def _inside(path: str | None, roots: Sequence[str]) -> bool:
    if path is None:
        return False
    for root in roots:
        stem = root if root.endswith("/") else root + "/"
        if path == root or path.startswith(stem):
            return True
    return False
