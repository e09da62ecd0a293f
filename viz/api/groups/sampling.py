"""The sampling tab's numbers: texts that strategies write."""

import time
from typing import Annotated

from model.api import LanguageModel
from model.errors import InputError, say
from model.generation.draft_costs import summary, swept
from model.generation.samples import Many, certain, take_samples
from model.generation.speculative import DRAFTS, MOST_DRAFTED
from model.generation.strategies import STRATEGIES, Made
from model.generation.text_statistics import distinct
from model.progress import Progress
from viz.api.arguments import OneOf, Rows, Within
from viz.api.reading import done, most_seconds, named
from viz.page import background
from viz.page.scene import Scene
from viz.server.limits import check_samples, check_writing
from viz.views.sampling import strategies as cards
from viz.views.sampling.many_samples import view as many
from viz.views.sampling.many_samples.figures import MEASURES, spread
from viz.views.sampling.side_by_side import run
from viz.views.sampling.speculative import view as drafting

Seed = Annotated[int, Within(0, cards.MOST_SEED)]
NewTokens = Annotated[int, Within(1, cards.MOST_TOKENS)]


def _pipeline(steps: list[dict] | None) -> dict:
    """What the page sends for a pipeline."""
    return {"pipeline": {"steps": steps}}


# --- texts -----------------------------------------------------------------------------------------------


def _cards(presets: list[str], own: list[dict], settings: dict) -> dict:
    """What the page's cards would send; raises InputError for a preset that is not there."""
    for name in presets:
        if name not in STRATEGIES:
            raise InputError(
                "There is no strategy of this name.", name[:40], say("Choose one of: {}.", ", ".join(STRATEGIES))
            )
    chosen = cards.value_of([STRATEGIES[name] for name in presets]) + own
    return {"settings": settings} | ({"strategies": chosen} if chosen else {})


def generate(
    scene: Scene,
    presets: list[str] = cards.DEFAULT,
    strategies: list[dict] = (),
    new_tokens: NewTokens = 40,
    seed: Seed = 0,
    stop: list[str] = (),
    same_numbers: bool = True,
    chat: bool = False,
    details: bool = False,
) -> dict:
    """What several decoding strategies write after the prompt, side by side.

    Args:
        presets: Strategies by name: greedy, temperature, top_k, top_p, min_p, typical, eta, epsilon, top_n_sigma,
            penalties, no_repeat, mirostat, beam, contrastive. At most 8 strategies together.
        strategies: More of them, each {"name", "method": "sample", "beam" or "contrastive", "options": {number: value},
            "steps": as in distribution}.
        new_tokens: Tokens that each writes at most.
        stop: Up to four texts that end a text.
        same_numbers: Whether all strategies get the same random number at a step.
        chat: Whether the prompt is put into the model's chat template.
        details: Whether every token is told with its numbers.

    Returns:
        texts: for each strategy text, ended (end, stop, length, context, or time where this server stopped it), and
        measured: perplexity, entropy, repetition and more. With details tokens: id, text, log_probability (of the model
        itself, nats), rank, entropy, probability after the steps, and the random number.
    """
    settings = {"tokens": new_tokens, "seed": seed, "shared": same_numbers, "stop": list(stop), "chat": chat}
    wanted = run.wanted_of(scene.playground, scene.model, scene.prompt, _cards(presets, strategies, settings), {})
    race, ended = run.Race("", wanted), [""] * len(wanted.rows)
    until = time.perf_counter() + most_seconds(scene.playground)
    for changes in run.rounds(scene.playground, wanted, race.stop):
        race.add(changes, 0.0)
        ended = [change.ended if change else was for change, was in zip(changes, ended, strict=True)]
        if time.perf_counter() > until:
            race.stop.set()
    names = cards.labels(scene.words, [row.strategy for row in wanted.rows])
    texts = []
    for name, made, why, measured in zip(names, race.made, ended, race.measured, strict=True):
        ids = [each.id for each in made]
        row = {"strategy": name, "text": scene.model.decode(ids), "ended": why or "time", "measured": measured}
        texts.append(row | ({"tokens": [_made(scene.model, each) for each in made]} if details else {}))
    return {"texts": texts}


def _made(model: LanguageModel, made: Made) -> dict:
    """A token that was written, with its numbers."""
    names = ("log_probability", "rank", "entropy", "probability", "kept", "uniform")
    return named(model, made.id) | {name: getattr(made, name) for name in names}


