"""Many samples: statistics over many generated texts per strategy."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from model.generation.text_statistics import distinct
from model.predictions.samples import Many, Sample, batches_of, certain, take_samples
from model.progress import Progress
from model.text.chat import typable
from viz.numbers import BIT, plain
from viz.seam.programs.arguments import Rows, Within
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import measured
from viz.seam.python_lines import loading
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Settings
from viz.seam.view import Asking, Custom, Figure, Job, Measure, Payload, Seen, View
from viz.theme import HUES
from viz.views.sampling import strategies as cards
from viz.views.sampling.many_samples.figures import (
    MEASURES,
    entropy_figure,
    measure_figure,
    quartile_band,
    shown,
    spread,
)
from viz.views.sampling.pipelines import step_imports
from viz.words import joined, section
from viz.work.limits import check_samples

COUNTS = ("8", "16", "32")  # offered numbers of texts per strategy


def _counts(scene: Scene) -> tuple[str, ...]:
    """Return the numbers of texts that this server allows, or only the smallest one if it allows none of them."""
    return tuple(each for each in COUNTS if int(each) <= scene.playground.options.allowed.samples) or COUNTS[:1]


COUNT = Choice("count", _counts, default="16", label=lambda words, option: option)


@dataclass(frozen=True, eq=False)
class Taken:
    """The texts of each strategy, in the same order as the cards."""

    samples: tuple[tuple[Sample, ...], ...]  # by strategy; a deterministic one has a single text
    typed: tuple[tuple[bool, ...], ...]  # whether each text can be typed, in the same order


def question(scene: Scene, settings: Settings) -> Settings:
    """Return the settings that affect the texts: without names of strategies and without shared random numbers."""
    chosen = settings.strategies
    common = replace(chosen.common, shared=True, chat=chosen.common.chat and cards.has_chat(scene.model))
    unnamed = tuple(replace(each, name="") for each in chosen.strategies)
    return settings.but(strategies=replace(chosen, strategies=unnamed, common=common))


def take(scene: Scene, settings: Settings, progress: Progress) -> Taken:
    """Generate the texts. Raises InputError if the cards were rejected or the server does not allow this many texts."""
    chosen, count = settings.strategies, int(settings.count)
    chosen.check()
    check_samples(scene.playground.options.allowed, count)
    common = chosen.common
    prompt = cards.prompt_ids(scene.model, scene.prompt, common.chat)
    model = scene.playground.eight_bit(scene.model) if common.eight else scene.model
    many = Many(count, common.tokens, common.seed, common.stop)
    samples = tuple(map(tuple, take_samples(model, prompt, chosen.strategies, many, progress)))
    tokenizer = scene.model.tokenizer
    return Taken(
        samples, tuple(tuple(typable(tokenizer, text.ids.tolist()) is not None for text in each) for each in samples)
    )


def pace(scene: Scene, settings: Settings) -> tuple[bool, int]:
    """Return the key under which the speed is recorded, separate for 8-bit weights, and the number of batched decoding
    steps.
    """
    chosen = settings.strategies
    return chosen.common.eight, len(batches_of(chosen.strategies, int(settings.count))) * chosen.common.tokens


def read_measure(sent: object, scene: Scene) -> str:
    """Parse the selected metric; any invalid value selects the first one."""
    key = sent.get("measure") if isinstance(sent, dict) else None
    return key if isinstance(key, str) and key in MEASURES else next(iter(MEASURES))


# --- parts ---


def seconds_of(seen: Seen) -> float:
    """Estimate the duration in seconds from the speed of the last run on this model, or from the model's size."""
    facts, chosen = seen.facts, seen.settings.strategies
    step = seen.pace.get("main", 0.006 + facts.nbytes / 6e9 + facts.config.vocab_size * 2e-7)
    batches = len(batches_of(chosen.strategies, int(seen.settings.count)))
    return batches * (facts.seconds + chosen.common.tokens * step)


def hint(seen: Seen) -> Payload:
    """Describe the number of texts and the estimated duration. Raises InputError if the cards were rejected."""
    chosen, count = seen.settings.strategies, int(seen.settings.count)
    chosen.check()
    fixed = sum(certain(each) for each in chosen.strategies)
    texts = (len(chosen.strategies) - fixed) * count + fixed
    seconds = max(1, round(seconds_of(seen)))
    lines = [seen.here["takes"].format(n=texts, tokens=chosen.common.tokens, seconds=seconds)]
    lines += [seen.here["once"]] if fixed else []
    lines += [seen.words["unedited"]] if seen.facts.edits else []
    return {"text": joined(lines)}


def _names(seen: Seen) -> list[str]:
    return cards.labels(seen.all_words, seen.settings.strategies.strategies)


