"""The sentences of the ACP adapter: notices, endings, framing, and the owner's terminal.

Owns words only. What comes from an agent is made one line and inert by ``wording`` first, since a
file marker in an error text must never act (worker.md §11.5).
"""

import re
from collections.abc import Sequence

from agentconnect.core.surrogates import replace_surrogates
from agentconnect.core.turns.session import Retired, idle_words
from agentconnect.core.turns.wording import ERROR_MAX_CHARS, inert, one_line

NAME_MAX_CHARS = 120  # worker.md §8.5
ENDED_CHARS = 500  # how much of stderr the owner's terminal is shown (worker.md §8.3)
_NO_INTERPRETER = re.compile(  # as env and the shells say it
    r"(?:\benv: (?:can't execute )?|\bexec: )['‘]?(?P<name>[\w.+-]{1,64})['’]?: "
    r"(?:No such file|not found)"
)


def quoted(text: str, limit: int = ERROR_MAX_CHARS) -> str:
    """Somebody else's words on one line, unable to act."""
    return inert(one_line(replace_surrogates(text), limit))


# --- a conversation that does not go on (own messages of the room)


def _fresh(why: str) -> str:
    return (
        f"🔄 Starting a fresh conversation: {why}. What was said here before is gone for the agent."
    )


def retired_notice(why: Retired, *, turns: int, idle_s: float) -> str:
    """A stored conversation reached one of our limits."""
    return _fresh(
        {
            Retired.CWD: "the working directory has changed",
            Retired.BUDGET: f"the last one reached its budget of {turns} turns",
            Retired.IDLE: f"the last one was silent for {idle_words(idle_s)}",
        }[why]
    )


def refused_notice(words: str) -> str:
    """The agent would not open the stored conversation."""
    return _fresh(f"the agent could not open the last one ({quoted(words)})")


def empty_notice() -> str:
    """The agent said yes and brought nothing back."""
    return _fresh("the agent no longer has the last one")


def unread_notice() -> str:
    """The record of all conversations was damaged; whether there was one here is unknown."""
    return _fresh("the record of earlier ones could not be read")


def cannot_load_notice() -> str:
    """This agent keeps no conversations beyond its own process."""
    return _fresh("this agent cannot reopen a conversation after its process has ended")


# --- files and content that cannot pass


def unsent_files_notice(lines: Sequence[tuple[str, str, str]], accepts: Sequence[str]) -> str:
    """Which attachments did not reach the agent: (label, media type, reason) each."""
    listed = "\n".join(
        f"- {quoted(label)} ({quoted(mime)}): {quoted(reason)}" for label, mime, reason in lines
    )
    takes = (
        f"This agent takes text and {_join(accepts)}." if accepts else "This agent takes text only."
    )
    what = "An attachment" if len(lines) == 1 else "Some attachments"
    return (
        f"📎 {what} could not be passed to the agent; your message itself did reach it.\n{listed}\n"
        f"{takes} You can paste the content as text instead."
    )


def inline_content_notice(kind: str) -> str:
    """The agent produced something that is no text and no picture we can post."""
    return f"The agent produced inline content ({quoted(kind, 60)}) that cannot be posted here."


def too_many_notices() -> str:
    """The agent produced more that cannot be posted than a room should read of."""
    return "The agent produced more of what cannot be posted here; it is not listed one by one."


def too_many_files(limit: int) -> str:
    """The agent offered more files than one answer can bring."""
    return f"The agent offered more than {limit} files; the rest is left out."


def too_much_text(limit: int) -> str:
    """The agent went on and on."""
    return f"The agent's answer is longer than {limit:,} characters; the rest is left out."


def link_notice(name: str, uri: str) -> str:
    """A link of a kind that is neither a local file nor on the web."""
    shown = quoted(name, 120) or "a link"
    return f"The agent offered {shown} ({quoted(uri, 200)}), which cannot be sent from here."


def link_text(name: str, uri: str) -> str:
    """A web link as text of the answer."""
    shown = quoted(name, 120)
    return f"{shown}: {quoted(uri, 2000)}" if shown and shown != uri else quoted(uri, 2000)


# --- endings


def stopped_early(reason: str) -> str:
    """The agent ended the turn by itself before it was finished."""
    words = {
        "cancelled": "the agent cancelled it",
        "refusal": "the agent declined to go on",
        "max_tokens": "the agent reached its token limit",
        "max_turn_requests": "the agent reached its own limit of steps for one turn",
        "": "the agent gave no reason",
    }.get(reason, f"the agent's reason was “{quoted(reason, 80)}”")
    return f"(This turn stopped early: {words}.)"


