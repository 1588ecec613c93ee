"""Skills of a server: listed, loaded when they are wanted, and never used if they are not what their entry says."""

from __future__ import annotations

from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer

from mcp_magic.errors import InvalidResponseError, NotOfferedError, ProtocolError, VerificationError
from mcp_magic.skills import MAX_BYTES, MAX_FILES, FrontMatterError, same_front_matter, split_front_matter
from tests.support.skills_server import MANIFEST, SkillServer, entry_of

REFUNDS, FORMS = "skill://acme/refunds/SKILL.md", "skill://acme/refunds/references/FORMS.md"


@pytest.mark.parametrize("last", [None, "", "2"], ids=["none", "empty", "circle"])
async def test_all_pages_of_the_list_are_read_and_no_file(host, last):
    published = SkillServer("refunds", "invoices", "taxes")
    published.last = last
    connection = await host.connect(published.server(), name="acme")
    skills = await connection.skills.list()
    assert [(skill.server, skill.name, skill.problem) for skill in skills] == [
        ("acme", name, "") for name in ("refunds", "invoices", "taxes")
    ]
    assert skills[0].description == "About refunds"
    assert [file.uri.rpartition("/")[2] for file in skills[0].files] == ["SKILL.md", "FORMS.md"]
    assert published.reads == []


async def test_skill_loads_by_uri_and_reads_only_its_files_on_demand(host):
    published = SkillServer("refunds", "invoices")
    connection = await host.connect(published.server())
    loaded = await connection.skills.load(REFUNDS)
    assert loaded.instructions.strip() == "Do it with care."
    assert loaded.text == MANIFEST.format(name="refunds")
    for path in ("../invoices/SKILL.md", "scripts/run.py", "skill://acme/invoices/SKILL.md"):
        with pytest.raises(VerificationError, match="is not a file of the skill 'refunds'"):
            await loaded.read(path)
    assert published.reads == [REFUNDS]
    assert (await loaded.read("references/FORMS.md")).text == "The forms.\n"
    assert published.reads == [REFUNDS, FORMS]
    published.files[FORMS] = "Evil forms"
    with pytest.raises(VerificationError, match=r"FORMS\.md is not used"):
        await loaded.read("references/FORMS.md")


async def test_a_file_that_is_not_what_the_entry_says_is_not_used(host):
    published = SkillServer("refunds")
    connection = await host.connect(published.server(), name="acme")
    [skill] = await connection.skills.list()
    honest = published.files[REFUNDS]
    for text, wrong in (
        (honest.replace("care", "fire"), "it has another SHA-256"),
        (honest + "more", "it has 92 bytes instead of 88"),
    ):
        published.files[REFUNDS] = text
        with pytest.raises(VerificationError) as raised:
            await connection.skills.load(skill)
        assert str(raised.value) == (
            f"acme: {REFUNDS} is not used: {wrong}. "
            "It may have changed since the skill was listed: skills.get(uri) returns the current entry."
        )
    published.files[REFUNDS] = honest
    published.entries[0]["frontmatter"]["description"] = "About something harmless"
    with pytest.raises(VerificationError, match="its front matter is not the one of the skill's entry"):
        await connection.skills.load(REFUNDS)


async def test_skill_without_digests_is_checked_by_front_matter(host):
    published = SkillServer("refunds", "invoices")
    published.entries[0]["resources"] = "dynamic"
    connection = await host.connect(published.server())

    loaded = await connection.skills.load(REFUNDS)
    assert (await loaded.read("references/FORMS.md")).text == "The forms.\n"
    for outside in ("../invoices/SKILL.md", "skill://acme/refunds/../invoices/SKILL.md"):
        with pytest.raises(VerificationError, match="is not within the skill"):
            await loaded.read(outside)

    published.files[REFUNDS] = published.files[REFUNDS].replace("About", "All about")
    with pytest.raises(VerificationError, match="front matter"):
        await connection.skills.load(REFUNDS)


