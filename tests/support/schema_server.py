"""A server over stdio, of the standard library alone, whose schemas are bombs or no schemas at all."""

from __future__ import annotations

import json
import math
import sys
from typing import TYPE_CHECKING, Any

from tests.support.schemas import INTEGER, TEXT, listed
from tests.support.speaking import LEGACY, answer_to, completed

if TYPE_CHECKING:
    from collections.abc import Callable

LEVELS = 30
MANY = 8_000
SEVERAL = 5_200


def of(argument: Any, **more: Any) -> dict[str, Any]:
    """Return the schema of a tool with one argument, which is required so that examples and forms make it."""
    return {"type": "object", "properties": {"a": argument}, "required": ["a"], **more}


def doubling(keyword: str, *, named: bool = False, both: bool = False) -> dict[str, Any]:
    """Return a schema whose definitions refer to the next one twice each, thirty levels deep."""

    def level(number: int) -> dict[str, Any]:
        following = {"$ref": f"#/$defs/d{number + 1}"}
        parts: Any = {"a": following, "b": following} if named else [following, following]
        return {keyword: parts, "title": str(number)} | ({"not": following} if both else {})

    definitions = {f"d{number}": level(number) for number in range(LEVELS)}
    return of({"$ref": "#/$defs/d0"}, **{"$defs": {**definitions, f"d{LEVELS}": INTEGER}})


def nested(depth: int, keyword: str = "items") -> Any:
    """Return a schema that is this deep."""
    schema: Any = TEXT
    for _ in range(depth):
        schema = {"items": {"type": "array", "items": schema}}.get(keyword, {keyword: [schema]})
        if keyword == "properties":
            schema = of(schema[keyword][0])
    return schema


def chained(level: Callable[[Any], Any], last: Any = INTEGER) -> dict[str, Any]:
    """Return definitions that each say something of the next one."""
    definitions = {f"d{number}": level({"$ref": f"#/$defs/d{number + 1}"}) for number in range(LEVELS)}
    return {"$ref": "#/$defs/d0", "$defs": {**definitions, f"d{LEVELS}": last}}


CONDITIONAL = chained(lambda following: {"if": following, "then": following, "else": following})
DEPENDENT = chained(lambda following: {"dependentSchemas": {"a": following, "b": following}}, {"required": ["c"]})


def huge(items: Any) -> dict[str, Any]:
    """Return the schema of a list of no fewer than a billion."""
    return listed(items, minItems=10**9)


TREE = {"type": "object", "properties": {"left": {"$ref": "#/$defs/T"}, "right": {"$ref": "#/$defs/T"}}}
TREE_DEFS = {"T": {**TREE, "required": ["left", "right"]}}
WIDE = {f"p{number}": {"$ref": "#/$defs/W"} for number in range(40)}

UNION = [
    {**of({"$ref": "#/$defs/U"}), "properties": {f"p{n}": {"$ref": "#/$defs/U"}, "k": {"const": n}}} for n in range(30)
]
KEYWORDS = (
    *("type", "enum", "anyOf", "allOf", "oneOf", "properties", "items", "prefixItems", "required", "$ref", "minimum"),
    *("pattern", "format", "examples", "enumNames", "additionalProperties", "patternProperties", "not", "if", "$id"),
    *("$schema", "$defs"),
)

