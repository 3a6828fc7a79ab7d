"""``sessions.json`` and the rule of what is continued."""

import json
import logging
from pathlib import Path

import pytest
import trio
import trio.testing

from agentconnect.core.task import SessionId, SessionKey, Tier
from agentconnect.core.turns.session import (
    Retired,
    SessionLimits,
    SessionRecord,
    attempt,
    idle_words,
    retired,
    touched,
)
from agentconnect.store.sessions import PRUNE_AFTER_S, SessionStore

KEY = SessionKey(room="!a:x", tier=Tier.OWNER)
RECORD = SessionRecord(key=KEY, session_id=SessionId("s1"), cwd="/w", turns=3, updated_at=1000.0)
LIMITS = SessionLimits(turns=5, idle_s=60.0)


def store_at(path: Path, *, now: float = 1000.0, prune: bool = False) -> SessionStore:
    """A store that has read its file."""
    store = SessionStore(path)
    store.load(wall_now=now, prune=prune)
    return store


@pytest.mark.parametrize(
    ("record", "now", "why"),
    [
        (RECORD, 1060.0, None),
        (RECORD, 1061.0, Retired.IDLE),
        (attempt(attempt(RECORD, 1000.0), 1000.0), 1000.0, Retired.BUDGET),
    ],
)
def test_what_ends_a_conversation(record: SessionRecord, now: float, why: Retired | None) -> None:
    """The folder first, then attempts, then silence; 0 is no limit."""
    assert why is retired(record, LIMITS, cwd="/w", wall_now=now)
    assert Retired.CWD is retired(record, LIMITS, cwd="/v", wall_now=now)
    assert None is retired(record, SessionLimits(turns=0, idle_s=0), cwd="/w", wall_now=now)
    assert now == touched(record, now).updated_at


def test_silence_is_told_in_a_fitting_unit() -> None:
    """Seconds, minutes, hours."""
    assert ["89s", "2m", "89m", "1.5h"] == [idle_words(s) for s in (89, 95, 5340, 5400)]


async def test_the_file_has_the_shape_of_the_reference(tmp_path: Path) -> None:
    """Sorted, indented, private; a collaborator's entry says ``team`` and who."""
    path = tmp_path / "sessions.json"
    store = store_at(path)
    team = SessionKey(room="!a:x", tier=Tier.GUEST, sender="@b:x")
    other = SessionRecord(key=team, session_id=SessionId("s2"), cwd="/w")
    await store.put(RECORD)
    await store.put(other)
    text = await trio.Path(path).read_text(encoding="utf-8")
    assert text.endswith("}\n")
    assert [("!a:x", "owner", None), ("!a:x", "team", "@b:x")] == [
        (e["room"], e["access_tier"], e.get("sender")) for e in json.loads(text)["sessions"]
    ]
    assert 0o600 == (await trio.Path(path).stat()).st_mode & 0o777
    again = store_at(path)
    assert (RECORD, other) == (again.get(KEY), again.get(team))
    await again.forget(KEY)
    assert None is store_at(path).get(KEY)


def test_bad_entries_cost_only_themselves(tmp_path: Path) -> None:
    """Wrong types, missing ids, unknown members."""
    good = {"room": "!a:x", "access_tier": "owner", "session_id": "s1", "cwd": "/w", "new": 1}
    bad = [
        good | {"turns": "abc", "room": "!b"},
        good | {"session_id": "", "room": "!c"},
        good | {"session_id": None, "room": "!d"},
        {"room": "!e"},
        "text",
        good | {"access_tier": "team", "room": "!f"},
    ]
    path = tmp_path / "sessions.json"
    path.write_text(json.dumps({"version": 1, "sessions": [*bad, good]}), encoding="utf-8")
    store = store_at(path)
    assert "s1" == getattr(store.get(KEY), "session_id", None)
    for room in "bcdef":
        for tier in Tier:
            assert None is store.get(SessionKey(room=f"!{room}", tier=tier))


async def test_a_broken_file_is_kept_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One complaint, and the bytes are still there for whoever wants to mend them."""
    path = tmp_path / "sessions.json"
    await trio.Path(path).write_text("{half", encoding="utf-8")
    with caplog.at_level(logging.WARNING):
        store = store_at(path)
        await store.put(RECORD)
        await store.put(attempt(RECORD, 1.0))
        await store.flush()
    assert 1 == len(caplog.records)
    assert "{half" == await trio.Path(tmp_path / "sessions.json.bad").read_text(encoding="utf-8")
    assert 4 == getattr(store_at(path).get(KEY), "turns", None)


async def test_a_folder_that_cannot_be_written_is_complained_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Conversations go on in memory."""
    store = SessionStore(tmp_path / "missing" / "sessions.json")
    with caplog.at_level(logging.WARNING):
        await store.put(RECORD)
        await store.put(attempt(RECORD, 1.0))
        await store.flush()
    assert 1 == len(caplog.records)
    assert store.get(KEY) is not None


async def test_only_long_silence_is_pruned(tmp_path: Path) -> None:
    """An entry merely past the idle limit stays, or its end could not be announced."""
    path = tmp_path / "sessions.json"
    await store_at(path).put(RECORD)
    later = 1000.0 + PRUNE_AFTER_S
    assert store_at(path, now=later, prune=True).get(KEY) is not None
    assert store_at(path, now=later + 1, prune=False).get(KEY) is not None
    assert store_at(path, now=later + 1, prune=True).get(KEY) is None


async def test_many_changes_at_once_are_few_writes(tmp_path: Path) -> None:
    """The newest state is in the file when the last of them returns."""
    path = tmp_path / "sessions.json"
    store = store_at(path)
    async with trio.open_nursery() as nursery:
        for n in range(50):
            key = SessionKey(room=f"!{n}", tier=Tier.OWNER)
            nursery.start_soon(
                store.put, SessionRecord(key=key, session_id=SessionId(f"s{n}"), cwd="/w")
            )
    again = store_at(path)
    for n in range(50):
        assert again.get(SessionKey(room=f"!{n}", tier=Tier.OWNER)) is not None


async def test_a_known_conversation_costs_no_write_before_its_prompt(tmp_path: Path) -> None:
    """Counts and times of many turns are written together, and at once where that is cut short."""
    path = tmp_path / "sessions.json"
    store = store_at(path)
    await store.put(RECORD)
    assert not store.due
    record = RECORD
    for _ in range(10):
        record = attempt(record, 2000.0)
        await store.put(record)
    assert store.due
    assert RECORD == store_at(path).get(KEY)
    async with trio.open_nursery() as agents:
        agents.start_soon(store.settle)
        agents.start_soon(store.settle)
        await trio.testing.wait_all_tasks_blocked()
        assert not store.due
        agents.cancel_scope.cancel()
    assert record == store_at(path).get(KEY)
    await store.put(touched(record, 3000.0))
    with trio.fail_after(60):
        await store.settle()
    assert 3000.0 == getattr(store_at(path).get(KEY), "updated_at", None)