BIG = [{"uri": f"skill://a/x/{n}", "digest": "sha256:" + "0" * 64, "size": 1} for n in range(MAX_FILES)]
HONEST = entry_of("skill://a/x", {"SKILL.md": "x"})
WRONG: list[tuple[str, Any, str]] = [
    ("nothing", None, "does not end with /SKILL.md"),
    ("no resources", {**HONEST, "resources": None}, 'neither a list nor "dynamic"'),
    ("no manifest", {**HONEST, "resources": []}, "its SKILL.md is not among its files"),
    ("twice", {**HONEST, "resources": HONEST["resources"] * 2}, "it has files twice: skill://a/x/SKILL.md"),
    ("another name", {**HONEST, "frontmatter": {"name": "y", "description": ""}}, "'y' is not the last part"),
    ("no description", {**HONEST, "frontmatter": {"name": "x"}}, "no name or no description"),
    ("too many", {**HONEST, "resources": HONEST["resources"] + BIG}, f"it has 513 files; the limit is {MAX_FILES}"),
    ("outside", {**HONEST, "resources": [{**HONEST["resources"][0], "uri": "skill://a/z"}]}, "is not within the skill"),
    ("too big", {**HONEST, "resources": [{**HONEST["resources"][0], "size": MAX_BYTES + 1}]}, "the limit is 16777216"),
    ("odd size", {**HONEST, "resources": [{**HONEST["resources"][0], "size": True}]}, "no uri, digest or size"),
    ("odd digest", {**HONEST, "resources": [{**HONEST["resources"][0], "digest": "md5:1"}]}, "no uri, digest or size"),
]


async def test_a_wrong_entry_is_listed_with_its_problem_and_not_loaded(host):
    published = SkillServer("refunds")
    connection = await host.connect(published.server())
    for name, entry, problem in WRONG:
        published.entries[1:] = [entry]
        good, bad = await connection.skills.list()
        assert good.problem == ""
        assert problem in bad.problem, name
        with pytest.raises(VerificationError, match="is not loaded"):
            await connection.skills.load(bad)
    assert published.reads == []


async def test_an_unknown_skill_and_an_answer_about_another_are_errors(host):
    published = SkillServer("refunds")
    connection = await host.connect(published.server(), name="acme")

    with pytest.raises(ProtocolError) as raised:
        await connection.skills.get("skill://acme/none/SKILL.md")
    assert raised.value.code == -32602

    async def another(context: Any, params: Any) -> Any:
        return {"resultType": "complete", "skill": published.entries[0]}

    published._get = another  # type: ignore[method-assign]
    connection = await host.connect(published.server(), name="odd")
    with pytest.raises(InvalidResponseError, match=r"was asked for skill://acme/none/SKILL\.md and answered"):
        await connection.skills.get("skill://acme/none/SKILL.md")

    plain = await host.connect(MCPServer("plain"), name="plain")
    with pytest.raises(NotOfferedError, match=r"plain publishes no skills \(it does not name io\.modelcontext"):
        await plain.skills.list()


@pytest.mark.parametrize(
    ("yaml", "said", "same"),
    [
        ("a: 1\n", {"a": 1}, True),
        ("a: 1\n", {"a": 1.0}, True),
        ("a: 1\n", {"a": True}, False),
        ("a: 1\n", {"a": "1"}, True),
        ("a: 1\n", {"a": "2"}, False),
        ("a: 1\n", {"a": 1, "b": 2}, False),
        ("a: [1, {b: null}]\n", {"a": [1, {"b": None}]}, True),
        ("a: 2026-07-28\n", {"a": "2026-07-28"}, True),
        ("on: yes\n", {"on": "yes"}, True),
        ("a: yes\n", {"a": True}, True),
        ("a: 'x*y &z'\n", {"a": "x*y &z"}, True),
        ("a: !!python/object/apply:os.getcwd []\n", {"a": "/"}, False),
        ("a: use *this* & that\n", {"a": "use *this* & that"}, True),
    ],
)
def test_front_matter_is_compared_with_json_as_it_is_written(yaml, said, same):
    assert same_front_matter(yaml, said) is same


@pytest.mark.parametrize(
    ("yaml", "problem"),
    [
        ("- a\n", "is not a YAML mapping"),
        ("a: [1\n", "is not YAML: "),
        ("a: &x [1]\nb: [*x, *x]\n", "has YAML aliases"),
        ("a: " + "x" * 20_000 + "\n", "is longer than 20000 characters"),
    ],
)
def test_front_matter_that_is_no_data_is_refused(yaml, problem):
    with pytest.raises(FrontMatterError, match=problem):
        same_front_matter(yaml, {})


def test_front_matter_ends_at_the_second_line_of_dashes():
    assert split_front_matter("---\r\nname: a\r\n---\r\nBody\n---\n") == ("name: a\r\n", "Body\n---\n")
    for none in ("", "name: a", "---\nname: a\n", "text\n---\nname: a\n---\n"):
        with pytest.raises(FrontMatterError):
            split_front_matter(none)
