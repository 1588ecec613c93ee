"""`run_code`: an outside agent runs Python in the kernel, if the person agrees to exactly this code.

It runs as a program of our own agent in the kernel does (`agent/program.py`): plain Python with top-level `await`, in
the variables of the notebook. IPython's magics are not part of it: `%mcp` would act as the person.

The person sees the code and what the agent reads of it below the latest cell.
"""

from __future__ import annotations

import asyncio
import base64
import sys
import threading
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, Any

from mcp_types import CallToolResult, ImageContent, TextContent, Tool, ToolAnnotations

from mcp_magic._text import duration
from mcp_magic.agent.program import Printed, Program, Programs, State, check, run_program, size_of, text_for_model
from mcp_magic.config.masking import Masker
from mcp_magic.consent.consent import Request
from mcp_magic.display.code import code_part
from mcp_magic.display.document import Budget, Part, bundle
from mcp_magic.errors import ArgumentsError, SessionError
from mcp_magic.ipython.ask import show_below
from mcp_magic.ipython.execution import interrupts
from mcp_magic.results.content import Media, media_part
from mcp_magic.values.shared import why_never

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from IPython.core.interactiveshell import InteractiveShell

    from mcp_magic._host import Host
    from mcp_magic.ipython.cells import Cells
    from mcp_magic.outside.clients import Client
    from mcp_magic.values.shared import ClientValues

SECONDS = 300.0  # seconds that a program may take

AGAIN_SECONDS = 0.5  # seconds after which one that does not end is interrupted again

TURN_SECONDS = 60.0  # seconds that a program waits for a cell that runs

CHARACTERS = 10_000  # characters that the agent reads of what a program prints and returns

MAX_IMAGES = 4  # images of a program that the agent gets
MAX_IMAGE = 2_000_000  # characters of base64 of one of them

RUN_CODE = Tool(
    name="run_code",
    title="Run Python in the kernel",
    description="Runs Python in the kernel of the notebook, with its variables and packages. The person sees the whole "
    "code, is asked about each call, and may change it. Plain Python with top-level `await`; no `%magic`, no "
    "`!command`. Returns what it prints and displays, and the value of the last expression; a large value gets a name "
    f"that `read_value` reads. Variables stay in the notebook. After {duration(round(SECONDS))} it is ended.",
    input_schema={
        "type": "object",
        "properties": {"code": {"type": "string", "format": "code"}},
        "required": ["code"],
        "additionalProperties": False,
    },
    annotations=ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=True),
)


class RunCode:
    """The tool: one program at a time, each of which the person approves."""

    tool = RUN_CODE

    def __init__(self, host: Host, shell: InteractiveShell, cells: Cells) -> None:
        self._host = host
        self._shell = shell
        self._cells = cells
        self._turn = asyncio.Lock()

    async def call(self, arguments: dict[str, Any], client: Client, values: ClientValues) -> CallToolResult:
        """Run a program.

        Raises:
            ArgumentsError: It is no Python program.
            DeniedError: The person refused.
            SessionError: A cell has been running for too long.
        """
        code = await self._checked(arguments.get("code"))
        await self._free()
        tool = Programs(namespace=self._shell.user_ns).tool  # as the person sees it
        request = Request("", RUN_CODE.name, {"code": code}, client.asker, tool, program="kernel")
        decision = await self._host.caller.approval(request)
        agreed = code if decision.arguments is None else await self._checked(decision.arguments.get("code"))
        async with self._turn:
            await self._free()
            view = _View(self._cells, client.asker, self._masked(agreed))
            try:
                program = await self._run(agreed, view.begin)
            except asyncio.CancelledError:
                view.end("[nothing: it has gone, and the program was ended]", [])
                raise
            text = self._text(program, values)
            images = [image for image in program.images if len(image.base64) <= MAX_IMAGE]
            view.end(text, images)
        if agreed != code:
            text = f"[the person changed the code to]\n{self._masked(agreed)}\n[end of the code]\n{text}"
        blocks = [ImageContent(data=image.base64, mime_type=image.mime_type) for image in images]
        return CallToolResult(content=[TextContent(text=text), *blocks], is_error=bool(program.problem))

    async def _checked(self, code: object) -> str:
        """Return code that is a program; nothing of it runs."""
        if not isinstance(code, str) or not code.strip():
            raise ArgumentsError("code is a text: the Python program to run")
        if problem := await check(code, {}, State(), Programs(namespace={})):
            lines = [line.lstrip() for line in code.splitlines()]
            magics = any(line.startswith(("%", "!")) for line in lines)
            raise ArgumentsError(f"{problem}{'. Plain Python only: no %magic and no !command.' if magics else ''}")
        return code

    async def _free(self) -> None:
        """Wait until no cell runs."""
        try:
            async with asyncio.timeout(TURN_SECONDS):
                await self._cells.free()
        except TimeoutError:
            raise SessionError(
                f"a cell has been running for {duration(round(TURN_SECONDS))}. Nothing was run: call again when it has "
                "ended, or ask the person to interrupt it."
            ) from None

    async def _run(self, code: str, begin: Callable[[], None]) -> Program:
        """Run a program until it ends, the person interrupts it, or its time is over."""
        output, is_late, over = Printed(), threading.Event(), threading.Event()

        @contextmanager
        def captured(printed: Printed) -> Iterator[None]:
            nonlocal output
            output = printed
            with capture(self._shell, printed):
                yield

        programs = Programs(namespace=self._shell.user_ns, captured=captured, characters=CHARACTERS)
        work = self._with_image(run_program(code, {}, State(), programs, None))
        context = copy_context() if self._cells.latest is None else self._cells.latest.copy()
        task = asyncio.get_running_loop().create_task(work, context=context, name="mcp_magic run_code")

        def expire() -> None:
            seconds = SECONDS
            while not over.wait(seconds):
                is_late.set()
                interrupts.expire(task)
                seconds = AGAIN_SECONDS

        threading.Thread(target=expire, name="mcp_magic run_code", daemon=True).start()
        try:
            with interrupts.cancelling(task):
                begin()
                return await task
        except asyncio.CancelledError:
            if not interrupts.was_interrupted(task):
                raise
        finally:
            over.set()
        limit = duration(round(SECONDS))
        why = f"it ran for {limit} and was ended" if is_late.is_set() else "the person interrupted it"
        problem = f"KeyboardInterrupt: {why}. What it had done until then stays."
        return Program(code, problem=problem, printed=str(output), images=output.images)

    async def _with_image(self, running: Any) -> Program:
        """Await a program, and add the image of its value."""
        program: Program = await running
        formatter = self._shell.display_formatter
        if type(program.value).__module__ != "builtins" and formatter is not None:
            with suppress(Exception):  # of the class of the value
                data, _ = formatter.format(program.value, include={"image/png", "image/jpeg"})  # type: ignore[no-untyped-call]
                _add_images(program.images, data)
        return program

    def _text(self, program: Program, values: ClientValues) -> str:
        """Return what the agent reads; a value that is too large becomes a variable, of which it reads a copy."""
        text, value = text_for_model(program, CHARACTERS), program.value
        is_large = bool(getattr(value, "shape", ())) or size_of(value) > CHARACTERS
        name = ""
        if is_large and not why_never(value):
            with suppress(Exception):  # of the class of the value
                name = values.keep(value)
        if name:
            text += f'\n[{name} is this value: `read_value` reads it, and {{"$value": "{name}"}} passes it on]'
        return self._masked(text)

    def _masked(self, text: str) -> str:
        for connection in self._host.connections.values():
            text = connection.spec.masked(text)
        return Masker(()).text(text)


