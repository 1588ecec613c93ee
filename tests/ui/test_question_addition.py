"""The question whether a server is added, in the panel of a cell: the form, what is shown, and what stays."""

from __future__ import annotations

import json

from mcp_magic.addition import addition_question, plan_addition, start_values
from tests.support.bundles import plain_bundle

MEAN = {
    "token": {"type": "string", "title": "<script>alert(1)</script>", "sensitive": True},
    "folder": {"type": "directory", "title": "Folder", "required": True},
    "fast": {"type": "boolean", "default": True},
}


async def test_panel_takes_the_values_and_keeps_no_secret(person, page, tmp_path):
    config = {"command": "python", "args": ["${user_config.folder}", "--fast", "${user_config.fast}", "a\u202eb"]}
    config["env"] = {"T": "${user_config.token}"}
    server = {"type": "python", "entry_point": "main.py", "mcp_config": config}
    (tmp_path / "tool.mcpb").write_bytes(plain_bundle(name="x<b>y", user_config=MEAN, server=server))
    addition = await plan_addition("tool.mcpb", folder=tmp_path)
    question = addition_question(addition, start_values(addition, {}))
    [task] = await person.asked(person.reply(question))
    assert "&lt;script&gt;alert(1)" in person.text
    assert "<script" not in person.text
    assert "a\\u202eb" in person.text
    assert "&lt;folder&gt;" in person.text
    person.button("Add").click()
    assert not task.done()
    editor = person.panel.cards[0].editor
    assert editor.form.draft == {"fast": True}
    editor.form.set_arguments({"folder": "/data", "fast": False, "token": "sesame-1234"})
    person.button("Add").click()
    reply = await task
    assert (reply.choice, reply.values) == ("add", {"folder": "/data", "fast": False, "token": "sesame-1234"})
    [line] = page.lines
    assert line.startswith("✓ agreed: Add the server ")
    assert "sesame" not in json.dumps(page.outputs)
    assert "<script>" not in json.dumps(page.outputs)
