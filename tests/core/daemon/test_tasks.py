"""Scheduled tasks: fields, view, file (§7.1, §7.2)."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from agentconnect.core.daemon.refusals import Refusal
from agentconnect.core.daemon.tasks import (
    NewTask,
    Run,
    RunKind,
    Task,
    TaskPatch,
    created,
    decode_tasks,
    encode_tasks,
    next_run,
    patched,
    read_new_task,
    read_patch,
    view,
)
from tests.core.daemon.requests import ROOM
from tests.core.daemon.zones import UTC0

NOW = 1_750_000_000_000  # 2025-06-15 15:06:40 UTC
NINE = 1_750_064_400_000  # the next 09:00
GOOD: dict[str, Any] = {"cron": " 0 9 * * * ", "prompt": "\n digest \u3000"}


def new(fields: dict[str, Any]) -> NewTask | Refusal:
    return read_new_task(fields, now=NOW, zone=UTC0)


def patch(fields: dict[str, Any]) -> TaskPatch | Refusal:
    return read_patch(fields, now=NOW, zone=UTC0)


def task(**fields: Any) -> Task:
    defaults: dict[str, Any] = {"id": "t1", "cron": "0 9 * * *", "prompt": "digest"}
    defaults |= {"recurring": True, "enabled": True, "created_at": NOW, "session_id": "s1"}
    return Task(**(defaults | fields))


def test_defaults_and_trimming() -> None:
    """Recurring, enabled, unnamed; texts without white at their ends."""
    expected = NewTask(
        cron="0 9 * * *", prompt="digest", name=None, recurring=True, enabled=True, target=None
    )
    assert expected == new(GOOD)
    assert expected == new(GOOD | {"name": " \ufeff", "unknown": 1})


BAD: list[tuple[str, object, str]] = [
    ("cron", None, "invalid_cron"),
    ("cron", "0 9 * * *" + " " * 300 + "x", "invalid_cron"),
    ("cron", "0 0 30 2 *", "invalid_cron"),
    ("cron", 5, "invalid_cron"),
    ("prompt", "\u3000", "invalid_prompt"),
    ("prompt", "😀" * 50_001, "invalid_prompt"),
    ("prompt", None, "invalid_prompt"),
    ("name", "n" * 201, "invalid_name"),
    ("name", 5, "invalid_name"),
    ("recurring", 1, "invalid_recurring"),
    ("enabled", None, "invalid_enabled"),
    ("delivery", {}, "channel_delivery_invalid"),
]


@pytest.mark.parametrize(("field", "value", "code"), BAD, ids=lambda value: str(value)[:16])
def test_each_field_has_its_code(field: str, value: object, code: str) -> None:
    """On POST and on PATCH alike."""
    for found in (new(GOOD | {field: value}), patch({field: value})):
        assert isinstance(found, Refusal)
        assert (400, code) == (found.status, found.code)


def test_the_first_wrong_field_decides() -> None:
    """cron, prompt, name, recurring, enabled, delivery."""
    order = ["cron", "prompt", "name", "recurring", "enabled", "delivery"]
    codes = {field: code for field, _, code in BAD}
    for at, field in enumerate(order):
        wrong = GOOD | dict.fromkeys(order[at:], 5)
        found = new(wrong), patch(wrong)
        assert [codes[field]] * 2 == [each.code for each in found if isinstance(each, Refusal)]


def test_limits_are_reached_not_crossed() -> None:
    """Exactly as many units as may be."""
    found = new(GOOD | {"prompt": "😀" * 50_000, "name": "n" * 200})
    assert isinstance(found, NewTask)
    assert (50_000, 200) == (len(found.prompt), len(found.name or ""))


def test_null_clears_only_in_a_patch() -> None:
    """The name and the delivery, nothing else."""
    found = patch({"name": None, "delivery": None})
    assert TaskPatch(name=None, target=None) == found
    for field in ("name", "delivery"):
        assert isinstance(new(GOOD | {field: None}), Refusal)
    for field in ("cron", "prompt", "recurring", "enabled"):
        assert isinstance(patch({field: None}), Refusal)


def test_a_patch_of_nothing_known() -> None:
    """Unknown members do not count."""
    for fields in ({}, {"id": "x", "lastFiredAt": 0}):
        found = patch(fields)
        assert isinstance(found, Refusal)
        assert "empty_patch" == found.code


def test_a_patch_changes_what_it_names() -> None:
    """And nothing else, the marks least of all."""
    before = task(target=ROOM, name="n", last_fired_at=NOW + 5)
    after = patched(before, TaskPatch(prompt="p", name=None), now=NOW + 9)
    assert task(target=ROOM, prompt="p", last_fired_at=NOW + 5) == after
    assert patched(before, TaskPatch(target=None), now=NOW).target is None


def test_slots_before_a_new_cron_or_while_disabled_are_not_owed() -> None:
    """They were never due."""
    assert NOW + 9 == patched(task(), TaskPatch(cron="1 * * * *"), now=NOW + 9).anchor
    off = patched(task(), TaskPatch(enabled=False), now=NOW + 5)
    assert (NOW, NOW + 9) == (off.anchor, patched(off, TaskPatch(enabled=True), now=NOW + 9).anchor)
    assert NOW == patched(task(), TaskPatch(enabled=True, cron="0 9 * * *"), now=NOW + 9).anchor


def test_the_view() -> None:
    """Every member; ``delivery`` only where there is one; no next run of a disabled task."""
    plain = created(
        NewTask(
            cron="0 9 * * *", prompt="p", name=None, recurring=False, enabled=True, target=None
        ),
        task_id="t1",
        session_id="s1",
        now=NOW,
    )
    expected: dict[str, Any] = {
        "id": "t1",
        "name": None,
        "cron": "0 9 * * *",
        "prompt": "p",
        "recurring": False,
        "enabled": True,
        "createdAt": NOW,
        "lastFiredAt": None,
        "nextRunAt": NINE,
        "sessionId": "s1",
        "runs": [],
    }
    assert expected == view(plain, now=NOW, zone=UTC0)
    run = Run(at=NOW, kind=RunKind.CATCHUP)
    shown = view(task(target=ROOM, enabled=False, runs=(run,)), now=NOW, zone=UTC0)
    assert ROOM.as_delivery() == shown["delivery"]
    assert [{"at": NOW, "kind": "catchup"}] == shown["runs"]
    assert shown["nextRunAt"] is None


def test_the_next_run_is_still_to_come() -> None:
    """Whatever was missed, and with a clock that was set back."""
    day = 86_400_000
    assert NINE + 9 * day == next_run(task(), now=NINE + 8 * day + 1, zone=UTC0)
    assert NINE + day == next_run(task(last_fired_at=NINE), now=NOW - day, zone=UTC0)


TASKS = st.builds(
    Task,
    id=st.uuids().map(str),
    cron=st.sampled_from(["0 9 * * *", "*/5 * * * 1-5"]),
    prompt=st.sampled_from(["p", "ünï 😀\n"]),
    recurring=st.booleans(),
    enabled=st.booleans(),
    created_at=st.integers(1, NOW),
    session_id=st.just("s"),
    last_fired_at=st.none() | st.integers(1, NOW),
    name=st.none() | st.just("n"),
    target=st.none() | st.just(ROOM),
    runs=st.lists(st.builds(Run, at=st.integers(1, NOW), kind=st.sampled_from(RunKind))).map(tuple),
    since=st.integers(0, NOW),
)


@given(st.lists(TASKS, max_size=4, unique_by=lambda each: each.id))
def test_a_file_gives_back_what_was_written(tasks: list[Task]) -> None:
    """All that matters of it: ``since`` is not written where a later mark counts anyway."""
    read = decode_tasks(encode_tasks(tasks))
    assert [each.anchor for each in tasks] == [each.anchor for each in read]
    same = [Task(**({f: getattr(t, f) for f in t.__struct_fields__} | {"since": 0})) for t in tasks]
    assert same == [
        Task(**({f: getattr(t, f) for f in t.__struct_fields__} | {"since": 0})) for t in read
    ]


def entry(**changes: Any) -> dict[str, Any]:
    plain = json.loads(encode_tasks([task(target=ROOM)]))["tasks"][0]
    return {key: value for key, value in (plain | changes).items() if value is not UNSET}


def file(*entries: Any) -> bytes:
    return json.dumps({"v": 1, "tasks": list(entries)}).encode()


def test_the_file_has_the_members_of_the_contract() -> None:
    """Optional ones are left out; an older file without them loads."""
    assert {
        *("id", "cron", "prompt", "recurring", "enabled", "createdAt", "lastFiredAt"),
        *("sessionId", "delivery"),
    } == entry().keys()
    (old,) = decode_tasks(file(entry(delivery=UNSET)))
    assert (None, (), None) == (old.target, old.runs, old.name)
    assert () == decode_tasks(b'{"v":1,"tasks":[]}')


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"{", b"[]", b"{}", b'{"v":2,"tasks":[]}', b'{"tasks":[]}', b'{"v":1,"tasks":{}}'),
        b"[" * 100_000,
        file(entry(), entry()),
        file(5),
        *(file(entry(**{key: UNSET})) for key in ("id", "cron", "sessionId", "lastFiredAt")),
        file(entry(delivery=None)),
        file(entry(delivery={"kind": "channel"})),
        file(entry(cron="x")),
        file(entry(prompt=" ")),
        file(entry(id="")),
        file(entry(sessionId="")),
        file(entry(recurring=1)),
        file(entry(createdAt=-1)),
        file(entry(createdAt="1")),
        file(entry(lastFiredAt=1.5)),
        file(entry(runs=[{"at": 1, "kind": "other"}])),
        file(entry(runs=[{"at": -1, "kind": "catchup"}])),
        file(entry(since=-1)),
    ],
    ids=lambda data: data[-60:].decode(),
)
def test_a_malformed_task_is_an_error_of_the_file(data: bytes) -> None:
    """Nothing is left out, nothing taken for empty."""
    with pytest.raises(ValueError, match=r"."):
        decode_tasks(data)


def test_a_repr_holds_neither_prompt_nor_target() -> None:
    """Whatever is logged of a task."""
    found = new(GOOD | {"prompt": "planted", "delivery": ROOM.as_delivery()})
    assert isinstance(found, NewTask)
    shown = (found, task(prompt="planted", target=ROOM), patch({"prompt": "planted"}))
    assert "planted" not in repr(shown)
