"""The ``Idempotency-Key`` of one part (deferred-delivery.md §10).

The binding is not in it, so that a resend can never mint a new key; the worker id is the one
stored in the entry, never the current one.
"""

import hashlib

import rfc8785

from agentconnect.core.delivery.ledger import Entry

NOTICE = "notice"


def part_key(worker_id: str, delivery_id: str, part: int | str) -> str:
    """Lower-case hex SHA-256 of RFC 8785 ``[worker_id, id, part]``.

    Raises: rfc8785.CanonicalizationError for lone surrogates, which no request gets in with.
    """
    return hashlib.sha256(rfc8785.dumps([worker_id, delivery_id, part])).hexdigest()


def key_of(entry: Entry, part: int | str) -> str:
    """The key under which a part of this entry is posted, in every run."""
    return part_key(entry.worker_id, entry.id, part)
