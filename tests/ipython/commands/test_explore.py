"""`%mcp tools`, `resources`, `templates`, `prompts`, `tool`, `skills`, `form` and `ui`."""

from __future__ import annotations

from contextlib import closing

import pytest

from mcp_magic import errors
from mcp_magic.errors import CommandError, RequestTimeoutError
from mcp_magic.notebook import host
from tests.support.bundled import load
from tests.support.odd_server import TOOL, connected
from tests.support.skills_server import SkillServer
from tests.support.waiting import until
from tests.support.waiting_server import Waiting, waiting_server


async def test_listings_are_searched_and_name_unusable_items(magic):
    assert [row["tool"] for row in await magic("tools --search PRIME")] == ["math:primes"]
    assert "no tools with 'zzz'" in str(await magic("tools math --search zzz"))
    assert [row["prompt"] for row in await magic("prompts math")] == ["math:explain"]
    assert len(await magic("templates")) == 1
    assert len(await magic("resources")) == 1
    async with connected(host, {"tools/list": {"tools": [TOOL, {"name": 5}]}}):
        listing = await magic("tools odd")
        assert [row["tool"] for row in listing] == ["odd:good"]
        assert "unusable: odd:5: its name is 5, not a text (fault: the server)" in str(listing)
        assert "unusable" not in str(await magic("tools odd --search good"))


async def test_tool_card_has_arguments_hints_and_working_example(magic):
    card = await magic("tool math:add")
    assert {row["name"] for row in card.arguments} == {"a", "b"}
    assert "read-only" in str(card)
    assert not (await magic(card.example.removeprefix("%mcp "))).is_error


async def test_name_of_the_only_server_may_be_left_out(magic):
    lines = ("logs", "roots", "docs", "stubs", "snapshot", "diff")
    await magic("snapshot math")
    for line in lines:
        assert "math" in str(await magic(line))
    await magic("connect $show --name show", show=load("showcase_server").server)
    for line in lines:
        assert await magic.error(errors.ArgumentsError, line) == "which server? Connected: math, show"
    await magic("disconnect show math")
    for line in lines:
        error = await magic.error(errors.UnknownServerError, line)
        assert "no server is connected; `%mcp connect TARGET` opens one" in error


# Time-outs


@pytest.fixture
async def waiting(magic):
    handlers = Waiting()
    await host.connect(waiting_server(handlers), name="waiting")
    return handlers


@pytest.mark.usefixtures("waiting")
async def test_forms_of_all_kinds_take_the_time_out(magic):
    magic.settings.call_timeout = 0.1
    for line in ("waiting:never", "waiting:never --prompt", "waiting://{name} name=never"):
        for more, said in (("", "within 0.1 s"), (" --timeout 0.2", "within 0.2 s")):
            with closing(await magic(f"form {line}{more}")) as form, pytest.raises(RequestTimeoutError, match=said):
                await form.run()


@pytest.mark.usefixtures("waiting")
async def test_explorer_forms_take_the_time_out_of_their_opening(magic):
    with closing(await magic("ui")) as explorer:
        magic.settings.call_timeout = 0.1
        for kind, item in (("tools", "never"), ("prompts", "never"), ("templates", "waiting://{name}")):
            explorer.filter.kinds.value, explorer.filter.search.value = kind, item
            await until(lambda: bool(explorer.matches))
            [chosen] = [one for one in explorer.matches if one.kind == kind]
            explorer.choose(chosen)
            explorer.detail.open_form()
            explorer.detail.form.set_arguments({"name": "never"} if kind == "templates" else {})
            with pytest.raises(RequestTimeoutError, match=r"within 0\.1 s"):
                await explorer.detail.form.run()


async def test_listing_takes_a_time_out_and_invalid_ones_are_refused(magic, waiting):
    waiting.stuck = True
    listing = await magic("prompts --refresh --timeout 0.2")
    assert [row["prompt"] for row in listing] == ["math:explain"]
    assert "waiting: prompts: not listed within 0.2 s; --timeout S waits longer." in str(listing)
    for word in ("soon", "0", "-1", "nan"):
        for line in ("read math://constants --timeout", "form math:add --timeout", "ping --timeout", "logs --seconds"):
            error = await magic.error(CommandError, f"{line}={word}")
            assert f"expected seconds above 0, for example 2.5, got '{word}'" in error


# Skills


@pytest.fixture
async def published(magic):
    published = SkillServer("refunds", "taxes")
    await host.connect(published.server(), name="acme")
    return published


async def test_skills_are_listed_with_problems_and_not_read(magic, published):
    published.entries.append({"uri": "skill://acme/<b>odd</b>/SKILL.md"})
    listing = await magic("skills")
    assert [(row["skill"], row["files"], row.get("problem", "")[:15]) for row in listing.rows] == [
        ("acme:refunds", 2, ""),
        ("acme:taxes", 2, ""),
        ("acme:", None, "its front matte"),
    ]
    assert "<b>odd" not in listing._repr_mimebundle_()["text/html"]
    assert published.reads == []


async def test_skill_is_shown_by_its_name_or_uri_or_says_why_not(magic, published):
    for wanted in ("taxes", "skill://acme/taxes/SKILL.md"):
        shown = await magic(f"skills acme --load {wanted}")
        assert shown.text.endswith("Do it with care.\n")
    assert "Do it with care." in shown._repr_mimebundle_()["text/plain"]
    published.entries.append(published.entries[0] | {"uri": "skill://other/refunds/SKILL.md", "resources": "dynamic"})
    published.files["skill://acme/taxes/SKILL.md"] += "and more"
    cases: list[tuple[str, type[Exception], str]] = [
        ("skills math", errors.NotOfferedError, "math publishes no skills"),
        ("skills --load taxes", CommandError, "takes the server too"),
        ("skills acme --load taxs", errors.UnknownResourceError, "no skill 'taxs' is listed. Did you mean 'taxes'?"),
        ("skills acme --load refunds", CommandError, "2 skills are named 'refunds'; say which: skill://acme/refunds/"),
        ("skills acme --load taxes", errors.VerificationError, "is not used"),
    ]
    for line, kind, says in cases:
        assert says in await magic.error(kind, line)
