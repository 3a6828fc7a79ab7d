"""Follow-ups against a conversation."""

from agentconnect.demo.followups import Past, settle
from agentconnect.demo.intents import ALL, IT, OTHER, Intent, Kind

NAMES = ["notes.txt", "other.txt", "picture.png"]
READ = Intent(kind=Kind.READ, name="notes.txt")
PAST = Past(last=READ, last_file="notes.txt", used=("notes.txt",))


def test_again_repeats() -> None:
    """ "Again" is the last request."""
    assert (READ,) == settle(Intent(kind=Kind.AGAIN), PAST, NAMES).intents


def test_again_without_a_past() -> None:
    """ "Again" as a first message is a friendly question."""
    plan = settle(Intent(kind=Kind.AGAIN), Past(), NAMES)

    assert not plan.intents
    assert "nothing yet" in plan.question


def test_other_file_of_the_same_kind() -> None:
    """ "The other file" is the one that resembles the last one."""
    plan = settle(Intent(kind=Kind.SAME_FOR, name=OTHER), PAST, NAMES)

    assert (Intent(kind=Kind.READ, name="other.txt"),) == plan.intents


def test_other_file_asks_where_unclear() -> None:
    """Several other files are a question, and a bare name answers it."""
    names = ["a.txt", "b.txt", "notes.txt"]
    plan = settle(Intent(kind=Kind.SAME_FOR, name=OTHER), PAST, names)
    assert "`a.txt`, `b.txt`" in plan.question

    counted = Past(last=Intent(kind=Kind.COUNT, name="notes.txt"), asked=True)
    answer = settle(Intent(kind=Kind.READ, name="b.txt"), counted, names)
    assert (Intent(kind=Kind.COUNT, name="b.txt"),) == answer.intents


def test_all_the_others() -> None:
    """ "All the others" is one request for each file not used yet."""
    plan = settle(Intent(kind=Kind.SAME_FOR, name=ALL), PAST, NAMES)

    assert ["other.txt", "picture.png"] == [intent.name for intent in plan.intents]


def test_it_is_the_last_file() -> None:
    """ "It" is the file that came up last, and a question where none did."""
    plan = settle(Intent(kind=Kind.SEND, name=IT), PAST, NAMES)
    assert (Intent(kind=Kind.SEND, name="notes.txt"),) == plan.intents
    assert "Which file" in settle(Intent(kind=Kind.SEND, name=IT), Past(), NAMES).question


def test_same_for_a_topic() -> None:
    """After a report "the same about X" is a report about X."""
    wrote = Past(last=Intent(kind=Kind.WRITE, name="", text="cats", form="md"))
    plan = settle(Intent(kind=Kind.SAME_FOR, name="dogs"), wrote, NAMES)

    assert (Intent(kind=Kind.WRITE, name="", text="dogs", form="md"),) == plan.intents


def test_same_without_a_file_before() -> None:
    """ "The same for X" after small talk explains itself."""
    past = Past(last=Intent(kind=Kind.ECHO, text="hi"))

    assert "nothing before" in settle(Intent(kind=Kind.SAME_FOR, name="x"), past, NAMES).question
