"""A list of 1,000 variables, and rows of a table of a million, as outside agents read them, against pandas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.timing import Result, at_most, compared, pairs, seconds_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["run"]

GOAL_MS, GOAL_READ, GOAL_QUERY = 50, 8, 3
VARIABLES, ROWS = 1_000, 1_000_000


class Namespace:
    """Variables that all are readable."""

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    def names(self) -> tuple[str, ...]:
        """Return the names."""
        return tuple(self._values)

    def get(self, name: str) -> Any:
        """Return a value."""
        return self._values[name]

    peek = get


def run(*, quick: bool = False) -> list[Result]:
    """Measure a list of the variables, a page of a table, and a query over it."""
    from mcp_magic.values.tools import value_tools

    frame = made(10_000 if quick else ROWS)
    few = frame.head(100)
    kinds: list[Any] = [few, [1, 2], "x" * 100, {"a": 1}, few["id"], 3.5, None, {1, 2}, (1, 2), few.to_numpy()]
    variables = Namespace({f"v{number}": kinds[number % len(kinds)] for number in range(VARIABLES)})
    table = Namespace({"df": frame})
    lister, _, reader = value_tools(limit=1_000_000)
    count = 3 if quick else 15
    start = len(frame) // 2
    condition = "temperature > 30 and rain"
    return [
        at_most(
            f"list_values of {VARIABLES:,} variables",
            min(seconds_of(lambda: lister.answer({}, variables)) for _ in range(count)) * 1e3,
            GOAL_MS,
            "ms",
        ),
        compared(
            f"read_value of 100 of {len(frame):,} rows",
            pairs(
                lambda: reader.answer({"name": "df", "rows": f"{start}:{start + 100}"}, table),
                lambda: frame.iloc[start : start + 100].to_csv(index=False),
                count,
            ),
            goal=GOAL_READ,
            note="against iloc and to_csv",
        ),
        compared(
            f"a query over {len(frame):,} rows",
            pairs(
                lambda: reader.answer({"name": "df", "query": condition, "rows": f":{len(frame)}"}, table),
                lambda: frame.query(condition).to_csv(index=True),
                count,
            ),
            goal=GOAL_QUERY,
            note="against DataFrame.query and to_csv",
        ),
    ]


def made(count: int) -> pd.DataFrame:
    """Return rows of a weather station."""
    import numpy as np
    import pandas as pd

    numbers = np.arange(count)
    return pd.DataFrame(
        {
            "id": numbers,
            "city": np.array(["Zürich", "Oslo", "London", "New York"], object)[numbers % 4],
            "temperature": (numbers % 400) / 10 - 5,
            "rain": numbers % 3000 == 0,
        }
    )
