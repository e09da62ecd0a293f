"""The heads tab's numbers: every head over a probe set, and which heads are wired to which."""

from model.api import LanguageModel
from viz.api.answers import ranked_heads
from viz.api.arguments import Rows
from viz.api.reading import done, on, unprompted
from viz.page.playground import Playground
from viz.views.heads.table import view as heads_view


def head_survey(playground: Playground, model: LanguageModel) -> dict:
    """What every head does without a prompt of one's own: on repeated random tokens and on sentences, with the names
    that this gives to heads (previous token, induction ...) and copying scores.

    Returns:
        random, sentences: a record a head with the metrics of head_metrics, means over the sequences; names: layer,
        head, name, score and baseline of the heads that have one; copying: by layer and head, -1 to 1.
    """
    found = done(playground, heads_view.plan_survey(unprompted(playground, model), {}))
    names = [
        {"layer": layer, "head": head, "name": name, "score": score, "baseline": baseline}
        for (layer, head), given in found.names.items()
        for name, score, baseline in given
    ]
    return {
        "random": found.random.mean,
        "sentences": found.sentences.mean,
        "names": names,
        "copying": found.copying,
        "sequences": {"random": found.random.sequences, "sentences": found.sentences.sequences},
    }


def composition(playground: Playground, model: LanguageModel, layer: int, head: int, most: Rows = 10) -> dict:
    """How strongly one head is wired to the others, by its weights alone: which heads it reads, and which read it.

    Returns:
        reads: for its query, key and value (q, k, v) the heads whose output it reads most; feeds: the heads whose
        query, key or value reads its output most; baseline and its sd: scores of unrelated random heads.
    """
    with playground.computing:
        found = heads_view.wiring(on(unprompted(playground, model), layer, head))
    sides = {"reads": found.reads, "feeds": found.feeds}
    return (
        {"layer": layer, "head": head}
        | {name: {kind: ranked_heads(z, most) for kind, z in side.items()} for name, side in sides.items()}
        | {"baseline": found.baseline, "baseline_sd": found.baseline_sd}
    )
