"""What is wrong with the schema of a tool."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from mcp_magic.browser import IN_BROWSER
from mcp_magic.core.lint.finding import ERROR, NOTE, WARNING, Finding
from mcp_magic.core.lint.walk import parts, place
from mcp_magic.errors import did_you_mean, listed
from mcp_magic.results.jsontree import brief
from mcp_magic.schema.budget import MAX_NODES
from mcp_magic.schema.check import is_bounded
from mcp_magic.schema.native import is_surely_valid
from mcp_magic.schema.patterns import is_checked
from mcp_magic.schema.resolve import Resolver
from mcp_magic.schema.validation import make_validator, schema_problem

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

__all__ = ["schema_findings"]

MAX_EXPANDED = 300
"""Schemas that a default is checked against, references followed; a hostile document doubles at each."""

_BOUNDS = (
    ("minimum", "maximum"),
    ("minLength", "maxLength"),
    ("minItems", "maxItems"),
    ("minProperties", "maxProperties"),
)
_PYTHON = {"string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,), "array": (list,)}
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


def schema_findings(schema: Any, owner: str, kind: str = "argument") -> Iterator[Finding]:
    """Yield what is wrong with a schema.

    Args:
        schema: A tool's input or output schema.
        owner: Whose it is, for example `"tool add"`.
        kind: What its properties are: `"argument"` or `"output"`.
    """
    root_type = schema.get("type") if isinstance(schema, Mapping) else None
    if root_type != "object" and kind == "argument":
        said = f"the root is of type {root_type!r}" if root_type else "the root names no type"
        yield Finding(
            "schema-root", ERROR, owner, f"{said}; it must be an object", 'write "type": "object" at its root'
        )
    invalid = list(_metaschema(schema, owner, kind))
    yield from invalid
    if kind == "argument" and isinstance(schema, Mapping):
        yield from _root_choice(schema, owner)
    checker = None if invalid else make_validator(schema)
    resolver = Resolver(schema)
    count = 0
    for count, (where, node, branch) in enumerate(parts(schema), 1):  # noqa: B007
        here = place(owner, where, kind)
        yield from _references(node, resolver, here)
        if not branch:  # which may require what another part defines
            yield from _required(node, here)
        yield from _patterns(node, here)
        yield from _impossible(node, here)
        if checker is not None:
            yield from _values(node, resolver, checker, here)
    if count >= MAX_NODES:
        said = f"it is made of more than {MAX_NODES:,} schemas; what is past them is not shown and was not looked at"
        yield Finding("schema-large", WARNING, owner, said, "make several tools of it, or leave parts untyped")
    if isinstance(schema, Mapping) and not is_bounded(schema):
        said = f"checking {'an answer' if kind == 'output' else 'a call'} takes too many steps, so it is not checked"
        yield Finding("schema-steps", WARNING, owner, said, "refer to each definition once in a branch")


def _metaschema(schema: Any, owner: str, kind: str) -> Iterator[Finding]:
    if is_surely_valid(schema):
        return
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for

    dialect = schema.get("$schema") if isinstance(schema, Mapping) else None
    judge: Any = Draft202012Validator
    if dialect is not None:
        unknown: Any = None
        judge = validator_for(schema, default=unknown) if isinstance(dialect, str) else None
    if judge is None:
        said = f"its dialect {brief(dialect, 80)} is none that is known; it was read as 2020-12"
        yield Finding(
            "schema-dialect", WARNING, owner, said, "name JSON Schema 2020-12 or draft-07, or leave $schema out"
        )
        judge = Draft202012Validator
    try:
        problem = schema_problem(schema, judge)
    except RecursionError:
        problem = None
        yield Finding("schema-invalid", ERROR, owner, "the schema is nested too deeply to be read", "make it flat")
    if problem is not None:
        path = "/".join(str(step) for step in problem.absolute_path) or "its root"
        said = f"no valid JSON Schema at {path}: {problem.message[:160]}"
        named = f"{owner}, output" if kind == "output" else owner
        yield Finding("schema-invalid", ERROR, named, said, "mend the schema: hosts refuse the tool or its calls")


def _root_choice(schema: Mapping[str, Any], owner: str) -> Iterator[Finding]:
    found = [name for name in ("anyOf", "oneOf", "allOf") if name in schema]
    if found:
        said = f"{found[0]} at the root, which OpenAI and Anthropic refuse"
        yield Finding("schema-root-choice", NOTE, owner, said, "put the choice into an argument")


def _references(node: Mapping[str, Any], resolver: Resolver, here: str) -> Iterator[Finding]:
    for keyword in _REFERENCES:
        ref = node.get(keyword)
        if not isinstance(ref, str) or ref in ("", "#"):
            continue
        if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", ref) and resolver.find(ref) is True:
            said = f"{keyword} {ref[:120]!r} leads to another document; hosts do not fetch it"
            yield Finding("schema-ref", WARNING, here, said, "copy what it refers to into $defs")
        elif resolver.find(ref) is True and not _is_true(resolver.root, ref):
            said = f"{keyword} {ref[:120]!r} leads nowhere in this schema"
            yield Finding("schema-ref", ERROR, here, said, "add what it refers to, under $defs")


def _is_true(root: Any, ref: str) -> bool:
    """Whether a pointer leads to the schema `true`."""
    for part in ref.removeprefix("#/").split("/"):
        root = root.get(part) if isinstance(root, Mapping) else None
    return root is True


def _required(node: Mapping[str, Any], here: str) -> Iterator[Finding]:
    required, properties = node.get("required"), node.get("properties")
    if not isinstance(required, list) or any(key in node for key in ("allOf", "anyOf", "oneOf", "$ref")):
        return
    known = properties if isinstance(properties, Mapping) else {}
    patterns = node.get("patternProperties")
    unknown = [name for name in required if isinstance(name, str) and name not in known]
    if not unknown or patterns or (not known and isinstance(node.get("additionalProperties"), Mapping)):
        return
    said = f"required names what is no property: {listed(repr(name[:60]) for name in unknown)}."
    yield Finding(
        "schema-required", WARNING, here, said + did_you_mean(unknown[0], known), "define it, or do not require it"
    )


def _patterns(node: Mapping[str, Any], here: str) -> Iterator[Finding]:
    keys = node.get("patternProperties")
    for pattern in (node.get("pattern"), *(keys if isinstance(keys, Mapping) else ())):
        if isinstance(pattern, str) and not IN_BROWSER and not is_checked(pattern):
            said = f"the pattern {pattern[:80]!r} does not compile, or is too large; calls are not checked against it"
            yield Finding("schema-pattern", WARNING, here, said, "write a small regular expression of ECMA 262")


def _impossible(node: Mapping[str, Any], here: str) -> Iterator[Finding]:
    for low, high in _BOUNDS:
        least, most = node.get(low), node.get(high)
        if isinstance(least, int | float) and isinstance(most, int | float) and least > most:
            said = f"nothing fits: {low} {least} is more than {high} {most}"
            yield Finding("schema-impossible", WARNING, here, said, "swap or mend the bounds")
    choices = node.get("enum")
    if isinstance(choices, list) and not choices:
        yield Finding("schema-impossible", WARNING, here, "nothing fits: the enum is empty", "name what is allowed")


def _values(node: Mapping[str, Any], resolver: Resolver, checker: Validator, here: str) -> Iterator[Finding]:
    """Yield defaults and examples that do not fit their own schema."""
    given = [("default", node["default"])] if "default" in node else []
    examples = node.get("examples")
    given += [("example", value) for value in examples[:20]] if isinstance(examples, list) else []
    if not given or all(_fits_plainly(value, node) for _, value in given) or not _is_small(node, resolver):
        return
    judge = checker.evolve(schema={key: value for key, value in node.items() if key not in ("default", "examples")})
    for name, value in given:
        try:
            problem = next(judge.iter_errors(value), None)
        except Exception:  # a reference that leads nowhere, a keyword of another draft: said elsewhere
            return
        if problem is not None and not (name == "default" and value is None):
            said = f"the {name} {brief(value, 60)} does not fit: {problem.message[:120]}"
            yield Finding("schema-default", WARNING, here, said, f"mend the {name}, or the schema")


def _fits_plainly(value: Any, node: Mapping[str, Any]) -> bool:
    """Whether a value fits a schema that names nothing but a type."""
    kinds = _PYTHON.get(str(node.get("type")), ())
    return type(value) in kinds and node.keys() <= {"type", "title", "description", "default", "examples"}


def _is_small(node: Mapping[str, Any], resolver: Resolver) -> bool:
    """Whether a schema with all that it refers to is small enough to be tried, and ends."""
    pending: list[Any] = [node]
    seen = 0
    while pending:
        for part in parts(pending.pop()):
            seen += 1
            if seen > MAX_EXPANDED:
                return False
            pending += [resolver.find(part.node[key]) for key in _REFERENCES if isinstance(part.node.get(key), str)]
    return True
