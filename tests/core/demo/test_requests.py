"""What people type, and what the demonstration agent takes it for."""

import pytest

from agentconnect.demo.intents import ALL, IT, OTHER, Intent, Kind, as_json, from_json
from agentconnect.demo.requests import parse

SIMPLE = {
    Kind.GREET: ["hello", "Hi there!", "hey", "Good morning", "how are you?"],
    Kind.HELP: ["help", "what can you do?", "helpp", "please help me", "what can I ask"],
    Kind.ABOUT: ["who are you?", "are you claude?", "what model do you use", "What is this?"],
    Kind.THANKS: ["thanks!", "thank you very much", "great", "very good", "ok, thanks"],
    Kind.BYE: ["bye", "good night everyone"],
    Kind.AGAIN: ["again", "do it again please", "same again", "repeat that", "once more"],
    Kind.RECALL: [
        "what did I ask before",
        "what did I say last?",
        "what was my last question?",
        "do you remember me",
    ],
    Kind.TOUR: ["demo", "show me some steps", "show me what you can do"],
    Kind.CLOCK: ["what time is it?", "what's the date today", "time"],
    Kind.MY_NAME: ["what is my name?", "who am I"],
    Kind.NOTES: ["what do you remember", "my notes"],
    Kind.PICTURE: ["what picture did I send?", "look at this picture", "what do you see?"],
    Kind.CRASH: ["crash now", "Crash now!"],
    Kind.UNKNOWN: [
        "do you like cheese?",
        "I lost my list of files",
        "and another thing",
        "The weather is nice. a lot of rain though",
        "crash the party",
        "",
        "?!",
    ],
}


@pytest.mark.parametrize(
    ("text", "kind"), [(text, kind) for kind, texts in SIMPLE.items() for text in texts]
)
def test_phrase(text: str, kind: Kind) -> None:
    """A whole phrase is taken for what it says, and prose for nothing."""
    assert kind == parse(text).kind


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [
        ("list files", Kind.LIST, ""),
        ("lits fiels", Kind.LIST, ""),
        ("what files are here?", Kind.LIST, ""),
        ("how many files are there?", Kind.LIST, ""),
        ("what's in the folder", Kind.LIST, ""),
        ("Hey, could you list the files in src please?", Kind.LIST, "src"),
        ("what is in the folder src", Kind.LIST, "src"),
        ("list the files in the src folder", Kind.LIST, "src"),
        ("Hi there. I am new here. Please list the files in src.", Kind.LIST, "src"),
        ("list /", Kind.LIST, "/"),
        ("read notes.txt", Kind.READ, "notes.txt"),
        ("raed notes.txt", Kind.READ, "notes.txt"),
        ("notes.txt", Kind.READ, "notes.txt"),
        ("can you read the notes please", Kind.READ, "notes"),
        ("whats in notes.txt?", Kind.READ, "notes.txt"),
        ("show me `my notes.txt`", Kind.READ, "my notes.txt"),
        ("show me src/a.py", Kind.READ, "src/a.py"),
        ("show me .env", Kind.READ, ".env"),
        ("read ../secret.txt", Kind.READ, "../secret.txt"),
        ("read it", Kind.READ, IT),
        ("read the other file", Kind.READ, OTHER),
        ("send me notes.txt", Kind.SEND, "notes.txt"),
        ("give me the chart", Kind.SEND, "chart"),
        ("send it to me", Kind.SEND, IT),
        ("i want notes.txt", Kind.SEND, "notes.txt"),
        ("how many words are in notes.txt?", Kind.COUNT, "notes.txt"),
        ("count the words in it", Kind.COUNT, IT),
        ("now the same for the other file", Kind.SAME_FOR, OTHER),
        ("and the other one?", Kind.SAME_FOR, OTHER),
        ("do the same with src/a.py", Kind.SAME_FOR, "src/a.py"),
        ("and other.txt?", Kind.SAME_FOR, "other.txt"),
        ("now do the same for all the files", Kind.SAME_FOR, ALL),
        ("save this as photo.png", Kind.SAVE, "photo.png"),
    ],
)
def test_request_about_a_file(text: str, kind: Kind, name: str) -> None:
    """A file or folder is found in natural phrasing, with small typos."""
    found = parse(text)

    assert (kind, name) == (found.kind, found.name)


