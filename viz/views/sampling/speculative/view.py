"""Speculative decoding: a draft proposes tokens, the model accepts or rejects them, and the speed-up is measured."""

import math
from typing import Annotated

from model.errors import InputError, say
from model.generation.draft_costs import Compared, Summary, swept
from model.generation.requests import DRAFTS, MOST_DRAFTED
from viz.labels import visible, visible_lines
from viz.numbers import NONE, factor, milliseconds, number, percent
from viz.seam.programs.arguments import OneOf, Within
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import measured, named
from viz.seam.python_lines import script
from viz.seam.scene import Scene
from viz.seam.view import Custom, Figure, Job, Payload, Seen, Table, View
from viz.views.sampling.pipelines import PIPELINE_OR_REFUSAL, Pipeline, step_imports, steps_code, steps_of
from viz.views.sampling.speculative.figures import (
    calls_figure,
    expected_calls,
    records,
    sweep_figure,
    times_figure,
)
from viz.views.sampling.speculative.measure import (
    DRAFTERS,
    MAIN,
    MOST_SEED,
    MOST_SUFFIX,
    MOST_TOKENS,
    SETTINGS,
    Drafted,
    drafted_by,
    drafters,
    most_tokens,
)
from viz.words import Words, section

_TAIL = 10  # maximum number of prompt tokens shown before the text


def hint(seen: Seen) -> Payload:
    """Describe the job beside its button, and disable the button if the job cannot start."""
    settings = seen.settings
    if settings.pipeline.refusal:
        return {"unready": True, "text": ""}  # the part `text` shows the reason
    if settings.draft == "model" and not settings.model:
        return {"unready": True, "text": seen.here["no_model"]}
    return {"text": seen.here["hint"] + (f" {seen.words['edited']}" if seen.facts.edits else "")}


# --- common to all parts ---


def _shared(seen: Seen, python: str) -> Payload:
    """Build the entries common to all parts: the source with a note if edits are ignored, the file name and the Python
    lines.
    """
    source = seen.words["measured_here"].format(model=seen.facts.label, dtype=seen.facts.dtype)
    return {
        "source": f"{source} · {seen.words['edited']}" if seen.facts.edits else source,
        "file": f"speculative-{seen.settings.draft}-{seen.part}",
        "python": python,
    }


def _python(seen: Seen, request: object, last: str = "summary(compared)") -> str:
    """Build the Python lines that compute the numbers."""
    kind, n, other = drafted_by(seen.settings)
    draft, before = f"Draft({kind!r}, {n})", []
    if other:
        before, draft = [f"other = load_model({other!r})"], 'Draft("model", model=other.model)'
    function = "swept" if last.startswith("swept") else "summary"
    imports = [
        f"from model.generation.draft_costs import compare, {function}",
        "from model.generation.speculative import Draft, Request",
    ]
    imports += ["from model.sampling.pipeline import Step", *step_imports(request.steps)] if request.steps else []
    ending = f"frozenset({set(request.ending)!r})" if request.ending else "frozenset()"
    lines = [
        *before,
        f"steps = {steps_code(request.steps)}",
        f"request = Request(lm.tokenizer.vocab_size, steps, gamma={request.gamma}, "
        f"max_new_tokens={request.max_new_tokens}, seed={request.seed}, ending={ending})",
        f"compared = compare(lm.model, run.tokens.ids.tolist(), {draft}, request)",
        last,
    ]
    return script(seen.facts, lines, imports)


# --- the text ---


def text(seen: Seen) -> Payload:
    """Build the text, call by call, with every proposal. Raises InputError if the steps were rejected."""
    seen.settings.pipeline.check()
    words, facts, result = seen.here, seen.facts, seen.results["main"]
    if result is None:
        return {"empty": {"text": words["empty"], "hint": words["empty_hint"]}}
    compared: Compared = result.compared
    title = words["title"].format(draft=draft_name(seen), n=len(compared.tokens), calls=len(compared.rounds))
    ended = words["ended"] if compared.rounds[-1].ended == "end" else ""
    return {
        "title": title,
        "note": f"{words['note']} {ended}".strip(),
        "prompt": None if facts.prompt.turns else facts.prompt.text,
        "turns": facts.prompt.before,
        "typed": result.typed,
        "before": [visible(piece) for piece in facts.pieces[-_TAIL:]],
        "cut": len(facts.pieces) > _TAIL,
        "rounds": records(compared.rounds, facts.piece),
        "same": same(words, compared),
        "plain": None if compared.tokens == compared.plain_tokens else visible_lines(result.plain_text),
        "words": words.plain() | section(seen.all_words, "plot"),
        **_shared(seen, _python(seen, result.request, "[one.tokens for one in compared.rounds]")),
    }


