"""Threads in PostgreSQL, for more than one machine. Needs the extra `postgres`."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import psycopg
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import dict_row

from mcp_magic.agent.failures import without_secrets
from mcp_magic.display.text import one_line
from mcp_magic.errors import ThreadError

if TYPE_CHECKING:
    from contextlib import AsyncExitStack


CONNECT_SECONDS = 5  # seconds to connect to the server, unless the URL sets `connect_timeout`

_NEWEST = """
SELECT * FROM (
    SELECT DISTINCT ON (thread_id) thread_id, checkpoint_id, metadata FROM checkpoints
    WHERE checkpoint_ns = '' ORDER BY thread_id, checkpoint_id DESC
) AS latest ORDER BY checkpoint_id DESC LIMIT %s
"""


class DatabaseThreads(AsyncPostgresSaver):
    """LangGraph's checkpointer for PostgreSQL. It reads only messages and plain values, as `FileThreads` does."""

    async def newest(self, most: int) -> list[tuple[str, dict[str, Any]]]:
        """Return names of threads and the metadata of their latest checkpoints, newest thread first."""
        connection: Any = self.conn
        async with self.lock, connection.cursor() as cursor:
            await cursor.execute(_NEWEST, (most,))
            return [(row["thread_id"], row["metadata"]) for row in await cursor.fetchall()]


async def open_database(url: str, where: str, stack: AsyncExitStack) -> DatabaseThreads:
    """Connect, and create missing tables; ThreadError on one line, without the password, if that fails."""
    problem = ""
    options: dict[str, Any] = {}
    with suppress(psycopg.Error):  # the library's own message may quote part of the password
        options = {"connect_timeout": CONNECT_SECONDS, **conninfo_to_dict(url)}
    ports = str(options.get("port") or "").split(",")
    if not options or not all(not port or port.isdigit() for port in ports):
        advice = "in a user name or password, characters such as @ and / are percent-encoded"
        raise ThreadError(f"threads cannot be kept in {where}: no URL of PostgreSQL; {advice}")
    try:
        connecting = psycopg.AsyncConnection.connect(
            **options, autocommit=True, prepare_threshold=0, row_factory=dict_row
        )
        connection: Any = await connecting
        stack.push_async_callback(connection.close)
        saver = DatabaseThreads(connection, serde=JsonPlusSerializer(allowed_msgpack_modules=None))
        await saver.setup()
    except (OSError, psycopg.Error) as error:
        problem = why(error, str(options.get("password") or ""))
    if problem:
        raise ThreadError(f"threads cannot be kept in {where}: {problem}")
    return saver


def why(error: Exception, password: str = "") -> str:
    """Return an error of the database on one line, or "" for any other error."""
    if not isinstance(error, OSError | psycopg.Error):
        return ""
    return one_line(without_secrets(str(error), [password, unquote(password)]), 200)
