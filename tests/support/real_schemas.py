"""Input schemas as public servers have them: one of each kind, by the framework that writes it."""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.support.schemas import DRAFT7, INTEGER, NULL, NUMBER, TEXT, either, of

DRAFT4, DRAFT2019 = "http://json-schema.org/draft-04/schema#", "https://json-schema.org/draft/2019-09/schema"
CLOSED = {"additionalProperties": False}


class Real(NamedTuple):
    """A schema, arguments that its server takes, and arguments that it refuses with the message for them."""

    schema: dict[str, Any]
    takes: dict[str, Any]
    refuses: dict[str, Any] | None = None
    message: str = ""


CIRCLE = of("kind", "r", kind={"const": "circle"}, r=NUMBER)
SQUARE = of("kind", "side", kind={"const": "square"}, side=NUMBER)

SCHEMAS: dict[str, dict[str, Any]] = {
    # FastMCP and pydantic
    "FastMCP: optional": of("q", q={"title": "Q", **TEXT}, n={**either(INTEGER, NULL), "default": None}),
    "FastMCP: a model by reference": {**of("user", user={"$ref": "#/$defs/U"}), "$defs": {"U": of("name", name=TEXT)}},
    "pydantic: a discriminated union": of(
        "s", s={"oneOf": [CIRCLE, SQUARE], "discriminator": {"propertyName": "kind"}}
    ),
    "pydantic: Decimal": of("p", p={"anyOf": [NUMBER, {"type": "string", "pattern": r"^\d+(\.\d+)?$"}]}),
    "pydantic: a tuple": of("at", at={"type": "array", "prefixItems": [NUMBER, NUMBER], "minItems": 2, "maxItems": 2}),
    "pydantic: closed": of(at={"type": "array", "prefixItems": [NUMBER], "items": False}),
    # zod-to-json-schema
    "zod: strict": {**of("a", a=TEXT), **CLOSED, "$schema": DRAFT7},
    "zod: a nullable enum": of(a={"type": ["string", "null"], "enum": ["x", "y", None]}),
    "zod: a tuple without its draft": of(p={"type": "array", "items": [NUMBER, TEXT], "minItems": 2, "maxItems": 2}),
    "zod: a tuple of draft 7": {
        **of(p={"type": "array", "items": [NUMBER], "additionalItems": False}),
        "$schema": DRAFT7,
    },
    "zod: names": of(env={"type": "object", "propertyNames": {"pattern": "^[A-Z]+$"}, "additionalProperties": TEXT}),
    "zod: a reference to a property": of("a", a=of("x", x=NUMBER), b={"$ref": "#/properties/a"}),
    "zod: any": of("v", v={}),
    "zod: cents": of("p", p={**NUMBER, "multipleOf": 0.01}),
    # TypeBox, AJV and hand-written ones
    "TypeBox: literals": of("a", a={"anyOf": [{"const": "x", "type": "string"}, {"const": "y", "type": "string"}]}),
    "TypeBox: an intersection": of("v", v={"type": "object", "allOf": [of("a", a=TEXT), of("b", b=NUMBER)]}),
    "one of two": {**of(id=TEXT, name=TEXT), "anyOf": [{"required": ["id"]}, {"required": ["name"]}]},
    "exactly one of two": {**of(id=TEXT, name=TEXT), "oneOf": [{"required": ["id"]}, {"required": ["name"]}]},
    "one that needs another": {**of(card=TEXT, cvv=TEXT), "dependentRequired": {"card": ["cvv"]}},
    "required and not described": of("id", "a", a=TEXT),
    "required and described nowhere": {"type": "object", "required": ["q"]},
    "required in the property": of(a={**TEXT, "required": True}, b={**TEXT, "required": False}),
    "types of Python": of("n", n={"type": "int"}),
    "an unknown type": of("d", d={"type": "date"}),
    "null as title": {**of("a", a={**TEXT, "title": None}), "title": None},
    "a default that does not fit": of("n", n={"type": "integer", "default": "many"}),
    "a list that contains": of(t={"type": "array", "contains": {"const": "x"}, "minContains": 2}),
    "patterns": of(env={"type": "object", "patternProperties": {"^x_": NUMBER}, **CLOSED}),
    # roots
    "an empty root": {},
    "a root by reference": {"$ref": "#/$defs/In", "$defs": {"In": of("a", a=TEXT)}},
    "a root of alternatives": {"anyOf": [of("id", id=TEXT), of("name", name=TEXT)]},
    "a root without a type": {"properties": {"a": TEXT}, "required": ["a"]},
    # OpenAPI and Gemini
    "OpenAPI: nullable": of("a", a={**TEXT, "nullable": True}),
    "OpenAPI: nullable in a text": of("a", a={**TEXT, "nullable": "true"}),
    "Swagger 2: x-nullable": of("a", a={**TEXT, "x-nullable": True}),
    "OpenAPI: not nullable": of("a", a={**TEXT, "nullable": "false"}),
    "OpenAPI: a nullable enum": of("a", a={"enum": ["x"], **TEXT, "nullable": True}),
    "OpenAPI: a nullable reference": {
        **of("a", a={"$ref": "#/components/schemas/A", "nullable": True}),
        "components": {"schemas": {"A": of("x", x=TEXT)}},
    },
    "OpenAPI: boolean bounds": of("n", n={**NUMBER, "minimum": 0, "exclusiveMinimum": True}),
    "Gemini: upper case": {
        "type": "OBJECT",
        "properties": {"n": {"type": "INTEGER", "format": "int32"}},
        "required": ["n"],
    },
    "Gemini: counts as text": of("t", t={"type": "ARRAY", "items": {"type": "STRING"}, "minItems": "1"}),
    # Go, Rust and Java
    "Go: types with null": {**of(t={"type": ["null", "array"], "items": TEXT}), **CLOSED},
    "Rust: a draft and unsigned integers": {
        **of("n", n={"type": "integer", "format": "uint", "minimum": 0.0}),
        "$schema": DRAFT7,
        "title": "In",
    },
    "draft 4": {**of("n", n={**NUMBER, "minimum": 0, "exclusiveMinimum": True}), "$schema": DRAFT4, "id": "x"},
    "draft 7: dependencies": {**of(a=TEXT, b=TEXT), "dependencies": {"a": ["b"]}, "$schema": DRAFT7},
    "draft 2019-09: a recursive reference": {
        **of("n", n=NUMBER, next={"$recursiveRef": "#"}),
        "$schema": DRAFT2019,
        "$recursiveAnchor": True,
    },
    "names that no provider takes": {
        **of("a b", "$top", **{"a b": of("x", x=TEXT), "c": {"$ref": "#/properties/a%20b"}, "$top": NUMBER}),
        "dependentRequired": {"a b": ["$top"]},
    },
}

