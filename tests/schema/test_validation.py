"""jsonschema without a grammar that takes longer to build than everything else, and with it where it is asked for."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
from mcp_magic.schema.validate import import_jsonschema
jsonschema = import_jsonschema()
print("rfc3987_syntax" in sys.modules)
check = jsonschema.FormatChecker()
print(check.conforms("http://m\\u00fcnchen.example/", "iri"), check.conforms("no <iri>", "iri"))
print(check.conforms("#\\u00fc", "iri-reference"), check.conforms("<>", "iri-reference"))
print(sys.modules["rfc3987_syntax"].__spec__.name)
"""


def test_the_grammar_of_iris_is_built_when_the_first_is_checked() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "False", "True", "False", "rfc3987_syntax"]