def agent_died(code: int | None, *, resumable: bool) -> str:
    """The process ended under a running turn; its stderr stays in the log."""
    how = "ended"
    if code is not None:
        how = f"ended with exit code {code}" if code >= 0 else f"was ended by signal {-code}"
    tail = " Your next message will try to continue this conversation." if resumable else ""
    return f"(The agent's process {how} during this turn.{tail})"


def agent_lost(*, resumable: bool) -> str:
    """The connection to a dialled agent ended under a running turn."""
    tail = " Your next message will try to continue this conversation." if resumable else ""
    return (
        "(The connection to the agent was lost during this turn; the agent may still be working."
        f"{tail})"
    )


def agent_error(words: str) -> str:
    """A JSON-RPC error of the agent."""
    return f"(The agent reported an error: {quoted(words)})"


def not_logged_in(login: str, offered: Sequence[str]) -> str:
    """The agent wants a login, which only a prompt could show."""
    offers = f" It offers: {', '.join(quoted(o, 60) for o in offered)}." if offered else ""
    how = f"on the worker's machine, {login}" if login else "log in to it on the worker's machine"
    return (
        f"(The agent is not logged in; it said so only now.{offers} To mend it, {how}, then "
        "restart the worker. No terminal is opened from here.)"
    )


def mode_missing(mode: str, offered: Sequence[str]) -> str:
    """The mode that the settings ask for is not there."""
    known = ", ".join(quoted(o, 60) for o in offered) or "none"
    return (
        f"(The agent has no mode “{quoted(mode, 60)}”, which AGENT_CONNECT_ACP_MODE asks for; "
        f"it offers: {known}.)"
    )


def cannot_start(words: str) -> str:
    """The agent could not be started for this turn."""
    return f"(The agent could not be started: {quoted(words, 600)})"


def cannot_dial(words: str) -> str:
    """A dialled agent did not let us in."""
    return f"({quoted(words[:1].upper() + words[1:], 600)}.)"


def permission_reason(reason: str, outside: Sequence[str]) -> str:
    """Why an operation was refused, for the summary."""
    if reason == "outside":
        named = ", ".join(quoted(path, 120) for path in outside[:3])
        more = f" and {len(outside) - 3} more" if len(outside) > 3 else ""
        return f"outside the working directory: {named}{more}"
    return {
        "unlocatable": "it names no file inside the working directory",
        "command": "commands are refused here; the owner can allow them with "
        "AGENT_CONNECT_ACP_EXECUTE",
        "no_allow_option": "the agent offered no way to allow it",
        "under_root": "inside the working directory",
        "execute_allowed": "commands are allowed by the owner",
    }.get(reason, quoted(reason))


# --- what the agent reads before the message


def framing(
    *,
    sender: str,
    room: str,
    cwd: str,
    files: Sequence[str],
    unread: Sequence[str],
    collaborator: str = "",
    around: Sequence[str] = (),
    sends_files: bool = True,
) -> str:
    """The circumstances of a message; never claims a sandbox (worker.md §8.5).

    ``collaborator`` is the sender's id where it is one; ``around`` are the lines on who is there;
    ``sends_files`` is false where the agent's files are on another machine.
    """
    who = quoted(sender, NAME_MAX_CHARS) or "the owner"
    if collaborator:
        name = quoted(sender, NAME_MAX_CHARS) or "somebody without a display name"
        who = f"{name} ({quoted(collaborator, 255)}), a collaborator and not your owner,"
    where = f" in the room “{quoted(room, NAME_MAX_CHARS)}”" if room.strip() else ""
    lines = [
        f"[{who} writes to you{where} through a chat room. Answer as in a chat: short, unless "
        f"asked for more. Your working directory is {quoted(cwd, 1000)}; operations outside it are "
        "refused."
    ]
    if sends_files:
        lines.append(
            "To send a file from it to the room, write [file: <path>] on a line of its own; a file "
            "elsewhere is not sent."
        )
    if files:
        lines.append(f"Files that came with the message, included below: {_labels(files)}.")
    if unread:
        lines.append(
            "Files that came with it and could not be read (say so if it matters): "
            f"{_labels(unread)}."
        )
    return " ".join([*lines, *around]) + "]"


def _labels(labels: Sequence[str]) -> str:
    return ", ".join(quoted(label, NAME_MAX_CHARS) for label in labels)


# --- the owner's terminal, before any task (worker.md §8.3)


