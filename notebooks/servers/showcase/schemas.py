"""Tools whose arguments need each part of JSON Schema that servers use; each returns what it understood."""

import base64
import hashlib
from datetime import date, datetime, time
from enum import Enum
from typing import Annotated, Any, Literal, Optional
from uuid import UUID

from pydantic import AnyUrl, BaseModel, ConfigDict, Field

from showcase.app import READS, server


class Priority(Enum):
    """How soon an order is needed."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"


class Address(BaseModel):
    """Where an order goes."""

    street: str
    postcode: str = Field(description="Five digits", pattern=r"^\d{5}$")
    country: str = Field(default="DE", description="ISO 3166 code", min_length=2, max_length=2)


class Customer(BaseModel):
    """Who orders."""

    name: str = Field(min_length=1)
    email: str = Field(json_schema_extra={"format": "email"})
    address: Address


class Line(BaseModel):
    """What is ordered, and how many of it."""

    sku: str = Field(description="Two letters, a dash and four digits", pattern=r"^[A-Z]{2}-\d{4}$")
    quantity: int = Field(default=1, ge=1, le=99)
    price: float = Field(gt=0)


class Order(BaseModel):
    """An order: objects in objects and an array of objects."""

    model_config = ConfigDict(extra="forbid")

    customer: Customer
    lines: list[Line] = Field(min_length=1)
    priority: Priority = Priority.NORMAL
    note: str | None = None


class Receipt(BaseModel):
    """What came of an order."""

    order: Order
    total: float


@server.tool(annotations=READS)
def nested(order: Annotated[Order, Field(description="The order")]) -> Receipt:
    """Take objects in objects, an array of objects, an enum and a nullable text."""
    return Receipt(order=order, total=sum(line.quantity * line.price for line in order.lines))


TITLED_SIZES = [{"const": "s", "title": "Small"}, {"const": "m", "title": "Medium"}, {"const": "l", "title": "Large"}]


@server.tool(annotations=READS)
def enums(
    priority: Annotated[Priority, Field(description="An enum by $ref")],
    colour: Annotated[Literal["red", "green", "blue"], Field(description="An enum in place")] = "red",
    size: Annotated[str, Field(description="An enum with titles", json_schema_extra={"oneOf": TITLED_SIZES})] = "m",
    level: Literal[1, 2, 3] = 1,
    fixed: Literal["only this"] = "only this",
    toppings: Annotated[list[Literal["ham", "corn", "tuna"]], Field(json_schema_extra={"uniqueItems": True})] = [],  # noqa: B006
) -> dict[str, Any]:
    """Take enums: plain, with titles, of numbers, with one value, and several of one."""
    chosen = {"priority": priority.value, "colour": colour, "size": size}
    return chosen | {"level": level, "fixed": fixed, "toppings": toppings}


@server.tool(annotations=READS)
def nullable(text: str | None, number: float | None = None, flag: bool | None = None) -> dict[str, Any]:
    """Take values that may be null; the text must be given, and may still be null."""
    return {"text": text, "number": number, "flag": flag}


class Circle(BaseModel):
    """A circle."""

    kind: Literal["circle"]
    radius: float = Field(gt=0)


class Box(BaseModel):
    """A rectangle."""

    kind: Literal["box"]
    width: float = Field(gt=0)
    height: float = Field(gt=0)


@server.tool(annotations=READS)
def union(
    value: Annotated[int | bool | str | list[float] | Circle, Field(description="One of several types")],
    shape: Annotated[Circle | Box, Field(discriminator="kind")] = Circle(kind="circle", radius=1),  # noqa: B008
) -> dict[str, Any]:
    """Take a value of one of several types (anyOf), and one of two objects (oneOf with a discriminator)."""
    return {"type": type(value).__name__, "value": value, "shape": shape}


class Tree(BaseModel):
    """A tree of names, as deep as one likes."""

    name: str
    children: list["Tree"] = []
    parent: Optional["Tree"] = None


@server.tool(annotations=READS)
def tree(root: Tree) -> dict[str, int]:
    """Take a recursive structure; return how many nodes it has and how deep it is."""

    def size(node: Tree) -> int:
        return 1 + sum(size(child) for child in node.children)

    def depth(node: Tree) -> int:
        return 1 + max((depth(child) for child in node.children), default=0)

    return {"nodes": size(root), "depth": depth(root)}


@server.tool(annotations=READS)
def defaults(
    text: str = "some text",
    count: int = 3,
    ratio: float = 0.5,
    yes: bool = True,
    items: list[int] = [1, 2],  # noqa: B006
    options: dict[str, int] = {"a": 1},  # noqa: B006
    nothing: str | None = None,
) -> dict[str, Any]:
    """Take nothing at all, if one likes the defaults."""
    return {"text": text, "count": count, "ratio": ratio, "yes": yes, "items": items, "options": options} | {
        "nothing": nothing
    }


@server.tool(annotations=READS)
def formats(
    day: date,
    moment: datetime,
    at: time | None = None,
    email: Annotated[str | None, Field(json_schema_extra={"format": "email"})] = None,
    homepage: AnyUrl | None = None,
    identifier: UUID | None = None,
) -> dict[str, str]:
    """Take texts with a format: date, date-time, time, email, uri and uuid."""
    given = {"day": day, "moment": moment, "at": at, "email": email, "homepage": homepage, "identifier": identifier}
    return {name: f"{type(value).__name__}: {value}" for name, value in given.items() if value is not None}


@server.tool(annotations=READS)
def mapping(
    scores: Annotated[dict[str, float], Field(description="A number for each name")],
    labels: dict[str, list[str]] | None = None,
) -> dict[str, Any]:
    """Take objects with names of one's own (additionalProperties)."""
    return {"total": sum(scores.values()), "labels": labels}


