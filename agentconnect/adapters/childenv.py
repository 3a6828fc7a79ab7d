"""The environment a child of ours gets: everything of ours but our secrets (worker.md §8.2)."""

from collections.abc import Iterable, Mapping

OUR_SECRETS = frozenset(
    (
        "AGENT_CONNECT_TOKEN",
        "REMOTE_TASK_TOKEN",
        "AG2_REMOTE_TOKEN",
        "AGENT_CONNECT_ACP_TOKEN",
        "AGENT_CONNECT_DAEMON_TOKEN",
        "NOTIFY_SOCKET",
    )
)
_OUR_PREFIXES = ("WATCHDOG_",)


def child_environment(
    environment: Mapping[str, str], channel_secrets: Iterable[str] = ()
) -> dict[str, str]:
    """``environment`` without our own secrets and those that a channel names."""
    withheld = OUR_SECRETS.union(channel_secrets)
    return {
        name: value
        for name, value in environment.items()
        if name not in withheld and not name.startswith(_OUR_PREFIXES)
    }