def _values(seen: Seen, measure: str) -> list[list[float]]:
    """Collect a metric of every text, by strategy. [S][n_s]"""
    return [[shown(measure, getattr(sample.measured, measure)) for sample in each] for each in seen.result.samples]


def _measures(seen: Seen) -> list[dict]:
    words = seen.words.within("measures")
    return [
        {
            "key": key,
            "label": words[key],
            "unit": words.get(f"unit_{key}", ""),
            "help": words[f"help_{key}"],
            "digits": digits,
        }
        for key, digits in MEASURES.items()
    ]


def _written(seen: Seen) -> str:
    """Format the source line: the model, the maximum number of tokens, the seed, and a note if edits are ignored."""
    common, label = seen.settings.strategies.common, seen.facts.label
    if common.eight:
        label = f"{label} · {seen.all_words['strategies.eight']}"
    line = seen.words["written"].format(model=label, tokens=common.tokens, seed=common.seed)
    return f"{line} · {seen.words['unedited']}" if seen.facts.edits else line


def table(seen: Seen) -> Payload:
    """Build one row per strategy: the number of texts, of finished and of distinct ones, and all metrics."""
    words, names, rows = seen.here, _names(seen), []
    for index, (strategy, samples) in enumerate(
        zip(seen.settings.strategies.strategies, seen.result.samples, strict=True)
    ):
        ids = [sample.ids.tolist() for sample in samples]
        spreads = {key: spread([shown(key, getattr(sample.measured, key)) for sample in samples]) for key in MEASURES}
        rows.append(
            {
                "name": names[index],
                "about": cards.summary(seen.all_words, strategy),
                "hue": HUES[index % len(HUES)],
                "texts": len(samples),
                "once": certain(strategy),
                "ended": sum(sample.ended in ("end", "stop", "rule") for sample in samples),
                "different": len({tuple(each) for each in ids}),
                "together": plain(distinct(ids, 2)),
                "spread": {key: [plain(value) for value in vars(each).values()] for key, each in spreads.items()},
            }
        )
    return {
        "title": words["title"].format(n=sum(row["texts"] for row in rows)),
        "note": words["note"],
        "rows": rows,
        "measures": _measures(seen),
        "words": words.plain() | {"strategy": seen.words["strategy"]},
        "source": _written(seen),
    }


def plot(seen: Seen) -> Payload:
    """Draw the selected metric of every text."""
    measure = seen.settings.table
    words = seen.words.within("measures")
    unit = words.get(f"unit_{measure}", "")
    label = f"{words[measure]} ({unit})" if unit else words[measure]
    texts = [[sample.text for sample in each] for each in seen.result.samples]
    bits = " / np.log(2)" if measure == "entropy" else ""
    return {
        "figure": measure_figure(_names(seen), _values(seen, measure), texts, label),
        "title": label,
        "note": words[f"help_{measure}"],
        "file": f"many-samples-{measure}",
        "columns": [seen.here["begins"], label, seen.words["strategy"]],
        "python": _python(seen, f"[[sample.measured.{measure}{bits} for sample in each] for each in samples]"),
    }


def entropy(seen: Seen) -> Payload:
    """Draw the entropy of the model's predictions at each step of the texts."""
    words = seen.here
    bands = [quartile_band([sample.entropies / BIT for sample in each]) for each in seen.result.samples]
    return {
        "figure": entropy_figure(_names(seen), bands, words),
        "title": words["title"],
        "note": words["note"],
        "columns": [seen.words["strategy"], words["step"], words["entropy"]],
        "python": _python(seen, "[[sample.entropies / np.log(2) for sample in each] for each in samples]"),
    }


def texts(seen: Seen) -> Payload:
    """Build the list of all texts with their metrics."""
    chosen = seen.settings.strategies
    samples = [
        {
            "strategy": index,
            "sample": n + 1,
            "text": sample.text,
            "ended": sample.ended,
            "ids": sample.ids.tolist(),
            "typed": seen.result.typed[index][n],
            "measured": {key: plain(shown(key, value)) for key, value in vars(sample.measured).items()},
        }
        for index, each in enumerate(seen.result.samples)
        for n, sample in enumerate(each)
    ]
    return {
        "title": seen.here["title"],
        "samples": samples,
        "turns": cards.continued(seen.facts.prompt, _chat(seen)).before,
        "names": _names(seen),
        "measures": _measures(seen),
        "hues": list(HUES),
        "python": _python(seen, "[[sample.text for sample in each] for each in samples]"),
        "file": "many-samples",
        "about": {
            "model": seen.facts.model_id,
            "prompt": seen.facts.prompt.text,
            "messages": seen.facts.prompt.messages,
            "tokens": chosen.common.tokens,
            "seed": chosen.common.seed,
            "stop": list(chosen.common.stop),
            "chat": _chat(seen),
            "eight": chosen.common.eight,
            "strategies": cards.value_of(chosen.strategies),
        },
        "source": _written(seen),
        "words": seen.here.plain() | {"strategy": seen.words["strategy"], "plot": section(seen.all_words, "plot")},
    }


