"""The permission policy, beyond the shared cases."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentconnect.core.acp.permission import (
    MAX_TARGETS,
    Option,
    Verdict,
    judge,
    merged,
    read_options,
    targets,
)
from agentconnect.core.acp.updates import ToolPatch, read_tool_call

OPTIONS = (Option(id="y", kind="allow_once"), Option(id="n", kind="reject_once"))
INSIDE = {"a": "/w/a", "b": "/w/b"}


def verdict(call: ToolPatch, *, execute_allowed: bool = False) -> Verdict:
    """The reason for a call whose targets ``a`` and ``b`` are inside."""
    real = {path: INSIDE.get(path) for path in targets(call)}
    decision = judge(call, OPTIONS, roots=["/w"], real=real, execute_allowed=execute_allowed)
    assert ("y" if decision.allowed else "n") == decision.option_id
    return decision.reason


@given(
    st.lists(st.sampled_from(["a", "b", "x", " "]), max_size=4),
    st.lists(st.sampled_from(["a", "y"]), max_size=3),
    st.sampled_from([None, "edit", "execute", "read", "other"]),
    st.booleans(),
)
def test_allowed_only_when_every_target_is_inside(
    locations: list[str], diffs: list[str], kind: str | None, command: bool
) -> None:
    """And never without a target, and never for a command."""
    call = ToolPatch(kind=kind, locations=tuple(locations), diffs=tuple(diffs), has_command=command)
    if verdict(call) is Verdict.UNDER_ROOT:
        assert targets(call)
        assert all(path in INSIDE for path in targets(call))
        assert kind != "execute"


def test_a_command_is_a_command_where_the_kind_does_not_say() -> None:
    """An argv list beside an inside location bounds nothing."""
    raw = {"rawInput": {"command": ["rm", "-rf", "/"], "cwd": "a"}}
    assert Verdict.UNLOCATABLE is verdict(read_tool_call(raw))
    assert Verdict.UNLOCATABLE is verdict(read_tool_call(raw | {"kind": "something new"}))


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ([{"path": "x"}], Verdict.OUTSIDE),
        ({"edits": [{"path": "x"}]}, Verdict.OUTSIDE),
        ('{"path": "x"}', Verdict.OUTSIDE),
        ([{"command": "rm"}], Verdict.UNLOCATABLE),
        ({"input": {"cmd": "rm"}}, Verdict.UNLOCATABLE),
        ('{"argv": ["rm"]}', Verdict.UNLOCATABLE),
        ("{not JSON", Verdict.UNDER_ROOT),
        ({"input": {"command": ""}}, Verdict.UNDER_ROOT),
    ],
)
def test_an_input_of_any_shape_is_looked_through(raw: object, expected: Verdict) -> None:
    """Beside an inside location: arrays, nested arguments, arguments as JSON text."""
    call = {"kind": "other", "locations": [{"path": "a"}], "rawInput": raw}
    assert expected is verdict(read_tool_call(call))


def test_the_owner_can_allow_commands_but_not_outside_targets() -> None:
    """``AGENT_CONNECT_ACP_EXECUTE=allow``."""
    inside = ToolPatch(kind="execute", locations=("a",))
    assert Verdict.EXECUTE_ALLOWED is verdict(inside, execute_allowed=True)
    outside = ToolPatch(kind="execute", locations=("x",))
    assert Verdict.OUTSIDE is verdict(outside, execute_allowed=True)


def test_a_request_is_laid_over_what_was_seen_before() -> None:
    """Some agents ask with nothing but the id."""
    seen = read_tool_call({"toolCallId": "t", "title": "ls", "kind": "execute", "rawInput": {}})
    asked = read_tool_call({"toolCallId": "t"})
    assert Verdict.UNLOCATABLE is verdict(merged(seen, asked))
    assert "ls" == merged(seen, asked).title


def test_a_flood_of_targets_is_refused_unresolved() -> None:
    """Nobody asks the disk for a hundred thousand paths."""
    call = ToolPatch(locations=tuple(f"f{n}" for n in range(MAX_TARGETS + 1)))
    assert Verdict.UNLOCATABLE is verdict(call)


def test_unusable_options_are_skipped() -> None:
    """Whatever an agent puts into the list."""
    assert () == read_options({"optionId": "x"})
    assert () == read_options(["x", {"optionId": 7, "kind": "allow_once"}, {"kind": "allow_once"}])