@server.tool(annotations=READS)
def nothing() -> str:
    """Take no parameters."""
    return "nothing was asked"


@server.tool(annotations=READS)
def anything(value: Any) -> dict[str, Any]:
    """Take any JSON value (an empty schema)."""
    return {"type": type(value).__name__, "value": value}


@server.tool(annotations=READS)
def constrained(
    even: Annotated[int, Field(description="Even, 0 to 100", multiple_of=2, ge=0, le=100)],
    fraction: Annotated[float, Field(description="More than 0, less than 1", gt=0, lt=1)],
    code: Annotated[str, Field(description="Three capitals", pattern=r"^[A-Z]{3}$")],
    text: Annotated[str, Field(min_length=2, max_length=10)] = "ab",
    pair: Annotated[list[int], Field(min_length=2, max_length=2)] = [1, 2],  # noqa: B006
) -> dict[str, Any]:
    """Take numbers, texts and arrays within limits."""
    return {"even": even, "fraction": fraction, "code": code, "text": text, "pair": pair}


NAMED_OR_NUMBERED = {
    "allOf": [
        {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]},
        {"type": "object", "properties": {"name": {"type": "string"}}},
    ]
}


@server.tool(annotations=READS)
def combined(item: Annotated[dict[str, Any], Field(json_schema_extra=NAMED_OR_NUMBERED)]) -> dict[str, Any]:
    """Take an object that two schemas describe together (allOf)."""
    return item


BASE64_PNG = {"contentEncoding": "base64", "contentMediaType": "image/png"}


@server.tool(annotations=READS)
def binary(data: Annotated[str, Field(description="An image", json_schema_extra=BASE64_PNG)]) -> dict[str, Any]:
    """Take base64 (contentEncoding); return how many bytes there were and their SHA-256."""
    decoded = base64.b64decode(data, validate=True)
    return {"bytes": len(decoded), "sha256": hashlib.sha256(decoded).hexdigest()}