@pytest.mark.parametrize(
    ("text", "name", "form", "what"),
    [
        ("write a report about penguins", "", "md", "penguins"),
        ("i want a report about rain", "", "md", "rain"),
        ("make me a csv", "", "csv", ""),
        ("create a web page about cats", "", "html", "cats"),
        ("draw a house", "", "svg", ""),
        ("make a picture of a house", "", "svg", "a house"),
        ("make me an html page called index.html", "index.html", "html", ""),
        ("make a file called plan", "plan", "txt", ""),
        ("please write a file todo.txt saying buy milk", "todo.txt", "txt", "=buy milk"),
        ('write "hello world" to greeting.txt', "greeting.txt", "txt", "=hello world"),
        ("write hello to hi.txt", "hi.txt", "txt", "=hello"),
        ("create b.md with the text: remember the milk", "b.md", "md", "=remember the milk"),
        ("give me a report about dogs", "", "md", "dogs"),
    ],
)
def test_request_for_a_new_file(text: str, name: str, form: str, what: str) -> None:
    """Name, form, topic and given text of a file to make are told apart."""
    found = parse(text)

    assert Intent(kind=Kind.WRITE, name=name, form=form, text=what) == found


@pytest.mark.parametrize(
    ("text", "needle", "where"),
    [
        ("search for TODO", "TODO", ""),
        ("serach for todo", "todo", ""),
        ("find 'milk' in notes.txt", "milk", "notes.txt"),
        ("search for TODO in src", "TODO", "src"),
        ("search in src for TODO", "TODO", "src"),
        ("which files mention milk?", "milk", ""),
        ("where is Bob mentioned?", "Bob", ""),
    ],
)
def test_search(text: str, needle: str, where: str) -> None:
    """What to look for and where are told apart."""
    found = parse(text)

    assert (Kind.SEARCH, needle, where) == (found.kind, found.text, found.name)


@pytest.mark.parametrize(
    ("text", "kind", "number"),
    [
        ("slow job 30 seconds", Kind.SLOW, 30),
        ("start a slow job", Kind.SLOW, 10),
        ("long task of 2 minutes", Kind.SLOW, 120),
        ("count to 20", Kind.COUNT_TO, 20),
        ("count up to 7", Kind.COUNT_TO, 7),
    ],
)
def test_number(text: str, kind: Kind, number: int) -> None:
    """Numbers and units are read."""
    found = parse(text)

    assert (kind, number) == (found.kind, found.number)


@pytest.mark.parametrize(
    ("text", "kind", "what"),
    [
        ("echo hello world", Kind.ECHO, "hello world"),
        ("repeat after me: banana", Kind.ECHO, "banana"),
        ("my name is Ada", Kind.NAMED, "Ada"),
        ("remember that the meeting is at ten", Kind.NOTE, "the meeting is at ten"),
        ("delete notes.txt", Kind.CANNOT, "delete"),
        ("please run the tests", Kind.CANNOT, "run"),
        ('count the words in "one two three"', Kind.COUNT, "one two three"),
    ],
)
def test_text_argument(text: str, kind: Kind, what: str) -> None:
    """The rest of the sentence is kept as it was typed."""
    found = parse(text)

    assert (kind, what) == (found.kind, found.text)


@pytest.mark.parametrize(
    "text",
    ["a " * 50_000, "x" * 100_000, "./" * 40_000, "`'\"" * 30_000, "write a " * 9_000,
     "list " * 9_000 + "files", "search in " * 9_000, "\n.! " * 30_000, "a.b/" * 20_000],
)  # fmt: skip
def test_long_nonsense_is_quick(text: str) -> None:
    """No message, however long, makes the rules run long."""
    parse(text)


def test_typos_never_change_a_topic() -> None:
    """A word of a topic that resembles a command stays as it is."""
    assert parse("write a report about lost fiels").text == "lost fiels"


def test_intent_survives_its_file() -> None:
    """An intent read back equals the one stored; anything else is None."""
    intent = Intent(kind=Kind.SEARCH, name="a.txt", text="x", form="", number=3)

    assert intent == from_json(as_json(intent))
    assert from_json({"kind": "no such"}) is None
    assert from_json([1]) is None


@pytest.mark.parametrize(
    ("text", "form", "topic", "seconds"),
    [
        ("build this in the background and send me the report", "md", "", 3),
        ("Please build this in the background, then send me the report.", "md", "", 3),
        ("write a report about penguins in the background", "md", "penguins", 3),
        ("make me a csv in the background and send it to me", "csv", "", 3),
        ("run a slow job of 30 seconds in the background", "md", "", 30),
        ("in the background, draw a chart, it takes 2 minutes", "svg", "", 120),
        ("write a report about cats and send it to me when it is done", "md", "cats", 3),
        ("write a file todo.txt saying buy milk in the background", "txt", "=buy milk", 3),
    ],
)
def test_in_the_background(text: str, form: str, topic: str, seconds: int) -> None:
    """What is wanted, and that it may come later."""
    found = parse(text)
    assert (Kind.BACKGROUND, form, topic, seconds) == (
        found.kind, found.form, found.text, found.number,
    )  # fmt: skip


@pytest.mark.parametrize(
    "text", ["what is in the background of this picture?", "search for background", "read it later"]
)
def test_not_in_the_background(text: str) -> None:
    """The word alone asks for nothing."""
    assert Kind.BACKGROUND != parse(text).kind
