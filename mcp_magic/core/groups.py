"""Exception groups end here.

A group must not even stay in the `__context__` of what is raised instead: ipykernel then shows the
error as a stream, and nbclient waits for its time-out. So errors are noted in the `except` block
and raised after it.
"""

from __future__ import annotations

__all__ = ["leaf"]

_CLOSED = -32000


def leaf(error: BaseException) -> BaseException:
    """Return the error inside nested groups that says most about what happened.

    >>> leaf(ExceptionGroup("outer", [ExceptionGroup("inner", [ValueError("x")])]))
    ValueError('x')
    """
    if not isinstance(error, BaseExceptionGroup):
        return error
    leaves = [leaf(inner) for inner in error.exceptions]
    # "Connection closed" is what the other side of the pipe says about somebody else's failure.
    return next((e for e in leaves if getattr(e, "code", None) != _CLOSED and isinstance(e, Exception)), leaves[0])
