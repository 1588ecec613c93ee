"""Arithmetic of more than one operation, as steps: `3 + 4 * 5` is "4 times 5", and then 3 plus that."""

from __future__ import annotations

import ast
import re

__all__ = ["in_steps"]

_EXPRESSION = re.compile(
    r"(?i)^[^\w(+-]*(?:(?:please|what(?:'s| is)|how much is|calculate|compute|evaluate|work out)\s+)*"
    r"(?P<expression>[-+(]*\d[\d\s.,()+*/^x\u00d7\u00f7-]*[\d)])\s*[=?.!]*\s*$"
)

_WORDS: dict[type[ast.operator], str] = {
    ast.Add: "{} plus {}",
    ast.Sub: "{} minus {}",
    ast.Mult: "{} times {}",
    ast.Div: "{} divided by {}",
    ast.Pow: "{} to the power of {}",
}

MOST = 100
"""Operations of one expression."""


def in_steps(text: str) -> str:
    """Return a request that is an expression of several operations as steps; any other as it is.

    >>> in_steps("What is 3 + 4 * 5?")
    '4 times 5; 3 plus the result of step 1'
    >>> in_steps("(1 + 2) * (3 - 4)")
    '1 plus 2; 3 minus 4; the result of step 1 times the result of step 2'
    >>> in_steps("What is 3 + 4?"), in_steps("add 1 and 2")
    ('What is 3 + 4?', 'add 1 and 2')
    """
    found = _EXPRESSION.match(text)
    if found is None:
        return text
    said = re.sub(r"(?<=\d),(?=\d{3})", "", found["expression"])
    said = re.sub(r"[x\u00d7]", "*", said).replace("\u00f7", "/").replace("^", "**")
    try:
        tree = ast.parse(said.strip(), mode="eval").body
        steps: list[str] = []
        _step(tree, steps)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return text
    return "; ".join(steps) if 1 < len(steps) <= MOST else text


def _step(node: ast.expr, steps: list[str]) -> str:
    """Add the steps of an expression, and return what stands for its value."""
    match node:
        case ast.Constant(value=int() | float() as number):
            return str(number)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return f"-{number}"
        case ast.BinOp(left=left, op=operation, right=right) if type(operation) in _WORDS:
            before, after = _step(left, steps), _step(right, steps)
            steps.append(_WORDS[type(operation)].format(before, after))
            return f"the result of step {len(steps)}"
    raise ValueError(ast.dump(node))
