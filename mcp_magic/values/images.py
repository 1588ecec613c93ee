"""Figures of matplotlib and images of PIL as images for models, small enough for each provider."""

from __future__ import annotations

import base64
import io
import warnings
from typing import TYPE_CHECKING, Any

from mcp_magic.errors import ArgumentsError
from mcp_magic.results.content import MAX_PIXELS, Media, image_size
from mcp_magic.results.images import IMAGE_BYTES, model_image
from mcp_magic.values.classes import bases, class_name, defined_in, loaded

if TYPE_CHECKING:
    from mcp_magic.results.images import ModelImage

SIDE = 1_568  # most pixels of a side: larger images are made smaller by Anthropic

DPI = 100.0  # dots per inch of a figure that is small enough

_MODES = ("1", "L", "LA", "P", "RGB", "RGBA", "I", "I;16")
"""Modes of PIL that PNG has."""


def is_image(value: Any) -> bool:
    """Whether a value is read as an image."""
    kind = type(value)
    if kind is Media:
        return bool(value.mime_type.startswith("image/"))
    return kind is loaded("matplotlib.figure", "Figure") or _is_pils(kind)


def _is_pils(kind: type) -> bool:
    base = loaded("PIL.Image", "Image")
    return base is not None and base in bases(kind) and bool(defined_in(kind, "PIL"))


def image_of(value: Any) -> ModelImage:
    """Return a value as an image.

    Raises:
        ArgumentsError: It cannot be drawn, or no model takes it.
    """
    image = model_image(value if type(value) is Media else Media(_encoded(value), "image/png"))
    if isinstance(image, str):
        raise ArgumentsError(f"this image cannot be sent to a model: {image}")
    return image


def image_words(value: Any) -> str:
    """Return the size of an image in words; of a figure that which it is drawn in."""
    if type(value) is Media:
        return value.summary
    if _is_pils(type(value)):
        wide, high = value.size
    else:
        wide, high = (round(inches * _figure_dpi(value)) for inches in value.get_size_inches())
    return f"{wide:,} x {high:,} pixels"


def size_of(image: ModelImage) -> str:
    """Return the size of an image for a model in words."""
    wide, high = image_size(base64.b64decode(image.base64[:400_000]))
    return f"{wide:,} x {high:,} pixels"


def _encoded(value: Any) -> str:
    buffer = io.BytesIO()
    kind = type(value)
    try:
        if _is_pils(kind):
            _write_pils(value, buffer)
        else:
            with warnings.catch_warnings(action="ignore"):  # of missing glyphs: the person did not draw it
                value.savefig(buffer, format="png", dpi=_figure_dpi(value))
    except ArgumentsError:
        raise
    except Exception as error:  # of the program that draws, which may be the person's
        raise ArgumentsError(f"the {class_name(kind)} cannot be drawn: {class_name(type(error))}") from None
    return base64.b64encode(buffer.getvalue()).decode("ascii")


def _figure_dpi(figure: Any) -> float:
    """Return the dots per inch of a figure with which no side has too many pixels."""
    return min(DPI, SIDE / float(max(figure.get_size_inches())))


def _write_pils(image: Any, buffer: io.BytesIO) -> None:
    wide, high = image.size
    if not wide or not high or wide * high > MAX_PIXELS:
        raise ArgumentsError(f"the image has {wide:,} x {high:,} pixels; at most {MAX_PIXELS:,} are read")
    if max(wide, high) > SIDE:
        scale = SIDE / max(wide, high)
        image = image.resize((max(1, round(wide * scale)), max(1, round(high * scale))))
    if image.mode == "I":  # of 32 bits, of which PNG has 16
        image = image.convert("I;16")
    if image.mode not in _MODES:
        image = image.convert("RGB")
    image.save(buffer, format="PNG")
    if buffer.tell() > IMAGE_BYTES:
        buffer.seek(0)
        buffer.truncate()
        image.convert("RGB").save(buffer, format="JPEG", quality=80)
