"""Targets and submissions that the tests here use."""

from agentconnect.core.daemon.reverse import Submission, prompt_submission, scheduled_submission
from agentconnect.core.daemon.target import Target, TargetType

ROOM = Target(channel_name="ops", type=TargetType.CHAT, id="!planted-target:h")
OTHER = Target(channel_name="ops", type=TargetType.CHAT, id="!other:h")
MAIN, SIDE = "/w/main", "/w/side"


def answer(text: str = "done", *, prompt: str = "p1", target: Target = ROOM) -> Submission:
    return prompt_submission("s1", prompt, target, text)


def fired(at: int, text: str = "done", *, task: str = "t1", target: Target = ROOM) -> Submission:
    return scheduled_submission("s1", task, at, target, text)
