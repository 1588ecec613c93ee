"""What the offline model says: answers from results, questions, refusals."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mcp_magic.wording import sentence

if TYPE_CHECKING:
    from mcp_magic.agent.offline.ranking import Ranking
    from mcp_magic.agent.offline.results import Outcome
    from mcp_magic.agent.offline.tools import Known
    from mcp_magic.schema import Field

__all__ = ["answer", "ask_for", "no_request", "no_tool", "no_tools", "too_long"]

MAX_ROWS = 30
"""Rows of a table in an answer; the result itself has them all."""

MAX_TEXT = 4000
"""Characters of one result in an answer."""

SUGGESTED = 5
"""Tools named when none fits."""


def no_request() -> str:
    """Return what is said to an empty request."""
    return "What should I do? Say it in a sentence, or name a tool and its arguments: `server:tool name=value`."


def too_long(length: int, most: int) -> str:
    """Return what is said to a request that is too long to be gone through."""
    return f"That is {length:,} characters long, and I read requests of at most {most:,}. Say it shorter, please."


def no_tools() -> str:
    """Return what is said if no tools are bound."""
    return "There is no tool to work with: no server is connected, or none of its tools was given to me."


def no_tool(request: str, ranking: Ranking) -> str:
    """Return that no tool fits, with those that are closest."""
    names = [f"`{tool.person}`" for tool in closest(request, ranking, SUGGESTED)]
    more = len(ranking.tools) - len(names)
    others = f" and {more} more" if more > 0 else ""
    asked = re.sub(r"\s+", " ", request).strip().replace("`", "'")
    asked = asked if len(asked) <= 80 else asked[:79] + "…"
    return f"No tool fits `{asked}`. There are: {', '.join(names)}{others}. Name one, as `server:tool name=value`."


def closest(text: str, ranking: Ranking, limit: int) -> list[Known]:
    """Return the tools whose words are closest to a text, the rest in order after them."""
    order = ranking.order(text)
    return [ranking.tools[i] for i in order[:limit]]


def ask_for(tool: Known, missing: Sequence[Field]) -> str:
    """Return the question for what a call still lacks."""
    wanted = []
    for field in missing:
        about = f": {_line(field.description)}" if field.description else ""
        limits = f", {field.constraints_text}" if field.constraints_text else ""
        wanted.append(f"`{field.name}` ({field.type_text}{limits}){about}")
    if len(wanted) == 1:
        return f"{sentence(f'`{tool.person}` needs {wanted[0]}')} What should it be?"
    rows = "".join(f"\n- {each}" for each in wanted)
    return f"`{tool.person}` needs {len(wanted)} more arguments. What should they be?\n{rows}"


def _line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip().rstrip(".")


def answer(outcomes: Sequence[Outcome], stopped: str = "") -> str:
    """Return the answer that results give; without any, the question what to do: "then" alone asks for nothing.

    Args:
        outcomes: Of this request, in order.
        stopped: Why there is no more, or "".
    """
    if not outcomes:
        return stopped or no_request()
    if len(outcomes) == 1:
        said = _said(outcomes[0])
    elif any("\n" in _said(each) for each in outcomes):
        said = "\n\n".join(_said(each) for each in outcomes)
    else:
        said = "\n".join(f"{number}. {_said(each)}" for number, each in enumerate(outcomes, start=1))
    return "\n\n".join(part for part in (said, stopped) if part)


def _said(each: Outcome) -> str:
    call = f"{each.tool}({_arguments(each.arguments)})"
    if each.denied:
        return sentence(f"`{each.tool}` was not allowed", _cell(_line(each.text)) or "no reason was given")
    if each.failed:
        return f"`{each.tool}` failed: {_cell(_cut(each.text.strip())) or 'it did not say why'}"
    if isinstance(each.data, list) and each.data and all(isinstance(row, Mapping) for row in each.data):
        return f"`{call}` gives {len(each.data)} rows:\n\n{_table(each.data)}"
    if isinstance(each.data, Mapping) and each.data and all(_is_short(value) for value in each.data.values()):
        rows = "".join(f"\n- {_cell(key)}: {_cell(value)}" for key, value in each.data.items())
        return f"`{call}` gives:\n{rows}"
    return _plain(call, each)


def _plain(call: str, each: Outcome) -> str:
    if isinstance(each.data, list | Mapping):
        text = json.dumps(each.data, ensure_ascii=False)
        if len(text) <= 200:
            return f"`{call}` gives `{text}`."
        return f"`{call}` gives:\n\n{_fenced(_cut(json.dumps(each.data, ensure_ascii=False, indent=2)), 'json')}"
    text = each.data if isinstance(each.data, str) else json.dumps(each.data, ensure_ascii=False)
    if not text.strip():
        return f"`{call}` is done; it returned no text."
    if not isinstance(each.data, str):
        return f"`{call}` gives **{text}**."
    if "\n" in text.strip() or len(text) > 200:
        return f"`{call}` says:\n\n{_fenced(_cut(text))}"
    return f"`{call}` says: {_cell(text)}"


def _arguments(arguments: Mapping[str, Any]) -> str:
    parts = []
    for name, value in arguments.items():
        text = json.dumps(value, ensure_ascii=False)
        parts.append(f"{name}={text if len(text) <= 40 else text[:39] + '…'}")
    return ", ".join(parts).replace("`", "'")


def _is_short(value: Any) -> bool:
    return not isinstance(value, list | Mapping) and len(str(value)) <= 200


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    names = list(dict.fromkeys(str(name) for row in rows for name in row))
    lines = [names, ["---"] * len(names), *([_cell(row.get(name)) for name in names] for row in rows[:MAX_ROWS])]
    lines[0] = [_cell(name) for name in names]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return table + (f"\n\nand {len(rows) - MAX_ROWS} rows more" if len(rows) > MAX_ROWS else "")


def _cell(value: Any) -> str:
    """Return a value on one line, with what Markdown and HTML would make something of taken away."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = re.sub(r"\s+", " ", text).strip()
    return re.sub(r"([\\`*\[\]|<]|(?<!\w)_|_(?!\w))", r"\\\1", text)


def _fenced(text: str, language: str = "") -> str:
    ticks = max((len(found) for found in re.findall("`+", text)), default=0)
    fence = "`" * max(3, ticks + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}… ({len(text):,} characters in all)"
