"""What an agent's updates mean for its final answer (§8.1)."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agentconnect.core.daemon.acp_capture import MAX_CALLS, AcpCapture
from agentconnect.core.daemon.capture import END_TURN

Update = dict[str, Any]


def said(text: str, message_id: str | None = None, event: str | None = None) -> Update:
    update: Update = {
        "sessionUpdate": "agent_message_chunk",
        "content": {"type": "text", "text": text},
    }
    if message_id is not None:
        update["messageId"] = message_id
    return update | _meta(event)


def _meta(event: str | None) -> Update:
    return {} if event is None else {"_meta": {"ag2/response": {"event": event}}}


def thought(text: str) -> Update:
    return said(text) | {"sessionUpdate": "agent_thought_chunk"}


def call(name: str, status: str | None = None, *, known: bool = False) -> Update:
    update: Update = {
        "sessionUpdate": "tool_call_update" if known else "tool_call",
        "toolCallId": name,
    }
    return update if status is None else update | {"status": status}


def final(*updates: object, history: tuple[str, ...] = (), end: str = END_TURN) -> str | None:
    capture = AcpCapture(history)
    for update in updates:
        capture.see(update)
    return capture.end(end)


def test_a_later_message_of_another_id_is_the_answer_though_a_call_runs_on() -> None:
    """Rule 1 is firm: the call's end takes nothing away."""
    updates = (said("look", "1"), call("t"), said("answer", "2"), call("t", "completed"))
    assert "answer" == final(*updates)


def test_text_without_an_id_stands_only_if_no_open_call_ends_after_it() -> None:
    """Rule 4, with a block that had an id before."""
    begun = (said("look", "1"), call("t"), said("wait"))
    assert "wait" == final(*begun)
    assert "" == final(*begun, call("t", "failed"))
    assert "" == final(*begun, call("t", "completed", known=True))
    assert "wait" == final(*begun, call("t", "in_progress", known=True))
    assert "first id" == final(said("look"), call("t"), said("first id", "1"))
    assert "done" == final(*begun, call("t", "completed"), said("done"))


def test_a_block_knows_only_its_own_ids_and_its_own_calls() -> None:
    """What the block before had decides nothing any more, and takes nothing away."""
    ended = (said("look", "1"), call("t", "completed"))
    assert "no id, then one" == final(*ended, said("no id, "), said("then one", "2"))
    begun = (said("look"), call("t"), said("wait", "1"), said("answer", "2"))
    assert "answer" == final(*begun, call("t", "completed"))


def test_calls_without_an_id_are_each_a_call() -> None:
    """Nobody can tell them apart."""
    nameless: Update = {"sessionUpdate": "tool_call"}
    assert "" == final(nameless, said("a"), nameless)
    assert "" == final(nameless | {"status": "completed"}, said("a"), nameless)


def test_a_new_call_makes_the_text_before_it_narration() -> None:
    """Tentative or not."""
    assert "" == final(said("a"), call("t"), said("b"), call("u"))
    assert "" == final(said("a"), call("t", "completed"), said("b"), call("u", "completed"))


def test_a_marker_may_come_on_any_update() -> None:
    """It counts before the update that carries it."""
    assert "b" == final(said("a"), thought("t") | _meta("begin"), said("b"))
    assert "b" == final(said("a"), call("t") | _meta("begin"), said("b", event="retry"))
    assert "ab" == final(said("a"), {"sessionUpdate": "plan"} | _meta("resume"), said("b"))


def test_what_belongs_to_earlier_turns_is_not_heard() -> None:
    """By its message id or its tool call id; the rest of the turn is."""
    late = (said("old", "m0"), call("t0"), call("t0", "completed", known=True))
    assert "new" == final(said("new", "m1"), *late, history=("m0", "t0"))


def test_malformed_updates_cost_themselves_only() -> None:
    """Nothing raises; a call without an id counts as a call."""
    junk: list[object] = [
        *(None, [], "x", 5, {}, {"sessionUpdate": 5}, {"sessionUpdate": ["tool_call"]}),
        {"sessionUpdate": "agent_message_chunk"},
        {"sessionUpdate": "agent_message_chunk", "content": "text"},
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "image", "text": "no"}},
        said("", "m") | {"content": {"type": "text", "text": 5}},
        said("", "m") | {"messageId": ["m"], "_meta": {"ag2/response": {"event": {}}}},
        {"sessionUpdate": "plan", "_meta": {"ag2/response": "begin"}},
        {"sessionUpdate": "plan", "_meta": "begin"},
    ]
    assert "ab" == final(said("a", "m"), *junk, said("b", "m"))
    assert "" == final(said("a"), {"sessionUpdate": "tool_call"})
    assert "b" == final({"sessionUpdate": "tool_call", "status": "completed"}, said("b"))


def test_more_calls_than_are_remembered_let_nothing_out() -> None:
    """A call that was forgotten and ends counts as a new one."""
    calls = [call(f"t{n}") for n in range(MAX_CALLS + 5)]
    assert "" == final(*calls, said("narration"), call("t0", "completed"))
    ended = [call(f"t{n}", "completed") for n in range(MAX_CALLS + 5)]
    assert "answer" == final(*ended, said("answer"))


def test_long_ids_are_told_apart() -> None:
    """They are kept short, and differ still."""
    long = "x" * 100_000
    assert "b" == final(said("a", long + "1"), said("b", long + "2"))
    assert "" == final(
        call(long + "1"), call(long + "2", "completed"), said("n", None), call(long + "1", "failed")
    )


