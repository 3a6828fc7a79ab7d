"""Cases of the inbound media marker: :mod:`agentconnect.core.relay.media`."""

import msgspec

from agentconnect.core.relay import media
from tests.support.cases.case import Given, by_op


def _strip_media(given: Given) -> object:
    read = media.read_media(given["body"])
    return {"body": read.body, "markers": [msgspec.structs.asdict(each) for each in read.markers]}


def _origin(given: Given) -> object:
    same_origin, under_base = media.origin(given["url"], given["base"])
    return {"same_origin": same_origin, "under_base": under_base}


cases = by_op(
    {
        "strip_media": _strip_media,
        "fetchable": lambda given: media.origin(given["url"], given["url"])[0],
        "origin": _origin,
        "on_disk": lambda given: media.on_disk(given["name"], given["mime"]),
        "mime": lambda given: media.clean_mime(given["value"]),
    }
)
