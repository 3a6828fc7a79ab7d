"""The demonstration's longer sentences, and how text of others is shown without taking effect."""

import re

INTRODUCTION = """\
*This is the demonstration agent that comes with agentconnect: it follows simple rules and has no \
language model. For a real coding agent, start again with `AGENT_CONNECT_ACP_AGENT=claude` \
(or `codex`, `gemini`, `qwen`, `opencode`, `vibe`). Say **help** to see what you can try.*"""

ABOUT = """\
I am the demonstration agent that comes with agentconnect. I have no language model: I recognise \
some requests by simple rules, work on the files of the working folder, and remember our \
conversation. I am here so that you can try the room before you connect a real coding agent.

To talk to a real one, stop this and start again with one of these:

- `AGENT_CONNECT_ACP_AGENT=claude` (or `codex`, `gemini`, `qwen`, `opencode`, `vibe`)
- `AGENT_CONNECT_ACP_COMMAND="your-agent --acp"` for any other agent that speaks the Agent Client \
Protocol"""

FAILED = "Something went wrong inside me; my log has the details. Please try something else."

HELP = """\
Things to try with this demonstration agent:

- **list files** · **list src**
- **read notes.txt** · then **now the same for the other file**
- **count the words in notes.txt** · **search for TODO**
- **write a report about penguins** · **make me a csv** · **draw a chart** · **make a web page**
- **write a file todo.txt saying buy milk**
- **send me notes.txt**
- drop a picture or a file into the room, then **save it**
- **slow job 30 seconds** shows its steps while it runs; `Ctrl-C` where I was started ends it early
- **build this in the background and send me the report** comes after the answer, by itself
- **count to 20** · **demo** · **echo hello** · **what time is it**
- **my name is Ada** · **remember that the meeting is at ten** · **what do you remember**
- **again** · **what did I ask before**
- **crash now** ends my process, to see how the room copes"""

NOTHING_LATER = """\
This worker takes no results after a turn has ended, so I do it now."""

SUGGESTIONS = (
    "list files",
    "read notes.txt",
    "write a report about penguins",
    "slow job 20 seconds",
    "search for TODO",
    "demo",
)


def literal(text: str, ending: str = "") -> str:
    """Text of a file or a person as a code block: nothing in it can act on the room."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    body = text.strip("\n")
    return f"{fence}{ending if ending.isalnum() else ''}\n{body}\n{fence}"


def quote(text: str) -> str:
    """A person's words, shown plainly where that is harmless."""
    if any(c in text for c in "[]`<>@\n") or len(text) > 400:
        return literal(text)
    return "> " + text


def inline(text: str, limit: int = 80) -> str:
    """A short piece of a person's text inside a sentence."""
    flat = " ".join(text.split())
    cut = flat if len(flat) <= limit else flat[: limit - 1] + "…"
    return "`" + cut.replace("`", "'") + "`"


def cannot(what: str) -> str:
    """A request that only a real agent could serve."""
    return (
        f"I cannot {what} anything: this demonstration only lists, reads, counts, searches and "
        "writes new files in the working folder, and runs no commands. A real agent can; say "
        "**who are you** to see how to connect one."
    )


def echo(text: str, turn: int) -> str:
    """The kind answer to a text that no rule knows."""
    first = SUGGESTIONS[turn % len(SUGGESTIONS)]
    second = SUGGESTIONS[(turn + 3) % len(SUGGESTIONS)]
    return (
        f"You said:\n\n{quote(text)}\n\nI am only a demonstration, so I have no good answer to "
        f"that. Try **{first}** or **{second}**, or say **help**."
    )
