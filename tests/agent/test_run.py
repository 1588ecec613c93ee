"""Messages and tools of an agent, looked at; and those of a model that means harm."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import nbformat
import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from pydantic import BaseModel, Field

from mcp_magic.agent.events import CallEvent
from mcp_magic.agent.run import CALL_COLUMNS, calls_frame, display_messages, get_final_answer, tools_summary, usage_of
from mcp_magic.notebook import NotebookHost
from tests.support.agents import add_server
from tests.support.markup import EVIL, SAFE_ATTRIBUTES, SAFE_TAGS, Markup
from tests.support.showcase import showcase
from tests.support.telling import answer, called, decided, definition, html, result, texts, told, turn, usage
from tests.support.threads_in import kept, run

CALL = CallEvent(id="1", server="a", tool="b", arguments={"pin": "1234"}, turn=1)


async def thread() -> list[Any]:
    approval = {"decision": "approve", "by": "person", "reason": ""}
    first: Any = {"id": "1", "name": "showcase__add", "args": {"a": 3, "b": 4}}
    second: Any = {"id": "2", "name": "showcase__fails", "args": {"city": "Atlantis", "api_key": "sk-abc"}}
    return [
        HumanMessage("add"),
        AIMessage("I add.", tool_calls=[first], usage_metadata=usage(10, 2), response_metadata={"model_name": "m-1"}),
        answer("1", await called("add", a=3, b=4), approval=approval),
        AIMessage("", tool_calls=[second], usage_metadata=usage(20, 3), response_metadata={"model_name": "m-1"}),
        answer("2", await called("fails")),
        AIMessage("It is 7.", usage_metadata=usage(30, 4), response_metadata={"model": "m-2"}),
    ]


async def test_the_final_answer_is_the_last_text_that_asks_for_nothing():
    messages = await thread()
    assert get_final_answer(messages) == "It is 7."
    assert get_final_answer(messages[:-1]) == get_final_answer([]) == ""
    blocks: Any = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Seven."}]
    assert get_final_answer([{"role": "user", "content": "?"}, AIMessage(blocks)]) == "Seven."
    calls = [{"id": "1", "type": "function", "function": {"name": "add", "arguments": "{}"}}]
    old = AIMessage("wait", additional_kwargs={"tool_calls": calls})
    assert get_final_answer([AIMessage("7"), old]) == "7"


async def test_usage_is_told_in_all_and_by_model():
    models = {"m-1": usage(30, 5), "m-2": usage(30, 4)}
    assert usage_of(await thread()) == {**usage(60, 9), "models": models}
    assert usage_of([HumanMessage("a"), AIMessage("b")]) == {**usage(0, 0), "models": {}}


async def test_the_frame_has_a_row_for_each_call():
    frame = calls_frame(await thread())
    arguments = [{"a": 3, "b": 4}, {"city": "Atlantis", "api_key": "***"}]
    rows = [
        (1, "showcase", "add", arguments[0], "person", 0.12, None),
        (2, "showcase", "fails", arguments[1], None, 0.12, "no such city: <Atlantis>"),
    ]
    assert tuple(frame.columns) == CALL_COLUMNS
    assert frame.to_dict("records") == [dict(zip(CALL_COLUMNS, row, strict=True)) for row in rows]
    empty = calls_frame([HumanMessage("a")])
    assert tuple(empty.columns) == CALL_COLUMNS
    assert (len(empty), empty["seconds"].dtype, empty["turn"].dtype) == (0, "float64", "int64")
    assert list(calls_frame([turn("", "1=tool"), answer("1", texts("a", "b"))])["error"]) == [None]


def test_the_frame_hides_secrets_and_says_why_a_call_failed():
    schema = {"type": "object", "properties": {"pin": {"type": "string", "writeOnly": True}}}
    assert calls_frame(told(replace(CALL, definition=definition("b", schema))))["arguments"][0] == {"pin": "***"}
    message = ToolMessage("refused", tool_call_id="1", status="error")
    frame = calls_frame(told(CALL, decided("1", False, reason="too dear"), result("1", message)))
    assert (frame["error"][0], frame["approved by"][0]) == ("too dear", None)


async def test_messages_are_displayed_with_or_without_calls():
    messages = await thread()
    assert "showcase:add" in html(display_messages(messages))
    brief = html(display_messages(messages, trace=False, tokens=False))
    assert [part for part in ("It is 7.", "showcase:add", "tokens") if part in brief] == ["It is 7."]
    assert display_messages(messages).results[0].data == 7  # type: ignore[union-attr]
    for short in ([], [HumanMessage("a")]):
        assert "text/plain" in display_messages(short)._repr_mimebundle_()


@tool
def search(query: str, limit: int = 10) -> str:
    """Look things up."""
    return query * limit


class Weather(BaseModel):
    """The weather of a city."""

    city: str = Field(description="which one")
    days: list[int] | None = None


async def test_tools_of_any_kind_are_listed_with_their_arguments():
    plain: dict[str, Any] = {"description": "<script>alert(1)</script>", "parameters": {"type": "object"}}
    listing = tools_summary([search, Weather, {"type": "function", "function": {"name": "plain", **plain}}])
    assert [row["tool"] for row in listing] == ["search", "Weather", "plain"]
    assert [row["description"] for row in listing][:2] == ["Look things up.", "The weather of a city."]
    assert listing[0]["arguments"] == "query: string, [limit: integer]"
    assert "hints" not in listing[0]
    assert "<script>" not in listing._repr_mimebundle_()["text/html"]
    async with NotebookHost() as host:
        await host.connect(showcase(), name="show")
        row = next(row for row in tools_summary(host.langchain_tools()) if row["tool"] == "show:add")
    assert row["arguments"] == "a: integer, b: integer"
    assert [str(badge) for badge in row["hints"]] == ["[no hints]"]


# A model that means harm: its names, arguments, words and floods against the run, the page and the saved notebook


DEEP: Any = []
for _ in range(400):
    DEEP = [DEEP]


def calling(*calls: dict[str, Any]) -> AIMessage:
    return AIMessage("", tool_calls=[*calls])


def buy(number: int = 1, name: str = "shop__buy", **arguments: Any) -> Any:
    return {"name": name, "args": arguments or {"item": "pear"}, "id": f"call_{number}", "type": "tool_call"}


INVALID: Any = {"name": EVIL, "args": "{" + EVIL, "id": "x", "error": EVIL, "type": "invalid_tool_call"}
BLOCKS: Any = [
    {"type": "thinking", "thinking": EVIL},
    {"type": "reasoning", "reasoning": EVIL},
    {"type": "image_url", "image_url": {"url": "http://127.0.0.1:9/evil.png"}},
    {"type": "image", "url": "http://127.0.0.1:9/evil.png"},
    {"type": "image", "base64": "<script>", "mime_type": "image/svg+xml"},
    {"type": "<b>", "x": EVIL},
    {"type": "text", "text": EVIL},
]
TURNS: dict[str, Any] = {
    "words": EVIL,
    "blocks": AIMessage(BLOCKS),
    "a name that is markup": calling(buy(name=EVIL)),
    "a name of 2 MB": calling(buy(name="a" * 2_000_000)),
    "an argument of 2 MB": calling(buy(item="<" * 2_000_000)),
    "2,000 arguments": calling(buy(**{f"{EVIL}{number}": number for number in range(2000)})),
    "an argument that is markup": calling(buy(item=EVIL)),
    "an argument of the wrong type": calling(buy(item=[{"a": EVIL}])),
    "an argument 400 levels deep": calling(buy(item=DEEP)),
    "half an emoji": AIMessage("\ud83d", tool_calls=[buy(item="\ud83d")]),
    "no JSON": AIMessage("", invalid_tool_calls=[INVALID]),
    "an id of 2 MB": calling({**buy(), "id": EVIL * 3000}),
    "the same id thrice": calling(buy(), buy(), buy()),
    "no id": calling({**buy(), "id": None}, {**buy(), "id": ""}),
    "2,000 unknown tools": calling(*(buy(number, f"nope{number}") for number in range(2000))),
    "long integers": calling(buy(name="tags__tag", names=["9" * 30] * 2000, count="many")),
    "2 MB of brackets": "[" * 2_000_000,
}


def tag(names: list[str], count: int) -> str:
    return "tagged"


@pytest.mark.parametrize("name", TURNS)
async def test_a_run_goes_on_and_shows_no_markup_of_the_model(host, tmp_path, name):
    await add_server(host, "tags", tag)
    made, problem = await run(host, tmp_path / "threads.sqlite", [TURNS[name], "done"], approve="auto")
    if name in ("words", "blocks", "2 MB of brackets"):
        assert len(made.messages) == 2
    else:
        assert made.answer == "done"
    assert problem == ""
    shown: Any = made._repr_mimebundle_()
    assert len(await kept(tmp_path / "threads.sqlite")) == len(made.messages)
    assert set(shown) == {"text/plain", "text/html"}
    assert len(json.dumps(shown)) < 450_000
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\ud83d]", shown["text/plain"] + shown["text/html"])
    markup = Markup(shown["text/html"])
    assert markup.tags <= SAFE_TAGS | {"strong", "em", "h4", "h5", "h6", "ol", "blockquote", "hr", "s"}
    assert markup.attributes <= SAFE_ATTRIBUTES
    assert all(re.match("https?://|data:image/png;", url) for url in markup.urls)
    assert Loads(shown["text/html"]).tags == []


class Loads(HTMLParser):
    """What makes a browser fetch something, or run a script, when it shows a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = dict(attributes)
        loads = {"src", "srcset", "poster", "background", "data", "action", "xlink:href"} & values.keys()
        drawn = "url(" in (values.get("style") or "") or any(name.startswith("on") for name in values)
        runs = (values.get("href") or "").lower().startswith(("javascript:", "data:", "file:"))
        loading = tag in ("script", "iframe", "object", "embed", "link", "svg", "form", "base", "meta")
        if loads or drawn or runs or loading:
            self.tags.append(str(self.get_starttag_text()))


async def test_a_page_of_nbconvert_fetches_nothing_of_the_model(host):
    from nbconvert import HTMLExporter

    outputs = []
    for name in ("words", "blocks", "a name that is markup", "an argument that is markup", "no JSON"):
        made, _ = await run(host, ":memory:", [TURNS[name], EVIL], thread=name, approve="auto")
        outputs.append(nbformat.v4.new_output("display_data", data=made._repr_mimebundle_()))

    def page(outputs: list[Any]) -> str:
        cell = nbformat.v4.new_code_cell("%%mcp_agent", outputs=outputs)
        html, _ = HTMLExporter().from_notebook_node(nbformat.v4.new_notebook(cells=[cell]))
        return str(html)

    assert Loads(page(outputs)).tags == Loads(page([])).tags
    assert "127.0.0.1:9/evil" in page(outputs)
    assert "tex2jax_ignore" in page(outputs)
