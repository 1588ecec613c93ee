"""The pure parts of the bundled servers: their doctests, and the pictures they make."""

import doctest
import struct
import zlib

import pytest

from tests.support import bundled


@pytest.mark.parametrize("name", ["media", "jpeg", "weather_data"])
def test_the_examples_in_docstrings_hold(name):
    done = doctest.testmod(bundled.load(name))
    assert done.attempted
    assert not done.failed


def test_every_module_is_documented_and_short():
    for path in bundled.FOLDER.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        assert source.startswith('"""'), path
        assert source.count("\n") <= 250, path


def test_a_png_holds_each_pixel():
    media = bundled.load("media")
    data = media.png(2, 2, lambda x, y: (x, y, 7))
    chunks, at = {}, 8
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert zlib.crc32(kind + body) == struct.unpack(">I", data[at + 8 + length : at + 12 + length])[0]
        chunks[kind] = body
        at += 12 + length
    assert list(chunks) == [b"IHDR", b"IDAT", b"IEND"]
    assert zlib.decompress(chunks[b"IDAT"]) == bytes([0, 0, 0, 7, 1, 0, 7, 0, 0, 1, 7, 1, 1, 7])


def test_a_jpeg_says_its_size_and_hides_no_marker_in_its_data():
    jpeg = bundled.load("jpeg").jpeg
    data = jpeg(5, 3, lambda x, y: (255, 255 * (x % 2), 0))
    frame = data.index(b"\xff\xc0")
    assert struct.unpack(">HH", data[frame + 5 : frame + 9]) == (24, 40)
    scan = data[data.index(b"\xff\xda") + 14 : -2]
    assert all(scan[i + 1] == 0 for i, byte in enumerate(scan[:-1]) if byte == 0xFF)
    assert scan[-1] != 0xFF
