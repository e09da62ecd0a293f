"""The claims view: sentences that are often repeated about transformers, tested on the loaded model."""

from typing import Annotated

from model.api import LanguageModel
from model.claims.registry import CLAIMS, GROUPS
from model.claims.study import Study, study
from model.claims.texts import PASSAGES, passages
from model.claims.verdict import DEPENDS, FALSE, TRUE, UNABLE, example
from model.errors import InputError, say
from viz.numbers import percent, whole
from viz.seam.jobs.background import BackgroundJob
from viz.seam.programs.arguments import OneOf, got
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import done
from viz.seam.python_lines import model_script
from viz.seam.view import Asking, Figure, Job, Payload, Seen, Table, View
from viz.views.checks.claims.figures import Row, claim_figure
from viz.views.checks.claims.measure import ALL, ALONE, ONE, STORED, chosen, texts_for
from viz.views.checks.claims.texts import TICKS, effect, judged, sentence, shown, span, threshold
from viz.words import joined
from viz.work.playground import Playground

STATES = (TRUE, FALSE, DEPENDS, UNABLE)
NAMES = {"tinygpt": "TinyGPT", "smollm2-135m": "SmolLM2"}  # short names of the built-in models


def here(seen: Seen, key: str) -> Study | None:
    """Return the test of a claim on the loaded model: alone, or with all others; None if it was not tested."""
    return seen.results["alone"].studies.get(key) or seen.results["all"]


def tested_alone(seen: Seen, key: str) -> bool:
    """Return whether the shown test of a claim was made alone: then no number is a stored one of this model."""
    return key in seen.results["alone"].studies


def others(seen: Seen) -> dict[str, Study]:
    """Return the stored results of the built-in models other than the loaded one, by their short names."""
    stored = seen.results["stored"].studies
    return {NAMES.get(model, model): each for model, each in stored.items() if model != seen.facts.model_id}


def by_model(seen: Seen, key: str) -> dict[str, Study]:
    """Return the tests of a claim, the loaded model first, by name; those with stored results are marked."""
    mine = here(seen, key)
    stored = {seen.words["stored"].format(model=name): each for name, each in others(seen).items()}
    return ({seen.facts.label: mine} if mine else {}) | stored


# --- the list ---


def listed(seen: Seen) -> Payload:
    """Build the list of all claims in their groups, each with its verdict on the loaded model and on the stored one."""
    words = seen.here
    groups = [
        {"name": seen.words[f"group.{name}"], "rows": [_row(seen, key) for key in claims]}
        for name, claims in GROUPS.items()
    ]
    return {
        "title": words["title"].format(n=len(CLAIMS)),
        "groups": groups,
        "chosen": seen.settings.list,
        "models": [seen.facts.label.split(" · ")[0], *others(seen)],
        "states": [[state, seen.words[f"state.{state}"]] for state in STATES],
        "source": _source(seen, seen.settings.list),
        "file": "claims",
        "python": _python(seen),
        "words": words.plain(),
    }


def _row(seen: Seen, key: str) -> Payload:
    """Build the row of a claim: its sentence, and a verdict per model; None for a model without a test."""
    studies = [here(seen, key), *others(seen).values()]
    return {"key": key, "claim": seen.words[f"claim.{key}"], "verdicts": [_cell(seen, key, each) for each in studies]}


def _cell(seen: Seen, key: str, tested: Study | None) -> Payload | None:
    """Build the cell of a verdict: its state, the mean and the interval."""
    if tested is None or (key not in tested.values and key not in tested.reasons):
        return None
    verdict = judged(tested, key)
    if verdict is None or verdict.state == UNABLE:
        return {"state": UNABLE, "effect": "", "interval": "", "said": sentence(seen.words, tested, key)}
    mean, ends = effect(seen.words, key, verdict), span(seen.words, key, verdict)
    return {"state": verdict.state, "effect": mean, "interval": ends, "said": f"{mean} {ends}"}


