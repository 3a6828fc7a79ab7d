"""Answers that do something: read, count, search, write and send files, or take their time.

Each takes the :class:`Job` of its turn and gives the answer's text. A FileProblemError is an
answer, too: its sentence.
"""

import os
from collections.abc import Awaitable, Callable

from agentconnect.demo import words
from agentconnect.demo.files import (
    SEND_BYTES,
    WHOLE_BYTES,
    FileProblemError,
    Folder,
    Text,
    shown,
    size_text,
)
from agentconnect.demo.intents import Intent, Kind
from agentconnect.demo.job import Job
from agentconnect.demo.later import background
from agentconnect.demo.pictures import picture_of
from agentconnect.demo.wording import inline, literal
from agentconnect.demo.writing import save, write

SHOWN_CHARACTERS = 6000
SHOWN_LINES = 150
BRIEF_LINES = 8
MAX_HITS = 20
MAX_SLOW_S = 600
MAX_COUNT = 5000
CRASH_EXIT = 70
_NO_SUMMARY = "I cannot sum up a text without a language model, but this is how it begins."


async def listing(job: Job, intent: Intent) -> str:
    """List a folder."""
    name = intent.name
    if name and not job.folder.is_folder(name):
        name = job.folder.find(name)
        if not job.folder.is_folder(name):
            return await read(job, intent)
    title = f"List {shown(name)}" if name else "List the working folder"
    async with job.stage.step(title, "search", job.path(name) if name else str(job.folder.root)):
        entries = job.folder.entries(name)
    where = f"`{shown(name)}`" if name else "The working folder"
    if not entries:
        return f"{where} is empty. Say **write a report about penguins** and it will not be."
    lines = [
        f"- `{shown(entry.name)}" + ("/`" if entry.folder else f"` ({size_text(entry.size)})")
        for entry in entries[:100]
    ]
    if len(entries) > 100:
        lines.append(f"- … and {len(entries) - 100} more")
    return f"{where} holds:\n\n" + "\n".join(lines)


async def read(job: Job, intent: Intent) -> str:
    """Show a file, or its beginning."""
    name = job.folder.find(intent.name)
    if job.folder.is_folder(name):
        return await listing(job, Intent(kind=Kind.LIST, name=name))
    async with job.stage.step(f"Read {shown(name)}", "read", job.path(name)):
        text = job.folder.read(name)
    job.conversation.touched(name)
    if text.binary:
        picture = picture_of(job.folder.head(name))
        if picture and picture.width:
            what = f"a {picture.format} picture of {picture.width} x {picture.height} pixels"
        else:
            what = f"a {picture.format} picture" if picture else "no text file"
        return f"`{shown(name)}` is {what}, {size_text(text.size)}. Say **send it** to get it."
    brief = intent.form == "brief"
    sorry = f"{_NO_SUMMARY} " if brief and intent.kind is Kind.READ else ""
    return sorry + _shown_text(text, brief=brief)


def _shown_text(text: Text, *, brief: bool) -> str:
    if not text.text.strip():
        return f"`{shown(text.name)}` is empty ({size_text(text.size)})."
    lines = text.text.splitlines()
    limit = BRIEF_LINES if brief else SHOWN_LINES
    part = "\n".join(lines[:limit])[:SHOWN_CHARACTERS]
    whole = not text.cut and len(part) >= len("\n".join(lines))
    head = f"`{shown(text.name)}` ({_tally(text.text, text.size, cut=text.cut)})"
    tail = "" if whole else "\n\nThis is only the beginning; say **send it** to get the whole file."
    return f"{head}:\n\n{literal(part, text.name.rpartition('.')[2])}{tail}"


def _tally(text: str, size: int, *, cut: bool = False) -> str:
    if cut:
        return size_text(size)
    lines, count = len(text.splitlines()), len(text.split())
    return (
        f"{lines} line{'s' * (lines != 1)}, {count} word{'s' * (count != 1)}, "
        f"{len(text)} characters, {size_text(size)}"
    )


async def count(job: Job, intent: Intent) -> str:
    """Count lines, words and characters of a file or of the text given."""
    if intent.text:
        return f"That text has {_tally(intent.text, len(intent.text.encode()))}."
    name = job.folder.find(intent.name)
    if job.folder.is_folder(name):
        return await listing(job, Intent(kind=Kind.LIST, name=name))
    async with job.stage.step(f"Count the words in {shown(name)}", "read", job.path(name)):
        text = job.folder.read(name, WHOLE_BYTES)
    job.conversation.touched(name)
    if text.binary:
        return f"`{shown(name)}` is no text file ({size_text(text.size)}), so I count no words."
    part = f"The first {size_text(WHOLE_BYTES)} of " if text.cut else ""
    return f"{part}`{shown(name)}` has {_tally(text.text, text.size)}."


async def search(job: Job, intent: Intent) -> str:
    """Find a text in one file or in all of them."""
    needle = intent.text
    single = job.folder.find(intent.name) if intent.name else ""
    names = [single] if single and not job.folder.is_folder(single) else job.folder.names()
    if single and job.folder.is_folder(single):
        names = [name for name in names if name.startswith(f"{single}/")]
    hits: list[str] = []
    looked = 0
    where = f" in {shown(single)}" if single else ""
    async with job.stage.step(
        f"Search for {shown(needle)[:40]}{where}", "search", job.path(single)
    ):
        for name in names:
            await job.stage.pause(0, f"I had searched {looked} of {len(names)} files.")
            looked += 1
            hits += _hits(job.folder, name, needle.lower(), MAX_HITS + 1 - len(hits))
            if len(hits) > MAX_HITS:
                break
    if single:
        job.conversation.touched(single)
    scope = f"`{shown(single)}`" if single else f"{looked} file{'s' * (looked != 1)}"
    if not hits:
        return f"I found {inline(needle)} nowhere in {scope}."
    more = "\n- … and more" if len(hits) > MAX_HITS else ""
    found = "\n".join(hits[:MAX_HITS])
    return f"I found {inline(needle)} in {scope}:\n\n{found}{more}"


