"""What the answers of one turn work with."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from agentconnect.deliver import Destination
from agentconnect.demo.files import Folder
from agentconnect.demo.memory import Conversation
from agentconnect.demo.prompt import Attached
from agentconnect.demo.stage import Stage


@dataclass(slots=True, kw_only=True)
class Job:
    """One turn: where it speaks, where it works, what it knows and what came with it."""

    stage: Stage
    folder: Folder
    conversation: Conversation
    attached: tuple[Attached, ...]
    now: datetime
    later: Destination | None = None
    """Where results go that come after the turn; None: this worker takes none."""
    outbox: Path

    def path(self, name: str) -> str:
        """The absolute path of a name, for the client's policy."""
        return str(self.folder.root / name) if name else str(self.folder.root)
