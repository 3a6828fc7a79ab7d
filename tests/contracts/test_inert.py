"""What the turns make inert, the one parser of markers must find nothing in (worker.md §11.5).

The two folders of ``core`` are strangers, so what holds between them is held here.
"""

from hypothesis import given

from agentconnect.core.relay.markers import parse
from agentconnect.core.turns.wording import inert
from tests.core.relay.test_markers import BODIES


@given(BODIES)
def test_an_inert_text_orders_nothing(text: str) -> None:
    """No marker of any kind is left in a title, a reason or a notice."""
    assert parse(inert(text)).actions == ()


def test_a_title_with_markers_stays_readable() -> None:
    """Only the bracket that made it a marker changes."""
    assert inert("Write [file: a.txt] now [x]") == "Write (file: a.txt] now [x]"
