"""Conversations on disk."""

from pathlib import Path

from agentconnect.demo import memory
from agentconnect.demo.intents import Intent, Kind
from agentconnect.demo.memory import Conversation, Memory, Turn


def _turn(store: Memory, conversation: Conversation, said: str, answer: str) -> None:
    turn = Turn(said=said, got=["a picture"])
    store.begin(conversation, turn)
    turn.answer = answer
    store.end(conversation)


def test_everything_comes_back(tmp_path: Path) -> None:
    """What a conversation knows is the same after loading."""
    store = Memory(tmp_path)
    one = store.new("/w")
    one.last = Intent(kind=Kind.READ, name="a.txt")
    one.touched("a.txt")
    one.name, one.notes, one.always = "Ada", ["x"], True
    _turn(store, one, "hello", "hi\u2028there")

    again = Memory(tmp_path).load(one.id)

    assert again == one


def test_a_line_cut_short_is_ignored(tmp_path: Path) -> None:
    """A crash in the middle of a write costs that line only."""
    store = Memory(tmp_path)
    one = store.new("/w")
    _turn(store, one, "hello", "hi")
    store.begin(one, Turn(said="second"))
    file = next((tmp_path / "sessions").iterdir())
    file.write_bytes(file.read_bytes() + b'{"answer": "ha')

    again = store.load(one.id)

    assert again is not None
    _turn(store, again, "third", "well")
    last = store.load(one.id)
    assert last is not None
    assert ["hello", "second", "third"] == [turn.said for turn in last.turns]
    assert ["hi", "", "well"] == [turn.answer for turn in last.turns]
    assert 3 == last.count


def test_a_long_conversation_stays_bounded(tmp_path: Path) -> None:
    """The file is written anew when it has grown, and the count goes on."""
    store = Memory(tmp_path)
    one = store.new("/w")
    for number in range(memory.MAX_TURNS * 2):
        _turn(store, one, f"say {number}", "x")

    again = store.load(one.id)

    assert again is not None
    assert memory.MAX_TURNS * 2 == again.count
    assert memory.MAX_TURNS == len(again.turns)
    assert again.lines <= memory.MAX_LINES + 1
    assert 1 == len(list((tmp_path / "sessions").iterdir()))


def test_oldest_conversations_make_room(tmp_path: Path) -> None:
    """There are never more files than the limit."""
    store = Memory(tmp_path)
    (tmp_path / "sessions").mkdir()
    for number in range(memory.MAX_CONVERSATIONS):
        (tmp_path / "sessions" / f"demo-{number:032x}.jsonl").touch()

    one = store.new("/w")

    assert memory.MAX_CONVERSATIONS == len(list((tmp_path / "sessions").iterdir()))
    assert store.load(one.id) is not None


def test_an_unwritable_home_costs_only_the_memory(tmp_path: Path) -> None:
    """Without a place to write the conversation still works."""
    (tmp_path / "file").touch()
    store = Memory(tmp_path / "file")
    one = store.new("/w")
    _turn(store, one, "hello", "hi")

    assert store.load(one.id) is None
