"""Which adapters there are, by name."""

from collections.abc import Callable, Mapping

from agentconnect.adapters.contract import Adapter
from agentconnect.core.errors import SettingsError

NAMES = ("acp", "cline", "codex", "kilo", "ollama", "omnigent")
"""Sorted; those that this version has."""

MISSING = (
    f"AGENT_CONNECT_ADAPTER is not set: name one of {', '.join(NAMES)}, for example "
    "AGENT_CONNECT_ADAPTER=acp, in the environment or in the config file."
)

Maker = Callable[[], Adapter]


def build(name: str, makers: Mapping[str, Maker]) -> Adapter:
    """The adapter called ``name``, made by the caller's recipe for it.

    Raises: SettingsError for a missing or unknown name, with the known ones.
    """
    wanted = name.strip()
    if not wanted:
        raise SettingsError(MISSING)
    if wanted not in NAMES or wanted not in makers:
        raise SettingsError(unknown(wanted))
    return makers[wanted]()


def unknown(name: str) -> str:
    """The sentence about a name that is no adapter's."""
    shown = "".join(c if c.isprintable() else "?" for c in name[:60])
    return f"AGENT_CONNECT_ADAPTER is “{shown}”; it must be one of {', '.join(NAMES)}."