class _View:
    """What the person sees of a program: below the latest cell, and in a terminal once it has ended."""

    def __init__(self, cells: Cells, asker: str, code: str) -> None:
        self._head = Part.stack(Part.line(f"{asker} runs the program that you approved:"), code_part(code))
        self._context = copy_context() if cells.latest is None else cells.latest.copy()
        self._show: Callable[[dict[str, Any]], object] = show_below
        self._is_live = cells.kernel is not None

    def begin(self) -> None:
        """Show the code; from now on Interrupt ends it."""
        if self._is_live:
            self._show = self._context.run(show_below, bundle([self._head]))

    def end(self, text: str, images: list[Media]) -> None:
        """Show what the agent reads."""
        drawn = [media_part(image, Budget.full()) for image in images]
        self._context.run(self._show, bundle([self._head, Part.note("What it reads:"), Part.pre(text), *drawn]))


# What a program prints and displays is its own; what the person's code prints at the same time is not.

_printed: ContextVar[Printed | None] = ContextVar("mcp_magic_printed", default=None)
_running = 0  # programs that run


class _Stream:
    """Standard output or error while programs run."""

    def __init__(self, usual: Any) -> None:
        self.usual = usual

    def write(self, text: str) -> Any:
        """Write to the program's output, or to where others write."""
        return self._target.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    @property
    def _target(self) -> Any:
        printed = _printed.get()
        return self.usual if printed is None else printed


@contextmanager
def capture(shell: InteractiveShell, printed: Printed) -> Iterator[None]:
    """Let a `Printed` take what this task, and those that it starts, print and display."""
    global _running
    if not _running:
        sys.stdout, sys.stderr = _Stream(sys.stdout), _Stream(sys.stderr)
    _running += 1
    token = _printed.set(printed)
    publisher: Any = shell.display_pub
    hooked = hasattr(publisher, "register_hook")  # in ipykernel; in a terminal, what is displayed is printed
    if hooked:
        publisher.register_hook(_take)
    try:
        yield
    finally:
        with suppress(Exception):  # of a figure
            if (inline := sys.modules.get("matplotlib_inline.backend_inline")) is not None:
                inline.flush_figures()
        if hooked:
            publisher.unregister_hook(_take)
        _printed.reset(token)
        _running -= 1
        if not _running:
            for name in ("stdout", "stderr"):
                if isinstance(stream := getattr(sys, name), _Stream):
                    setattr(sys, name, stream.usual)


def _take(message: dict[str, Any]) -> dict[str, Any] | None:
    """Take a message with what a program displays; return one of others."""
    printed = _printed.get()
    if printed is None:
        return message
    data = message["content"].get("data") or {}
    if not _add_images(printed.images, data) and (text := data.get("text/plain")):
        printed.write(f"{text}\n")
    return None


def _add_images(images: list[Media], data: Mapping[str, Any]) -> bool:
    """Add the image of a mimebundle; return whether it has one."""
    for kind in ("image/png", "image/jpeg"):
        if isinstance(content := data.get(kind), str | bytes):
            text = base64.b64encode(content).decode() if isinstance(content, bytes) else content
            image = Media(text.replace("\n", ""), kind)
            if image not in images and len(images) < MAX_IMAGES:
                images.append(image)
            return True
    return False