def _hits(folder: Folder, name: str, needle: str, room: int) -> list[str]:
    try:
        text = folder.read(name, WHOLE_BYTES)
    except FileProblemError:
        return []
    found = (
        f"- `{shown(name)}` line {number}: {inline(line, 120)}"
        for number, line in enumerate(text.text.splitlines(), 1)
        if needle in line.lower()
    )
    return [line for line, _ in zip(found, range(room), strict=False)]


async def send(job: Job, intent: Intent) -> str:
    """Name a file so that the worker sends it."""
    name = job.folder.find(intent.name)
    if job.folder.is_folder(name):
        return f"`{shown(name)}` is a folder, and I can send only files."
    if any(c in name for c in "[]<>\n"):
        return f"`{shown(name)}` has a bracket in its name, so I cannot name it for sending."
    async with job.stage.step(f"Look at {shown(name)}", "read", job.path(name)):
        size = job.folder.read(name, 1).size
    job.conversation.touched(name)
    if size > SEND_BYTES:
        return f"`{shown(name)}` is too big to send: {size_text(size)} of {size_text(SEND_BYTES)}."
    return f"Here is `{shown(name)}` ({size_text(size)}).\n\n[file: {name}]"


async def slow(job: Job, intent: Intent) -> str:
    """Take time in visible steps; a cancel ends it with what was done."""
    seconds = max(1, min(MAX_SLOW_S, intent.number))
    steps = min(10, max(2, seconds))
    done = 0
    for number in range(1, steps + 1):
        async with job.stage.step(f"Step {number} of {steps}", "other"):
            spent = seconds * done / steps
            await job.stage.pause(
                seconds / steps,
                f"I stopped as asked: {done} of {steps} steps were done, "
                f"about {spent:.0f} of {seconds} seconds.",
            )
        done = number
    capped = f" (I take at most {MAX_SLOW_S})" if intent.number > MAX_SLOW_S else ""
    return f"The slow job is done: {steps} steps in {seconds} seconds{capped}."


async def count_to(job: Job, intent: Intent) -> str:
    """Count aloud, one piece of text a number."""
    last = max(1, min(MAX_COUNT, intent.number))
    for number in range(1, last + 1):
        job.stage.check(f"\n\nI stopped at {number - 1}, as asked.")
        await job.stage.say(f"{number}" if number == 1 else f", {number}")
    return f"\n\nI count to {MAX_COUNT} at most." if intent.number > MAX_COUNT else "."


async def tour(job: Job, intent: Intent) -> str:
    """A few live steps in a row."""
    endings = (".md", ".txt", ".py", ".rst", ".toml")
    names = [name for name in job.folder.names() if name.lower().endswith(endings)][:1]
    plan = ["List the folder", "Read a file", "Count its words"] if names else ["List the folder"]
    await job.stage.plan(plan, 0)
    parts = [
        "This is what a turn with several steps looks like.",
        await listing(job, Intent(kind=Kind.LIST)),
    ]
    for done, work in enumerate((read, count) if names else (), 1):
        await job.stage.plan(plan, done)
        await job.stage.pause(0.3)
        parts.append(await work(job, Intent(kind=intent.kind, name=names[0], form="brief")))
    await job.stage.plan(plan, len(plan))
    return "\n\n".join(parts)


async def crash(job: Job, _intent: Intent) -> str:
    """End this process, as asked: how the worker copes can be seen."""
    await job.stage.say("Crashing now, as you asked.")
    os._exit(CRASH_EXIT)


_ABOUT_WHAT_CAME = frozenset({
    Kind.UNKNOWN, Kind.PICTURE, Kind.ABOUT, Kind.READ, Kind.COUNT, Kind.SEARCH, Kind.SEND,
})  # fmt: skip


def received(job: Job) -> str:
    """What came with the message."""
    if len(job.attached) == 1:
        return f"I got {job.attached[0].describe()}."
    lines = "\n".join(f"- {item.describe()}" for item in job.attached)
    return f"I got {len(job.attached)} files:\n\n{lines}"


def about_attached(job: Job, intent: Intent) -> str | None:
    """The answer where the request is about what came with the message; None otherwise."""
    texts = [item for item in job.attached if item.text]
    if intent.kind is Kind.COUNT and texts and not words.looks_like_file(intent.name):
        return "\n".join(
            f"`{shown(item.name) or 'The text'}` has {_tally(item.text, len(item.data))}."
            for item in texts
        )
    if intent.kind is Kind.READ and texts and not words.looks_like_file(intent.name):
        item = texts[0]
        sorry = f"{_NO_SUMMARY} " if intent.form == "brief" else ""
        return sorry + _shown_text(
            Text(name=item.name or "text", text=item.text, size=len(item.data)),
            brief=intent.form == "brief",
        )
    if intent.kind in _ABOUT_WHAT_CAME and not words.looks_like_file(intent.name):
        return "Say **save it** and I will write it into the working folder."
    return None


WORK: dict[Kind, Callable[[Job, Intent], Awaitable[str]]] = {
    Kind.LIST: listing,
    Kind.READ: read,
    Kind.COUNT: count,
    Kind.SEARCH: search,
    Kind.SEND: send,
    Kind.WRITE: write,
    Kind.BACKGROUND: background,
    Kind.SAVE: save,
    Kind.SLOW: slow,
    Kind.COUNT_TO: count_to,
    Kind.TOUR: tour,
    Kind.CRASH: crash,
}