def no_agent(presets: Sequence[str]) -> str:
    """Neither a preset nor a command."""
    return (
        "no agent is configured: set AGENT_CONNECT_ACP_AGENT to one of "
        f"{', '.join(presets)}, or AGENT_CONNECT_ACP_COMMAND to a command line, for example "
        '"my-agent --acp"'
    )


def unknown_preset(name: str, presets: Sequence[str]) -> str:
    """A preset nobody knows."""
    return (
        f"AGENT_CONNECT_ACP_AGENT names “{quoted(name, 60)}”, which is not one of "
        f"{', '.join(presets)}; any other agent can be given as AGENT_CONNECT_ACP_COMMAND"
    )


def not_found(word: str, *, install: str, own_command: bool, path: str = "") -> str:
    """The executable is not there, at least not on ``path``."""
    how = "is not there, or may not be executed" if "/" in word else "was not found"
    start = f"the agent's executable “{quoted(word, 200)}” {how}"
    hint = f". {path_hint(path)}" if path and "/" not in word else ""
    if own_command:
        return (
            f"{start}; it comes from AGENT_CONNECT_ACP_COMMAND, so try that command in a shell "
            f"in the working directory{hint}"
        )
    if word in ("npx", "npm", "node"):
        return f"{start}: install Node.js 18 or newer first, then: {install}{hint}"
    return f"{start}; install it with: {install}{hint}"


def path_hint(path: str) -> str:
    """A shell may find what a service does not: version managers put it on the shell's PATH."""
    return (
        f"This worker's PATH is {quoted(path, 400)}: if a shell of yours finds it, start the "
        "worker from that shell, or run “agent-connect service install” there"
    )


def cwd_missing(cwd: str) -> str:
    """The working directory is gone, which looks like a missing executable."""
    return f"the working directory {quoted(cwd, 1000)} does not exist"


def would_not_start(command: str, *, cause: str, stderr: str, path: str = "") -> str:
    """It was found and ended, or answered with an error."""
    said = f"; it said: {stderr[-ENDED_CHARS:]}" if stderr else ""
    start = f"the agent ({quoted(command, 200)}) would not start: {quoted(cause, 600)}"
    needed = _NO_INTERPRETER.search(stderr[-ENDED_CHARS:])
    if needed and path:
        return f"{start}, since it needs “{needed['name']}”, which was not found. {path_hint(path)}"
    return f"{start}{said}"


def unreachable(url: str, cause: str) -> str:
    """Nobody opened the door of a running agent."""
    return f"the agent at {quoted(url, 300)} cannot be reached: {quoted(cause, 200)}"


def refused_at_door(url: str, status: int) -> str:
    """Somebody opened it and would not let us in."""
    if status in (401, 403):
        return (
            f"the agent at {quoted(url, 300)} refused the connection at the door (HTTP {status}); "
            "check AGENT_CONNECT_ACP_TOKEN"
        )
    if status:
        return unreachable(url, f"it answered HTTP {status} and opened no WebSocket")
    return unreachable(url, "it closed the connection before a WebSocket was open")


def bad_acp_token() -> str:
    """A bearer that no header can carry."""
    return "AGENT_CONNECT_ACP_TOKEN holds characters that cannot be sent in a header"


def start_timeout(command: str, seconds: float) -> str:
    """It was started and did not answer ``initialize``."""
    return (
        f"the agent ({quoted(command, 200)}) did not answer within {seconds:.0f} s; if it is still "
        "being downloaded, start the worker again in a while, or install the agent first"
    )


def wrong_protocol(version: object) -> str:
    """It speaks another version of the protocol."""
    return (
        f"the agent wants version {quoted(str(version), 20)} of the Agent Client Protocol; this "
        "worker speaks version 1, so another release of the agent is needed"
    )


def login_needed(login: str, offered: Sequence[str]) -> str:
    """The agent lists ways to log in, and for this one that means that nobody is."""
    how = f"{login} in your own shell" if login else "log in to it in your own shell"
    return (
        f"the agent is not logged in (it offers: {_labels(offered) or 'no method by name'}). "
        f"The worker never opens a terminal or a browser for it: {how}, then start the worker "
        "again. If it is logged in, AGENT_CONNECT_ACP_SKIP_AUTH_CHECK=1 leaves this check out"
    )


def described(name: str, version: str) -> str:
    """The one line for log and status."""
    return f"acp: {quoted(name, 120) or 'unnamed agent'} {quoted(version, 60)}".rstrip()


def _join(words: Sequence[str]) -> str:
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"
