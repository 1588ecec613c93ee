"""Two engines, one verdict: jsonschema-rs, and jsonschema in a browser."""

from __future__ import annotations

import contextlib
import copy
import http.server
import json
import signal
import subprocess
import sys
import textwrap
import threading
import time
from typing import Any

import pytest

from mcp_magic.errors import ArgumentsError
from mcp_magic.schema import check_arguments, validate
from mcp_magic.schema.engine import CompiledSchema, schema_problem
from mcp_magic.schema.validate import check_answer
from tests.support.schemas import DRAFT7, INTEGER, NUMBER, TEXT

SECONDS = 30.0
"""CPU time; each case takes well under one, and without bounds minutes."""

DRAFT4 = "http://json-schema.org/draft-04/schema#"
LONG = 10**4_000
TREE = {"properties": {"n": INTEGER, "t": {"$ref": "#/$defs/T"}}}
VALUES: list[Any] = [
    *(None, True, False, 0, 1, 2, 1.0, 1.5, -1, 2**70, -(2**70), LONG, 1e300),
    *("", "a", "A", "ab", "ä", "2026-02-28", "2026-02-30", "a@b.c", "\ud83d", [], [1], [1, 1.0], [1, True], ["a"]),
    *([1, "a"], [[1], [1]], [{"n": 1}, {"n": 1.0}], {}, {"n": 1}, {"n": "x"}, {"n": 1, "m": 2}, {"t": {"n": "x"}}),
    *({"t": {"t": {"n": 1}}}, {"x": 1}, {"xy": "a"}, {"kind": "a"}, {"kind": "b", "n": 1}),
]
SCHEMAS: list[Any] = [
    *({"type": name} for name in ("null", "boolean", "integer", "number", "string", "array", "object")),
    *({"type": ["integer", "null"]}, {"type": ["number"]}, {"type": []}, {"type": "int"}, True, False, {}),
    *({"minimum": 1}, {"maximum": 1.5}, {"exclusiveMinimum": 1}, {"exclusiveMaximum": 2**70}, {"multipleOf": 0.5}),
    *({"minLength": 1}, {"maxLength": 1}, {"format": "date"}, {"format": "email"}, {"format": "colour"}),
    *({"enum": ["a", None]}, {"enum": [1, [1], {"n": 1}]}, {"enum": [True]}, {"const": 1}, {"const": "a"}),
    *({"const": {"n": 1.0}}, {"const": LONG}, {"enum": []}, {"minItems": 1, "maxItems": 1}, {"uniqueItems": True}),
    *({"items": INTEGER}, {"prefixItems": [INTEGER], "items": False}, {"items": [True]}),
    *({"contains": {"const": 1}}, {"contains": {"const": 1}, "minContains": 2}, {"minProperties": 1}),
    *({"required": ["n"]}, {"properties": {"n": INTEGER}}, {"propertyNames": {"maxLength": 1}}),
    *({"properties": {"n": {}}, "additionalProperties": False}, {"additionalProperties": INTEGER}),
    *({"anyOf": [TEXT, {"minimum": 1}]}, {"oneOf": [INTEGER, {"minimum": 1}]}),
    *({"allOf": [INTEGER, {"minimum": 1}]}, {"not": TEXT}, {"not": {"format": "date"}}),
    {"if": INTEGER, "then": {"minimum": 1}, "else": TEXT},
    {"oneOf": [{"properties": {"kind": {"const": kind}}, "required": ["kind"]} for kind in "ab"]},
    {"$ref": "#/$defs/T", "$defs": {"T": TREE}},
    {"$ref": "#/$defs/nowhere"},
    {"$ref": "http://127.0.0.1:9/elsewhere"},
    {"$id": "http://127.0.0.1:9/a", "$ref": "#/$defs/T", "$defs": {"T": TREE}},
    {"$schema": DRAFT7, "items": [INTEGER], "additionalItems": False},
    {"$schema": DRAFT4, "type": "integer"},
    {"$schema": DRAFT4, "not": {"minimum": 0, "exclusiveMinimum": True}},
    {"$schema": DRAFT7, "$id": DRAFT7}
    | {
        "allOf": [{"$ref": "#/definitions/nonNegativeInteger"}],
        "definitions": {"nonNegativeInteger": {"properties": {"n": INTEGER}}},
    },
    {"$schema": "http://127.0.0.1:9/unknown", "type": "integer"},
    *({"dependentRequired": {"n": ["m"]}}, {"unevaluatedProperties": False, "properties": {"n": {}}}),
    *({"x-own": 1, "type": "integer"}, {"contentEncoding": "base64"}, {"discriminator": {"propertyName": "n"}}),
    {"properties": {"const": NUMBER, "type": NUMBER, "n": NUMBER}},
]


def verdicts(schema: Any) -> list[tuple[bool, bool]]:
    """Whether each value is taken as an argument, and as an answer."""
    takes, answers = {"type": "object", "properties": {"v": schema}}, copy.deepcopy(schema)
    if isinstance(schema, dict):
        takes.update({key: schema[key] for key in ("$defs", "$schema") if key in schema})
    return [(_passes(check_arguments, {"v": value}, takes), _passes(check_answer, value, answers)) for value in VALUES]


def _passes(check: Any, value: Any, schema: Any) -> bool:
    try:
        check(value, schema)
    except (ArgumentsError, ValueError):
        return False
    return True


