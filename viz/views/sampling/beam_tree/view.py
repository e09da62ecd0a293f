"""Beam search: the tree of everything it considered, and its texts beside greedy decoding and exhaustive search."""

import math
from typing import Annotated

from model.generation.search.exhaustive import MostProbable
from viz.labels import visible, visible_lines
from viz.numbers import decimals, factor, number, percent, whole
from viz.seam.programs.arguments import OneOf, Within
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import measured, named
from viz.seam.python_lines import script
from viz.seam.scene import Scene
from viz.seam.view import Custom, Job, Payload, Seen, Table, View
from viz.views.sampling.beam_tree.figures import drawn, records
from viz.views.sampling.beam_tree.measure import (
    GROUPS,
    MEASURES,
    MOST_BEAMS,
    MOST_TOKENS,
    OF_EXACT,
    OF_TREE,
    RUNS,
    SETTINGS,
    Searched,
    most_tokens,
    steps_of,
    strategy_of,
)
from viz.views.sampling.pipelines import PIPELINE_OR_REFUSAL, Pipeline, step_imports, step_name, steps_code
from viz.views.sampling.pipelines import steps_of as read_steps
from viz.words import joined, section

_TAIL = 6  # maximum number of prompt tokens shown before the text
_NAMED = 6  # maximum number of steps that are named
_CLOSE = 1e-4  # difference in nats within which two sums of log-probabilities count as equal, above float32 rounding


def hint(seen: Seen) -> Payload:
    """Describe the job beside its button."""
    text = seen.here["hint"].format(tokens=seen.settings.tokens)
    return {"text": f"{text} {seen.words['edited']}" if seen.facts.edits else text}


def _shared(seen: Seen, python: str) -> Payload:
    """Build the entries common to both parts: the source with a note if edits are ignored, the file name and the Python
    lines.
    """
    source = seen.words["measured_here"].format(model=seen.facts.label, dtype=seen.facts.dtype)
    return {
        "source": f"{source} · {seen.words['edited']}" if seen.facts.edits else source,
        "file": f"beam-search-{seen.part}",
        "python": python,
    }


def _python(seen: Seen, searched: Searched, exact: bool) -> str:
    """Build the Python lines that compute the texts; with `exact`, also the most probable one."""
    settings, strategy = seen.settings, strategy_of(seen.settings)
    ending = f"frozenset({sorted(searched.ending)})" if searched.ending else "frozenset()"
    lines = [
        "ids, size = run.tokens.ids.tolist(), lm.tokenizer.vocab_size",
        f"ending = {ending}",
        f"steps = {steps_code(strategy.steps)}",
        f'strategy = Strategy(steps, "{strategy.method}", {strategy.options!r})',
        f"plan = DecodingPlan({settings.tokens}, ending=ending)",
        "tree = beam_tree(lm.model, ids, strategy, plan, size)",
    ]
    imports = [
        "from model.generation.search.beam_tree import beam_tree",
        "from model.generation.strategies import DecodingPlan, Strategy",
        *(["from model.sampling.pipeline import Step", *step_imports(strategy.steps)] if strategy.steps else []),
    ]
    last = "[(tree.ids(each), tree.candidates[each].score) for each in tree.results]"
    if exact:
        imports.append("from model.generation.search.exhaustive import most_probable")
        call = f"most_probable(lm.model, ids, {settings.tokens}, size, ending, {settings.runs}, steps=steps)"
        lines += [last, call]
    else:
        lines.append(last)
    return script(seen.facts, lines, imports)


def _after(seen: Seen) -> str:
    """Name the steps after which the probabilities are; "" without steps."""
    steps = steps_of(seen.settings)
    names = [step_name(seen.all_words, step) for step in steps[:_NAMED]] + ["…"] * (len(steps) > _NAMED)
    return seen.here["after"].format(steps=" → ".join(names)) if steps else ""


def tree(seen: Seen) -> Payload:
    """Build the tree of a search: the candidates of each step with their fates."""
    words, facts, settings, searched = seen.here, seen.facts, seen.settings, seen.result
    found = searched.tree
    share = settings.beams // int(settings.groups)
    shown = drawn(found.candidates, share)
    text = searched.typed[found.results[0]]
    said = "".join(facts.piece(id) for id in found.ids(found.results[0])) if text is None else text
    left_out = len(found.candidates) - len(shown)
    note = words["note"].format(n=len(found.candidates), kept=settings.beams)
    more = [words["left_out"].format(n=left_out)] if left_out else []
    return {
        "title": words["title"].format(text=visible_lines(said)),
        "note": joined([note, *more, _after(seen)]),
        "mine": settings.steps == "mine",
        "nodes": records(found.candidates, searched.typed, shown, found.results, facts.piece),
        "groups": int(settings.groups),
        "share": share,
        "before": [visible(piece) for piece in facts.pieces[-_TAIL:]],
        "cut": len(facts.pieces) > _TAIL,
        "prompt": None if facts.prompt.turns else facts.prompt.text,
        "turns": facts.prompt.before,
        "words": words.plain() | section(seen.all_words, "plot"),
        **_shared(seen, _python(seen, searched, False)),
    }


