"""Arguments to options (worker.md §1). There is no flag per setting, deliberately."""

import re
from collections.abc import Mapping, Sequence

import msgspec

from agentconnect.core.errors import AgentConnectError

USAGE = """\
usage: agent-connect [--config PATH] [COMMAND]

Joins the coding agent on this machine to the rooms where people ask for things.

  (no command)       run the worker
  local              relay, room page, worker and agent on this machine; prints one URL
      --say TEXT         without a browser: post TEXT, print the answer, end
      --listen HOST:PORT where the relay listens (default: 127.0.0.1 and a free port)
      --dir PATH         where rooms are kept (default: ~/.agent-connect/local)
  relay              the relay and its room page alone, for workers elsewhere
      --listen HOST:PORT where it listens (default: 127.0.0.1:8460)
      --public-url URL   how workers and browsers reach it, if not by that address
      --dir PATH         where rooms are kept (default: ~/.agent-connect/relay)
      --add-agent NAME   make an agent identity, print its token and command once
  status [FILE...]   is the worker alive and well: a verdict on its status file
      --watch            again and again, until Ctrl-C
      --json             for programs
  deliveries [ID]    what was delivered after its turn, and what is on its way
      --json             for programs
  channels check     try each IM channel without sending anything
  notify [TEXT]      send TEXT (or stdin) to one place, once, through the worker's API
      --channel NAME     the channel
      --to KIND:ID       user:ID or chat:ID, as the channel knows it
      --in WORKSPACE     another workspace than main
  schedule ACTION    scheduled tasks: list; add PROMPT; rm ID; run ID
      --cron EXPRESSION  add: when, five fields
      --name NAME        add: a name to know it by
      --once             add: fire once only
      --channel NAME, --to KIND:ID  add: where its answers are sent
      --in WORKSPACE     another workspace than main
      --json             list: for programs
  doctor             what is wrong and how to mend it
      --json             for programs
  service ACTION     the worker as a service of this user: install, uninstall, print, logs
      --no-start         install: write the files, start nothing

  --config PATH      the config file (else AGENT_CONNECT_CONFIG, else
                     ~/.agent-connect/config.env if it exists)
  --export-config    print the config file as shell export lines
  --version          print the version
  -h, --help         print this text

Settings are environment variables; the config file holds the same names, and the
environment wins. All of them: docs/settings.md
"""

HINT = "Every command and argument: agent-connect --help"
"""Below the sentence about an argument, which would be lost above the whole text."""


class _Command(msgspec.Struct, frozen=True):
    """What may stand behind one command: flags by the option each sets, and words of its own."""

    values: Mapping[str, str] = {}
    switches: Mapping[str, str] = {}
    first: tuple[str, ...] = ()
    """The first word must be one of these, when there are any."""
    words: int = 0
    """At most so many words."""


_MANY = 1000
COMMANDS: Mapping[str, _Command] = {
    "": _Command(),
    "local": _Command({"--say": "say", "--listen": "listen", "--dir": "directory"}),
    "relay": _Command(
        {
            "--listen": "listen",
            "--dir": "directory",
            "--add-agent": "add_agent",
            "--public-url": "public_url",
        }
    ),
    "status": _Command(switches={"--json": "json", "--watch": "watch"}, words=_MANY),
    "deliveries": _Command(switches={"--json": "json"}, words=1),
    "channels": _Command(first=("check",), words=1),
    "channel-worker": _Command(),  # not for people: the daemon starts it
    "notify": _Command({"--channel": "channel", "--to": "to", "--in": "workspace"}, words=1),
    "schedule": _Command(
        {
            "--cron": "cron",
            "--name": "name",
            "--channel": "channel",
            "--to": "to",
            "--in": "workspace",
        },
        {"--once": "once", "--json": "json"},
        ("list", "add", "rm", "run"),
        2,
    ),
    "doctor": _Command(switches={"--json": "json"}),
    "service": _Command(
        switches={"--no-start": "no_start"},
        first=("install", "uninstall", "print", "logs"),
        words=1,
    ),
}