def _python(seen: Seen) -> str:
    """Write the Python lines that test the chosen claim."""
    key = seen.settings.list
    lines = [
        f'found = study(lm, ["{key}"], texts={_texts(seen)})',
        f'judge(CLAIMS["{key}"], found.values["{key}"])',
    ]
    imports = ["registry import CLAIMS", "study import study", "verdict import judge"]
    return model_script(seen.facts, lines, [f"from model.claims.{each}" for each in imports])


# --- one claim ---


def figure(seen: Seen) -> Payload:
    """Draw the number of the chosen claim on every text, for the loaded model and the stored one."""
    words, key = seen.here, seen.settings.list
    claim, tested = CLAIMS[key], by_model(seen, key)
    rows = []
    for name, each in tested.items():
        verdict = judged(each, key)
        if verdict and verdict.state != UNABLE:
            values = each.values[key]
            hover = [
                f"{shown(seen.words, claim.unit, float(value))} · {_beginning(number)}"
                for value, number in zip(values, each.passages, strict=True)
            ]
            rows.append(Row(name.split(" · ")[0], values, verdict.mean, verdict.low, verdict.high, hover))
    measured = joined([seen.words[f"how.{key}"], threshold(seen.words, claim)])
    title = seen.words[f"claim.{key}"]
    if not rows:
        text = sentence(seen.words, tested[seen.facts.label], key) if here(seen, key) else words["untested"]
        return {"empty": {"text": title, "hint": joined([measured, text])}}
    labels = {"x": words[f"x.{claim.unit}"], "true": words["true"], "mean": words["mean"]}
    return {
        "figure": claim_figure(rows, (claim.low, claim.high), TICKS.get(claim.unit, ""), labels),
        "title": title,
        "note": measured,
        "source": _source(seen, key),
        "unstored": tested_alone(seen, key),
        "file": f"claim-{key}",
        "columns": [words["model"], labels["x"], words["spread"]],
        "python": _python(seen),
    }


def _beginning(number: int, words: int = 7) -> str:
    """Return the first words of a passage."""
    return " ".join(passages()[number].split()[:words]) + " …"


def numbers(seen: Seen) -> Payload:
    """Build the table of the verdicts of the chosen claim, and one text."""
    words, key = seen.here, seen.settings.list
    tested = by_model(seen, key)
    if not tested:
        return {"absent": True}
    first = next(iter(tested))
    said = sentence(seen.words, tested[first], key)
    rows = [_numbers(seen, name, each, key) for name, each in tested.items()]
    return {
        "title": words["title"],
        "verdict": [
            said if here(seen, key) else words["of"].format(model=first, said=said),
            *_example(seen, tested[first], key),
        ],
        "good": True,
        "columns": [words[name] for name in ("model", "verdict", "mean", "interval", "agree", "texts")],
        "rows": rows,
        "note": words["note"],
        "source": _source(seen, key),
        "unstored": tested_alone(seen, key),
        "file": f"claim-{key}-verdict",
        "python": _python(seen),
    }


def _numbers(seen: Seen, name: str, tested: Study, key: str) -> list[str]:
    """Build the table row of one model."""
    verdict = judged(tested, key)
    state = verdict.state if verdict else UNABLE
    if verdict is None or state == UNABLE:
        return [name, seen.words[f"state.{state}"], "", "", "", ""]
    texts = f"{whole(verdict.texts)} / {whole(len(tested.passages))}"
    ends = span(seen.words, key, verdict)
    return [name, seen.words[f"state.{state}"], effect(seen.words, key, verdict), ends, percent(verdict.agree), texts]


def _example(seen: Seen, tested: Study, key: str) -> list[str]:
    """Quote the text whose number is nearest to the median, as a list of one; empty without one."""
    if key not in tested.values or (at := example(tested.values[key])) is None:
        return []
    value = shown(seen.words, CLAIMS[key].unit, float(tested.values[key][at]))
    return [seen.here["example"].format(value=value, text=passages()[tested.passages[at]])]