SCHEMAS: dict[str, Any] = {
    "min_items": of(huge(INTEGER)),
    "min_items_nested": of(huge(huge(huge({"type": "array", "minItems": 10**9})))),
    "min_items_tree": of(
        {"$ref": "#/$defs/A"}, **{"$defs": {"A": {"type": "array", "minItems": 20, "items": {"$ref": "#/$defs/A"}}}}
    ),
    "recursive": {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]},
    "recursive_tree": {**of({"$ref": "#/$defs/T"}), "$defs": TREE_DEFS},
    "recursive_wide": {
        **of({"$ref": "#/$defs/W"}),
        "$defs": {"W": {"type": "object", "properties": WIDE, "required": list(WIDE)}},
    },
    "recursive_union": {**of({"$ref": "#/$defs/U"}), "$defs": {"U": {"anyOf": UNION}}},
    "all_of": doubling("allOf"),
    "any_of": doubling("anyOf"),
    "one_of": doubling("oneOf"),
    "not_all_of": doubling("allOf", both=True),
    "properties_doubling": {**doubling("properties", named=True)},
    "prefix_items": doubling("prefixItems"),
    "conditional": of({"$ref": "#/$defs/d0"}, **{"$defs": CONDITIONAL["$defs"]}),
    "dependent": {"type": "object", **DEPENDENT},
    "all_of_wide": of({"allOf": [{"properties": {f"p{m}_{n}": {} for m in range(40)}} for n in range(150)]}),
    "all_of_any_of": of({"allOf": [{"anyOf": [{"title": f"{m} {n}"} for m in range(30)]} for n in range(30)]}),
    "any_of_wide": of({"anyOf": [of({}, required=[f"p{n}"]) for n in range(1_500)]}),
    "any_of_objects": {
        "type": "object",
        "anyOf": [{"properties": {f"p{m}": {"const": n} for m in range(75)}} for n in range(75)],
    },
    "enum": of({"type": "string", "enum": [f"value {number}" for number in range(10_000)]}),
    "enum_numbers": of({"enum": list(range(SEVERAL))}),
    "enum_objects": of({"enum": [{"n": number, "nan": math.nan} for number in range(SEVERAL)]}),
    "enum_all_of": of({"allOf": [{"enum": [{"n": n * by} for n in range(3_000)]} for by in (1, -1)]}),
    "properties": {"type": "object", "properties": {f"p{number}": TEXT for number in range(MANY)}},
    "properties_required": {
        "type": "object",
        "properties": {f"p[{number}]": TEXT for number in range(SEVERAL)},
        "required": [f"p[{number}]" for number in range(SEVERAL)],
    },
    "properties_refs": {
        "type": "object",
        "properties": {f"p{number}": {"$ref": "#/$defs/A"} for number in range(SEVERAL)},
        "$defs": {"A": {"anyOf": [TEXT, {"type": "null"}]}},
    },
    "required_alone": {"type": "object", "required": [f"p{number}" for number in range(SEVERAL)]},
    "definitions": of({"$ref": "#anchor"}, **{"$defs": {f"d{n}": {"$anchor": f"a{n}"} for n in range(SEVERAL)}}),
    "reference_chain": of(
        {"$ref": "#/$defs/d0"}, **{"$defs": {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(5_000)}}
    ),
    "deep_items": of(nested(180)),
    "deep_all_of": of(nested(90, "allOf")),
    "deep_any_of": of(nested(90, "anyOf")),
    "deep_properties": of(nested(90, "properties")),
    "deep_default": of({"default": json.loads("[" * 180 + "]" * 180), "enum": [json.loads("[" * 180 + "]" * 180)]}),
    "true": of(True),
    "false": of(False),
    "list": of({"type": "object", "properties": {"b": [1, {"a": []}]}, "required": ["b"]}),
    "number": of({"type": "object", "properties": {"b": 5}, "required": ["b"]}),
    "text": of({"type": "object", "properties": {"b": "integer"}, "required": ["b"]}),
    "null": of({"type": "object", "properties": {"b": None}, "required": ["b"]}),
    "properties_list": of({"type": "object", "properties": []}),
    "properties_text": of({"type": "object", "properties": "a", "required": "a"}),
    "required_odd": of({"type": "object", "properties": {"a": {}}, "required": [5, None, ["a"], {"a": 1}]}),
    "min_infinite": of({"type": "array", "minItems": math.inf, "maxItems": math.inf}),
    "min_nan": of({"type": "array", "minItems": math.nan, "items": {"minimum": math.nan}}),
    "min_negative": of({"type": "array", "minItems": -5, "maxItems": -7}),
    "min_text": of({"type": "array", "minItems": "3", "maxItems": [3]}),
    "min_length": of({"type": "string", "minLength": 1e308, "maxLength": -math.inf}),
    "max_length_infinite": of({"type": "string", "minLength": math.inf, "maxLength": math.inf}),
    "minimum_huge": of({"type": "integer", "minimum": 1e308, "multipleOf": 1e-300}),
    "minimum_infinite": of({"type": "integer", "minimum": math.inf, "exclusiveMaximum": -math.inf}),
    "minimum_digits": of({"type": "number", "minimum": 10**4000, "multipleOf": 7.5}),
    "multiple_of_zero": of({"type": "integer", "multipleOf": 0}),
    "multiple_of_tiny": of({"type": "number", "minimum": 1, "multipleOf": 5e-324}),
    "type_nested": of({"type": [["string"]]}),
    "type_number": of({"type": 5}),
    "type_object": of({"type": {"a": 1}}),
    "reference_self": {**of({"$ref": "#/properties/a"})},
    "reference_number": of({"$ref": 5, "$dynamicRef": [], "$anchor": {}}),
    "reference_root": {"type": "object", "$ref": "#"},
    "reference_far": of({"$ref": "http://127.0.0.1:9/schema.json"}),
    "reference_bad": of({"$ref": "http://[::1"}),
    "id_bad": {**of({"$ref": "other.json"}), "$id": "http://[::1"},
    "default_unfit": of({"type": "integer", "default": {"a": [None]}}),
    "default_nan": of({"type": "number", "default": math.nan, "examples": [math.inf]}),
    "const_huge": of({"const": "x" * 1_000_000}),
    "format_list": of({"type": "string", "format": ["date"], "pattern": ["a"], "contentEncoding": 5}),
    "title_long": of(
        {"type": "string", "title": "T" * 1_000_000, "description": "D" * 1_000_000}, title="T" * 1_000_000
    ),
    "title_spaces": of({"type": "string", "description": " " * 500_000 + "base " * 100_000}),
    "title_odd": of({"type": "string", "title": 5, "description": ["a"]}, title={}, description=[]),
    "name_long": {"type": "object", "properties": {"n" * 1_000_000: TEXT}, "required": ["n" * 1_000_000]},
    "name_odd": {"type": "object", "properties": {"": {}, "a b": {}, "None": {}, "\x00": {}}, "required": [""]},
    "keywords_null": of(dict.fromkeys(KEYWORDS)),
    "keywords_list": of({key: [[]] for key in KEYWORDS}),
    "draft_odd": of({"$schema": ["x"], "type": "integer"}),
    "enum_empty": of({"type": "string", "enum": [], "anyOf": [], "oneOf": [], "allOf": []}),
    "pattern_properties": {
        "type": "object",
        "patternProperties": {f"^p{n}": {} for n in range(2_000)},
        "additionalProperties": False,
    },
    "unique": of({"type": "array", "uniqueItems": True, "contains": {"$ref": "#/properties/a"}}),
}
"""By name what a tool says of its arguments, or of its answers."""


