"""Which adapters there are, by name."""

from collections.abc import Callable, Mapping

from agentconnect.adapters.contract import Adapter
from agentconnect.core.errors import SettingsError

NAMES = ("acp", "cline", "codex", "kilo", "ollama", "omnigent")
"""Sorted; those that this version has."""

Maker = Callable[[], Adapter]


def build(name: str, makers: Mapping[str, Maker]) -> Adapter:
    """The adapter called ``name``, made by the caller's recipe for it.

    Raises: SettingsError for a missing or unknown name, with the known ones.
    """
    known = ", ".join(NAMES)
    wanted = name.strip()
    if not wanted:
        raise SettingsError(
            f"AGENT_CONNECT_ADAPTER is not set: name one of {known}, for example "
            "AGENT_CONNECT_ADAPTER=acp, in the environment or in the config file"
        )
    if wanted not in NAMES or wanted not in makers:
        raise SettingsError(f"AGENT_CONNECT_ADAPTER is “{wanted}”; it must be one of {known}")
    return makers[wanted]()
