"""The three JSON files of an older worker: taken over once, or not at all."""

import json
from pathlib import Path
from typing import Any

import pytest

from agentconnect.core.delivery.deciding import Known
from agentconnect.core.delivery.ledger import BindingId, DeliveryId
from agentconnect.core.errors import StoreUnreadableError
from agentconnect.store.deliveries import Deliveries
from agentconnect.store.delivery_record import read_record
from agentconnect.store.layout import Layout

MINE = "a" * 32
OTHER = "b" * 32
BINDING = f"{MINE}.{'0' * 32}"

ENTRY = {
    "worker_id": MINE,
    "binding": BINDING,
    "room": "!r:h",
    "sender": "",
    "tier": "owner",
    "first_seen": 1000.0,
    "fingerprint": "f",
    "parts": [{"kind": "text", "state": "posted", "event_id": "$e", "status": "created"}],
    "text": None,
    "outcome": "delivered",
    "reason": None,
    "finished_at": 1001.0,
    "notice": "",
}
LEDGER = {"version": 1, "worker_id": MINE, "deliveries": {"x": ENTRY}}
BINDINGS = {"worker_id": MINE, "bindings": {BINDING: {"room": "!r:h", "expires": 9e9}}}


def written(folder: Path, name: str | None, ledger: Any = None, bindings: Any = None) -> None:
    """The older files; a string is written as it is."""
    for path, content in (("deliveries.json", ledger), ("bindings.json", bindings)):
        if content is not None:
            text = content if isinstance(content, str) else json.dumps(content)
            (folder / path).write_text(text)
    if name is not None:
        (folder / "worker-id").write_text(name)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def store_of(folder: Path) -> Deliveries:
    return Deliveries(Layout(state_dir=folder), lambda: 2000.0)


async def test_they_are_taken_over_once(tmp_path: Path) -> None:
    """Id, entries and bindings; the files are put aside, and count no more."""
    written(tmp_path, f"{MINE}\n", LEDGER, BINDINGS)
    store = store_of(tmp_path)
    await store.open()
    known = await store.consult(DeliveryId("x"), BindingId(BINDING))
    assert isinstance(known, Known)
    assert MINE == known.worker_id == store.worker_id
    assert known.entry is not None
    assert ("delivered", BINDING) == (known.entry.outcome, known.entry.folder)
    assert known.binding is not None
    assert ("!r:h", BINDING) == (known.binding.room, known.binding.folder)
    await store.close()
    assert {f"{n}.imported" for n in ("bindings.json", "deliveries.json", "worker-id")} <= names(
        tmp_path
    )
    written(tmp_path, OTHER)
    store = store_of(tmp_path)
    await store.open()
    assert MINE == store.worker_id
    await store.close()


async def test_an_id_alone_is_kept(tmp_path: Path) -> None:
    """It is older than any record: every key is made of it."""
    written(tmp_path, MINE)
    store = store_of(tmp_path)
    await store.open()
    assert MINE == store.worker_id
    await store.close()


@pytest.mark.parametrize(
    ("name", "ledger", "bindings", "said"),
    [
        (None, LEDGER, None, "worker-id is missing"),
        (None, None, BINDINGS, "worker-id is missing"),
        ("", LEDGER, None, "32 hexadecimal"),
        (MINE.upper(), LEDGER, None, "32 hexadecimal"),
        (OTHER, LEDGER, None, f"worker {MINE}, worker-id says {OTHER}"),
        (MINE, {**LEDGER, "worker_id": OTHER}, None, f"worker {OTHER}, worker-id says {MINE}"),
        (
            MINE,
            {**LEDGER, "deliveries": {"x": {**ENTRY, "worker_id": OTHER}}},
            None,
            f"deliveries.json belongs to worker {OTHER}",
        ),
        (OTHER, None, BINDINGS, "bindings.json belongs to"),
        (MINE, None, {"bindings": {f"{OTHER}.x": {"room": "r"}}}, "bindings.json belongs to"),
        (MINE, "", None, "deliveries.json cannot be understood"),
        (MINE, "{", None, "deliveries.json cannot be understood"),
        (MINE, "[]", None, "deliveries.json cannot be understood"),
        (MINE, "[" * 100_000, None, "deliveries.json cannot be understood"),
        (MINE, {**LEDGER, "version": 2}, None, "version 2"),
        (MINE, {**LEDGER, "deliveries": {"x": {}}}, None, "cannot be understood"),
        (MINE, LEDGER, "", "bindings.json cannot be understood"),
    ],
)
async def test_files_that_disagree_or_cannot_be_read(
    tmp_path: Path, name: str | None, ledger: Any, bindings: Any, said: str
) -> None:
    """Nothing is minted over them: the sentence names the file and the ids."""
    written(tmp_path, name, ledger, bindings)
    before = names(tmp_path)
    store = store_of(tmp_path)
    with pytest.raises(StoreUnreadableError, match=said):
        await store.open()
    assert before == names(tmp_path)
    await store.close()


async def test_what_is_printed_can_be_taken_over(tmp_path: Path) -> None:
    """The printed form is the older one: nothing is lost on the way."""
    written(tmp_path, MINE, LEDGER)
    store = store_of(tmp_path)
    await store.open()
    await store.close()
    first = read_record(tmp_path / "deliveries.db")
    again = tmp_path / "again"
    again.mkdir()
    written(again, MINE, first.decode())
    store = store_of(again)
    await store.open()
    await store.close()
    assert first == read_record(again / "deliveries.db")
