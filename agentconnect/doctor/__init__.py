"""``agent-connect doctor``: looks at everything, changes nothing (worker.md §1)."""

from agentconnect.doctor.run import examine

__all__ = ["examine"]
