"""What a program takes from `mcp_magic` itself: the errors it catches, and what its hooks take and give back."""

from __future__ import annotations

import collections.abc
import typing

import pytest

import mcp_magic
from mcp_magic import errors
from mcp_magic.ask.sampling import Reviewer

ERRORS = [name for name in errors.__all__ if isinstance(getattr(errors, name), type)]
HOOKS = {"Approver": 2, "Authorizer": 1, "Elicitor": 2, "Sampler": 2}
"""Hook -> how many classes of ours it takes and gives back."""


def classes(kind: object) -> set[type]:
    """Return the classes of this package in a type: those of `Callable[[Request], Awaitable[Decision]]` are two."""
    if isinstance(kind, list | tuple):
        return {each for part in kind for each in classes(part)}
    if isinstance(kind, type) and kind.__module__.startswith("mcp_magic"):
        return {kind}
    return classes(typing.get_args(kind))


@pytest.mark.parametrize("name", ERRORS)
def test_each_error_can_be_imported_from_the_package(name):
    assert name in mcp_magic.__all__
    assert getattr(mcp_magic, name) is getattr(errors, name)


@pytest.mark.parametrize("name", HOOKS)
def test_classes_of_a_hook_are_public(name):
    hook = getattr(mcp_magic, name)
    assert typing.get_origin(hook) is collections.abc.Callable
    assert len(classes(hook)) == HOOKS[name]
    for kind in classes(hook):
        assert getattr(mcp_magic, kind.__name__) is kind


def test_hooks_are_set_on_the_host_with_nothing_but_public_names():
    from mcp_magic import Answer, Approver, Decision, Elicitation, Host, Request, Sampled, Sampler, SamplingRequest

    async def approver(request: Request) -> Decision:
        return Decision.deny(f"no {request.tool}")

    async def elicitor(asked: Elicitation) -> Answer:
        return Answer.decline(asked.message)

    async def sampler(asked: SamplingRequest) -> Sampled:
        return Sampled.of(asked.server, model="mine")

    host = Host()
    hooks: tuple[Approver, Sampler] = (approver, sampler)
    host.approver, host.sampler = hooks
    host.elicitor = elicitor
    assert (host.consent.approver, host.elicitation.elicitor, host.sampling.sampler) == (approver, elicitor, sampler)
    assert mcp_magic.Reconnection is type(host.reconnection)


def test_classes_of_a_reviewer_are_public():
    assert mcp_magic.Reviewer is Reviewer
    names = {word for method in (Reviewer.request, Reviewer.reply) for word in method.__annotations__.values()}
    assert names == {"SamplingRequest", "Expected", "Sampled", "Review"}
    assert names <= set(mcp_magic.__all__)
