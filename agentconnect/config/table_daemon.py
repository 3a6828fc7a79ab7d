"""The settings of the daemon's API; rows of ``table``."""

from agentconnect.config.kinds import Kind, Setting

_DAEMON = "The daemon's API"

DAEMON: tuple[Setting, ...] = (
    Setting(
        name="AGENT_CONNECT_DAEMON_LISTEN",
        kind=Kind.TEXT,
        field="daemon_listen",
        default_doc="off",
        doc="Where the API listens: `127.0.0.1:4170`, or port 0 for any that is free. Without it "
        "there is none, and no channel worker. See [channel-delivery.md](channel-delivery.md).",
        group=_DAEMON,
    ),
    Setting(
        name="AGENT_CONNECT_DAEMON_TOKEN",
        kind=Kind.TEXT,
        field="daemon_token",
        default_doc="the file `<workspace>/daemon-token`, made if it is missing",
        doc="The bearer that every call needs. An address that other machines reach needs one of "
        "your own.",
        secret=True,
        group=_DAEMON,
    ),
    Setting(
        name="AGENT_CONNECT_DAEMON_ALLOW_ORIGIN",
        kind=Kind.TEXT,
        field="daemon_allow_origin",
        default_doc="none",
        doc="Origins (`scheme://host` or `scheme://host:port`, separated by blanks) whose pages "
        "may call the API from a browser. `*` is refused.",
        group=_DAEMON,
    ),
)
