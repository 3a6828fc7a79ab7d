"""What can go wrong in the hands of an agent's author; every message is a sentence."""


class DeliverError(Exception):
    """The base of them all."""


class InvalidDeliveryError(DeliverError, ValueError):
    """The delivery breaks a rule of the wire; nothing was stored. The message names the field."""


class DifferentContentError(DeliverError):
    """This id is stored already, with another binding, text or files; nothing was changed."""


class OutboxError(DeliverError):
    """The outbox file cannot be used or written; nothing was stored."""


class OutboxFullError(OutboxError):
    """Too many deliveries wait already; nothing was stored."""
