"""Picture formats and sizes from the first bytes."""

import struct

import pytest

from agentconnect.demo.pictures import Picture, picture_of

PNG = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", 640, 480) + b"\x08\x02\0\0\0"
GIF = b"GIF89a" + struct.pack("<HH", 12, 34) + b"\0\0\0"
JPEG = (
    b"\xff\xd8\xff\xe0" + struct.pack(">H", 16) + b"JFIF\0" + b"\0" * 9
    + b"\xff\xff\xc2" + struct.pack(">HBHH", 17, 8, 200, 300) + b"\0" * 12
)  # fmt: skip
VP8X = b"RIFF\0\0\0\0WEBPVP8X" + struct.pack("<I", 10) + b"\0\0\0\0" + b"\x0f\0\0\x1f\0\0"
VP8L = b"RIFF\0\0\0\0WEBPVP8L" + struct.pack("<I", 9) + b"\x2f" + struct.pack("<I", 99 | 49 << 14)
VP8 = b"RIFF\0\0\0\0WEBPVP8 " + b"\0" * 7 + b"\x9d\x01\x2a" + struct.pack("<HH", 176, 144)
BMP = b"BM" + b"\0" * 16 + struct.pack("<II", 7, 9)


@pytest.mark.parametrize(
    ("data", "kind", "width", "height"),
    [
        (PNG, "PNG", 640, 480),
        (GIF, "GIF", 12, 34),
        (JPEG, "JPEG", 300, 200),
        (VP8X, "WebP", 16, 32),
        (VP8L, "WebP", 100, 50),
        (VP8, "WebP", 176, 144),
        (BMP, "BMP", 7, 9),
    ],
)
def test_format_and_size(data: bytes, kind: str, width: int, height: int) -> None:
    """Each format tells its size in its head."""
    assert Picture(format=kind, width=width, height=height) == picture_of(data)


@pytest.mark.parametrize("data", [PNG, GIF, JPEG, VP8X, VP8L, VP8, BMP])
def test_cut_at_any_byte(data: bytes) -> None:
    """A file cut anywhere is still answered, without an error."""
    for end in range(len(data)):
        picture_of(data[:end])


@pytest.mark.parametrize("data", [b"", b"hello", b"%PDF-1.7", b"\0" * 100])
def test_no_picture(data: bytes) -> None:
    """Anything else is no picture."""
    assert picture_of(data) is None
