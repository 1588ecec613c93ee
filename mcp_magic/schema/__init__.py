"""JSON Schema without I/O: fields, arguments from text and objects, validation, signatures.

A tool's `input_schema` comes from a server and may be anything. No function here raises for a schema, follows a
reference to another document, or runs without end. Only `ArgumentsError` is raised, and only for arguments.
"""

from __future__ import annotations

from mcp_magic.schema.commandline import (
    as_word,
    call_line,
    check_prompt_arguments,
    parse_arguments,
    parse_prompt_arguments,
    prompt_line,
)
from mcp_magic.schema.convert import check_text, json_arguments, to_json_value
from mcp_magic.schema.example import example_arguments
from mcp_magic.schema.fields import MISSING, UNSET, Field, input_root, root_field
from mcp_magic.schema.repair import repairs_text
from mcp_magic.schema.signature import bind_arguments, identifier, make_docstring, make_signature
from mcp_magic.schema.validate import (
    check_arguments,
    is_secret,
    prepare_arguments,
    shown,
    unchecked_arguments,
    valid_example,
)

__all__ = [
    "MISSING",
    "UNSET",
    "Field",
    "as_word",
    "bind_arguments",
    "call_line",
    "check_arguments",
    "check_prompt_arguments",
    "check_text",
    "example_arguments",
    "identifier",
    "input_root",
    "is_secret",
    "json_arguments",
    "make_docstring",
    "make_signature",
    "parse_arguments",
    "parse_prompt_arguments",
    "prepare_arguments",
    "prompt_line",
    "repairs_text",
    "root_field",
    "shown",
    "to_json_value",
    "unchecked_arguments",
    "valid_example",
]