def texts(seen: Seen) -> Payload:
    """Build the table of the final texts, greedy decoding and the most probable text."""
    words, searched, exact = seen.here, seen.result, seen.results["exact"]
    found, piece = searched.tree, seen.facts.piece
    winner = found.candidates[found.results[0]]
    rows = []

    def add(name: str, ids: tuple[int, ...], total: float, penalty: float = 0.0) -> None:
        score = (total - penalty) / len(ids) ** seen.settings.length_penalty
        fined = {"small": words["fined"].format(n=number(penalty))} if penalty else {}
        text = visible("".join(piece(id) for id in ids))
        numbers = [whole(len(ids)), decimals(total, 3), {"text": decimals(score, 3), **fined}]
        rows.append([name, text, *numbers, percent(math.exp(total)), factor(math.exp(total - winner.total))])

    for rank, index in enumerate(found.results, 1):
        each = found.candidates[index]
        name = words["winner" if rank == 1 else "final"].format(n=rank)
        add(name, found.ids(index), each.total, each.penalty)
    add(words["greedy"], searched.greedy, searched.greedy_total)
    if exact:
        add(words["exact" if exact.exact else "at_least"], exact.ids, exact.total)
    columns = [words[f"column_{name}"] for name in ("search", "text", "tokens", "total", "score", "p", "ratio")]
    told, good = verdict(seen, exact, winner.total) if exact else ([], True)
    return {
        "title": words["title"],
        "about": joined([words["about"], _after(seen)]),
        "verdict": told,
        "good": good,
        "columns": columns,
        "rows": rows,
        **_shared(seen, _python(seen, searched, exact is not None)),
    }


def verdict(seen: Seen, exact: MostProbable, winner: float) -> tuple[list[str], bool]:
    """Say whether beam search missed a more probable text, and what exhaustive search cost.

    `winner` is the winner's sum of log-probabilities. The second value is False if a more probable text was missed.
    """
    words, gap = seen.here, exact.total - winner
    missed = gap > _CLOSE
    if missed:
        ratio = factor(math.exp(gap)).removesuffix(" ×")
        lines = [words["missed" if exact.exact else "missed_at_least"].format(times=ratio)]
    else:
        lines = [words["best" if exact.exact else "none_better"]]
    if not exact.exact:
        bound, best = percent(math.exp(exact.bound)), percent(math.exp(max(exact.total, winner)))
        lines.append(words["unfinished"].format(runs=whole(exact.runs), low=best, high=bound))
    beginnings = sum(float(seen.facts.config.vocab_size) ** step for step in range(seen.settings.tokens))
    cost = {"runs": whole(exact.runs), "passes": whole(exact.passes), "all": number(beginnings)}
    lines.append(words["cost"].format(**cost))
    return lines, not missed


# --- for programs ---


def beam_search(
    scene: Scene,
    beams: Annotated[int, Within(1, MOST_BEAMS)] = 4,
    new_tokens: Annotated[int, Within(2, MOST_TOKENS)] = 8,
    length_penalty: Annotated[float, Within(-2, 2)] = 1.0,
    groups: Annotated[str, OneOf(GROUPS)] = "1",
    diversity: Annotated[float, Within(0, 5)] = 1.0,
    runs: Annotated[str, OneOf(RUNS)] = "1024",
    steps: list[dict] = (),
) -> dict:
    """Run a beam search, and return every continuation that it considered and why it was dropped, beside greedy
    decoding and the most probable text.

    Args:
        beams: Number of texts that are kept at each step.
        new_tokens: Maximum number of generated tokens.
        length_penalty: The score is the sum of log-probabilities divided by the length to this power.
        groups: Number of groups of beams (diverse beam search); it must divide the number of beams.
        diversity: How much the score of a token is lowered for each text of an earlier group that took it.
        runs: Maximum number of beginnings that exhaustive search runs through the model.
        steps: Sampling steps before the search, as in `distribution`; all probabilities are then those after them.

    Returns:
        texts: the final texts by decreasing score, each with text, tokens, total (sum of log-probabilities in nats),
        score and ended; candidates: for each continuation step, parent (an index, -1 for the prompt), token,
        log_probability, total, penalty, score, group, state (kept, pruned, final), reason and pruned (the step at which
        it was dropped, or 0); greedy: text and total; most_probable: text, total, exact (false if the search was not
        finished: another text may be more probable, up to bound), bound and runs.
    """
    tokens = min(new_tokens, most_tokens(scene))
    chosen = {"beams": beams, "tokens": tokens, "length_penalty": length_penalty, "groups": groups}
    after = {"steps": "mine", "pipeline": Pipeline(read_steps(scene.model, list(steps)))}
    searched: Searched = measured(VIEW, "tree", scene, **chosen, **after, diversity=diversity)
    exact: MostProbable = measured(VIEW, "exact", scene, **after, tokens=tokens, runs=runs)
    lm, found = scene.model, searched.tree
    hidden = ("id", "place")
    candidates = [
        {"token": named(lm, each.id)} | {name: value for name, value in vars(each).items() if name not in hidden}
        for each in found.candidates
    ]
    finals = [
        {
            "text": lm.decode(found.ids(index)),
            "tokens": len(found.ids(index)),
            **{name: getattr(found.candidates[index], name) for name in ("total", "score", "ended")},
        }
        for index in found.results
    ]
    return {
        "texts": finals,
        "candidates": candidates,
        "greedy": {"text": lm.decode(searched.greedy), "total": searched.greedy_total},
        "most_probable": {
            "text": lm.decode(exact.ids),
            **{name: getattr(exact, name) for name in ("total", "exact", "bound", "runs")},
        },
    }


VIEW = View(
    "beam_tree",
    needs=("layers", "next"),
    settings=SETTINGS,
    form_depends=("model",),
    measures=MEASURES,
    layout=("form", "job", "tree", "exact_job", "texts"),
    parts={
        "pipeline": PIPELINE_OR_REFUSAL,
        "job": Job("tree", hint, settings=OF_TREE),
        "tree": Custom("beamtree", tree, of="tree", settings=OF_TREE),
        "exact_job": Job("exact", hint, settings=OF_EXACT),
        "texts": Table(texts, of="tree", also=("exact",), settings=(*OF_TREE, "runs")),
    },
    api=(Endpoint(beam_search, reads="plain run", long=True),),
)
