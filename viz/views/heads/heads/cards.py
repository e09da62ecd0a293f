"""The cards of named heads: what each does, the evidence for its name, and its best example."""

from collections.abc import Sequence

import numpy as np

from model.attention.head_examples import HeadExample
from model.attention.surveys import LABELS, SENTENCES, Survey
from viz.labels import visible
from viz.numbers import decimals, duration, percent, whole
from viz.seam.python_lines import model_script
from viz.seam.view import Payload, Seen
from viz.theme import HUES
from viz.views.heads.heads.measure import LEAST, Surveyed

ORDER = ("induction", "previous_token", "duplicate_token", "self", "first_token")  # the rarest behavior first
IMPORTS = ["from model.attention.surveys import labels, random_survey"]


def cards(seen: Seen) -> Payload:
    """Build one group of cards for each name, with its heads by decreasing score. Absent before the survey."""
    words, surveyed = seen.here, seen.results["survey"]
    if surveyed is None:
        return {"absent": True}
    n = surveyed.random.sequences
    return {
        "title": words["title"],
        "note": words["note"].format(n=whole(n), sentences=whole(len(SENTENCES))),
        "groups": [group for label in ORDER if (group := _group(seen, surveyed, label))["cards"]],
        "sentences": [[visible(token) for token in tokens] for tokens in surveyed.sentence_tokens],
        "sequences": n,
        "source": seen.words["measured"].format(
            model=seen.facts.label, dtype=seen.facts.dtype, time=duration(seen.seconds["survey"])
        ),
        "file": "heads-names",
        "python": model_script(
            seen.facts,
            ["survey = random_survey(lm.model, pool=lm.tokenizer.vocab_size)", f"labels(survey, {LEAST})"],
            IMPORTS,
        ),
        "words": words.plain(),
    }


def hue_of(label: str) -> str:
    """Return the color of a name, the same in every list of heads."""
    return HUES[LABELS.index(label)]


def _group(seen: Seen, surveyed: Surveyed, label: str) -> dict:
    """Build the cards of the heads with one name."""
    heads = [
        (head, score, baseline)
        for head, names in surveyed.names.items()
        for name, score, baseline in names
        if name == label
    ]
    heads.sort(key=lambda each: -each[1])
    return {
        "name": label,
        "label": seen.all_words[f"label.{label}"],
        "does": seen.here[f"does_{label}"],
        "hue": hue_of(label),
        "cards": [
            card(head, score, error(surveyed.random, head, label), baseline, surveyed.examples.get((*head, label)))
            for head, score, baseline in heads
        ],
    }


def error(survey: Survey, head: tuple[int, int], label: str) -> float:
    """Return two standard errors of a head's mean score over the sequences."""
    return 2 * float(survey.spread.at[head, label]) / np.sqrt(survey.sequences)


def card(
    head: Sequence[int], score: float, error: float, baseline: float, example: HeadExample | None
) -> dict[str, object]:
    """Build a card: the head, its evidence in numbers and as text, and its example [text, query, keys, weight]."""
    return {
        "head": [int(each) for each in head],
        "numbers": [score, error, baseline],
        "texts": [decimals(each, 3) for each in (score, error, baseline)],
        "example": example and [example.text, example.query, list(example.keys), example.weight],
        "weight": percent(example.weight) if example else "",
    }
