"""`%mcp view`: the view of a tool in a tab of the browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_magic._compat import IN_BROWSER
from mcp_magic._text import clean
from mcp_magic.errors import CommandError
from mcp_magic.ipython.commandline import Argument, Implementation, Invocation

if TYPE_CHECKING:
    import argparse

    from mcp_magic.apps.app import App
    from mcp_magic.apps.page import AppPage


async def _view(invocation: Invocation, arguments: argparse.Namespace) -> AppPage | None:
    if IN_BROWSER:
        raise CommandError("%mcp view: this Python runs in a browser, where it can serve no page.")
    page = await _page_of(_app(invocation, arguments.result), invocation.state.pages)
    page.invite()
    if invocation.cells.kernel is not None:
        return page
    print(clean(f"{page}\nIt is served until its tab is closed; Ctrl-C ends it, too."), flush=True)
    try:
        await page.left.wait()  # in a terminal nothing runs between the commands
    finally:
        await page.stop()
    return None


def _app(invocation: Invocation, word: str) -> App:
    """Return the app of a result, or of a value that is one."""
    from mcp_magic.apps.app import App

    value = invocation.value(word)
    app = getattr(value, "app", value)
    if isinstance(app, App):
        return app
    noun = "the last value" if word == LAST else word
    raise CommandError(
        f"%mcp view: {noun} is no result of a tool with a view; `r = %mcp call SERVER:TOOL`, then `%mcp view $r`"
    )


async def _page_of(app: App, pages: list[AppPage]) -> AppPage:
    """Return the page of an app, begun if it has none yet; forget the pages that have ended."""
    from mcp_magic.apps.page import AppPage

    pages[:] = [each for each in pages if each.running]
    for page in pages:
        if page.app is app:
            return page
    page = AppPage(app)
    await page.start()
    pages.append(page)
    return page


LAST = "$_"

VIEW = Implementation(
    _view,
    (
        Argument(
            "result",
            nargs="?",
            default=LAST,
            metavar="RESULT",
            help="the result of a tool that has a view, as $result (default: the last value)",
        ),
    ),
    examples=("%mcp view", "%mcp view $result"),
    details="For terminals, and for notebooks whose frontend shows no widgets. The page is served on 127.0.0.1 with a "
    "token, so it opens in a browser on the kernel's machine. Its address opens once; type the line again for another. "
    "The page asks you about the requests of the view, above the view. In a terminal the line waits until you close "
    "the tab; in a kernel it ends at once, and the page lasts until the kernel ends.",
)
