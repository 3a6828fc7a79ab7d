"""Whether deliveries may be offered: the broker's probe, and the Worker's own conditions.

deferred-delivery.md §2, §11. Only an answer that is understood whole enables anything. Each
reason is one sentence for the owner.
"""

import re
from collections.abc import Sequence

import msgspec

TTL_MIN_S = 86_400
HEADER = "idempotency-key"
ROUTES = frozenset({"POST /v1/rooms/{}/messages", "POST /v1/rooms/{}/media"})
SPELLINGS = (("room_post_idempotency", "header", "ttl_seconds", "routes"),)
"""Accepted member names: the block, then its header, life and routes. A broker that spells them
otherwise is one line here."""

_PLACEHOLDER = re.compile(r"\{[^{}/]*\}|:[A-Za-z_]\w*")


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """What one ``GET /v1/capabilities`` came to. ``why`` is "" where keys are honoured."""

    why: str = ""

    @property
    def passed(self) -> bool:
        return not self.why


def judge(status: int | None, body: bytes) -> Probe:
    """The verdict on an answer; ``status`` None where there was none."""
    if status is None:
        return Probe(why="the relay could not be asked whether it keeps keys for posts")
    if status == 404:
        return Probe(why="the relay does not offer posts that can be repeated safely")
    if status != 200:
        return Probe(why=f"the relay could not say whether it keeps keys (HTTP {status})")
    block = _block(body)
    if block is None:
        return Probe(why="the relay's list of what it can do makes no sense to this version")
    header, ttl, routes = block
    if not isinstance(header, str) or header.strip().lower() != HEADER:
        return Probe(why="the relay keeps keys under a header this version does not know")
    if not isinstance(ttl, int) or isinstance(ttl, bool) or ttl < TTL_MIN_S:
        return Probe(why="the relay keeps keys for less than a day")
    if not isinstance(routes, list) or ROUTES - {_route(route) for route in routes}:
        return Probe(why="the relay does not keep keys for both messages and files")
    return Probe()


def _block(body: bytes) -> tuple[object, object, object] | None:
    try:
        found = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    for name, header, ttl, routes in SPELLINGS:
        block = found.get(name)
        if isinstance(block, dict):
            return block.get(header), block.get(ttl), block.get(routes)
    return None


def _route(route: object) -> str:
    if not isinstance(route, str):
        return ""
    method, _, path = route.strip().partition(" ")
    return f"{method.upper()} {_PLACEHOLDER.sub('{}', path.strip())}"


UNDECLARED = "The agent does not say that it delivers later."
ELSEWHERE = "The agent runs on another machine, where no export folder can be had."
NO_FAULT = (UNDECLARED, ELSEWHERE)
"""Most agents are so, and all else that is missing then matters to nobody."""


class Conditions(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that has to hold (§2).

    ``elsewhere``: the agent is on another machine; ``probe`` None: not asked yet; ``overlap``: the
    Turn egress root that contains the export folder; ``folder``: why that folder cannot be used;
    ``store``: why the store cannot be.
    """

    declared: bool = False
    elsewhere: bool = False
    probe: Probe | None = None
    overlap: str = ""
    folder: str = ""
    store: str = ""
    locked: bool = True
    withdrawn: bool = False


def reasons(conditions: Conditions) -> tuple[str, ...]:
    """Why deliveries are not offered, each a sentence; empty where they are."""
    found: list[str] = []
    if conditions.elsewhere:
        found.append(ELSEWHERE)
    elif not conditions.declared:
        found.append(UNDECLARED)
    if not conditions.locked:
        found.append("The lock of the state folder is not held.")
    if conditions.store:
        found.append(f"The record of deliveries cannot be used: {conditions.store}.")
    if conditions.folder:
        found.append(f"The export folder cannot be used: {conditions.folder}.")
    if conditions.overlap:
        found.append(
            f"The export folder lies inside {conditions.overlap}, from which answers may send"
            " files: move the state folder, or name narrower folders."
        )
    if conditions.withdrawn:
        found.append("The relay took a post without confirming its key; it is asked again.")
    elif conditions.probe is None:
        found.append("The relay has not said yet whether it keeps keys for posts.")
    elif conditions.probe.why:
        found.append(f"{sentence(conditions.probe.why)}; it is asked again every minute.")
    return tuple(found)


def overlap(export: str, roots: Sequence[str]) -> str:
    """The first root that contains the export folder (real paths, absolute), or ""."""
    for root in roots:
        if export == root or export.startswith(root.rstrip("/") + "/"):
            return root
    return ""


def sentence(text: str) -> str:
    """With a capital; the full stop is the caller's."""
    return text[:1].upper() + text[1:]