def many_samples(
    scene: Scene,
    presets: list[str] = cards.DEFAULT,
    strategies: list[dict] = (),
    count: Annotated[int, Within(1, 32)] = 8,
    new_tokens: NewTokens = 40,
    seed: Seed = 0,
    stop: list[str] = (),
    chat: bool = False,
    most: Rows = 100,
) -> dict:
    """Many texts of each strategy, and how they differ: perplexity, diversity, repetition, length.

    Args:
        presets: As in generate.
        strategies: As in generate.
        count: Texts of each strategy; one of those that would write the same again.
        new_tokens: Tokens that each text has at most.
        stop: Up to four texts that end a text.
        chat: Whether the prompt is put into the model's chat template.

    Returns:
        strategies: for each texts, different (how many), distinct_2 over all of them, and of each measure mean, sd, and
        quartiles. texts: strategy, text and ended.
    """
    sent = _cards(presets, strategies, {"tokens": new_tokens, "seed": seed, "stop": list(stop), "chat": chat})
    chosen, told, allowed = cards.chosen(scene.model, sent), cards.settings(sent), scene.playground.options.allowed
    check_writing(allowed, len(chosen), told.tokens)
    check_samples(allowed, count)
    wanted = many.Wanted(
        tuple(chosen), Many(count, told.tokens, told.seed, told.stop), told.chat and cards.has_chat(scene.model)
    )

    def work(progress: Progress) -> many.Taken:
        prompt = cards.prompt_ids(scene.model, scene.prompt, wanted.chat)
        return many.Taken(take_samples(scene.model, prompt, wanted.strategies, wanted.many, progress))

    taken = done(scene.playground, background.Job(many.key_of(scene, wanted), work))
    names = cards.labels(scene.words, wanted.strategies)
    rows, texts = [], []
    for name, strategy, samples in zip(names, wanted.strategies, taken.samples, strict=True):
        ids = [each.ids.tolist() for each in samples]
        measured = {key: spread([getattr(each.measured, key) for each in samples]) for key in MEASURES}
        rows.append(
            {
                "strategy": name,
                "texts": len(samples),
                "once": certain(strategy),
                "different": len({tuple(each) for each in ids}),
                "distinct_2": distinct(ids, 2),
                "measured": measured,
            }
        )
        texts += [{"strategy": name, "text": each.text, "ended": each.ended} for each in samples]
    return {"strategies": rows, "texts": texts[:most]}


def speculative(
    scene: Scene,
    draft: Annotated[str, OneOf(tuple(DRAFTS))] = "layers",
    size: int | None = None,
    draft_model: str = "",
    gamma: Annotated[int, Within(1, MOST_DRAFTED)] = 4,
    new_tokens: Annotated[int, Within(8, drafting.MOST_TOKENS)] = 40,
    steps: list[dict] | None = None,
    seed: Seed = 0,
) -> dict:
    """Speculative decoding: a draft proposes tokens, the model accepts or rejects them; what it gains here, measured.

    Args:
        draft: Who proposes. layers: the model's own first layers. ngram: what followed the same tokens before. model:
            another model in memory with the same tokens.
        size: Layers of the draft, or tokens that are looked up (1 to 8). Not given: a good default.
        draft_model: Id of the model that drafts, where draft is model; else empty.
        gamma: Tokens proposed at a time.
        new_tokens: Tokens that are written at most.

    Returns:
        text; summary: calls, proposed, accepted, acceptance beside what theory expects, seconds a token with and
        without, speed; rounds: the tokens that each call wrote, accepted and kind of the last; by_gamma: gamma,
        tokens a call and speed as predicted for other gammas.
    """
    others = drafting.drafters(scene)
    if draft == "model" and draft_model not in others:
        hint = say("Load one of the same vocabulary first: {}.", ", ".join(others) or "–")
        raise InputError("This model cannot draft.", draft_model[:40], hint)
    form = {"draft": draft, "model": draft_model, "gamma": gamma, "tokens": new_tokens, "seed": seed}
    if size is not None:
        high = scene.model.config.n_layer if draft == "layers" else drafting.MOST_SUFFIX
        if not 1 <= size <= high:
            raise InputError(
                "An argument is out of its range.", f"size: {size}", say("Choose a value from 1 to {}.", high)
            )
        form |= {"layers": size, "suffix": size}
    found = done(scene.playground, drafting.plan(scene, {"drafting_form": form} | _pipeline(steps)))
    rounds = [
        {
            "tokens": [named(scene.model, n) for n in each.tokens],
            "proposed": len(each.proposals),
            "accepted": each.accepted,
            "last": each.kind or None,
        }
        for each in found.rounds
    ]
    return {
        "text": scene.model.decode(found.tokens),
        "same_as_without": found.tokens == found.plain_tokens,
        "summary": summary(found),
        "rounds": rounds,
        "by_gamma": [dict(zip(("gamma", "tokens_per_call", "speed"), row, strict=True)) for row in swept(found)],
    }
