"""Answers that write a file: compose, ask, write, and say plainly what became of it."""

import mimetypes

from agentconnect.demo import documents, words
from agentconnect.demo.files import Entry, FileProblemError, Folder, shown, size_text
from agentconnect.demo.intents import Intent
from agentconnect.demo.job import Job
from agentconnect.demo.pictures import picture_of

_STEMS = {"csv": "files", "svg": "chart", "html": "page", "json": "data", "txt": "note"}
_WHAT = {
    "csv": "a table of the files here",
    "svg": "a drawing of the file sizes",
    "html": "a web page",
    "json": "the same facts as JSON",
    "md": "a report",
    "txt": "a text file",
}


async def write(job: Job, intent: Intent) -> str:
    """Make a document, or a file with exactly the text that was given."""
    return await put(job, *compose(job, intent))


def compose(job: Job, intent: Intent) -> tuple[str, bytes, str]:
    """The name, the content, and what it is in words."""
    exact = intent.text.startswith("=")
    topic = "" if exact else intent.text
    text = f"{intent.text[1:]}\n" if exact else documents.make(intent.form, _facts(job, topic))
    name = intent.name or f"{words.slug(topic, _STEMS.get(intent.form, 'report'))}.{intent.form}"
    if "." not in name.rpartition("/")[2]:
        name = f"{name}.{intent.form}"
    what = "the text you gave" if exact else _WHAT.get(intent.form, "a file")
    return name, text.encode(), what


async def save(job: Job, intent: Intent) -> str:
    """Write what came with the message, or what came last, into the working folder."""
    got = job.attached[:1] or job.conversation.kept
    if not got or not got[0].data:
        return (
            "There is nothing to save: I keep what you sent only as long as my process runs. "
            "Send the file again and say **save it**."
        )
    item = got[0]
    picture = picture_of(item.data)
    if picture:
        ending = f".{picture.format.lower()}".replace(".jpeg", ".jpg")
    else:
        ending = mimetypes.guess_extension(item.mime) or (".txt" if item.text else ".bin")
    name = intent.name or item.name.lstrip(".") or ("picture" if picture else "file") + ending
    return await put(job, name, item.data, item.describe())


async def put(job: Job, wanted: str, data: bytes, what: str) -> str:
    """Ask for a write and do it; the answer names the file for sending."""
    name, refused = await make(job, job.folder, wanted, data)
    if refused:
        return refused
    job.conversation.touched(name)
    other = "" if name == wanted else f" (`{shown(wanted)}` was there already)"
    return f"I wrote `{shown(name)}`{other}: {what}, {size_text(len(data))}.\n\n[file: {name}]"


async def make(job: Job, folder: Folder, wanted: str, data: bytes) -> tuple[str, str]:
    """Ask for a new file in a folder and write it: its name, and ``""`` or why there is none.

    Raises: FileProblemError, TurnStoppedError.
    """
    name, place = folder.target(wanted)
    if any(c in name for c in "[]<>`\n"):
        raise FileProblemError("Please choose a name without brackets.")
    text = data.decode() if _is_text(data) else None
    ask = not job.conversation.always
    call, kind = await job.stage.write_step(f"Write {shown(name)}", str(place), text, ask=ask)
    if not kind.startswith("allow"):
        why = "was refused" if kind.startswith("reject") else "got no answer"
        return name, f"I wrote nothing: I asked to write `{shown(name)}`, and that {why}."
    if kind == "allow_always":
        job.conversation.always = True
    try:
        folder.write(name, data)
    except FileProblemError as problem:
        await job.stage.close_step(call, failed=True, note=str(problem))
        raise
    await job.stage.close_step(call, failed=False)
    return name, ""


def _facts(job: Job, topic: str) -> documents.Facts:
    entries = []
    for name in job.folder.names()[:100]:
        try:
            size = job.folder.read(name, 1).size
        except FileProblemError:
            continue
        entries.append(Entry(name=name, size=size))
    return documents.Facts(
        topic=topic,
        today=f"{job.now:%Y-%m-%d %H:%M}",
        entries=tuple(entries),
        requests=tuple(" ".join(turn.said.split())[:200] for turn in job.conversation.turns[-10:]),
        author=job.conversation.name,
    )


def _is_text(data: bytes) -> bool:
    try:
        return "\0" not in data.decode()
    except UnicodeDecodeError:
        return False
