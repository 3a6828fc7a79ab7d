"""Results after the turn: a turn queues them in the outbox, the listener's process sends them.

Both are processes of this agent; they share nothing but the outbox file.
"""

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentconnect.deliver import DeliverError, Entry, Outbox, deliver
from agentconnect.demo import wording
from agentconnect.demo.files import Folder, shown, size_text
from agentconnect.demo.intents import Intent, Kind
from agentconnect.demo.job import Job
from agentconnect.demo.writing import compose, make, write

log = logging.getLogger("agentconnect.demo")

MAX_LATER_S = 600
AT_ONCE = 4


async def background(job: Job, intent: Intent) -> str:
    """Make a document that reaches the room after this turn; in the turn where that cannot be."""
    to = job.later
    now = replace(intent, kind=Kind.WRITE)
    if to is None or not to.export_dir.is_dir():
        return f"{wording.NOTHING_LATER}\n\n{await write(job, now)}"
    wanted, data, what = compose(job, now)
    name, refused = await make(job, Folder(str(to.export_dir)), Path(wanted).name, data)
    if refused:
        return refused
    seconds = max(1, min(MAX_LATER_S, intent.number))
    text = f"What you asked for is done: `{shown(name)}`, {what}, {size_text(len(data))}."
    try:
        with Outbox(job.outbox) as outbox:
            ident = f"{job.conversation.id}/{uuid.uuid4().hex}"
            outbox.put(ident, to, text, [to.export_dir / name], delay_s=seconds)
    except DeliverError as error:
        log.warning("a result for later could not be queued: %s", error)
        return f"I could not queue it for later, so I do it now.\n\n{await write(job, now)}"
    return (
        f"I am on it: `{shown(name)}` will come into this room by itself in about {seconds} "
        f"second{'s' * (seconds != 1)}. You need not wait for it, and it comes once."
    )


async def send_late(path: Path, request: Callable[[str, dict[str, Any]], Awaitable[Any]]) -> None:
    """Send what the turns have queued, for as long as this connection stands."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with Outbox(path) as outbox:
            runs = (deliver(outbox, request, asyncio.sleep, on_end=_ended) for _ in range(AT_ONCE))
            await asyncio.gather(*runs)
    except (DeliverError, OSError) as error:
        log.warning("nothing can be sent after a turn: %s", error)


def _ended(entry: Entry) -> None:
    if entry.state != "delivered":
        log.warning("delivery %s did not arrive: %r %r", entry.id, entry.reason, entry.detail)
