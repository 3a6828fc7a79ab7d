"""Cases of the keys of deferred deliveries: one flat object a line, the key at its end."""

from collections.abc import Iterator, Sequence
from functools import partial

from agentconnect.core.delivery.keys import part_key
from tests.support.cases.case import Case, CaseError, Record


def cases(records: Sequence[Record]) -> Iterator[Case]:
    """``worker_id``, ``id`` and ``part`` give ``key`` (deferred-delivery.md §10)."""
    for line, value in records:
        for field in ("worker_id", "id", "part", "key"):
            if field not in value:
                raise CaseError(f"line {line} lacks `{field}`")
        worker_id, delivery_id, part = value["worker_id"], value["id"], value["part"]
        if not isinstance(worker_id, str) or not isinstance(delivery_id, str):
            raise CaseError(f"line {line}: `worker_id` and `id` are strings")
        if isinstance(part, bool) or not isinstance(part, int | str):
            raise CaseError(f"line {line}: `part` is a whole number or a string")
        yield Case(
            name=str(value.get("name", f"line {line}")),
            line=line,
            given={"worker_id": worker_id, "id": delivery_id, "part": part},
            expected=value["key"],
            run=partial(part_key, worker_id, delivery_id, part),
        )
