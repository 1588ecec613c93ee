"""What each sentence of a tool's description is worth: an evaluation with, for each sentence, a variant without it.

The same cases run with the tool as it is and with each variant, so the difference is that of pairs of cases, and all
sentences are judged together by Holm's method (`statistics.adjust`). Descriptions of parameters count as well, at any
depth of the schema.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from mcp_magic._text import clean, free_name, plural
from mcp_magic.display import document
from mcp_magic.display.document import Badge, Bold, Markup, Part, aligned, joined, parts_text, show_parts
from mcp_magic.display.text import one_line
from mcp_magic.errors import ArgumentsError
from mcp_magic.evaluation.display import bar, errors
from mcp_magic.evaluation.evaluation import Evaluation, new_evaluation
from mcp_magic.evaluation.sentences import sentence_spans, without
from mcp_magic.evaluation.statistics import FEWEST, Comparison, adjust, compare, share_of
from mcp_magic.evaluation.surface import Surface

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pandas as pd

    from mcp_magic._host import Host

MOST = 100  # sentences that are dropped, each in a variant of its own

DEPTH = 12  # levels of a schema whose descriptions are read

WHOLE = "whole"  # the name of the variant with all sentences

SHOWN = 300  # characters of a sentence in the display

_NAMED = ("properties", "patternProperties", "$defs", "definitions")
_LISTED = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE = ("items", "additionalProperties", "contains", "not")
"""Keywords whose values have schemas by name, schemas in a list, and one schema."""

HEADERS = ("verdict", "points", "interval", "tokens", "where", "sentence")


@dataclass(frozen=True)
class Sentence:
    """A sentence of a tool's description.

    Attributes:
        text: The sentence.
        where: "description", or the parameter whose description it is in.
        tokens: About how many tokens it costs at each turn of the model.
    """

    text: str
    where: str
    tokens: int


class Ablation:
    """What each sentence of a tool's description adds to right runs; displays a table of them.

    Attributes:
        target: The tool, as `server:tool`.
        sentences: The sentences that are dropped in turn.
        evaluation: The runs, with the variant `whole` and one without each sentence.
    """

    def __init__(self, target: str, sentences: Sequence[Sentence], evaluation: Evaluation, remark: str = "") -> None:
        self.target = target
        self.sentences = sentences
        self.evaluation = evaluation
        self._remark = remark

    async def run(self) -> Ablation:
        """Make all runs, and return this object. Interrupt keeps those that have ended; `resume` goes on."""
        await self.evaluation.run()
        return self

    async def resume(self, **options: Any) -> Ablation:
        """Make the runs that have no outcome yet, as `Evaluation.resume`, and return this object."""
        await self.evaluation.resume(**options)
        return self

    @property
    def ok(self) -> bool:
        """Whether each run has an outcome."""
        return self.evaluation.ok

    @property
    def comparisons(self) -> list[tuple[str, Sentence, Comparison]]:
        """For each model and sentence what the sentence adds, judged together; those without runs are left out."""
        size, arms = len(self.sentences) + 1, [*self.evaluation.outcomes()]
        rows = []
        for start in range(0, len(arms), size):
            (arm, whole), *others = arms[start : start + size]
            for sentence, (_, outcomes) in zip(self.sentences, others, strict=True):
                if any(before and after for before, after in zip(outcomes, whole, strict=True)):
                    rows.append((arm.model, sentence, compare(outcomes, whole)))
        adjusted = adjust([comparison for *_, comparison in rows])
        return [(model, sentence, other) for (model, sentence, _), other in zip(rows, adjusted, strict=True)]

    @property
    def df(self) -> pd.DataFrame:
        """A row for each model and sentence.

        Its columns are model, where, sentence, difference (the share of right runs with the sentence less that without
        it), low and high (its interval), verdict, tokens (saved at each turn without it), cases and runs (of each case,
        in the mean).
        """
        import pandas as pd

        columns = ["model", "where", "sentence", "difference", "low", "high", "verdict", "tokens", "cases", "runs"]
        rows = []
        for model, sentence, other in self.comparisons:
            figures = (other.difference, *other.interval, other.effect, sentence.tokens, other.cases, other.runs)
            rows.append((model, sentence.where, sentence.text, *figures))
        return pd.DataFrame(rows, columns=columns)

    # The display

    def __len__(self) -> int:
        return len(self.sentences)

    def __repr__(self) -> str:
        return f"<Ablation of {self.target}: {plural(len(self), 'sentences')}, {len(self.evaluation):,} runs>"

    _repr_mimebundle_ = show_parts
    __str__ = parts_text

    def parts(self) -> list[Part]:
        """Return the parts to display: a line, then a table of the sentences, those that help or hurt first."""
        parts = self.evaluation.notes()
        if self._remark:
            parts.append(Part.note(self._remark))
        comparisons = self.comparisons
        if comparisons:
            counts = Counter(_verdict(other) for *_, other in comparisons)
            counted = ", ".join(f"{verdict}: {counts[verdict]}" for verdict in (*_BADGES, *_OTHERS) if counts[verdict])
            parts.append(
                Part.line(Bold(one_line(self.target, 200)), f", {plural(len(self), 'sentences')}: ", Bold(counted))
            )
            parts += [*map(Part.note, self._wholes()), self._table(comparisons)]
            parts.append(Part.note(_EXPLANATION))
            if max(other.cases for *_, other in comparisons) < FEWEST:
                parts.append(Part.note(f"Below {FEWEST} cases there is no verdict: write more."))
        return [*parts, *map(Part.note, errors(self.evaluation.plan))]

    def _wholes(self) -> Iterator[str]:
        for arm, outcomes in self.evaluation.outcomes():
            if arm.variant == WHOLE and any(outcomes):
                yield f"{one_line(arm.model, 60)} with all sentences: {share_of(outcomes)} right"

    def _table(self, comparisons: Sequence[tuple[str, Sentence, Comparison]]) -> Part:
        has_models = len({model for model, *_ in comparisons}) > 1
        headers = ["model", *HEADERS] if has_models else [*HEADERS]
        plain, rich = [], []
        for model, sentence, other in sorted(comparisons, key=lambda row: row[2].effect not in _BADGES):
            low, high = other.interval
            interval = f"{100 * low:+.0f} to {100 * high:+.0f}"
            names: list[object] = [one_line(model, 60)] if has_models else []
            end = [sentence.tokens, one_line(sentence.where, 60), one_line(sentence.text, SHOWN)]
            points = f"{100 * other.difference:+.0f}"
            drawn = bar((low + 1) / 2, (high + 1) / 2, (other.difference + 1) / 2, interval, middle=True)
            plain.append([*names, other.effect, points, interval, *end])
            rich.append([*names, _marked(other), points, joined([interval, drawn], " "), *end])
        markup, count = document.table(headers, rich, limit=document.display.bytes)
        more = f"\n… {plural(len(rich) - count, 'more sentences')}: .df has all" if count < len(rich) else ""
        text = clean(aligned(headers, plain[:count], total=document.terminal_width()) + more)
        return Part(text, joined([document.reflowing(markup, headers), document.note(more.strip())]))


_BADGES: dict[str, Any] = {"helps": "safe", "hurts": "danger"}
_OTHERS = ("no effect seen", "cannot tell")

_EXPLANATION = (
    "Points: right runs in a hundred with the sentence, less those without it, with the interval of a test of all "
    "sentences together (Holm). Tokens: about as many are saved at each turn without it."
)


def _verdict(other: Comparison) -> str:
    return other.effect.partition(" (")[0]


def _marked(other: Comparison) -> str | Markup:
    effect = other.effect
    return Badge(effect, _BADGES[effect]).html() if effect in _BADGES else effect


async def new_ablation(host: Host, tool: str, cases: Any, models: Any, **options: Any) -> Ablation:
    """Return an ablation that has not begun.

    Args:
        host: The host of the sessions.
        tool: The tool, as `server:tool`, or by its name alone if that is unique.
        cases: Cases, or what `read_cases` reads.
        models: What `named_models` takes.
        **options: Those of `new_evaluation`. Of a surface of the server among `surfaces`, the sentences are dropped.

    Raises:
        ArgumentsError: The tool has no sentence, or is not on the surface.
        UnknownServerError, UnknownToolError: There is no such server or tool.
    """
    connection, definition = await host.resolve(tool)
    surfaces = list(options.pop("surfaces", ()))
    base = next((one for one in surfaces if isinstance(one, Surface) and one.server == connection.name), None)
    options["surfaces"] = tuple(other for other in surfaces if other is not base)
    base = Surface(connection, await connection.listing("tools")) if base is None else base.copy()
    base.shown(definition.name)
    name, person = next(n for n in base if base[n].tool == definition.name), f"{connection.name}:{definition.name}"
    dropped = [*islice(_dropped(base, name), MOST + 1)]
    if not dropped:
        raise ArgumentsError(f"no sentence to drop: neither {person} nor a parameter of it has one in its description")
    remark = f"Only the first {MOST} sentences of {person} are dropped." if len(dropped) > MOST else ""
    variants: dict[str, Surface] = {WHOLE: base}
    for sentence, surface in dropped[:MOST]:
        variants[free_name(one_line(f"without {sentence.text}", 60), variants)] = surface
    evaluation = new_evaluation(host, cases, models, variants, **options)
    return Ablation(person, [sentence for sentence, _ in dropped[:MOST]], evaluation, remark)


def _dropped(base: Surface, name: str) -> Iterator[tuple[Sentence, Surface]]:
    """Yield the sentences of a tool, each with a surface on which it is missing."""
    tokens = base[name].tokens
    for where, text, path in _descriptions(base, name):
        for span in sentence_spans(text):
            surface = base.copy()
            _describe(surface, name, path, without(text, span))
            yield Sentence(text[slice(*span)], where, tokens - surface[name].tokens), surface


def _descriptions(base: Surface, name: str) -> Iterator[tuple[str, str, tuple[Any, ...] | None]]:
    """Yield what a tool and its parameters are described by: where, the text, and the keys to it in the schema."""
    tool = base[name]
    yield "description", tool.description, None
    yield from _in_schema(tool.input_schema, (), "")


def _in_schema(schema: Any, path: tuple[Any, ...], label: str) -> Iterator[tuple[str, str, tuple[Any, ...]]]:
    if not isinstance(schema, dict) or len(path) > 2 * DEPTH:
        return
    if isinstance(text := schema.get("description"), str):
        yield label or "arguments", text, path
    for keyword in _NAMED:
        parts = schema.get(keyword)
        for key, part in parts.items() if isinstance(parts, dict) else ():
            yield from _in_schema(part, (*path, keyword, key), f"{label}.{key}" if label else str(key))
    for keyword in _LISTED:
        parts = schema.get(keyword)
        for number, part in enumerate(parts if isinstance(parts, list) else ()):
            yield from _in_schema(part, (*path, keyword, number), label)
    for keyword in _SINGLE:
        yield from _in_schema(schema.get(keyword), (*path, keyword), f"{label}[]" if keyword == "items" else label)


def _describe(surface: Surface, name: str, path: tuple[Any, ...] | None, text: str) -> None:
    """Let a model read another description of a tool, or in its schema; none if it is empty."""
    tool = surface[name]
    if path is None:
        tool.description = text
        return
    schema = tool.input_schema
    part: Any = schema
    for key in path:
        part = part[key]
    part["description"] = text
    if not text:
        del part["description"]
    tool.input_schema = schema