def draft_name(seen: Seen) -> str:
    """Format the name of the draft."""
    kind, n, other = drafted_by(seen.settings)
    label = seen.results["drafters"].get(other, other)
    return seen.here[f"named_{kind}"].format(n=n, L=seen.facts.config.n_layer, model=label)


def certain(result: Compared) -> bool:
    """Return whether every position had only one token with nonzero probability, as at temperature 0."""
    chances = [one.p for each in result.rounds for one in each.proposals if one.fate != "unread"]
    chances += [each.chance for each in result.plain]
    return all(chance in (0.0, 1.0) for chance in chances)


def same(words: Words, result: Compared) -> str:
    """Describe whether the text equals the one generated without a draft, or where it first differs."""
    n = len(result.tokens)
    if result.tokens == result.plain_tokens:
        return words["same_certain" if certain(result) else "same_luck"].format(n=n)
    both = zip(result.tokens, result.plain_tokens, strict=False)
    position = next((place for place, (a, b) in enumerate(both, 1) if a != b), min(n, len(result.plain_tokens)) + 1)
    return words["differs_rounding" if certain(result) else "differs"].format(at=position)


# --- numbers ---


def _times(speed: float) -> str:
    """Format a speed-up for a sentence, with the digits of the table."""
    return factor(speed).removesuffix(" ×")


def verdict(words: Words, draft: str, summary: Summary) -> list[str]:
    """Explain whether and why the draft speeds up generation."""
    if not summary.tested:
        return [words[f"nothing_{draft}"], words["nothing"].format(v=number(summary.v))]
    gamma = summary.proposed / summary.calls
    values = {
        "times": _times(summary.speed),
        "cost": number(gamma * summary.c + summary.v),
        "g": number(gamma),
        "c": number(summary.c),
        "v": number(summary.v),
        "per_call": number(summary.per_call),
        "needed": percent(summary.needed),
        "accepted": percent(summary.acceptance),
    }
    outcome = "faster" if summary.speed >= 1.05 else "slower" if summary.speed <= 0.95 else "even"
    lines = [words[outcome].format(**values), words["why"].format(**values)]
    if outcome == "slower":
        lines.append(words["never" if math.isinf(summary.needed) else "needed"].format(**values))
    if draft == "layers" and outcome == "slower":
        lines.append(words["why_layers"])
    return lines


def numbers(seen: Seen) -> Payload:
    """Build the table of measured and predicted numbers, each with its formula."""
    words, result = seen.here, seen.result
    summary = result.summary
    ms = {name: words["in_ms"].format(n=milliseconds(getattr(summary, name))) for name in ("plain", "draft", "check")}
    expected = f"{percent(summary.expected)} ± {percent(summary.spread)}" if summary.tested else NONE
    rows = [
        ("acceptance", f"{percent(summary.acceptance)} ({summary.accepted} / {summary.tested})", expected),
        ("per_call", number(summary.per_call), number(summary.predicted_per_call)),
        ("plain_step", ms["plain"], ""),
        ("draft_step", f"{ms['draft']} · c = {number(summary.c)}", ""),
        ("check_step", f"{ms['check']} · v = {number(summary.v)}", "v = 1"),
        ("speed", factor(summary.speed), factor(summary.theorem)),
        ("speed_here", factor(summary.speed), factor(summary.predicted)),
    ]
    columns = [words["number"], seen.words["measured"], seen.words["predicted"]]
    return {
        "title": words["title"],
        "verdict": verdict(words, seen.settings.draft, summary),
        "good": summary.speed > 0.95,
        "rows": [[{"text": words[f"row_{key}"], "small": words[f"how_{key}"]}, *cells] for key, *cells in rows],
        "columns": columns,
        "names": columns,
        "lines": [[words[f"row_{key}"], *cells, words[f"how_{key}"]] for key, *cells in rows],
        **_shared(seen, _python(seen, result.request)),
    }


def times(seen: Seen) -> Payload:
    """Draw the milliseconds per token, plain and speculative."""
    words, summary = seen.here, seen.result.summary
    draft = (summary.draft if summary.proposed else 0.0) * summary.proposed / summary.written
    check = summary.check * summary.calls / summary.written
    return {
        "figure": times_figure(summary.plain, draft, check, words),
        "title": words["title"].format(times=_times(summary.speed)),
        "note": words["note"],
        "columns": [words["series"], words["ms"], words["way"]],
        **_shared(seen, _python(seen, seen.result.request)),
    }


def calls(seen: Seen) -> Payload:
    """Draw the number of calls that generated 1, 2, ... tokens."""
    words, summary, rounds = seen.here, seen.result.summary, seen.result.compared.rounds
    accepted = min(summary.expected, 1.0) if summary.tested else 0.0
    expected = expected_calls(accepted, [len(one.proposals) for one in rounds])
    names = words.plain() | {"measured": seen.words["measured"]}
    return {
        "figure": calls_figure([len(one.tokens) for one in rounds], expected, names),
        "title": words["title"].format(n=number(summary.per_call)),
        "note": words["note"],
        "columns": [words["series"], words["tokens"], words["calls"]],
        **_shared(seen, _python(seen, seen.result.request)),
    }