UNREADABLE: dict[str, Any] = {
    "true": True,
    "false": False,
    "list": [{"type": "object"}],
    "number": 5,
    "null": None,
    "too_deep": of({"default": "@deep"}),
    "half_an_emoji": of(TEXT, title="\ud83d"),
}
"""What is no schema of a tool at all, or no JSON that the SDK reads."""

ANSWER = {"a": {"a": {}, "b": {}}, "b": {}, "c": 1}


def tools() -> list[dict[str, Any]]:
    """Return two tools for each schema: one that takes arguments by it, one that answers by it."""
    plain = {"type": "object", "properties": {}}
    takes = [{"name": f"takes_{name}", "inputSchema": schema} for name, schema in SCHEMAS.items()]
    return takes + [{"name": f"answers_{n}", "inputSchema": plain, "outputSchema": s} for n, s in SCHEMAS.items()]


def main() -> None:
    """Serve over stdio until the end of the input; the name of a schema as argument: the tools with that one alone."""
    name = sys.argv[1] if sys.argv[1:] else ""
    offered = [tool for tool in tools() if not name or tool["name"].partition("_")[2] == name]
    if name.startswith("unreadable_"):
        offered = [{"name": name, "inputSchema": UNREADABLE[name.removeprefix("unreadable_")]}]
    for line in sys.stdin:
        message = json.loads(line)
        answer = answer_to(message, LEGACY, [])
        if message.get("method") == "tools/list":
            answer = {"jsonrpc": "2.0", "id": message["id"], "result": {"tools": offered}}
        elif message.get("method") == "tools/call":
            result = {"content": [{"type": "text", "text": "done"}], "structuredContent": ANSWER}
            answer = {"jsonrpc": "2.0", "id": message["id"], "result": completed(result, LEGACY)}
        if answer is not None:
            text = json.dumps(answer).replace("Infinity", "1e400").replace("NaN", "null")
            print(text.replace('"@deep"', "[" * 2_000 + "]" * 2_000), flush=True)


if __name__ == "__main__":
    main()