IDS = st.sampled_from([None, "m1", "m2"])
MARKS = st.sampled_from([None, None, None, None, "begin", "retry", "fallback", "resume", "shine"])
STATUSES = st.sampled_from([None, "pending", "in_progress", "completed", "failed"])
CALLS = st.sampled_from(["t1", "t2", "t3"])
NUMBERED = st.lists(
    st.one_of(
        st.tuples(st.just("say"), IDS, MARKS),
        st.tuples(st.just("say"), IDS, MARKS),
        st.tuples(st.just("think"), IDS, MARKS),
        st.tuples(st.just("call"), CALLS, STATUSES),
        st.tuples(st.just("update"), CALLS, STATUSES),
    ),
    max_size=16,
)


def made(script: list[tuple[str, Any, Any]]) -> list[Update]:
    """Each text chunk says its own number, so that a result shows where it came from."""
    updates: list[Update] = []
    for number, (kind, one, two) in enumerate(script):
        if kind == "say":
            updates.append(said(f"<{number}>", one, two))
        elif kind == "think":
            updates.append(thought(f"<secret {number}>") | _meta(two))
        else:
            updates.append(call(one, two, known=kind == "update"))
    return updates


def by_the_book(updates: list[Update]) -> str:
    """§8.1 row by row over plain lists: a block is {texts, tool, id, tentative}."""
    blocks: list[dict[str, Any]] = []
    calls: dict[str, bool] = {}

    def block(*, tentative: bool = False) -> dict[str, Any]:
        blocks.append({"texts": [], "tool": False, "id": None, "tentative": tentative})
        return blocks[-1]

    for update in updates:
        event = update.get("_meta", {}).get("ag2/response", {}).get("event")
        if event == "begin":
            block()
        elif event in ("retry", "fallback") and blocks:
            blocks[-1].update(texts=[], tool=False)
        kind = update["sessionUpdate"]
        if kind == "agent_message_chunk":
            now, mine = (blocks[-1] if blocks else block()), update.get("messageId")
            differs = mine is not None and now["id"] is not None and mine != now["id"]
            same = mine is not None and mine == now["id"]
            if differs or (now["tool"] and all(calls.values())):
                now = block()
            elif now["tool"] and not same:
                now = block(tentative=True)
            now["id"] = mine or now["id"]
            now["texts"].append(update["content"]["text"])
        elif kind.startswith("tool_call"):
            name = update["toolCallId"]
            if name not in calls:
                calls[name] = False
                (blocks[-1] if blocks else block()).update(tool=True, tentative=False)
            if update.get("status") in ("completed", "failed") and not calls[name]:
                calls[name] = True
                if blocks[-1]["tentative"]:
                    blocks[-1].update(tool=True, tentative=False)
    return "" if not blocks or blocks[-1]["tool"] else "".join(blocks[-1]["texts"])


@given(NUMBERED)
def test_any_interleaving_ends_as_the_book_says(script: list[tuple[str, Any, Any]]) -> None:
    """An independent reading of §8.1 comes to the same text."""
    updates = made(script)
    assert by_the_book(updates) == final(*updates)


@given(NUMBERED)
def test_only_an_unbroken_end_of_the_text_leaves(script: list[tuple[str, Any, Any]]) -> None:
    """The last chunks and no other; no thought; nothing said before the last new call."""
    updates = made(script)
    text = final(*updates)
    assert text is not None
    said_all = [u["content"]["text"] for u in updates if "agent_message" in u["sessionUpdate"]]
    assert text in ["".join(said_all[at:]) for at in range(len(said_all) + 1)]
    known: set[str] = set()
    before_call: list[str] = []
    so_far: list[str] = []
    for update in updates:
        if "agent_message" in update["sessionUpdate"]:
            so_far.append(update["content"]["text"])
        name = update.get("toolCallId")
        if name is not None and name not in known:
            known.add(name)
            before_call = list(so_far)
    assert not any(chunk in text for chunk in before_call)


@given(NUMBERED)
def test_without_ids_and_markers_nothing_leaves_that_a_result_followed(
    script: list[tuple[str, Any, Any]],
) -> None:
    """Whatever was written before the last call ended was narration."""
    plain = [
        (k, o if k in ("call", "update") else None, t if k in ("call", "update") else None)
        for k, o, t in script
    ]
    updates = made(plain)
    text = final(*updates)
    ended: set[str] = set()
    narration: list[str] = []
    so_far: list[str] = []
    for update in updates:
        if "agent_message" in update["sessionUpdate"]:
            so_far.append(update["content"]["text"])
        elif update.get("status") in ("completed", "failed") and update["toolCallId"] not in ended:
            ended.add(update["toolCallId"])
            narration = list(so_far)
    assert text is not None
    assert not any(chunk in text for chunk in narration)


@given(
    NUMBERED, st.sampled_from(["max_tokens", "refusal", "cancelled", "error", "died", "deadline"])
)
def test_no_other_end_submits(script: list[tuple[str, Any, Any]], end: str) -> None:
    """Cancelled, failed or out of tokens: nothing, and nothing later either."""
    capture = AcpCapture()
    for update in made(script):
        capture.see(update)
    assert capture.end(end) is None
    capture.see(said("late"))
    assert capture.end(END_TURN) is None