@pytest.mark.parametrize("schema", SCHEMAS, ids=[json.dumps(schema)[:90] for schema in SCHEMAS])
def test_both_engines_give_the_same_verdicts(schema, monkeypatch):
    with_both = verdicts(schema)
    monkeypatch.setattr(validate, "_compiled", {})
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)  # as in a browser: importing it is an ImportError
    alone = verdicts(schema)
    differ = [(value, fast, slow) for value, fast, slow in zip(VALUES, with_both, alone, strict=True) if fast != slow]
    assert differ == []


def test_ordinary_schemas_are_decided_without_jsonschema():
    program = """
        import sys
        from mcp_magic.schema import check_arguments, validate
        from mcp_magic.schema.validate import check_answer
        for draft in ({}, {"$schema": "http://json-schema.org/draft-07/schema#", "$id": "https://a.b/c"}):
            parts = {"n": {"type": "number", "exclusiveMinimum": 0}, "t": {"type": "string", "pattern": "^a"}}
            parts |= {"u": {"type": "array", "items": {"enum": ["x", 1]}, "uniqueItems": True}, "d": {"format": "date"}}
            schema = {**draft, "type": "object", "properties": {**parts, "inner": {"$ref": "#"}}}
            schema["properties"]["inner"] = {"anyOf": [{"$ref": "#/$defs/T"}, {"type": "null"}]}
            schema["$defs"] = {"T": {"type": "object", "properties": {"left": {"$ref": "#/$defs/T"}}}}
            value = {"n": 1, "t": "ab", "u": ["x", 1], "d": "2026-01-02", "inner": {"left": {"left": {}}}}
            check_arguments(value, schema)
            check_answer(value, schema)
        print("jsonschema" in sys.modules)
    """
    ran = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=110)
    assert (ran.stdout.strip(), ran.stderr) == ("False", "")


def distinct_numbers(count: int) -> list[int]:
    return [10**30 + number for number in range(count)]


DOUBLE = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(60)} | {"d60": INTEGER}
LEVELS = {"T": {"anyOf": [{"properties": {"a": {"$ref": "#/$defs/T"}}}] * 2}}
DEEP: Any = "x"
for _ in range(30):
    DEEP = {"a": DEEP}
OBJECTS = [{"n": number} for number in range(20_000)]
HOSTILE: dict[str, tuple[Any, Any]] = {
    "unique numbers": ({"uniqueItems": True}, distinct_numbers(20_000)),
    "objects": ({"items": {"enum": OBJECTS}}, [{"n": 19_999}] * 2_000),
    "numbers": ({"items": {"allOf": [NUMBER] * 15}}, [LONG] * 3_000),
    "comparisons": ({"items": {"not": {"enum": [1, 2.5]}, "maximum": 1.5}}, [-LONG] * 3_000),
    "const": ({"items": {"properties": {"const": NUMBER}}}, [{"const": LONG}] * 3_000),
    "parts": ({"items": {"anyOf": [{"maxLength": 1}] * 3_000}}, ["ab"] * 200_000),
    "references": ({"$ref": "#/$defs/d0", "$defs": DOUBLE}, "x"),
    "levels": ({"$ref": "#/$defs/T", "$defs": LEVELS}, DEEP),
    "required": ({"$defs": {"a": {"required": distinct_numbers(20_000)}}}, 1),
    "types": ({"$defs": {"a": {"type": distinct_numbers(20_000)}}}, 1),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_native_code_ends_soon_on_hostile_input(name):
    schema, value = HOSTILE[name]
    began = time.process_time()
    CompiledSchema(schema).fits(value)
    schema_problem(schema)
    assert time.process_time() - began < SECONDS


def test_an_interrupt_ends_a_validation_in_a_keyword_of_ours():
    schema = {"items": {"anyOf": [{"pattern": "^b"}, {"pattern": "^a"}]}}
    texts = [f"a{number}" for number in range(50_000)]
    fits = CompiledSchema(schema).fits
    before = signal.signal(signal.SIGVTALRM, signal.default_int_handler)
    try:
        for _ in range(20):  # one that comes at the first step into a keyword is lost: it is pressed again
            try:
                signal.setitimer(signal.ITIMER_VIRTUAL, 0.05)
                fits(texts)
            except KeyboardInterrupt:
                break
        else:
            pytest.fail("no interrupt ends it")
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    assert fits(["a"])


def test_a_value_too_deep_for_the_stack_is_not_checked():
    program = """
        import os
        from mcp_magic.schema.engine import CompiledSchema
        value = {}
        for _ in range(200_000):
            value = {"a": value}
        schema = {"$ref": "#/$defs/T", "$defs": {"T": {"properties": {"a": {"$ref": "#/$defs/T"}}}}}
        compiled = CompiledSchema(schema)
        print(compiled.fits(value) and compiled.is_endless)
        os._exit(0)  # and no destructor of so deep a value
    """
    ran = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=110)
    assert ran.stdout.split() == ["True"]


def test_nothing_is_fetched():
    asked = []

    class Listener(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

    server = http.server.HTTPServer(("127.0.0.1", 0), Listener)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}/a"
    for schema in (
        *({"$ref": url}, {"$schema": url}, {"properties": {"a": {"$schema": url}}}, {"$id": url, "$ref": "b"}),
        *({"properties": {"a": {"$id": url, "$ref": "b"}}}, {"allOf": [{"$dynamicRef": url}]}),
        {"$schema": f"{url}#https://json-schema.org/draft/2020-12/schema"},
    ):
        with contextlib.suppress(ValueError):
            check_answer({"a": 1}, schema)
        with contextlib.suppress(ArgumentsError):
            check_arguments({"a": 1}, schema)
    server.shutdown()
    thread.join()
    server.server_close()
    assert asked == []
