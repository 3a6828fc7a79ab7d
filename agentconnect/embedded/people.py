"""Users, their secrets and whom they trust, as units of work (relay-wire.md §20.1)."""

from collections.abc import Sequence

from agentconnect.embedded import ids
from agentconnect.embedded.records import Kind, User
from agentconnect.embedded.store import Tx

_USER = "SELECT user_id, name, kind, owner_id, admin, removed FROM users"


def user(tx: Tx, user_id: str) -> User | None:
    """One user who is still there."""
    return tx.one(User, f"{_USER} WHERE user_id = ? AND removed = 0", user_id)


def owner(tx: Tx) -> User | None:
    """The person this relay was set up for."""
    return tx.one(User, f"{_USER} WHERE admin = 1 AND removed = 0 ORDER BY created LIMIT 1")


def agents_of(tx: Tx, owner_id: str) -> list[User]:
    """Every agent identity one person registered."""
    return tx.all(
        User,
        f"{_USER} WHERE owner_id = ? AND kind = 'agent' AND removed = 0 ORDER BY name",
        owner_id,
    )


def everybody(tx: Tx, kind: Kind) -> list[User]:
    """Every user of one kind who is still there."""
    return tx.all(User, f"{_USER} WHERE kind = ? AND removed = 0 ORDER BY name", kind)


def add(tx: Tx, name: str, kind: Kind, *, owner_id: str = "", admin: bool = False) -> User:
    """Make a user; a taken id gets a number behind it."""
    local = ids.CONCIERGE if kind is Kind.CONCIERGE else ids.localpart(name)
    if kind is not Kind.CONCIERGE and local == ids.CONCIERGE:
        local += "-1"
    candidate, count = ids.user_id(local, tx.domain), 1
    while tx.number("SELECT COUNT(*) FROM users WHERE user_id = ?", candidate):
        count += 1
        candidate = ids.user_id(f"{local}-{count}", tx.domain)
    made = User(user_id=candidate, name=name, kind=kind, owner_id=owner_id, admin=admin)
    tx.run(
        "INSERT INTO users (user_id, name, kind, owner_id, admin, removed, created, heartbeat) "
        "VALUES (?, ?, ?, ?, ?, 0, ?, '')",
        made.user_id,
        name,
        kind,
        owner_id,
        int(admin),
        tx.now,
    )
    return made


def give_secret(tx: Tx, user_id: str, role: str, *, keep: int) -> str:
    """Mint a secret for one role; ``keep`` earlier ones of it stay, the newest."""
    old = tx.texts(
        "SELECT hash FROM secrets WHERE user_id = ? AND role = ? ORDER BY created DESC "
        "LIMIT 1000 OFFSET ?",
        user_id,
        role,
        keep,
    )
    for digest in old:
        drop_secret(tx, digest)
    value = ids.secret()
    tx.run(
        "INSERT INTO secrets (hash, user_id, role, created) VALUES (?, ?, ?, ?)",
        ids.hashed(value),
        user_id,
        role,
        tx.now,
    )
    return value


def drop_secrets(tx: Tx, user_id: str, role: str) -> None:
    """End every secret of one role."""
    tx.run("DELETE FROM secrets WHERE user_id = ? AND role = ?", user_id, role)


def drop_secret(tx: Tx, digest: str) -> None:
    """End one secret, by its hash."""
    tx.run("DELETE FROM secrets WHERE hash = ?", digest)


def remove(tx: Tx, user_id: str) -> None:
    """Take a user off: every secret and every membership ends."""
    tx.run("UPDATE users SET removed = 1 WHERE user_id = ?", user_id)
    tx.run("DELETE FROM secrets WHERE user_id = ?", user_id)
    tx.run("DELETE FROM members WHERE user_id = ?", user_id)


def set_trust(tx: Tx, owner_id: str, user_ids: Sequence[str], level: str) -> None:
    """Whom a person trusts (``owner``), names a guest (``guest``) or no longer names (``""``)."""
    for user_id in user_ids:
        tx.run("DELETE FROM trust WHERE owner_id = ? AND user_id = ?", owner_id, user_id)
        if level:
            tx.run(
                "INSERT INTO trust (owner_id, user_id, level) VALUES (?, ?, ?)",
                owner_id,
                user_id,
                level,
            )
