"""Input schemas as public servers have them: one of each kind, by the framework that writes it."""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.support.schemas import NUMBER, TEXT, of

DRAFT4, DRAFT7, DRAFT2019 = (
    "http://json-schema.org/draft-04/schema#",
    "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2019-09/schema",
)


class Real(NamedTuple):
    """A schema, arguments that its server takes, and arguments that it refuses with the message for them."""

    schema: dict[str, Any]
    takes: dict[str, Any]
    refuses: tuple[dict[str, Any], str] | None = None


CIRCLE = of("kind", "r", kind={"const": "circle"}, r=NUMBER)
SQUARE = of("kind", "side", kind={"const": "square"}, side=NUMBER)

REAL: dict[str, Real] = {
    # FastMCP and pydantic
    "FastMCP: optional": Real(
        of("q", q={"title": "Q", **TEXT}, n={"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}),
        {"q": "a", "n": None},
        ({"q": "a", "n": "x"}, "n: expected integer or null, got 'x'"),
    ),
    "FastMCP: a model by reference": Real(
        {**of("user", user={"$ref": "#/$defs/U"}), "$defs": {"U": of("name", name=TEXT)}},
        {"user": {"name": "Ada"}},
        ({"user": {}}, "missing: user.name (string)"),
    ),
    "pydantic: a discriminated union": Real(
        of("s", s={"oneOf": [CIRCLE, SQUARE], "discriminator": {"propertyName": "kind"}}),
        {"s": {"kind": "circle", "r": 1}},
        ({"s": {}}, "missing: s.kind (one of 'circle', 'square')"),
    ),
    "pydantic: Decimal": Real(
        of("p", p={"anyOf": [NUMBER, {"type": "string", "pattern": r"^\d+(\.\d+)?$"}]}), {"p": "19.99"}
    ),
    "pydantic: a tuple": Real(
        of("at", at={"type": "array", "prefixItems": [NUMBER, NUMBER], "minItems": 2, "maxItems": 2}),
        {"at": [1, 2.5]},
        ({"at": [1, "a"]}, "at[1]: expected number, got 'a'"),
    ),
    "pydantic: a closed tuple": Real(
        of(at={"type": "array", "prefixItems": [NUMBER], "items": False}),
        {"at": [1]},
        ({"at": [1, 2]}, "at: expected list (number) and no more items, got [1, 2]"),
    ),
    # zod-to-json-schema
    "zod: strict": Real(
        {**of("a", a=TEXT), "additionalProperties": False, "$schema": DRAFT7},
        {"a": "x"},
        ({"a": "x", "b": 1}, "unknown argument 'b'. It takes a"),
    ),
    "zod: a nullable enum": Real(
        of(a={"type": ["string", "null"], "enum": ["x", "y", None]}),
        {"a": None},
        ({"a": "z"}, "a: expected one of 'x', 'y' or null, got 'z'"),
    ),
    "zod: a tuple without its draft": Real(
        of(p={"type": "array", "items": [NUMBER, TEXT], "minItems": 2, "maxItems": 2}),
        {"p": [1, "a"]},
        ({"p": ["a", "b"]}, "p[0]: expected number, got 'a'"),
    ),
    "zod: a tuple of draft 7": Real(
        {**of(p={"type": "array", "items": [NUMBER], "additionalItems": False}), "$schema": DRAFT7},
        {"p": [1]},
        ({"p": [1, 2]}, "p: expected list (number) and no more items, got [1, 2]"),
    ),
    "zod: a record": Real(
        of(env={"type": "object", "propertyNames": {"pattern": "^[A-Z]+$"}, "additionalProperties": TEXT}),
        {"env": {"A": "x"}},
        ({"env": {"a b": "x"}}, "env: a name must be string, matches ^[A-Z]+$, got 'a b'"),
    ),
    "zod: a reference to a property": Real(
        of("a", a=of("x", x=NUMBER), b={"$ref": "#/properties/a"}), {"a": {"x": 1}, "b": {"x": 2}}
    ),
    "zod: any": Real(of("v", v={}), {"v": {"a": [1]}}),
    "zod: cents": Real(
        of("p", p={**NUMBER, "multipleOf": 0.01}),
        {"p": 1.15},
        ({"p": 1.155}, "p: expected number, a multiple of 0.01, got 1.155"),
    ),
    # TypeBox, AJV and hand-written ones
    "TypeBox: literals": Real(
        of("a", a={"anyOf": [{"const": "x", "type": "string"}, {"const": "y", "type": "string"}]}),
        {"a": "x"},
        ({"a": "X"}, "a: expected one of 'x', 'y', got 'X'"),
    ),
    "TypeBox: an intersection": Real(
        of("v", v={"type": "object", "allOf": [of("a", a=TEXT), of("b", b=NUMBER)]}),
        {"v": {"a": "x", "b": 1}},
        ({"v": {"a": "x"}}, "missing: v.b (number)"),
    ),
    "one of two": Real(
        {**of(id=TEXT, name=TEXT), "anyOf": [{"required": ["id"]}, {"required": ["name"]}]},
        {"name": "x"},
        ({}, "missing: id, or name"),
    ),
    "exactly one of two": Real(
        {**of(id=TEXT, name=TEXT), "oneOf": [{"required": ["id"]}, {"required": ["name"]}]},
        {"name": "x"},
        ({"id": "x", "name": "y"}, "id and name: give only one of them"),
    ),
    "one that needs another": Real(
        {**of(card=TEXT, cvv=TEXT), "dependentRequired": {"card": ["cvv"]}},
        {"card": "1", "cvv": "2"},
        ({"card": "1"}, "missing: cvv, which card needs"),
    ),
    "required and not described": Real(of("id", "a", a=TEXT), {"a": "x", "id": 7}, ({"a": "x"}, "missing: id (any)")),
    "required and described nowhere": Real(
        {"type": "object", "required": ["q"]}, {"q": 1, "more": 2}, ({}, "missing: q (any)")
    ),
    "required in the property": Real(
        of(a={**TEXT, "required": True}, b={**TEXT, "required": False}), {"a": "x"}, ({"b": "x"}, "missing: a (string)")
    ),
    "types of Python": Real(of("n", n={"type": "int"}), {"n": 1}, ({"n": "x"}, "n: expected integer, got 'x'")),
    "an unknown type": Real(of("d", d={"type": "date"}), {"d": "2026-01-01"}),
    "null as title": Real(
        {**of("a", a={**TEXT, "title": None}), "title": None}, {"a": "x"}, ({}, "missing: a (string)")
    ),
    "a default that does not fit": Real(
        of("n", n={"type": "integer", "default": "many"}), {"n": 1}, ({}, "missing: n (integer)")
    ),
    "a list that contains": Real(
        of(t={"type": "array", "contains": {"const": "x"}, "minContains": 2}),
        {"t": ["x", "y", "x"]},
        ({"t": ["x"]}, "t: expected at least 2 items to be 'x', got ['x']"),
    ),
    "names by pattern": Real(
        of(env={"type": "object", "patternProperties": {"^x_": NUMBER}, "additionalProperties": False}),
        {"env": {"x_a": 1}},
        ({"env": {"y": 1}}, "unknown argument 'env.y'. It takes names that match ^x_"),
    ),
    # roots
    "an empty root": Real({}, {"anything": 1}),
    "a root by reference": Real(
        {"$ref": "#/$defs/In", "$defs": {"In": of("a", a=TEXT)}}, {"a": "x"}, ({}, "missing: a (string)")
    ),
    "a root of alternatives": Real(
        {"anyOf": [of("id", id=TEXT), of("name", name=TEXT)]}, {"id": "x"}, ({}, "missing: id, or name")
    ),
    "a root without a type": Real(
        {"properties": {"a": TEXT}, "required": ["a"]}, {"a": "x"}, ({}, "missing: a (string)")
    ),
    # OpenAPI and Gemini
    "OpenAPI: nullable": Real(
        of("a", a={**TEXT, "nullable": True}), {"a": None}, ({"a": 1}, "a: expected string or null, got 1")
    ),
    "OpenAPI: nullable in a text": Real(
        of("a", a={**TEXT, "nullable": "true"}), {"a": None}, ({"a": 1}, "a: expected string or null, got 1")
    ),
    "Swagger 2: x-nullable": Real(
        of("a", a={**TEXT, "x-nullable": True}), {"a": None}, ({"a": 1}, "a: expected string or null, got 1")
    ),
    "OpenAPI: not nullable": Real(
        of("a", a={**TEXT, "nullable": "false"}), {"a": "x"}, ({"a": None}, "a: expected string, got null")
    ),
    "OpenAPI: a nullable enum": Real(of("a", a={"enum": ["x"], **TEXT, "nullable": True}), {"a": None}),
    "OpenAPI: a nullable reference": Real(
        {
            **of("a", a={"$ref": "#/components/schemas/A", "nullable": True}),
            "components": {"schemas": {"A": of("x", x=TEXT)}},
        },
        {"a": None},
        ({"a": {}}, "missing: a.x (string)"),
    ),
    "OpenAPI: boolean bounds": Real(
        of("n", n={**NUMBER, "minimum": 0, "exclusiveMinimum": True}),
        {"n": 0.5},
        ({"n": 0}, "n: expected number, more than 0, got 0"),
    ),
    "Gemini: upper case": Real(
        {"type": "OBJECT", "properties": {"n": {"type": "INTEGER", "format": "int32"}}, "required": ["n"]},
        {"n": 1},
        ({"n": "x"}, "n: expected integer, got 'x'"),
    ),
    "Gemini: counts as text": Real(
        of("t", t={"type": "ARRAY", "items": {"type": "STRING"}, "minItems": "1"}),
        {"t": ["x"]},
        ({"t": []}, "t: expected list of string, at least 1 item, got []"),
    ),
    # Go, Rust and Java
    "Go: types with null": Real(
        {**of(t={"type": ["null", "array"], "items": TEXT}), "additionalProperties": False}, {"t": None}
    ),
    "Rust: a draft and unsigned integers": Real(
        {**of("n", n={"type": "integer", "format": "uint", "minimum": 0.0}), "$schema": DRAFT7, "title": "In"},
        {"n": 1},
        ({"n": -1}, "n: expected integer, at least 0.0, got -1"),
    ),
    "draft 4": Real(
        {**of("n", n={**NUMBER, "minimum": 0, "exclusiveMinimum": True}), "$schema": DRAFT4, "id": "x"},
        {"n": 1},
        ({"n": 0}, "n: expected number, more than 0, got 0"),
    ),
    "draft 7: dependencies": Real(
        {**of(a=TEXT, b=TEXT), "dependencies": {"a": ["b"]}, "$schema": DRAFT7},
        {"a": "x", "b": "y"},
        ({"a": "x"}, "missing: b, which a needs"),
    ),
    "draft 2019-09: a recursive reference": Real(
        {**of("n", n=NUMBER, next={"$recursiveRef": "#"}), "$schema": DRAFT2019, "$recursiveAnchor": True},
        {"n": 1, "next": {"n": 2}},
    ),
    "names that no provider takes": Real(
        {
            **of("a b", "$top", **{"a b": of("x", x=TEXT), "c": {"$ref": "#/properties/a%20b"}, "$top": NUMBER}),
            "dependentRequired": {"a b": ["$top"]},
        },
        {"a b": {"x": "y"}, "c": {"x": "z"}, "$top": 1},
    ),
}
