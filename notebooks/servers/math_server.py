"""A calculator over stdio: the smallest server that is still of use.

Run `python math_server.py`, or let a host start it: `%mcp connect math_server.py`.
"""

import json
import math
import operator
import signal
import statistics as stats
from collections.abc import Callable
from typing import Annotated, TypedDict

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ResourceNotFoundError, ToolError
from mcp_types import (
    Completion,
    CompletionArgument,
    CompletionContext,
    PromptReference,
    ResourceTemplateReference,
    ToolAnnotations,
)
from pydantic import Field

server = MCPServer(
    "math", title="Calculator", instructions="Arithmetic; integers are exact at any size.", log_level="ERROR"
)

# All these tools only compute: they change nothing, and the same arguments give the same answer.
PURE = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)

MAX_DIGITS = 4000
"""Decimal digits of the longest answer: JSON readers in use refuse integers beyond 4300."""

LEVELS = ("child", "student", "expert")

Number = int | float
Left = Annotated[Number, Field(description="The left number")]
Right = Annotated[Number, Field(description="The right number")]


def computed(operation: Callable[[Number, Number], Number], a: Number, b: Number) -> Number:
    """Return `operation(a, b)`, or say why JSON could not carry the answer.

    A ToolError's text reaches the caller; that of any other exception stays in the server.
    """
    try:
        answer = operation(a, b)
    except OverflowError:
        raise ToolError("The result is too large for a floating point number.") from None
    if isinstance(answer, float) and not math.isfinite(answer):
        raise ToolError("The result is too large for a floating point number.")
    if isinstance(answer, int) and answer.bit_length() > MAX_DIGITS * math.log2(10):
        raise ToolError(f"The result has more than {MAX_DIGITS} digits.")
    return answer


@server.tool(title="Add", annotations=PURE)
def add(a: Left, b: Right) -> Number:
    """Add two numbers."""
    return computed(operator.add, a, b)


@server.tool(title="Subtract", annotations=PURE)
def subtract(a: Left, b: Right) -> Number:
    """Subtract b from a."""
    return computed(operator.sub, a, b)


@server.tool(title="Multiply", annotations=PURE)
def multiply(a: Left, b: Right) -> Number:
    """Multiply two numbers."""
    return computed(operator.mul, a, b)


@server.tool(title="Divide", annotations=PURE)
def divide(a: Left, b: Right) -> Number:
    """Divide a by b."""
    if b == 0:
        raise ToolError("Cannot divide by zero.")
    return computed(operator.truediv, a, b)


@server.tool(title="Power", annotations=PURE)
def power(
    base: Annotated[Number, Field(description="The number to raise")],
    exponent: Annotated[int, Field(description="How often to multiply it", ge=-10_000, le=10_000)],
) -> Number:
    """Raise a number to an integer power."""
    if base == 0 and exponent < 0:
        raise ToolError("Zero has no negative power: that would divide by zero.")
    if abs(base) > 1 and exponent * math.log10(abs(base)) > MAX_DIGITS:  # before it is computed: it could take long
        raise ToolError(f"The result has more than {MAX_DIGITS} digits.")
    return computed(operator.pow, base, exponent)


@server.tool(title="Factorial", annotations=PURE)
def factorial(n: Annotated[int, Field(description="A whole number", ge=0, le=1000)]) -> int:
    """Multiply the whole numbers from 1 to n, exactly."""
    return math.factorial(n)


class Summary(TypedDict):
    """What describes a list of numbers."""

    count: int
    total: float
    mean: float
    median: float
    stdev: Annotated[float | None, Field(description="Sample standard deviation; null for a single number")]
    minimum: float
    maximum: float


@server.tool(title="Statistics", annotations=PURE)
def statistics(numbers: Annotated[list[float], Field(description="The numbers", min_length=1)]) -> Summary:
    """Summarise a list of numbers: count, total, mean, median, standard deviation, minimum and maximum."""
    return Summary(
        count=len(numbers),
        total=math.fsum(numbers),
        mean=stats.fmean(numbers),
        median=stats.median(numbers),
        stdev=stats.stdev(numbers) if len(numbers) > 1 else None,
        minimum=min(numbers),
        maximum=max(numbers),
    )


@server.tool(title="Primes", annotations=PURE)
def primes(n: Annotated[int, Field(description="The largest number to look at", ge=0, le=100_000)]) -> list[int]:
    """List the prime numbers up to and including n."""
    is_prime = bytearray([1]) * (n + 1)
    is_prime[:2] = bytes(len(is_prime[:2]))
    for p in range(2, math.isqrt(n) + 1):
        if is_prime[p]:
            multiples = range(p * p, n + 1, p)
            is_prime[p * p :: p] = bytes(len(multiples))
    return [number for number, prime in enumerate(is_prime) if prime]


@server.resource("math://constants", title="Constants", mime_type="application/json")
def constants() -> str:
    """Pi, e, tau and the golden ratio, as JSON."""
    golden = (1 + math.sqrt(5)) / 2
    return json.dumps({"pi": math.pi, "e": math.e, "tau": math.tau, "golden_ratio": golden}, indent=2)


@server.resource("math://table/{n}", title="Multiplication table", mime_type="text/csv")
def table(n: str) -> str:
    """The multiplication table from 1 to n (at most 100), as CSV with a header."""
    if not (n.isascii() and n.isdecimal() and 1 <= int(n) <= 100):
        raise ResourceNotFoundError(f"There are tables for 1 to 100, not for {n!r}.")
    columns = range(1, int(n) + 1)
    lines = [["times", *columns], *([row, *(row * column for column in columns)] for row in columns)]
    return "".join(",".join(str(cell) for cell in line) + "\n" for line in lines)


@server.prompt(title="Explain a topic")
def explain(
    topic: Annotated[str, Field(description="What to explain, for example: fractions")],
    level: Annotated[str, Field(description="For whom: child, student or expert")] = "student",
) -> str:
    """Ask for an explanation of a mathematical topic."""
    return f"Explain {topic} to a {level}. Use the calculator's tools for every number, and show one example."


@server.completion()
async def complete(
    ref: PromptReference | ResourceTemplateReference, argument: CompletionArgument, context: CompletionContext | None
) -> Completion | None:
    """Complete the prompt's level."""
    if isinstance(ref, PromptReference) and ref.name == "explain" and argument.name == "level":
        return Completion(values=[level for level in LEVELS if level.startswith(argument.value.lower())])
    return None


if __name__ == "__main__":
    # Python's own handler would wait for the thread that reads stdin, so Ctrl-C would seem to do nothing.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    server.run()
