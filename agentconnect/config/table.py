"""The table of settings: data only. ``docs/settings.md`` is made from it (scripts/gen-docs)."""

from agentconnect.config.kinds import Kind, Setting
from agentconnect.config.table_daemon import DAEMON
from agentconnect.config.table_oneshot import ONE_SHOT

_WHERE = "Where things are"
_RELAY = "The relay"
_AGENT = "The agent"
_TURN = "A turn and its message"
_SESSION = "Conversations"
_WORKER = "The worker"
_INSTALLER = "The installer alone"

TABLE: tuple[Setting, ...] = (
    Setting(
        name="AGENT_CONNECT_CONFIG",
        kind=Kind.PATH,
        field="config",
        default_doc="`~/.agent-connect/config.env` if it exists",
        doc="The config file. Inside the file itself it has no effect.",
        group=_WHERE,
    ),
    Setting(
        name="AGENT_CONNECT_REPO",
        kind=Kind.PATH,
        field="repo",
        default_doc="`~/agents`, made if it is missing",
        doc="The working directory: where the agent runs and what it may change. A directory that "
        "you name must exist.",
        group=_WHERE,
    ),
    Setting(
        name="AGENT_CONNECT_WORKSPACE",
        kind=Kind.PATH,
        field="workspace",
        default="~/.agent-connect/workspace",
        doc="The worker's own state, one worker each. Made with mode 0700.",
        group=_WHERE,
    ),
    Setting(
        name="AGENT_CONNECT_CHANNELS_FILE",
        kind=Kind.PATH,
        field="channels_file",
        default_doc="`<workspace>/workspaces/main/channels.json`",
        doc="The IM channels of the working directory, mode 0600. See [channels.md](channels.md).",
        group=_WHERE,
    ),
    Setting(
        name="AGENT_CONNECT_EGRESS_ROOTS",
        kind=Kind.PATHS,
        field="egress_roots",
        default_doc="none",
        doc="Further folders from which answers may send files, separated by `:`. The working "
        "directory is always one. The workspace and the config file are never sent.",
        group=_WHERE,
    ),
    Setting(
        name="AGENT_CONNECT_DEMO_HOME",
        kind=Kind.PATH,
        field="demo_home",
        default_doc="`~/.agent-connect/demo`",
        doc="Where the bundled agent remembers its conversations.",
        group=_WHERE,
    ),
    Setting(
        name="AGENT_CONNECT_TOKEN",
        kind=Kind.TEXT,
        field="token",
        default_doc="required",
        doc="The agent's credential, `<relay address>|<secret>` (`%7C` is read as `|`). Wins over "
        "`REMOTE_TASK_TOKEN`. `agent-connect local` makes its own.",
        secret=True,
        group=_RELAY,
    ),
    Setting(
        name="REMOTE_TASK_TOKEN",
        kind=Kind.TEXT,
        field="remote_task_token",
        doc="The same credential under its older name.",
        secret=True,
        group=_RELAY,
    ),
    Setting(
        name="REMOTE_TASK_URL",
        kind=Kind.TEXT,
        field="remote_task_url",
        doc="The relay's address for a token that is only a secret. An address inside the token "
        "wins. There is no default address.",
        group=_RELAY,
    ),
    Setting(
        name="AGENT_CONNECT_POLL",
        kind=Kind.NUMBER,
        field="poll_s",
        default="1.0",
        doc="Read for compatibility. A task that arrives and a relay that stops for good are both "
        "noticed at once, so it paces nothing.",
        group=_RELAY,
    ),
    Setting(
        name="AGENT_CONNECT_ATTACHMENT_MAX_BYTES",
        kind=Kind.WHOLE,
        field="attachment_max_bytes",
        default="10485760",
        doc="The largest attachment that is handed to the agent. 0: no limit.",
        group=_RELAY,
    ),
    Setting(
        name="AGENT_CONNECT_MEDIA_ORIGINS",
        kind=Kind.ORIGINS,
        field="media_origins",
        default_doc="none",
        doc="Further origins (`scheme://host` or `scheme://host:port`, separated by blanks) from "
        "which attachments are fetched: without the token, at public addresses only. The relay "
        "itself is always allowed.",
        group=_RELAY,
    ),
    Setting(
        name="AGENT_CONNECT_ADAPTER",
        kind=Kind.TEXT,
        field="adapter",
        default_doc="required",
        doc="How the agent is driven: `acp`, `cline`, `codex`, `kilo`, `ollama` or `omnigent`. See "
        "[agents.md](agents.md). `agent-connect local` needs none.",
        group=_AGENT,
    ),
    Setting(
        name="AGENT_CONNECT_ACP_AGENT",
        kind=Kind.LOWER,
        field="acp_agent",
        doc="A known agent: `claude`, `gemini`, `codex`, `qwen`, `opencode` or `vibe`. See "
        "[agents.md](agents.md).",
        group=_AGENT,
    ),
    Setting(
        name="AGENT_CONNECT_ACP_COMMAND",
        kind=Kind.COMMAND,
        field="acp_command",
        doc="The command of any other ACP agent, split into words as a shell would, run without "
        "one. Wins over `AGENT_CONNECT_ACP_AGENT`.",
        group=_AGENT,
    ),
    Setting(
        name="AGENT_CONNECT_ACP_URL",
        kind=Kind.TEXT,
        field="acp_url",
        doc="The `ws://` or `wss://` address of an agent that runs already and is dialled for each "
        "turn, instead of being started. Not together with `AGENT_CONNECT_ACP_COMMAND`. Needs the "
        "extra `dial`. See [agents.md](agents.md).",
        group=_AGENT,
    ),
    Setting(
        name="AGENT_CONNECT_ACP_TOKEN",
        kind=Kind.TEXT,
        field="acp_token",
        doc="The bearer for that agent, read again for each dial. Never the relay's.",
        secret=True,
        group=_AGENT,
    ),
    Setting(
        name="AGENT_CONNECT_ACP_REMOTE_CWD",
        kind=Kind.TEXT,
        field="acp_remote_cwd",
        default_doc="the working directory",
        doc="The directory that a dialled agent is told to work in: an absolute path on its "
        "machine.",
        group=_AGENT,
    ),
    Setting(
        name="AGENT_CONNECT_ACP_ALLOW_REMOTE",
        kind=Kind.FLAG_OFF,
        field="acp_allow_remote",
        default="off",
        doc="On: an agent on another machine may be dialled, over `wss://` only. Off: only "
        "`localhost`, `127.0.0.1` and `::1`.",
        group=_AGENT,
    ),
    Setting(
        name="AGENT_CONNECT_ACP_MODE",
        kind=Kind.TEXT,
        field="acp_mode",
        default_doc="the agent's own",
        doc="The mode that is asked for in every conversation. Unset: left alone, except that a "
        "known agent which does not ask by default is put into its asking mode.",
        group=_AGENT,
    ),
    Setting(
        name="AGENT_CONNECT_ACP_KEEPALIVE",
        kind=Kind.NUMBER,
        field="acp_keepalive_s",
        default="300",
        doc="Seconds for which an idle agent process is kept. 0: one process per turn.",
        group=_AGENT,
    ),
    Setting(
        name="AGENT_CONNECT_ACP_MAX_IDLE",
        kind=Kind.WHOLE,
        field="acp_max_idle",
        default="8",
        doc="Idle agent processes kept at most; the one unused for longest is closed first. Busy "
        "ones are neither closed nor counted.",
        group=_AGENT,
    ),
    Setting(
        name="AGENT_CONNECT_ACP_SPARE",
        kind=Kind.WHOLE,
        field="acp_spare",
        default="1",
        doc="Started agent processes without a conversation that are kept ready while there is "
        "activity.",
        group=_AGENT,
    ),
    Setting(
        name="AGENT_CONNECT_ACP_EXECUTE",
        kind=Kind.CHOICE,
        field="acp_execute",
        default="refuse",
        choices=("refuse", "allow"),
        doc="What happens when the agent asks to run a command. See [security.md](security.md).",
        group=_AGENT,
    ),
    Setting(
        name="AGENT_CONNECT_ACP_COLLABORATORS",
        kind=Kind.USERS,
        field="acp_collaborators",
        default_doc="none",
        doc="Whom the agent works for beside its owner: full user ids (`@name:server`), separated "
        "by commas or blanks. The relay must attest them as collaborators too. Read at start. See "
        "[security.md](security.md).",
        group=_AGENT,
    ),
    Setting(
        name="AGENT_CONNECT_UNCHECKED_COLLABORATORS",
        kind=Kind.FLAG_OFF,
        field="unchecked_collaborators",
        default="off",
        doc="On: what collaborators get back is not looked through for secrets, whatever their "
        "room asks for. See [security.md](security.md).",
        group=_AGENT,
    ),
    Setting(
        name="AGENT_CONNECT_ACP_SKIP_AUTH_CHECK",
        kind=Kind.FLAG_OFF,
        field="acp_skip_auth_check",
        default="off",
        doc="Start even when the agent lists ways to log in, which it may do while logged in.",
        group=_AGENT,
    ),
    *ONE_SHOT,
    Setting(
        name="AGENT_CONNECT_TURN_TIMEOUT",
        kind=Kind.NUMBER,
        field="turn_timeout_s",
        default="600",
        doc="Seconds after which a turn is cancelled and answered with what there is. 0: never.",
        group=_TURN,
    ),
    Setting(
        name="AGENT_CONNECT_LIVE_PROGRESS",
        kind=Kind.FLAG_ON,
        field="live_progress",
        default="on",
        doc="Show the agent's steps in the message while it works.",
        group=_TURN,
    ),
    Setting(
        name="AGENT_CONNECT_PROGRESS_THROTTLE",
        kind=Kind.NUMBER,
        field="progress_throttle_s",
        default="3.0",
        doc="Seconds between two edits of that message, at least.",
        group=_TURN,
    ),
    Setting(
        name="AGENT_CONNECT_EDIT_CEILING",
        kind=Kind.WHOLE,
        field="edit_ceiling",
        default="4000",
        doc="Up to so many characters the answer takes the place of the live message; a longer one "
        "is posted as a message of its own.",
        group=_TURN,
    ),
    Setting(
        name="AGENT_CONNECT_SESSION_TURNS",
        kind=Kind.WHOLE,
        field="session_turns",
        default="20",
        doc="Turns after which a conversation starts afresh (and says so). 0: no limit.",
        group=_SESSION,
    ),
    Setting(
        name="AGENT_CONNECT_SESSION_IDLE",
        kind=Kind.NUMBER,
        field="session_idle_s",
        default="3600",
        doc="Seconds of silence after which a conversation starts afresh. 0: never.",
        group=_SESSION,
    ),
    Setting(
        name="AGENT_CONNECT_SESSION_MEMORY",
        kind=Kind.FLAG_ON,
        field="session_memory",
        default="on",
        doc="Off: every message starts a conversation of its own; nothing is read or written.",
        group=_SESSION,
    ),
    Setting(
        name="AGENT_CONNECT_SESSION_STORE",
        kind=Kind.PATH,
        field="session_store",
        default_doc="`<workspace>/sessions.json`",
        doc="Where the conversations are remembered.",
        group=_SESSION,
    ),
    Setting(
        name="AGENT_CONNECT_INSTANCE",
        kind=Kind.INSTANCE,
        field="instance",
        default="default",
        doc="This worker's name among several: 1 to 32 of `A-Z a-z 0-9 _ -`. A bad name stops the "
        "start.",
        group=_WORKER,
    ),
    Setting(
        name="AGENT_CONNECT_STATUS_FILE",
        kind=Kind.PATH,
        field="status_file",
        default_doc="`<workspace>/status.json`",
        doc="Where the worker says how it is. See [status-file.md](status-file.md).",
        group=_WORKER,
    ),
    Setting(
        name="AGENT_CONNECT_STATUS_HEARTBEAT",
        kind=Kind.ABOVE_ZERO,
        field="status_heartbeat_s",
        default="15.0",
        doc="The promise in the status file: it is rewritten at least this often, in seconds.",
        group=_WORKER,
    ),
    Setting(
        name="AGENT_CONNECT_LOG",
        kind=Kind.CHOICE,
        field="log",
        default="text",
        choices=("text", "json"),
        doc="The form of the log on stderr. It never holds message text or tokens.",
        group=_WORKER,
    ),
    *DAEMON,
)

#: Read by scripts/install.sh alone; a config file may hold them.
INSTALLER: tuple[Setting, ...] = (
    Setting(
        name="AGENT_CONNECT_ACP_BRIDGE_SPEC",
        kind=Kind.TEXT,
        field="",
        default_doc="the pinned version",
        doc="The npm package of the bridge to Claude Code that the installer installs.",
        group=_INSTALLER,
    ),
    Setting(
        name="AGENT_CONNECT_PIP_SPEC",
        kind=Kind.TEXT,
        field="",
        default_doc="this package",
        doc="What the installer hands to pip or pipx as the worker.",
        group=_INSTALLER,
    ),
)

NAMES: frozenset[str] = frozenset(setting.name for setting in (*TABLE, *INSTALLER))

#: Read by nothing; a config file that still has them is told so.
RETIRED: tuple[str, ...] = (
    "AGENT_CONNECT_OUTGOING_MAX_BYTES",
    "AGENT_CONNECT_RESULT_DIR",
    "AGENT_CONNECT_STATE_DIR",
    "AGENT_CONNECT_SUTANDO_WORKSPACE",
    "AGENT_CONNECT_TASK_DIR",
)
