"""`%mcp skills`: which there are, and what one says."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_magic.errors import CommandError, NotOfferedError, UnknownResourceError, VerificationError
from mcp_magic.ipython.completion import candidates
from mcp_magic.notebook import host
from tests.support.skills_server import SkillServer


@pytest.fixture
async def published(magic: Any) -> SkillServer:
    published = SkillServer("refunds", "taxes")
    await host.connect(published.server(), name="acme")
    return published


async def test_skills_are_listed_with_problems_and_not_read(magic: Any, published: SkillServer) -> None:
    published.entries.append({"uri": "skill://acme/<b>odd</b>/SKILL.md"})

    listing = await magic("skills")

    assert [(row["skill"], row["files"], row.get("problem", "")[:15]) for row in listing.rows] == [
        ("acme:refunds", 2, ""),
        ("acme:taxes", 2, ""),
        ("acme:", None, "its front matte"),
    ]
    assert "<b>odd" not in listing._repr_mimebundle_()["text/html"]
    assert published.reads == []


async def test_a_skill_is_shown_by_its_name_or_uri(magic: Any, published: SkillServer) -> None:
    for wanted in ("taxes", "skill://acme/taxes/SKILL.md"):
        shown = await magic(f"skills acme --load {wanted}")
        assert shown.text.endswith("Do it with care.\n")
    assert "Do it with care." in shown._repr_mimebundle_()["text/plain"]


async def test_what_cannot_be_shown_is_an_error_that_says_why(magic: Any, published: SkillServer) -> None:
    with pytest.raises(NotOfferedError, match="math publishes no skills"):
        await magic("skills math")
    with pytest.raises(CommandError, match="takes the server too"):
        await magic("skills --load taxes")
    with pytest.raises(UnknownResourceError, match=r"no skill 'taxs' is listed\. Did you mean 'taxes'\?"):
        await magic("skills acme --load taxs")
    published.entries.append(published.entries[0] | {"uri": "skill://other/refunds/SKILL.md", "resources": "dynamic"})
    with pytest.raises(CommandError, match="2 skills are named 'refunds'; say which: skill://acme/refunds/SKILL"):
        await magic("skills acme --load refunds")
    published.files["skill://acme/taxes/SKILL.md"] += "and more"
    with pytest.raises(VerificationError, match="is not used"):
        await magic("skills acme --load taxes")


async def test_servers_are_completed(magic: Any, published: SkillServer) -> None:
    assert candidates("skills ac", {}).texts == ["acme"]
