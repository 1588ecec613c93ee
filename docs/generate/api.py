"""The reference of Python: which classes and functions are on which page; mkdocstrings reads their docstrings."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

import mcp_magic
from mcp_magic import errors

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["PAGES", "pages"]

PAGES = {
    "Host": (
        "`from mcp_magic import host` is the kernel's own, which `%mcp` uses; a program makes one with `Host()`.",
        ["mcp_magic.Host", "mcp_magic._host.Host"],
    ),
    "Connection": (
        "What `host.connect` returns, and `host['name']`.",
        [
            "mcp_magic.Connection",
            "mcp_magic.results.cards.ConnectionInfo",
            "mcp_magic.session.roots.Roots",
            "mcp_magic.skills.Skills",
            "mcp_magic.skills.LoadedSkill",
            "mcp_magic.session.subscriptions.Subscription",
            "mcp_magic.session.subscriptions.Update",
            "mcp_magic.session.events.SessionEvent",
            "mcp_magic.Reconnection",
            "mcp_magic.session.services.Services",
            "mcp_magic.trace.trace.Tap",
            "mcp_magic.server.snapshot.Changes",
            "mcp_magic.server.verification.Verification",
            "mcp_magic.fuzz.report.FuzzReport",
            "mcp_magic.fuzz.report.Failure",
            "mcp_magic.fuzz.judge.check_call",
        ],
    ),
    "Where servers are": (
        "What `host.connect` takes besides the targets of `%mcp connect`.",
        [
            "mcp_magic.StdioSpec",
            "mcp_magic.HttpSpec",
            "mcp_magic.SseSpec",
            "mcp_magic.WebSocketSpec",
            "mcp_magic.InProcessSpec",
        ],
    ),
    "Results": (
        "What calls return.",
        [
            "mcp_magic.ToolResult",
            "mcp_magic.ResourceResult",
            "mcp_magic.PromptResult",
            "mcp_magic.display.listing.Listing",
            "mcp_magic.results.content.Media",
        ],
    ),
    "Calls": (
        "`host.caller` takes each call of a tool the same way: it prepares it, asks consent, sends it and tells its "
        "observers what happens to it.",
        [
            "mcp_magic.Call",
            "mcp_magic.Limits",
            "mcp_magic.Answerers",
            "mcp_magic.CallObserver",
            "mcp_magic.calls.caller.Caller",
        ],
    ),
    "Shared values": (
        "Which variables agents outside may read: `host.values`, as `%mcp share` does; see [Agents outside the "
        "notebook](../outside.md).",
        ["mcp_magic.values.shared.SharedValues", "mcp_magic.values.shared.ClientValues"],
    ),
    "Serving the kernel": (
        "`host.serve` and `host.serving`, as `%mcp serve --kernel`; see [Agents outside](../outside.md).",
        ["mcp_magic.outside.serving.KernelServing", "mcp_magic.outside.entries.Entry"],
    ),
    "Jobs": (
        "Calls in the background: `host.start` and `host.jobs`; see [Jobs](../jobs.md).",
        ["mcp_magic.Job", "mcp_magic.Jobs", "mcp_magic.jobs.JobEvent"],
    ),
    "Maps": (
        "What `host.map`, `host.map_iter` and `host.bench` take and return; see [A tool over a table](../map.md).",
        [
            "mcp_magic.MapRun",
            "mcp_magic.MapItem",
            "mcp_magic.col",
            "mcp_magic.map_partition",
            "mcp_magic.map.plan.MapOptions",
            "mcp_magic.map.plan.Step",
            "mcp_magic.map.bench.Bench",
        ],
    ),
    "Consent": (
        "`host.consent`: who may call what without asking. `host.approver` is asked about the rest: an "
        "`Approver` is any `async def (request: Request) -> Decision`.",
        [
            "mcp_magic.consent.consent.Consent",
            "mcp_magic.Request",
            "mcp_magic.Decision",
            "mcp_magic.Rule",
            "mcp_magic.consent.consent.Audit",
            "mcp_magic.consent.consent.Record",
        ],
    ),
    "What servers ask": (
        "`host.elicitor`, `host.sampler` and `host.authorizer` answer; see [When a server asks](../asking.md) and "
        "[Logging in](../authorization.md). An `Elicitor` is any `async def (elicitation: Elicitation) -> Answer`, a "
        "`Sampler` any `async def (request: SamplingRequest) -> Sampled`, an `Authorizer` any "
        "`async def (login: LogIn) -> None`, and `host.sampling.reviewer` a `Reviewer`.",
        [
            "mcp_magic.Elicitation",
            "mcp_magic.Answer",
            "mcp_magic.SamplingRequest",
            "mcp_magic.Sampled",
            "mcp_magic.Expected",
            "mcp_magic.Review",
            "mcp_magic.Reviewer",
            "mcp_magic.LogIn",
        ],
    ),
    "Evaluation": (
        "What `host.evaluate`, `host.ablate` and `host.surface` take and give; see "
        "[Will a model use it rightly?](../evaluation.md).",
        [
            "mcp_magic.Evaluation",
            "mcp_magic.evaluation.ablation.Ablation",
            "mcp_magic.judge",
            "mcp_magic.evaluation.run.EvaluationOptions",
            "mcp_magic.evaluation.cases.Case",
            "mcp_magic.evaluation.statistics.Comparison",
            "mcp_magic.evaluation.surface.Surface",
            "mcp_magic.evaluation.surface.SurfaceTool",
        ],
    ),
    "Agents": (
        "What `%%mcp_agent` is made of; see [Agents](../agent.md).",
        [
            "mcp_magic.AgentRun",
            "mcp_magic.build_graph",
            "mcp_magic.AgentSettings",
            "mcp_magic.OfflineModel",
            "mcp_magic.ScriptedModel",
            "mcp_magic.display_messages",
            "mcp_magic.get_final_answer",
            "mcp_magic.tools_summary",
            "mcp_magic.serve_langchain",
            "mcp_magic.BudgetMiddleware",
            "mcp_magic.ConversationMiddleware",
            "mcp_magic.LargeResultsMiddleware",
            "mcp_magic.PlanMiddleware",
            "mcp_magic.SkillsMiddleware",
            "mcp_magic.ToolSearchMiddleware",
        ],
    ),
    "Looking inside": (
        "`host.trace`, `host.metrics`, the doctor, mock servers.",
        [
            "mcp_magic.trace.trace.Trace",
            "mcp_magic.trace.trace.Entry",
            "mcp_magic.telemetry.metrics.Metrics",
            "mcp_magic.telemetry.metrics.Series",
            "mcp_magic.doctor.report.DoctorReport",
            "mcp_magic.server.mock.mock_server",
        ],
    ),
}
"""Title -> what is said first, and what is on it."""

ELSEWHERE = {
    *errors.__all__,
    *("Approver", "Authorizer", "Elicitor", "Sampler"),
    *("Spec", "host", "load_ipython_extension", "unload_ipython_extension"),
}
"""Public names without an entry of their own: the errors have a page, and text describes the others."""


def pages(root: Path) -> dict[str, str]:
    """Return name on the site -> Markdown."""
    listed = "\n".join(
        f"- [{title}]({_slug(title)}.md): {words.replace('](../', '](../')}" for title, (words, _) in PAGES.items()
    )
    first = (
        "# Python\n\nEverything that `%mcp` does is there from Python, through the same host:\n\n"
        "```python\nfrom mcp_magic import host\n```\n\n"
        "What you build, catch or annotate is in `mcp_magic` too: `from mcp_magic import Answer, ToolError`.\n\n"
        f"{listed}\n- [Errors](../errors.md)\n"
    )
    return {"api/index.md": first} | {f"api/{_slug(title)}.md": _page(title, *PAGES[title]) for title in PAGES}


def _slug(title: str) -> str:
    return title.lower().replace(" ", "_")


def _page(title: str, words: str, paths: list[str]) -> str:
    entries = "\n\n".join(f"::: {home(path)}" for path in paths)
    return f"# {title}\n\n{words}\n\n{entries}\n"


def home(path: str) -> str:
    """Return where something is defined: `mcp_magic.Host` is imported lazily, which is not seen in the source."""
    module, _, name = path.rpartition(".")
    found = getattr(importlib.import_module(module), name)
    return f"{found.__module__}.{found.__qualname__}"


def public_names_left() -> set[str]:
    """Return the public names of the package that are on no page."""
    shown = {path.removeprefix("mcp_magic.") for _, paths in PAGES.values() for path in paths}
    return set(mcp_magic.__all__) - shown - ELSEWHERE