_KNOWN = {"--config", "--export-config"}.union(
    *(set(command.values) | set(command.switches) for command in COMMANDS.values())
)
_COMMAND_NAMES = tuple(name for name in COMMANDS if name not in ("", "channel-worker"))
_ADDRESS = re.compile(r"https?://[A-Za-z0-9.\-\[\]:]+(/[\x21-\x7e]*)?")


class UsageError(AgentConnectError):
    """The arguments are off: exit 2, with what is wrong and how to mend it."""

    exit_code = 2


class Options(msgspec.Struct, kw_only=True):
    """The arguments, parsed."""

    command: str = ""
    config: str | None = None
    export: bool = False
    say: str | None = None
    listen: str | None = None
    directory: str | None = None
    add_agent: str | None = None
    public_url: str | None = None
    json: bool = False
    watch: bool = False
    no_start: bool = False
    channel: str | None = None
    to: str | None = None
    workspace: str | None = None
    cron: str | None = None
    name: str | None = None
    once: bool = False
    words: tuple[str, ...] = ()
    """What stands behind the command without a flag: files, an action."""
    umask: int = -1


def parse(argv: Sequence[str]) -> Options:
    """Arguments to options. Raises: UsageError naming the argument."""
    options = Options()
    left = list(argv)
    while left:
        word = left.pop(0)
        flag, equals, value = word.partition("=")
        command = COMMANDS[options.command]
        if flag == "--config" or flag in command.values:
            given = value if equals else _value_of(flag, left)
            _set(options, "config" if flag == "--config" else command.values[flag], given)
        elif word == "--export-config":
            options.export = True
        elif word in command.switches:
            setattr(options, command.switches[word], True)
        elif word in COMMANDS and not options.command and word:
            options.command = word
        elif word.startswith("-") or not word or len(options.words) >= command.words:
            raise UsageError(_unknown(options.command, word))
        else:
            options.words += (word,)
    first = COMMANDS[options.command].first
    if first and options.words[:1] not in {(word,) for word in first}:
        raise UsageError(f"{options.command} needs one of {', '.join(first)}")
    return options


def _unknown(name: str, word: str) -> str:
    """What is wrong with a word that nothing takes, and what would be taken in its place."""
    shown, command = printable(word), COMMANDS[name]
    if name:
        taken = ", ".join([*command.values, *command.switches]) or "none but --config PATH"
        if command.first:
            taken = f"{taken}, behind one of {', '.join(command.first)}"
        return f'unknown argument "{shown}": those of {name} are {taken}'
    flag = word.partition("=")[0]
    owners = [each for each in _COMMAND_NAMES if flag in _flags(each)]
    if owners:
        return f'unknown argument "{shown}": it stands behind its command ({", ".join(owners)})'
    if word.startswith("-"):
        return f'unknown argument "{shown}": a setting is an environment variable, not a flag'
    return f'unknown argument "{shown}": the commands are {", ".join(_COMMAND_NAMES)}'


def _flags(name: str) -> set[str]:
    return set(COMMANDS[name].values) | set(COMMANDS[name].switches)


def _value_of(flag: str, left: list[str]) -> str:
    """The word behind a flag, taken off the rest."""
    if not left:
        what = "a path" if flag in {"--config", "--dir"} else "a value"
        raise UsageError(f"{flag} needs {what}")
    given = left.pop(0)
    if given in _KNOWN:
        raise UsageError(f"{flag} needs a value, and {given} is an argument of its own")
    return given


def _set(options: Options, field: str, given: str) -> None:
    if field == "add_agent" and not given.strip():
        raise UsageError("--add-agent needs a name")
    if field == "public_url" and not _ADDRESS.fullmatch(given):
        raise UsageError("--public-url needs an address like https://rooms.example.org")
    setattr(options, field, given)


SENTENCE_CHARS = 500


def printable(text: str, most: int = 80) -> str:
    """Foreign text without what a terminal would obey, cut where it is longer than ``most``."""
    return "".join(c if c.isprintable() else "?" for c in text[:most])