def sweep(seen: Seen) -> Payload:
    """Draw the predicted speed-up as a function of gamma."""
    words, result = seen.here, seen.result
    summary, rows = result.summary, swept(result.compared)
    if not rows:
        return {"empty": {"text": words["nothing"], "hint": ""}}
    best = max((row for row in rows if not math.isnan(row[2])), key=lambda row: row[2], default=rows[0])
    note = words["note"].format(accepted=percent(summary.expected), c=number(summary.c))
    if summary.covered < 1:
        note += " " + words["covered"].format(share=percent(summary.covered))
    names = words.plain() | {"measured": seen.words["measured"]}
    return {
        "figure": sweep_figure(rows, (result.request.gamma, summary.speed), names),
        "title": words["title" if best[2] > 1 else "title_none"].format(gamma=best[0], times=_times(best[2])),
        "note": note,
        "columns": [words["series"], "γ", words["speed"]],
        **_shared(seen, _python(seen, result.request, "swept(compared)")),
    }


# --- for programs ---


def speculative(
    scene: Scene,
    draft: Annotated[str, OneOf(tuple(DRAFTS))] = "layers",
    size: int | None = None,
    draft_model: str = "",
    gamma: Annotated[int, Within(1, MOST_DRAFTED)] = 4,
    new_tokens: Annotated[int, Within(8, MOST_TOKENS)] = 40,
    steps: list[dict] | None = None,
    seed: Annotated[int, Within(0, MOST_SEED)] = 0,
) -> dict:
    """Generate a text by speculative decoding: a draft proposes tokens, and the model accepts or rejects each of them.

    Args:
        draft: The source of the proposals. layers: the model's own first layers. ngram: the tokens that followed an
            earlier occurrence of the current suffix. model: another loaded model with the same tokenizer.
        size: Number of layers of the draft, or of tokens of the suffix (1 to 8). The default depends on the draft.
        draft_model: Id of the draft model if draft is model; otherwise empty.
        gamma: Number of tokens proposed at a time.
        new_tokens: Maximum number of generated tokens.

    Returns:
        text: the generated text; same_as_without: whether it equals the text without a draft; summary: calls, proposed,
        accepted, measured and expected acceptance, seconds per token with and without the draft, speed; rounds: for
        each call its tokens, the numbers proposed and accepted, and the kind of its last token; by_gamma: gamma, tokens
        per call and predicted speed.
    """
    others = drafters(scene)
    if draft == "model" and draft_model not in others:
        load = say("First load one with the same vocabulary: {}.", ", ".join(others) or NONE)
        raise InputError("This model cannot be used as a draft.", draft_model[:40], load)
    pipeline, tokens = Pipeline(steps_of(scene.model, steps)), min(new_tokens, most_tokens(scene))
    settings = {"pipeline": pipeline, "draft": draft, "gamma": gamma, "tokens": tokens, "seed": seed}
    settings |= {"model": draft_model} if draft == "model" else {}
    if size is not None:
        largest = scene.model.config.n_layer if draft == "layers" else MOST_SUFFIX
        if not 1 <= size <= largest:
            hint = say("Choose a value from 1 to {}.", largest)
            raise InputError("An argument is out of range.", f"size: {size}", hint)
        settings |= {"layers": size} if draft == "layers" else {"suffix": size}
    drafted: Drafted = measured(VIEW, "main", scene, **settings)
    compared = drafted.compared
    rounds = [
        {
            "tokens": [named(scene.model, n) for n in each.tokens],
            "proposed": len(each.proposals),
            "accepted": each.accepted,
            "last": each.kind or None,
        }
        for each in compared.rounds
    ]
    return {
        "text": scene.model.decode(compared.tokens),
        "same_as_without": compared.tokens == compared.plain_tokens,
        "summary": drafted.summary,
        "rounds": rounds,
        "by_gamma": [dict(zip(("gamma", "tokens_per_call", "speed"), row, strict=True)) for row in swept(compared)],
    }


VIEW = View(
    "speculative",
    needs=("layers", "next"),
    settings=SETTINGS,
    form_depends=("model", "loaded"),
    measures=(MAIN, DRAFTERS),
    layout=("pipeline", "form", "job", "text", "numbers", "times", "calls", "sweep"),
    parts={
        "pipeline": PIPELINE_OR_REFUSAL,
        "job": Job("main", hint, depends=("loaded",)),
        "text": Custom("drafttext", text, of=(), also=("main", "drafters")),
        "numbers": Table(numbers),
        "times": Figure(times),
        "calls": Figure(calls),
        "sweep": Figure(sweep),
    },
    api=(Endpoint(speculative, reads="plain run", long=True),),
)
