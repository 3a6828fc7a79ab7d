"""What the worker writes and the relay looks for is one text."""

from agentconnect.core.turns import wording
from agentconnect.embedded import answers


def test_the_relay_knows_the_worker_s_placeholder() -> None:
    """The failure notice finds the placeholder only if both sides spell it alike."""
    assert answers.PLACEHOLDER == wording.PLACEHOLDER


def test_the_relay_knows_the_farewell_of_a_worker_that_stops() -> None:
    """Such a message is a placeholder still: a failure notice may take it over."""
    assert wording.restarting().startswith(answers.FAREWELL)