def _source(seen: Seen, key: str) -> str:
    """Name the loaded model and its texts; if it was not tested, say that the results are stored ones."""
    tested = here(seen, key)
    if tested is None:
        return " · ".join([*others(seen), seen.all_words["job.stored_source"]])
    counted = {"n": whole(len(tested.passages)), "tokens": whole(tested.tokens)}
    return seen.words["numbers.tested_source"].format(model=seen.facts.label, dtype=seen.facts.dtype, **counted)


def all_hint(seen: Seen) -> Payload:
    """Describe the test of all claims."""
    known = seen.results["all"]
    n = len(known.passages) if known else _texts(seen)
    return {"start": seen.here["start"].format(n=len(CLAIMS)), "text": seen.here["hint"].format(n=whole(n))}


def _texts(seen: Seen) -> int:
    """Return the number of texts for the loaded model."""
    return texts_for(seen.facts.n_params)


def one_hint(seen: Seen) -> Payload:
    """Describe the test of the chosen claim alone."""
    return {"text": "" if seen.results["all"] else seen.here["hint"].format(n=whole(_texts(seen)))}


# --- for programs ---


def test_claims(
    playground: Playground,
    model: LanguageModel,
    claims: list[str] = (),
    texts: Annotated[int, OneOf((PASSAGES, 100, 40, 20))] = 40,
) -> dict:
    """Test sentences that are often repeated about transformers on this model, over passages of a held-out chapter.

    Args:
        claims: Claims to test; all by default. They are NAMES.
        texts: Number of passages.

    Returns:
        claims: one record per claim with its group, verdict (true, false, depends, unable), unit, low and high
        (threshold: true above low and below high), mean over the texts, interval (95%, t distribution, over texts),
        agree (fraction of the texts whose own number fits), texts (with a number), and reason if it cannot be measured;
        texts, tokens: numbers of passages and of their tokens.
    """
    for name in claims:
        if name not in CLAIMS:
            raise InputError(
                "No claim has this name.", got("claims", name), say("Choose one of: {}.", ", ".join(CLAIMS))
            )
    keys = tuple(key for key in CLAIMS if key in claims) or tuple(CLAIMS)
    job = BackgroundJob(
        ("endpoint claims", model.id, keys, texts), lambda progress: study(model, keys, texts, progress)
    )
    found: Study = done(playground, job)
    return {"claims": [_record(found, key) for key in keys], "texts": texts, "tokens": found.tokens}


test_claims.__doc__ = test_claims.__doc__.replace("NAMES", ", ".join(CLAIMS))


def _record(found: Study, key: str) -> dict:
    """Build the record of one claim for programs."""
    claim, verdict = CLAIMS[key], judged(found, key)
    group = next(name for name, claims in GROUPS.items() if key in claims)
    record = {"claim": key, "group": group, "unit": claim.unit, "low": claim.low, "high": claim.high}
    if verdict is None:
        return record | {"verdict": UNABLE, "reason": found.reasons[key]}
    numbers = {"mean": verdict.mean, "interval": [verdict.low, verdict.high], "agree": verdict.agree}
    return record | {"verdict": verdict.state, **numbers, "texts": verdict.texts}


_TESTS = ("all", "one", "alone", "stored")
VIEW = View(
    "claims",
    needs=(),
    measures=(ALL, ONE, ALONE, STORED),
    layout=("job", ("list", ("figure", "one", "numbers"))),
    parts={
        "job": Job("all", all_hint),
        "list": Asking("claimlist", chosen, listed, also=_TESTS, settings=("list",)),
        "figure": Figure(figure, of=("stored", "alone"), also=("all", "one"), settings=("list",)),
        "one": Job("one", one_hint, also=("all",), settings=("list",)),
        "numbers": Table(numbers, of=("stored", "alone"), also=("all", "one"), settings=("list",)),
    },
    api=(Endpoint(test_claims, reads="model", long=True),),
)
