"""The views of calls. Each call of a tool with a view has one, which shows its arguments and its result."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakSet

from mcp_magic.apps.app import App
from mcp_magic.apps.view import view_uri
from mcp_magic.calls.call import CallObserver
from mcp_magic.session.connection import Connection

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_types import Tool

    from mcp_magic.calls.call import Call
    from mcp_magic.results.results import ToolResult

_views: WeakKeyDictionary[Connection, WeakSet[App]] = WeakKeyDictionary()


def views_of(connection: Connection) -> WeakSet[App]:
    """Return the views of a session's calls that are in use."""
    if connection not in _views:
        views = _views[connection] = WeakSet()

        def session_changed() -> None:
            for app in views:
                app.session_changed()

        connection.watch(session_changed)
    return _views[connection]


def draft_view(connection: Connection, tool: Tool) -> App:
    """Return the view of a call while a model writes it; `CallView` uses it when the call goes out."""
    app = App(connection, tool, {}, is_whole=False)
    views_of(connection).add(app)
    return app


class CallView(CallObserver):
    """Shows the arguments of a call in its view when it goes out, and the result when it comes.

    Args:
        on_view: Called with a new view.
        draft: The view if it was shown before the call went out (`draft_view`); it is used, and `on_view` not called.
    """

    def __init__(self, on_view: Callable[[App], None] | None = None, draft: App | None = None) -> None:
        self._on_view = on_view
        self._draft = draft
        self._app: App | None = None

    def sent(self, call: Call) -> None:
        """Show the arguments, if the tool has a view."""
        tool = call.definition
        if tool is None or not tool.meta or not view_uri(tool):
            return
        assert isinstance(call.connection, Connection)
        views = views_of(call.connection)
        if self._draft is not None and self._draft in views and self._draft.begin(tool, call.arguments):
            self._app = self._draft
            return
        self._app = App(call.connection, tool, call.arguments)
        views.add(self._app)
        if self._on_view is not None:
            self._on_view(self._app)

    def ended(self, call: Call, outcome: ToolResult | BaseException) -> None:
        """Give the view the result, or say why there is none."""
        if self._app is None:
            return
        if isinstance(outcome, BaseException):
            self._app.cancel(str(outcome))
            return
        self._app.finish(outcome.raw)
        if not outcome.is_error:
            outcome.app = self._app