CASES: dict[str, tuple[Any, ...]] = {
    "FastMCP: optional": ({"q": "a", "n": None}, {"q": "a", "n": "x"}, "n: expected integer or null, got 'x'"),
    "FastMCP: a model by reference": ({"user": {"name": "Ada"}}, {"user": {}}, "missing: user.name (string)"),
    "pydantic: a discriminated union": (
        {"s": {"kind": "circle", "r": 1}},
        {"s": {}},
        "missing: s.kind (one of 'circle', 'square')",
    ),
    "pydantic: Decimal": ({"p": "19.99"},),
    "pydantic: a tuple": ({"at": [1, 2.5]}, {"at": [1, "a"]}, "at[1]: expected number, got 'a'"),
    "pydantic: closed": ({"at": [1]}, {"at": [1, 2]}, "at: expected list (number) and no more items, got [1, 2]"),
    "zod: strict": ({"a": "x"}, {"a": "x", "b": 1}, "unknown argument 'b'. It takes a"),
    "zod: a nullable enum": ({"a": None}, {"a": "z"}, "a: expected one of 'x', 'y' or null, got 'z'"),
    "zod: a tuple without its draft": ({"p": [1, "a"]}, {"p": ["a", "b"]}, "p[0]: expected number, got 'a'"),
    "zod: a tuple of draft 7": ({"p": [1]}, {"p": [1, 2]}, "p: expected list (number) and no more items, got [1, 2]"),
    "zod: names": (
        {"env": {"A": "x"}},
        {"env": {"a b": "x"}},
        "env: a name must be string, matches ^[A-Z]+$, got 'a b'",
    ),
    "zod: a reference to a property": ({"a": {"x": 1}, "b": {"x": 2}},),
    "zod: any": ({"v": {"a": [1]}},),
    "zod: cents": ({"p": 1.15}, {"p": 1.155}, "p: expected number, a multiple of 0.01, got 1.155"),
    "TypeBox: literals": ({"a": "x"}, {"a": "X"}, "a: expected one of 'x', 'y', got 'X'. Did you mean 'x'?"),
    "TypeBox: an intersection": ({"v": {"a": "x", "b": 1}}, {"v": {"a": "x"}}, "missing: v.b (number)"),
    "one of two": ({"name": "x"}, {}, "missing: id, or name"),
    "exactly one of two": ({"name": "x"}, {"id": "x", "name": "y"}, "id and name: give only one of them"),
    "one that needs another": ({"card": "1", "cvv": "2"}, {"card": "1"}, "missing: cvv, which card needs"),
    "required and not described": ({"a": "x", "id": 7}, {"a": "x"}, "missing: id (any)"),
    "required and described nowhere": ({"q": 1, "more": 2}, {}, "missing: q (any)"),
    "required in the property": ({"a": "x"}, {"b": "x"}, "missing: a (string)"),
    "types of Python": ({"n": 1}, {"n": "x"}, "n: expected integer, got 'x'"),
    "an unknown type": ({"d": "2026-01-01"},),
    "null as title": ({"a": "x"}, {}, "missing: a (string)"),
    "a default that does not fit": ({"n": 1}, {}, "missing: n (integer)"),
    "a list that contains": ({"t": ["x", "y", "x"]}, {"t": ["x"]}, "t: expected at least 2 items to be 'x', got ['x']"),
    "patterns": ({"env": {"x_a": 1}}, {"env": {"y": 1}}, "unknown argument 'env.y'. It takes names that match ^x_"),
    "an empty root": ({"anything": 1},),
    "a root by reference": ({"a": "x"}, {}, "missing: a (string)"),
    "a root of alternatives": ({"id": "x"}, {}, "missing: id, or name"),
    "a root without a type": ({"a": "x"}, {}, "missing: a (string)"),
    "OpenAPI: nullable": ({"a": None}, {"a": 1}, "a: expected string or null, got 1"),
    "OpenAPI: nullable in a text": ({"a": None}, {"a": 1}, "a: expected string or null, got 1"),
    "Swagger 2: x-nullable": ({"a": None}, {"a": 1}, "a: expected string or null, got 1"),
    "OpenAPI: not nullable": ({"a": "x"}, {"a": None}, "a: expected string, got null"),
    "OpenAPI: a nullable enum": ({"a": None},),
    "OpenAPI: a nullable reference": ({"a": None}, {"a": {}}, "missing: a.x (string)"),
    "OpenAPI: boolean bounds": ({"n": 0.5}, {"n": 0}, "n: expected number, more than 0, got 0"),
    "Gemini: upper case": ({"n": 1}, {"n": "x"}, "n: expected integer, got 'x'"),
    "Gemini: counts as text": ({"t": ["x"]}, {"t": []}, "t: expected list of string, at least 1 item, got []"),
    "Go: types with null": ({"t": None},),
    "Rust: a draft and unsigned integers": ({"n": 1}, {"n": -1}, "n: expected integer, at least 0.0, got -1"),
    "draft 4": ({"n": 1}, {"n": 0}, "n: expected number, more than 0, got 0"),
    "draft 7: dependencies": ({"a": "x", "b": "y"}, {"a": "x"}, "missing: b, which a needs"),
    "draft 2019-09: a recursive reference": ({"n": 1, "next": {"n": 2}},),
    "names that no provider takes": ({"a b": {"x": "y"}, "c": {"x": "z"}, "$top": 1},),
}
"""Arguments that the server of a schema takes, and those that it refuses with a message."""

REAL = {name: Real(schema, *CASES[name]) for name, schema in SCHEMAS.items()}
