"""Cases of the credential: :mod:`agentconnect.core.relay.credential`."""

from agentconnect.core.relay import credential
from tests.support.cases.case import Given, by_op


def _token_file(given: Given) -> object:
    found = credential.read_token_file(given["text"])
    return [found.url, found.token.reveal()]


def _source(given: Given) -> object:
    try:
        made = credential.build(
            token=given.get("token"), file_text=given.get("file"), base_url=given.get("base_url")
        )
    except credential.CredentialError as error:
        return {"error": error.code}
    return {"base_url": made.gateway, "secret": made.secret.reveal()}


def _reload(given: Given) -> object:
    current = credential.build(file_text=given["file"])
    told = []
    for text in given["then"]:
        outcome = credential.reload(current, text)
        current = outcome.credential
        told.append(
            {
                "rotated": outcome.rotated,
                "secret": current.secret.reveal(),
                "base_url": current.gateway,
            }
        )
    return told


cases = by_op(
    {
        "parse_token": lambda given: credential.parse_token(given["raw"]),
        "token_file": _token_file,
        "source": _source,
        "reload": _reload,
        "redact": lambda given: credential.redact_url(given["url"]),
        "instance": lambda given: credential.instance_name(given["name"]) is not None,
    }
)
