"""Every sentence of a turn that a person reads in a room (style rule 31).

Owns the words and nothing else: which of them is said, and when, is decided by ``ladder`` and
``answer``. What comes from outside (titles, names, error texts) is made one line here and loses
every marker that would act (worker.md §11.5).
"""

import re
from collections.abc import Sequence

from agentconnect.core.surrogates import replace_surrogates
from agentconnect.core.task import Attachment
from agentconnect.core.turns.events import Reason

PLACEHOLDER = "⏳ On it..."
"""The first text of the ladder; fixed for the whole fleet (relay-wire.md §13)."""

TITLE_MAX_CHARS = 200  # worker.md §11.2
LABEL_MAX_CHARS = 120  # worker.md §9.4
ERROR_MAX_CHARS = 300  # one readable line; the whole error is in the log
SUMMARY_ITEMS = 6  # worker.md §11.5

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_BLANKS = re.compile(r"\s+")
_MARKER = re.compile(
    r"\[(?=\s*(?:file|send|attach|channel|deduped)\s*:|\s*(?:dm-only|no-send|replied)\s*\])",
    re.IGNORECASE,
)
_MXID = re.compile(r"@[A-Za-z0-9._=/+-]+:[A-Za-z0-9.:_-]+")
_DOMAIN = re.compile(r"[A-Za-z0-9.:_\[\]-]{1,255}")
_CONCIERGE = "@sutando-concierge"


def inert(text: str) -> str:
    """``text`` with every marker made prose: its bracket becomes a round one."""
    return _MARKER.sub("(", text)


def one_line(text: str, limit: int) -> str:
    """One printable line of at most ``limit`` characters."""
    line = _BLANKS.sub(" ", _CONTROL.sub(" ", text)).strip()
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


# --- while it works


def step_label(title: str, action: str) -> str:
    """What one step is called: its title, else what it does, else a generic word."""
    named = inert(one_line(replace_surrogates(title), TITLE_MAX_CHARS))
    return named or one_line(action, 40) or "a step"


def progress(label: str, count: int) -> str:
    """The placeholder with the latest step under it."""
    number = f" (step {count})" if count > 1 else ""
    return f"{PLACEHOLDER}\n\n{label}{number}"


def queued(ahead: int) -> str:
    """Said before the wait, so that a second message is not taken for a lost one."""
    if ahead > 1:
        return (
            f"Got it. {ahead} earlier messages of this room are still being worked on; "
            "yours is queued and will be answered after them."
        )
    return (
        "Got it. An earlier message of this room is still being worked on; "
        "yours is queued and comes next."
    )


def restarting() -> str:
    """Left in the placeholder of a turn that a stop cut off with nothing to show."""
    return "⏸ The worker is restarting; this message will be run again when it is back."


# --- pointers


def pointer_long() -> str:
    """The answer does not fit into an edit."""
    return "✅ Done. The answer is longer than this message can hold and follows below."


def pointer_files(count: int) -> str:
    """The answer brings files."""
    what = "a file" if count == 1 else f"{count} files"
    return f"✅ Done. The reply and {what} follow below."


def pointer_elsewhere() -> str:
    """The answer goes to another place: nothing of it is said here."""
    return "✅ Done. The answer was not meant for this room and goes where it was directed."


# --- endings


def silent() -> str:
    """The agent ended in order and said nothing."""
    return "The agent finished without an answer."


def stop_line(reason: Reason) -> str:
    """How a turn ended that did not run its course; the text above it is then partial."""
    return {
        Reason.COMPLETED: "",
        Reason.TIMEOUT: "(This turn ran past its deadline and was interrupted.)",
        Reason.CANCELLED: "(This turn was cancelled before it was finished.)",
        Reason.REFUSED: "(The agent refused to go on with this.)",
        Reason.TOKEN_LIMIT: "(The agent reached its token limit; the answer stops short.)",
        Reason.FAILED: "(This turn failed and did not finish.)",
    }[reason]


def deadline_note(
    seconds: float, *, partial: bool, ended: bool, grace_s: float, remote: bool = False
) -> str:
    """The ending of a turn that met its deadline; ``remote``: it could only be hung up on."""
    parts = [f"This turn reached its deadline of {seconds:.0f} s and was cancelled."]
    parts.append(
        "What stands above is partial." if partial else "It had produced nothing until then."
    )
    if ended:
        how = (
            "the connection to it was dropped; it may still be working"
            if remote
            else "its process was ended"
        )
        parts.append(f"The agent did not stop within {grace_s:.0f} s, so {how}.")
    return f"({' '.join(parts)})"


def stopped_note() -> str:
    """The ending of a turn that the stop of the worker cut off with something to show."""
    return "(The worker was stopped during this turn. What stands above is partial.)"


