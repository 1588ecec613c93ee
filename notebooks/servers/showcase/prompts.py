"""Prompts of each kind, and what completes their arguments."""

from typing import Annotated

from mcp import MCPError
from mcp.server.mcpserver import AssistantMessage, Image, Message, UserMessage
from mcp_types import (
    INVALID_PARAMS,
    Completion,
    CompletionArgument,
    CompletionContext,
    EmbeddedResource,
    PromptReference,
    ResourceTemplateReference,
    TextResourceContents,
)
from media import png, sunset
from pydantic import Field

from showcase.app import server
from showcase.resources import FRUIT

TONES = ("friendly", "formal", "funny")

CITIES = {"Germany": ("Berlin", "Bonn", "Hamburg"), "Japan": ("Kyoto", "Osaka", "Tokyo")}


@server.prompt(title="Without arguments")
def simple() -> str:
    """A prompt without arguments."""
    return "Say hello."


@server.prompt(title="A greeting")
def greet(
    name: Annotated[str, Field(description="Whom to greet")],
    tone: Annotated[str, Field(description="friendly, formal or funny")] = "friendly",
) -> str:
    """A prompt with a required and an optional argument; the tone can be completed."""
    return f"Write a {tone} greeting for {name}."


@server.prompt(title="A trip")
def trip(
    country: Annotated[str, Field(description="The country")], city: Annotated[str, Field(description="A city in it")]
) -> str:
    """A prompt whose second argument completes by the first."""
    return f"Plan a day in {city}, {country}."


@server.prompt(title="A conversation")
def dialogue(topic: Annotated[str, Field(description="What to talk about")] = "the weather") -> list[Message]:
    """Several messages, of the user and of the assistant."""
    return [
        UserMessage(f"Let us talk about {topic}."),
        AssistantMessage(f"With pleasure. What about {topic} interests you?"),
        UserMessage("Everything!"),
    ]


@server.prompt(title="A picture")
def picture() -> list[Message]:
    """A message with an image."""
    image = Image(data=png(60, 40, sunset(60, 40)), format="png")
    return [UserMessage("What is in this picture?"), UserMessage(image)]


@server.prompt(title="A document")
def document() -> list[Message]:
    """A message with an embedded resource."""
    notes = TextResourceContents(uri="showcase://notes.md", mime_type="text/markdown", text="# Notes\n\n- one\n")
    return [UserMessage("Summarise these notes."), UserMessage(EmbeddedResource(resource=notes))]


@server.prompt(title="Always fails")
def failing() -> str:
    """A prompt that always fails."""
    raise MCPError(INVALID_PARAMS, "This prompt always fails.")


@server.completion()
async def complete(
    ref: PromptReference | ResourceTemplateReference, argument: CompletionArgument, context: CompletionContext | None
) -> Completion | None:
    """Complete tones, countries, cities of the country given, and fruit."""
    given = (context.arguments if context else None) or {}
    cities = CITIES.get(given.get("country", ""), sum(CITIES.values(), ()))
    choices = {"tone": TONES, "country": tuple(CITIES), "city": cities}
    if isinstance(ref, ResourceTemplateReference):
        choices = {"name": FRUIT}
    values = [value for value in choices.get(argument.name, ()) if value.lower().startswith(argument.value.lower())]
    return Completion(values=values, total=len(values), has_more=False)
