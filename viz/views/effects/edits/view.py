"""Edits of the run: the editor, and the next-token predictions before and after the edits."""

from dataclasses import dataclass

import numpy as np

from model.attention.effects import Target, divergence, metric, next_rows
from model.gpt.edit_checks import fits
from model.gpt.edits import EDITS, MAX_FACTOR, MAX_VALUE
from viz.charts.distribution import entropy, moved, prediction_rows
from viz.labels import quoted, shorten, visible
from viz.seam.programs.arguments import Rows
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import at, measured, named
from viz.seam.python_lines import logits_imports, script
from viz.seam.scene import Scene
from viz.seam.selection import MOST_EDITS, WATCHED
from viz.seam.settings import Settings
from viz.seam.view import Custom, Facts, Measure, Payload, Seen, View
from viz.words import plot_words, section

COLUMNS = ("column_id", "column_token", "csv_p_before", "csv_p_after", "csv_logit_before", "csv_logit_after")


@dataclass(frozen=True, eq=False)
class Predictions:
    """The logits at one position without and with the run's edits, and the KL divergence between the predictions."""

    before: np.ndarray  # logits, [V]
    after: np.ndarray  # logits, [V]
    kl: float  # KL(before || after) in nats

    @property
    def entropies(self) -> list[float]:
        """Entropies of the predictions before and after the edits, in nats."""
        return [entropy(self.before), entropy(self.after)]


def measure(scene: Scene, settings: Settings) -> Predictions:
    """Compute the logits of both runs at the selected position, and the KL divergence between them."""
    before, after = scene.logits(scene.unedited), scene.logits()
    kl = divergence(before, after) if scene.masks else metric(scene.trace, Target("kl", scene.position), scene.unedited)
    return Predictions(before, after, kl)


def editor(seen: Seen) -> Payload:
    """Build the editor: the kinds of edits, and the layers, heads, neurons and tokens to which they apply."""
    words, config = seen.here, seen.facts.config
    offered = {key: kind for key, kind in EDITS.items() if fits(key, config) and kind.takes != "vector"}
    kinds = [
        {
            "key": key,
            "of": kind.of,
            "site": kind.site,
            "needs": kind.needs,
            "name": words[f"kind_{key}"],
            "about": words[f"about_{key}"],
        }
        for key, kind in offered.items()
    ]
    groups = dict.fromkeys(kind.of for kind in offered.values())
    roles = {role: seen.all_words[f"selection.{role}"] for role in WATCHED}
    ids = dict.fromkeys(seen.facts.tokens.ids.tolist())
    return {
        "groups": [{"key": of, "name": words[f"of_{of}"]} for of in groups],
        "kinds": kinds,
        "model": seen.facts.model_id,
        "layers": config.n_layer,
        "two_way": config.two_way,
        "heads": config.n_head,
        "most": MOST_EDITS,
        "neurons": config.d_mlp,
        "factor": MAX_FACTOR,
        "value": MAX_VALUE,
        "tokens": [shorten(visible(piece), 24) for piece in seen.facts.pieces],
        "vocabulary": [[id, quoted(shorten(seen.facts.piece(id), 24))] for id in ids],
        "roles": roles,
        "words": words.plain() | {"head": seen.all_words["selection.head"]},
    }


def next_table(seen: Seen) -> Payload:
    """Build the table of the most likely next tokens before and after the edits, with the shift of the prediction."""
    words, facts, result = seen.here, seen.facts, seen.result
    edited, t = bool(facts.edits), facts.position
    table = next_rows(result.before, result.after)
    texts = section(seen.all_words, "before_after")
    lines, imports = _python(facts)
    return {
        "title": words["title_edited" if edited else "title"].format(token=quoted(facts.pieces[t]), position=t),
        "note": words["note_edited" if edited else "note"],
        "edited": edited,
        "rows": prediction_rows(table, [facts.piece(int(number)) for number in table["id"]]),
        **moved(result.entropies, result.kl),
        "file": f"next-token-{t}",
        "columns": [texts[name] for name in COLUMNS],
        "python": script(facts, lines, imports),
        "words": texts | plot_words(seen.all_words),
    }


def _python(facts: Facts) -> tuple[list[str], list[str]]:
    """Return the Python lines of the table and their imports."""
    t = facts.position
    if facts.config.two_way:
        lines = [f"[masked_logits(each, {t}, lm.tokenizer.mask_id) for each in (run.unedited(), run)]  # before, after"]
        return lines, logits_imports(facts)
    lines = [
        "before = run.unedited()",
        f"next_tokens(before, run, {t})",
        f"metric(run, Target('kl', {t}), before)  # nats",
    ]
    return lines, ["from model.attention.effects import Target, metric, next_tokens"]


def next_token(scene: Scene, position: int = -1, most: Rows = 10) -> dict:
    """Compare the most likely next tokens before and after the edits, and measure the shift of the prediction.

    Returns:
        tokens: records of id, text, p_before, p_after, logit_before, logit_after; entropy: the entropy before and after
        (nats); kl: KL(before || after) in nats. If the run has no edits, both sides are the same.
    """
    selected, size = at(scene, position), scene.model.tokenizer.vocab_size
    result = measured(VIEW, "main", selected)
    table = next_rows(result.before[:size], result.after[:size], most)
    rows = [row | named(scene.model, row["id"]) for row in table.to_dict("records")]
    entropies = dict(zip(("before", "after"), result.entropies, strict=True))
    return {"position": selected.position, "tokens": rows, "entropy": entropies, "kl": result.kl}


VIEW = View(
    "edits",
    needs=("layers",),
    measures=(Measure("main", measure, ("run", "plain", "token"), needs=("token",)),),
    layout=(("editor", "next"),),
    parts={
        "editor": Custom("edits", editor, of=(), depends=("plain",)),
        "next": Custom("beforeafter", next_table),
    },
    api=(Endpoint(next_token),),
)