def _chat(seen: Seen) -> bool:
    """Return whether the prompt was put into the model's chat template."""
    offer = seen.results["offer"]
    return offer.chat and (offer.talk or seen.settings.strategies.common.chat)


def _python(seen: Seen, last: str) -> str:
    """Build the Python lines that generate the same texts."""
    chosen, loaded = seen.settings.strategies, loading(seen.facts.model_id)
    imports = [
        "from model.api import load_model",
        "from model.generation.strategies import Strategy",
        "from model.sampling.pipeline import Step",
        "from model.predictions.samples import Many, take_samples",
    ]
    imports += ["import numpy as np"] if "np." in last else []
    imports += step_imports([step for each in chosen.strategies for step in each.steps])
    common = chosen.common
    if any(each.memory for each in chosen.strategies):
        imports.append("from model.forgetting.policies import Policy")
    if common.eight:
        imports, loaded = [*imports, "from model.quantization.int8 import int8"], f"int8({loaded})"
    many = f"Many({seen.settings.count}, {common.tokens}, {common.seed}, {common.stop!r})"
    prompt = cards.prompt_code(seen.facts.prompt, _chat(seen))
    lines = [f"lm = {loaded}", *cards.code(chosen.strategies, _names(seen))]
    return "\n".join([*sorted(imports), "", *lines, f"samples = take_samples(lm, {prompt}, strategies, {many})", last])


# --- for programs ---


def many_samples(
    scene: Scene,
    presets: list[str] = cards.DEFAULT,
    strategies: list[dict] = (),
    count: Annotated[int, Within(1, 32)] = 8,
    new_tokens: Annotated[int, Within(1, cards.MOST_TOKENS)] = 40,
    seed: Annotated[int, Within(0, cards.MOST_SEED)] = 0,
    stop: list[str] = (),
    chat: bool = False,
    most: Rows = 100,
) -> dict:
    """Generate many texts with each strategy, and compare their perplexity, diversity, repetition and length.

    Args:
        presets: As in `generate`.
        strategies: As in `generate`.
        count: Number of texts per strategy; a deterministic strategy generates only one.
        new_tokens: Maximum number of generated tokens per text.
        stop: Up to four strings that end the generation.
        chat: Whether to put the prompt into the model's chat template.

    Returns:
        strategies: for each one, texts and different (the numbers of texts and of distinct texts), distinct_2 over all
        its texts, and measured: mean, sd and quartiles of each metric. texts: each with strategy, text and ended.
    """
    common = {"tokens": new_tokens, "seed": seed, "stop": list(stop), "chat": chat}
    requested = cards.read_cards(cards.card_values(presets, strategies, common), scene)
    requested.check()
    taken = measured(VIEW, "main", scene, strategies=requested, count=str(count))
    names = cards.labels(scene.words, requested.strategies)
    rows = [
        {"strategy": name, "once": certain(strategy), **_summary(samples)}
        for name, strategy, samples in zip(names, requested.strategies, taken.samples, strict=True)
    ]
    records = [
        {"strategy": name, "text": each.text, "ended": each.ended}
        for name, samples in zip(names, taken.samples, strict=True)
        for each in samples
    ]
    return {"strategies": rows, "texts": records[:most]}


def _summary(samples: Sequence[Sample]) -> dict:
    """Compute the statistics of one strategy's texts."""
    ids = [each.ids.tolist() for each in samples]
    return {
        "texts": len(samples),
        "different": len({tuple(each) for each in ids}),
        "distinct_2": distinct(ids, 2),
        "measured": {key: spread([getattr(each.measured, key) for each in samples]) for key in MEASURES},
    }


OF_CARDS = ("strategies", "count")  # all settings, including names, that the parts with texts depend on
VIEW = View(
    "many_samples",
    needs=("layers", "next"),
    settings=(COUNT,),
    form_depends=("model",),
    measures=(
        cards.OFFER,
        Measure(
            "main",
            take,
            depends=("plain", "prompt"),
            settings=("strategies", "count"),
            slow=True,
            question=question,
            pace=pace,
        ),
    ),
    layout=("strategies", "form", "job", "table", ("plot", "entropy"), "texts"),
    parts={
        "strategies": cards.PART,
        "job": Job("main", hint, settings=OF_CARDS),
        "table": Asking("manytable", read_measure, table, of="main", settings=OF_CARDS),
        "plot": Figure(plot, of="main", also=("offer",), settings=(*OF_CARDS, "table")),
        "entropy": Figure(entropy, also=("offer",), settings=OF_CARDS),
        "texts": Custom("manytexts", texts, also=("offer",), settings=OF_CARDS),
    },
    api=(Endpoint(many_samples, reads="plain run", long=True),),
)
