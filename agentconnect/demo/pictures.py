"""What picture a row of bytes is: format and size in pixels, read from its head. No decoding."""

from dataclasses import dataclass

_SOF = frozenset({0xC0, 0xC1, 0xC2, 0xC3, 0xC5, 0xC6, 0xC7, 0xC9, 0xCA, 0xCB, 0xCD, 0xCE, 0xCF})


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """``width`` and ``height`` are 0 where the bytes do not tell."""

    format: str
    width: int = 0
    height: int = 0


def picture_of(data: bytes) -> Picture | None:
    """The picture, or None where the bytes are no picture of a known kind."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        if data[12:16] != b"IHDR" or len(data) < 24:
            return Picture(format="PNG")
        return _sized("PNG", _be(data[16:20]), _be(data[20:24]))
    if data[:6] in (b"GIF87a", b"GIF89a"):
        return _sized("GIF", _le(data[6:8]), _le(data[8:10]))
    if data.startswith(b"\xff\xd8\xff"):
        return _jpeg(data)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return _webp(data)
    if data[:2] == b"BM" and len(data) >= 26:
        return _sized("BMP", _le(data[18:22]), _le(data[22:26]))
    return None


def _jpeg(data: bytes) -> Picture:
    """Segment by segment to the frame header; each has its length, so this is linear."""
    at = 2
    while at + 9 < len(data):
        if data[at] != 0xFF:
            break
        marker = data[at + 1]
        if marker == 0xFF:  # padding before a marker
            at += 1
            continue
        if marker in _SOF:
            return _sized("JPEG", _be(data[at + 7 : at + 9]), _be(data[at + 5 : at + 7]))
        if marker == 0x01 or 0xD0 <= marker <= 0xD8:  # these carry no length
            at += 2
            continue
        length = _be(data[at + 2 : at + 4])
        if length < 2:
            break
        at += 2 + length
    return Picture(format="JPEG")


def _webp(data: bytes) -> Picture:
    kind = data[12:16]
    if kind == b"VP8X" and len(data) >= 30:
        return _sized("WebP", _le(data[24:27]) + 1, _le(data[27:30]) + 1)
    if kind == b"VP8L" and len(data) >= 25 and data[20] == 0x2F:
        bits = _le(data[21:25])
        return _sized("WebP", (bits & 0x3FFF) + 1, ((bits >> 14) & 0x3FFF) + 1)
    if kind == b"VP8 " and len(data) >= 30 and data[23:26] == b"\x9d\x01\x2a":
        return _sized("WebP", _le(data[26:28]) & 0x3FFF, _le(data[28:30]) & 0x3FFF)
    return Picture(format="WebP")


def _sized(kind: str, width: int, height: int) -> Picture:
    return Picture(format=kind, width=width, height=height)


def _be(data: bytes) -> int:
    return int.from_bytes(data, "big")


def _le(data: bytes) -> int:
    return int.from_bytes(data, "little")
