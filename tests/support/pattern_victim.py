"""A host that meets `pattern_server` with little memory, and says what each attack gave and took."""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from IPython.core.interactiveshell import InteractiveShell

from mcp_magic.ask.elicitation import answer_of, elicitation_question
from mcp_magic.errors import ArgumentsError, InvalidResponseError
from mcp_magic.ipython.ask import InputAsker
from mcp_magic.ipython.extension import MCPMagics
from mcp_magic.notebook import host
from mcp_magic.schema.convert import UnfitText
from mcp_magic.ui.request_form import RequestForm
from tests.support.pattern_server import PATTERNS, TEXT, answer, schemas

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp_magic.ask.elicitation import Answer, Elicitation

MEMORY = 4 << 30


async def attacks(connection: Any, magics: Any) -> AsyncIterator[tuple[str, Any]]:
    """Yield each attack: its name, and what runs it."""
    for name in PATTERNS:
        for way in schemas(""):
            yield f"call answers {name} {way}", connection.call_tool(f"answers_{name}_{way}", {})
            yield f"call takes {name} {way}", connection.call_tool(f"takes_{name}_{way}", answer(way))
            yield f"look {name} {way}", magics.run(None, f"tool patterns:takes_{name}_{way}", None, {})
        yield f"form {name}", filled_form(connection, f"takes_{name}_pattern")
        yield f"line {name}", magics.run(None, f"call patterns:takes_{name}_pattern text={TEXT}", None, {})
        yield f"elicitation {name}", asked(connection, f"asks_{name}")
    yield "doctor", magics.run(None, "doctor patterns", None, {})


async def filled_form(connection: Any, tool: str) -> str:
    form = RequestForm(connection, await connection.find_tool(tool))
    form.set_arguments({"text": TEXT})
    said = form.form.problems
    form.close()
    return str(said)


class Typed:
    """A person who fills in `TEXT` line by line, leaves it out where it is refused, and sends."""

    def __init__(self) -> None:
        self.choices = iter("fs")
        self.texts = iter((TEXT, ""))

    def __call__(self, prompt: str) -> str:
        return next(self.texts if prompt.startswith("text ") else self.choices)


async def asked(connection: Any, tool: str) -> Any:
    asker = InputAsker(read=Typed(), write=lambda text: None)

    async def elicitor(asked: Elicitation) -> Answer:
        return answer_of(asked, await asker.ask(elicitation_question(asked)))

    host.elicitation.elicitor = elicitor
    return await connection.call_tool(tool, {})


async def main() -> None:
    magics: Any = MCPMagics(InteractiveShell())
    server = Path(__file__).parent / "pattern_server.py"
    host.elicitation.elicitor = asked  # announces the capability
    connection = await host.connect([sys.executable, str(server)], name="patterns")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    async for name, attack in attacks(connection, magics):
        began = time.process_time()
        try:
            given = await attack
            gave = given if isinstance(given, str) else f"{type(given).__name__} {getattr(given, 'unfit', '')}".rstrip()
        except (ArgumentsError, InvalidResponseError, UnfitText) as error:
            gave = f"{type(error).__name__}: {error}"
        print("\nATTACK", json.dumps([name, time.process_time() - began, gave]), flush=True)
    await host.close()


if __name__ == "__main__":
    asyncio.run(main())
