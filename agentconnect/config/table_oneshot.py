"""The rows of the table that the one-shot adapters read (worker.md §3, §7.1)."""

from agentconnect.config.kinds import Kind, Setting

_GROUP = "Agents that are run once for each message"


def _text(name: str, field: str, doc: str, *, default: str = "", unset: str = "") -> Setting:
    return Setting(
        name=name,
        kind=Kind.TEXT,
        field=field,
        default=default,
        default_doc=unset,
        doc=doc,
        group=_GROUP,
    )


ONE_SHOT: tuple[Setting, ...] = (
    Setting(
        name="AGENT_CONNECT_CODEX_NETWORK",
        kind=Kind.FLAG_OFF,
        field="codex_network",
        default="off",
        doc="On: what codex runs for the owner may use the network. Guests never may.",
        group=_GROUP,
    ),
    _text(
        "AGENT_CONNECT_OLLAMA_MODEL",
        "ollama_model",
        "The model that the adapter `ollama` asks. It must have been pulled.",
        default="qwen2.5:3b",
    ),
    _text(
        "OLLAMA_HOST",
        "ollama_host",
        "Where the ollama server is. Without a scheme it is `http`, then without a port 11434; "
        "`0.0.0.0` means this machine.",
        default="http://localhost:11434",
    ),
    _text(
        "AGENT_CONNECT_OMNIGENT_HARNESS",
        "omnigent_harness",
        "The agent that omnigent drives, unless a message begins with `[name]`.",
        default="claude",
    ),
    _text(
        "AGENT_CONNECT_OMNIGENT_MODEL",
        "omnigent_model",
        "The model that it is told to use.",
        unset="the agent's own",
    ),
    _text(
        "AGENT_CONNECT_OMNIGENT_BIN",
        "omnigent_bin",
        "The program omnigent: a name on PATH, or a path.",
        default="omnigent",
    ),
    _text(
        "AGENT_CONNECT_CLINE_BIN",
        "cline_bin",
        "The program cline: a name on PATH, or a path.",
        default="cline",
    ),
    _text(
        "AGENT_CONNECT_CLINE_PROVIDER",
        "cline_provider",
        "The provider that cline is told to use.",
        unset="cline's own",
    ),
    _text(
        "AGENT_CONNECT_CLINE_MODEL",
        "cline_model",
        "The model that cline is told to use.",
        unset="cline's own",
    ),
    _text(
        "AGENT_CONNECT_KILO_BIN",
        "kilo_bin",
        "The program kilo: a name on PATH, or a path.",
        default="kilo",
    ),
)
