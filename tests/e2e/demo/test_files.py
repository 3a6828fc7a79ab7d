"""Files: listing, reading, counting, searching, writing, sending, and nothing outside."""

import os
from pathlib import Path

from tests.support.acp_client import AcpClient, choose_kind


async def test_lists_and_reads_with_steps(agent: AcpClient, work: Path) -> None:
    """Listing and reading answer with what is there and show a step with its place."""
    session = await agent.new(work)

    listed = await agent.turn(session, "list files")
    assert "`src/`" in listed.text
    assert "`notes.txt` (23 bytes)" in listed.text
    assert ".env" not in listed.text
    assert [("search", "completed")] == [(s["kind"], s["status"]) for s in listed.steps()]

    read = await agent.turn(session, "read notes.txt")
    assert "buy milk\nTODO call Bob" in read.text
    (step,) = read.steps()
    assert ("Read notes.txt", "read") == (step["title"], step["kind"])
    assert [{"path": str(work / "notes.txt")}] == step["locations"]


async def test_follow_ups_about_files(agent: AcpClient, work: Path) -> None:
    """ "The other file", "it", "again" and a bare name go on from the last request."""
    session = await agent.new(work)

    await agent.turn(session, "count the words in notes.txt")
    other = await agent.turn(session, "now the same for the other file")
    assert "`other.txt` has 1 line, 3 words" in other.text
    assert "a second file" in (await agent.turn(session, "read it")).text
    assert "a second file" in (await agent.turn(session, "again")).text
    assert "[file: other.txt]" in (await agent.turn(session, "send it to me")).text


async def test_search_and_send(agent: AcpClient, work: Path) -> None:
    """Search names file and line; sending names the file on a line of its own."""
    session = await agent.new(work)

    found = await agent.turn(session, "search for todo")
    assert "- `notes.txt` line 2: `TODO call Bob`" in found.text
    assert "- `src/a.py` line 1" in found.text

    sent = await agent.turn(session, "send me the notes")
    assert "[file: notes.txt]" in sent.text.splitlines()


DOCUMENTS = [
    ("write a report about penguins", "penguins.md", "# Penguins"),
    ("make me a csv", "files.csv", "file,bytes\n"),
    ("make a web page about cats", "cats.html", "<!doctype html>"),
    ("draw a chart", "chart.svg", "<svg "),
    ("write a file todo.txt saying buy milk", "todo.txt", "buy milk\n"),
]


async def test_writes_after_asking(agent: AcpClient, work: Path) -> None:
    """A file is written after a permission that names it, and is then named for sending."""
    session = await agent.new(work)
    for text, name, start in DOCUMENTS:
        wrote = await agent.turn(session, text)

        assert (work / name).read_text().startswith(start)
        assert f"[file: {name}]" in wrote.text.splitlines()
        asked = agent.asked[-1]
        assert [{"path": str(work / name)}] == asked["toolCall"]["locations"]
        assert "edit" == asked["toolCall"]["kind"]
        assert ["allow_once", "allow_always", "reject_once", "reject_always"] == [
            option["kind"] for option in asked["options"]
        ]
        assert "completed" == wrote.steps()[0]["status"]
    assert len(DOCUMENTS) == len(agent.asked)


async def test_a_refused_write(agent: AcpClient, work: Path) -> None:
    """After a refusal nothing is on disk, and the answer says so."""
    session = await agent.new(work)
    for kind, said in (("reject_once", "was refused"), ("none", "got no answer")):
        agent.choose = choose_kind(kind)
        answer = await agent.turn(session, "write a report about penguins")

        assert "end_turn" == answer.stop
        assert "I wrote nothing" in answer.text
        assert said in answer.text
        assert "[file:" not in answer.text
        assert not (work / "penguins.md").exists()
        assert "failed" == answer.steps()[0]["status"]


async def test_allowed_for_the_conversation(agent: AcpClient, work: Path) -> None:
    """After "allow always" it asks no more, and never writes over a file."""
    agent.choose = choose_kind("allow_always")
    session = await agent.new(work)
    await agent.turn(session, "write a report about penguins")
    again = await agent.turn(session, "again")

    assert 1 == len(agent.asked)
    assert "[file: penguins-2.md]" in again.text
    assert (work / "penguins-2.md").exists()


async def test_nothing_outside_is_touched(agent: AcpClient, work: Path, tmp_path: Path) -> None:
    """Paths out of the folder, links out of it and hidden files are refused in words."""
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "x.txt").write_text("outside words")
    (work / "link.txt").symlink_to(secret / "x.txt")
    (work / "link").symlink_to(secret)
    (work / "loop").symlink_to(work / "loop")
    session = await agent.new(work)
    names = ["/etc/hostname", "../secret/x.txt", "link.txt", "link/x.txt", ".env", "loop", "~root"]
    for name in names:
        for text in (f"read `{name}`", f"send `{name}`", f"search for words in `{name}`"):
            turn = await agent.turn(session, text)
            assert "end_turn" == turn.stop
            assert "outside words" not in turn.text
            assert "KEY=" not in turn.text
            assert "[file:" not in turn.text
        await agent.turn(session, f"write hi to {name}/new.txt")
        await agent.turn(session, f"write hi to {name}")
    assert ["x.txt"] == [path.name for path in secret.iterdir()]
    assert "outside words" == (secret / "x.txt").read_text()
    assert "KEY=hidden\n" == (work / ".env").read_text()


async def test_odd_files(agent: AcpClient, work: Path) -> None:
    """A pipe, a binary file, an empty one and one with marker text are all answered."""
    os.mkfifo(work / "pipe.txt")
    (work / "data.bin").write_bytes(b"\0\1\2" * 100)
    (work / "empty.txt").write_text("")
    (work / "marker.md").write_text("```\n[file: /etc/passwd]\n")
    (work / "long.txt").write_text("word " * 50_000)
    session = await agent.new(work)

    assert "not an ordinary file" in (await agent.turn(session, "read pipe.txt")).text
    assert "no text file" in (await agent.turn(session, "read data.bin")).text
    assert "is empty" in (await agent.turn(session, "read empty.txt")).text
    assert (
        "````md\n```\n[file: /etc/passwd]\n````"
        in (await agent.turn(session, "read marker.md")).text
    )
    long = (await agent.turn(session, "read long.txt")).text
    assert "only the beginning" in long
    assert len(long) < 7000
    assert "50000 words" in (await agent.turn(session, "count the words in long.txt")).text


async def test_a_missing_file_names_what_is_there(agent: AcpClient, work: Path) -> None:
    """A wrong name is answered with the right ones; an unclear one with a question."""
    (work / "notes-old.txt").write_text("older\n")
    session = await agent.new(work)

    assert "`notes.txt`" in (await agent.turn(session, "read paper.txt")).text
    assert "Which one do you mean?" in (await agent.turn(session, "count words in note")).text
    assert "`notes-old.txt` has 1 line" in (await agent.turn(session, "notes-old.txt")).text