def worker_error(message: str) -> str:
    """A turn that broke inside the worker."""
    cause = inert(one_line(replace_surrogates(message), ERROR_MAX_CHARS))
    tail = f": {cause}" if cause else "."
    return f"⚠ The worker hit an error while it ran this message{tail}"


def given_up(starts: int) -> str:
    """A task whose every run ended together with the worker."""
    return (
        f"⚠ I began this message {starts} times, and each time the worker ended before the answer "
        "was there. I have not begun it again; the worker's log says more. Ask again to retry."
    )


def no_ending(adapter: str) -> str:
    """The adapter broke its contract: the turn ended and nobody said how."""
    return f"(The adapter {adapter} ended this turn without saying how it ended.)"


def nothing_to_say(reason: Reason) -> str:
    """The archived text of an ending that posts nothing; the broker says so in the room."""
    return (
        f"Nothing to deliver (reason: {reason.value}); the failure notice is the broker's to give."
    )


def summary(did: Sequence[str], refused: Sequence[str]) -> str:
    """What was run and what was refused, one line each."""
    lines: list[str] = []
    if did:
        shown = list(did[:SUMMARY_ITEMS])
        more = len(did) - len(shown)
        lines.append("— did: " + " · ".join([*shown, *([f"+{more} more"] if more else [])]))
    if refused:
        shown = list(refused[:SUMMARY_ITEMS])
        more = len(refused) - len(shown)
        noun = "operation" if len(refused) == 1 else "operations"
        line = " · ".join([*shown, *([f"+{more} more"] if more else [])])
        lines.append(f"— refused ({len(refused)} {noun}): {line}")
    return "\n".join(lines)


def refused_step(title: str, reason: str) -> str:
    """One refused operation of the summary."""
    what = inert(one_line(replace_surrogates(title), TITLE_MAX_CHARS)) or "an operation"
    why = inert(one_line(replace_surrogates(reason), TITLE_MAX_CHARS))
    return f"{what} — {why}" if why else what


# --- files

FILE_ELSEWHERE = "the agent runs on another machine, so its files are not here"


def file_label(attachment: Attachment) -> str:
    """What a shared file is called: its own name, else the local one, else a generic word."""
    local = attachment.path.rsplit("/", 1)[-1]
    for name in (attachment.name, local):
        if label := one_line(replace_surrogates(name), LABEL_MAX_CHARS):
            return label
    return "an unnamed file"


def files_without_words(attachments: Sequence[Attachment]) -> str:
    """The prompt of a message that brought files and no text."""
    labels = ", ".join(file_label(item) for item in attachments)
    noun = "a file" if len(attachments) == 1 else "files"
    return f"(Shared {noun} without a message: {labels})"


def message_cut(kept: int) -> str:
    """Said of a message of which only the beginning reached the agent (relay-wire.md ★23)."""
    return (
        f"✂️ Your message is very long: only its first {kept:,} characters reached the agent. "
        "Send the rest as another message, or all of it as a file."
    )


# --- the result guard (worker.md §20.5)

WITHHELD_STEP = "a step (its title is withheld)"
WITHHELD_REASON = "the reason is withheld too"


def withheld(what: str, shapes: Sequence[str]) -> str:
    """What stands for a text that seems to hold a secret; it names the kind, never the secret."""
    return (
        f"🔒 {what} of this turn was withheld: it looks as if it held {_kinds(shapes)}. This room "
        "filters sensitive data from what collaborators get; the agent's owner can say more."
    )


def withheld_file(shapes: Sequence[str]) -> str:
    """Why a file is kept back; ``shapes`` is empty where it could not be looked through."""
    if not shapes:
        return "withheld: it is not text, so it cannot be checked for secrets"
    return f"withheld: it looks as if it held {_kinds(shapes)}"


def _kinds(shapes: Sequence[str]) -> str:
    return ", ".join(f"something like “{shape}”" for shape in shapes) or "a secret"


# --- guests


def concierge(user_id: str, room_id: str) -> str:
    """The concierge's MXID: the sender's domain, else the room's, else none."""
    for source in (user_id, room_id):
        domain = source.partition(":")[2]
        if _DOMAIN.fullmatch(domain) and not _MARKER.search(domain):
            return f"{_CONCIERGE}:{domain}"
    return _CONCIERGE


def guest_refusal(user_id: str, room_id: str, adapter: str) -> str:
    """Why a guest is not served, and who could change it (worker.md §6)."""
    who = user_id if _MXID.fullmatch(user_id) else "@user"
    return (
        "I only answer my owner here. Nothing is wrong with your message: I am driven through "
        f"{adapter}, where the operating system has no say in what a run may touch, and a limit "
        "that only looks like one is not worth offering to you.\n\n"
        f"My owner can change that by saying `trust {who}` in a direct message to "
        f"`{concierge(user_id, room_id)}`. That gives owner tier on every agent of that owner, "
        "not a pass for this room alone. Said anywhere else, `trust @user` is ordinary text and "
        "not a command."
    )
