"""Time, conditions, bindings and files of one history."""

import hashlib
import random
from dataclasses import dataclass, field

from agentconnect.core.delivery.deciding import Circumstances
from agentconnect.core.delivery.effects import Judge, Judged, PostFile, Scan

PEOPLE = ("@ann:h", "@bob:h")
SECRET = "hunter2"


@dataclass
class ModelWorld:
    """What a courier may ask. ``real`` never goes back; the wall clock is stepped by people."""

    rng: random.Random
    real: float = 1_000_000.0
    step_s: float = 0.0
    keyed: bool = True
    stopping: bool = False
    readable: bool = True
    listed: frozenset[str] = frozenset(PEOPLE)
    unchecked: bool = False
    files: dict[str, str] = field(default_factory=dict)
    """Address → content."""

    def wall_now(self) -> float:
        return self.real + self.step_s

    def mono_now(self) -> float:
        return self.real

    def unit(self) -> float:
        return self.rng.random()

    def circumstances(self) -> Circumstances:
        why = "stopping" if self.stopping else "" if self.keyed and self.readable else "disabled"
        return Circumstances(
            disabled=why,
            keyed=self.keyed,
            stopping=self.stopping,
            collaborators=self.listed,
            unchecked=self.unchecked,
        )

    def judged(self, effect: Judge | Scan) -> Judged:
        """Files by what their address leads to; the guard finds one word."""
        found: list[tuple[int, str]] = []
        if isinstance(effect, Scan) and SECRET in (effect.text or ""):
            return Judged(unfit="it looks as if it held a secret")
        for at, part in enumerate(effect.parts):
            content = self.files.get(part.uri)
            if content is None or not part.uri.startswith(f"file:///export/{effect.folder}/"):
                return Judged(found=tuple(found), unfit="it is not there", at=at)
            if isinstance(effect, Scan) and SECRET in content:
                return Judged(found=tuple(found), unfit="it looks as if it held a secret", at=at)
            found.append((len(content), digest(content)))
        return Judged(found=tuple(found))

    def unfit(self, post: PostFile) -> str:
        """Judged again at the post."""
        content = self.files.get(post.part.uri)
        if content is None:
            return "it is gone"
        return "" if digest(content) == post.part.sha256 else "it has changed"


def digest(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()
