"""Figures and images of shared values, as images that models take."""

from __future__ import annotations

import base64
import io
from typing import Any

import matplotlib as mpl
import PIL.Image
import pytest
from matplotlib.figure import Figure

from mcp_magic.errors import ArgumentsError
from mcp_magic.results import Media
from mcp_magic.values.images import image_of, image_words, is_image
from tests.support.sampling_servers import PIXEL

mpl.use("Agg")


def opened(value: Any) -> PIL.Image.Image:
    image = image_of(value)
    assert image.mime_type in ("image/png", "image/jpeg")
    return PIL.Image.open(io.BytesIO(base64.b64decode(image.base64)))


def test_a_figure_is_drawn_without_a_change_of_it():
    figure = Figure(figsize=(4, 2))
    figure.subplots().plot([1, 2])
    canvas = figure.canvas
    assert is_image(figure)
    assert image_words(figure) == "400 x 200 pixels"
    assert opened(figure).size == (400, 200)
    assert figure.canvas is canvas


def test_a_huge_figure_is_made_smaller():
    assert opened(Figure(figsize=(1000, 10))).size == (1568, 15)


def test_a_figure_that_cannot_be_drawn_says_so():
    class Broken(mpl.patches.Circle):
        def draw(self, renderer):
            raise RuntimeError("sesame")

    figure = Figure()
    figure.add_artist(Broken((0, 0)))
    with pytest.raises(ArgumentsError, match=r"^the Figure cannot be drawn: RuntimeError$"):
        image_of(figure)


@pytest.mark.parametrize("mode", ["1", "L", "RGB", "RGBA", "P", "CMYK", "F", "LAB", "I", "I;16"])
def test_images_of_each_mode_are_read(mode):
    assert opened(PIL.Image.new(mode, (3000, 20))).size == (1568, 10)


@pytest.mark.filterwarnings("error")
def test_a_warning_about_a_figure_is_not_shown():
    figure = Figure()
    figure.suptitle("日本")  # DejaVu has no such glyphs
    assert opened(figure).size == (640, 480)


def test_an_image_of_too_many_pixels_is_refused():
    with pytest.raises(ArgumentsError, match="the image has 60,000 x 1,000 pixels; at most 50,000,000 are read"):
        image_of(PIL.Image.new("1", (60_000, 1_000)))


def test_images_of_results_are_read():
    media = Media(PIXEL, "image/png")
    assert is_image(media)
    assert opened(media).size == (1, 1)
    with pytest.raises(ArgumentsError, match="this image cannot be sent to a model: its bytes are no image"):
        image_of(Media("aGk=", "image/png"))


def test_a_class_that_only_looks_like_an_image_is_none():
    class Image:
        size = (1, 1)

        def save(self, buffer, format):
            raise SystemExit

    Image.__module__ = "PIL.Image"
    assert not is_image(Image())
