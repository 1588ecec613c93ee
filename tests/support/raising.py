"""What an error says, whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable


def said(kind: type[Exception], function: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    """Return the text of the error that a call raises."""
    with pytest.raises(kind) as raised:
        function(*args, **kwargs)
    return str(raised.value)
