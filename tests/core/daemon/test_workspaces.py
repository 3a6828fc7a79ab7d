"""Which workspace a request means (§3, §5)."""

import msgspec
import pytest

from agentconnect.core.daemon.refusals import UNTRUSTED, Refusal
from agentconnect.core.daemon.workspaces import (
    Life,
    PathAsked,
    Registry,
    Workspace,
    capabilities,
    check_life,
    is_workspace_id,
)

MAIN = Workspace(id="main", cwd="/w/main", trusted=True, primary=True)
SIDE = Workspace(id="side", cwd="/w/side", trusted=True)
DARK = Workspace(id="dark", cwd="/w/dark")
REGISTRY = Registry([MAIN, SIDE, DARK])


def test_an_id_or_a_path_decoded_once() -> None:
    """A path is to be resolved by the caller, and never falls back to the primary."""
    assert SIDE == REGISTRY.by_segment(b"side")
    assert SIDE == REGISTRY.by_segment(b"s%69de")
    assert PathAsked(path="/w/side/../side") == REGISTRY.by_segment(b"%2Fw%2Fside%2F..%2Fside")
    assert PathAsked(path="/w/%2F") == REGISTRY.by_segment(b"%2Fw%2F%252F")
    assert SIDE == REGISTRY.by_path("/w/side")


@pytest.mark.parametrize(
    "segment", [b"nope", b"", b"SIDE", b"%ff", b"..", b"%2Fa%00b", b"w%2Fside"]
)
def test_neither_an_id_nor_an_absolute_path(segment: bytes) -> None:
    """400, and no path of another workspace in the answer."""
    refusal = REGISTRY.by_segment(segment)
    assert isinstance(refusal, Refusal)
    assert (400, "workspace_mismatch") == (refusal.status, refusal.code)
    assert b"/w/" not in refusal.body()


def test_a_path_that_is_not_registered() -> None:
    """Says how many are, not which."""
    refusal = REGISTRY.by_path("/w/other")
    assert isinstance(refusal, Refusal)
    body = msgspec.json.decode(refusal.body())
    assert (400, "workspace_mismatch", 3) == (refusal.status, body["code"], body["workspaceCount"])
    assert b"/w/" not in refusal.body()


def test_one_that_is_not_trusted() -> None:
    """403 by either name."""
    assert UNTRUSTED == REGISTRY.by_segment(b"dark") == REGISTRY.by_path("/w/dark")
    assert DARK == REGISTRY.get("dark")


def test_only_a_running_one_takes_work() -> None:
    """Notify speaks of the worker, the rest of the runtime."""
    assert check_life(Life.RUNNING, notify=True) is None
    for life in set(Life) - {Life.RUNNING}:
        notify, runtime = check_life(life, notify=True), check_life(life, notify=False)
        assert notify is not None
        assert runtime is not None
        assert (503, "channel_worker_unavailable", ()) == (
            notify.status,
            notify.code,
            notify.headers,
        )
        assert "workspace_runtime_unavailable" == runtime.code
        assert (("Retry-After", "1"),) == runtime.headers


def test_capabilities_are_what_the_protocol_offers() -> None:
    """The tag is there whatever runs."""
    told = capabilities(REGISTRY)
    assert {"v", "features", "workspaceCwd", "workspaces", "limits"} == told.keys()
    assert (["channel_delivery"], "/w/main", 5) == (
        told["features"],
        told["workspaceCwd"],
        told["limits"]["maxPendingPromptsPerSession"],
    )
    assert {"id": "dark", "cwd": "/w/dark", "primary": False, "trusted": False} == told[
        "workspaces"
    ][2]


def test_the_grammar_of_ids() -> None:
    """64 plain characters at most."""
    assert is_workspace_id("a-B_9" * 12)
    for wrong in ("", "a" * 65, "a b", "a/b", "ä", "a\n"):
        assert not is_workspace_id(wrong)
