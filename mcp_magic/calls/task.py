"""What a server says about the task that it has made of a call (extension of 2026-07-28, SEP-2663)."""

from __future__ import annotations

import math
from collections.abc import Mapping  # noqa: TC003
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from mcp_magic.display.text import one_line
from mcp_magic.flight.attempt import current_attempt
from mcp_magic.schema.resolve import object_of

if TYPE_CHECKING:
    from mcp.client.extension import ClientExtension

EXTENSION = "io.modelcontextprotocol/tasks"

Status = Literal["working", "input_required", "completed", "failed", "cancelled"]

STATUSES: tuple[str, ...] = get_args(Status)

FINAL = ("completed", "failed", "cancelled")  # statuses after which a task no longer changes

USUAL_SECONDS = 1.0  # interval where the server names none

SHORTEST_SECONDS, LONGEST_SECONDS = 0.2, 60.0  # bounds of the server's interval

MAX_ID = 2_000  # characters of a task's id

MAX_QUESTIONS = 100  # questions that a task may have open

MAX_MESSAGE = 2_000  # characters kept of a status message: more than are shown, so that a secret is masked before


@dataclass(frozen=True)
class TaskState:
    """What a server said last about a task.

    Attributes:
        id: Its id.
        status: `"working"`, `"input_required"`, `"completed"`, `"failed"` or `"cancelled"`.
        message: What the server says about it, unmasked; "" for nothing.
        ttl: Seconds from its creation for which the server keeps it, or None if it names no limit.
        interval: Seconds between two questions, as the server wants it, or None.
        result: The result of a completed task, as it came.
        error: The JSON-RPC error of a failed task.
        questions: The server's open questions, by a key.
    """

    id: str
    status: Status = "working"
    message: str = ""
    ttl: float | None = None
    interval: float | None = None
    result: Mapping[str, Any] = field(default_factory=dict)
    error: Mapping[str, Any] = field(default_factory=dict)
    questions: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, raw: Mapping[str, Any], of: str = "") -> TaskState:
        """Read a server's answer; `of` is the id of the task that it was asked about. Raises ValueError if it is wrong.

        >>> TaskState.read({"taskId": "a", "status": "working", "ttlMs": 60000, "pollIntervalMs": 5000}).ttl
        60.0
        """
        id_, status = raw.get("taskId"), raw.get("status")
        if not isinstance(id_, str) or not 0 < len(id_) <= MAX_ID:
            raise ValueError(f"its taskId is not a text of 1 to {MAX_ID:,} characters")
        if of and id_ != of:
            raise ValueError(f"it is about the task {one_line(id_, 60)!r}, not about {one_line(of, 60)!r}")
        if status not in STATUSES:
            raise ValueError(f"the task's status is {one_line(str(status), 40)!r}, not one of {', '.join(STATUSES)}")
        message = raw.get("statusMessage")
        if status == "completed" and of and not isinstance(raw.get("result"), dict):
            raise ValueError("the task is completed, but the answer has no result")
        if len(object_of(raw.get("inputRequests"))) > MAX_QUESTIONS:
            raise ValueError(f"the task has more than {MAX_QUESTIONS} open questions")
        return cls(
            id_,
            cast("Status", status),
            message[:MAX_MESSAGE] if isinstance(message, str) else "",
            _seconds(raw.get("ttlMs")),
            _seconds(raw.get("pollIntervalMs")),
            *(object_of(raw.get(name)) for name in ("result", "error", "inputRequests")),
        )

    @property
    def pause(self) -> float:
        """Seconds between two questions about it: the server's interval, within bounds."""
        if self.interval is None:
            return USUAL_SECONDS
        return min(max(self.interval, SHORTEST_SECONDS), LONGEST_SECONDS)


def _seconds(milliseconds: Any) -> float | None:
    if not isinstance(milliseconds, int | float) or isinstance(milliseconds, bool):
        return None
    return milliseconds / 1000 if math.isfinite(milliseconds) and 0 <= milliseconds < 1e15 else None


@cache
def tasks_extension() -> ClientExtension:
    """Return the client's side of the extension: a task stands in the attempt of its call until the call has ended."""
    from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
    from mcp_types import CallToolResult, Result
    from pydantic import ConfigDict, Field

    class Created(Result):  # type: ignore[explicit-any,unused-ignore]
        """A result of `tools/call` that is a task; `TaskState.read` reads its other fields."""

        model_config = ConfigDict(extra="allow")

        result_type: Literal["task"] = Field(alias="resultType")

    async def resolve(created: Created, context: ClaimContext) -> CallToolResult:
        state = TaskState.read(created.model_dump(by_alias=True))
        if (attempt := current_attempt.get()) is not None:
            attempt.task = state
        return CallToolResult(content=[])

    class Tasks(ClientExtension):
        identifier = EXTENSION

        def claims(self) -> tuple[ResultClaim[Any], ...]:
            return (ResultClaim(result_type="task", model=Created, resolve=resolve),)

    return Tasks()
