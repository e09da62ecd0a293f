"""The effects tab: edits of the run, what they do to the next token, and what every head's absence does."""

from collections.abc import Mapping
from dataclasses import dataclass

import gradio as gr

from model.attention.effects import ABLATIONS, TARGETS, Target, metric, next_tokens, sweep
from model.errors import InputError, PlaygroundError
from model.gpt.edits import EDITS, MAX_FACTOR
from model.progress import Progress
from viz.charts.distribution import entropy, likeliest, prediction_rows
from viz.charts.layer_head_map import EffectWords, effect_figure
from viz.labels import shorten, visible
from viz.page import background
from viz.page.parts import choice, part, plot_words
from viz.page.picking import position_of, source
from viz.page.python_lines import python_lines
from viz.page.scene import Scene
from viz.page.selection import MOST_EDITS
from viz.page.tab import Picture, Tab, Values
from viz.page.typed import quoted, typed_token
from viz.theme import SIGNED
from viz.views.effects.edits.figures import Swept, strongest
from viz.words import some

_EDIT_WORDS = (
    "edits_title",
    "edits_about",
    "change",
    "heads",
    "pick_hint",
    "add_layer",
    "add_head",
    "add",
    "factor",
    "query",
    "key",
    "where",
    "where_picked",
    "where_all",
    "apply",
    "undo",
    "remove_all",
    "remove",
    "active",
    "none",
    "replaces",
    "no_heads",
    "bad_factor",
    "key_later",
    "query_first",
    "row_empty",
    "too_many",
    "nothing_new",
)
_NEXT_WORDS = (
    "column_token",
    "column_probability",
    "column_change",
    "column_logit",
    "column_before",
    "column_after",
    "entropy",
    "entropy_help",
    "kl",
    "kl_help",
    "nats",
)
PARTS = (
    "effects_question",
    "effects_howto",
    "edits",
    "before_after",
    "sweep_about",
    "sweep_form",
    "sweep",
    "sweep_map",
)


def build(first: Mapping[str, dict]) -> dict[str, gr.HTML]:
    """Edits left and their effect right; below, the sweep over all heads."""
    made = {
        "effects_question": part("effects_question", first.get("effects_question"), kind="question"),
        "effects_howto": part("effects_howto", first.get("effects_howto"), kind="howto"),
    }
    with gr.Row(elem_classes="pg-columns"):
        with gr.Column(min_width=320):
            made["edits"] = part("edits", None)
        with gr.Column(min_width=320):
            made["before_after"] = part("before_after", None, kind="beforeafter")
    made["sweep_about"] = part("sweep_about", first.get("sweep_about"), kind="effectabout")
    made["sweep_form"] = part("sweep_form", first.get("sweep_form"), kind="controls", value={})
    made["sweep"] = part("sweep", None, kind="job", events=("start", "cancel"))
    made["sweep_map"] = part("sweep_map", None, kind="effectmap")
    return made


def fixed(words: Mapping[str, str]) -> dict[str, dict]:
    """What the tab answers, how to read it, and the settings of the sweep."""
    howto = {"title": words["howto.title"], "parts": some(words, "effects_howto", "body", "formula", "caveat", "try")}
    return {
        "effects_question": {"text": words["tab.effects_question"]},
        "effects_howto": howto,
        "sweep_about": some(words, "effects", "sweep_title", "sweep_body"),
        "sweep_form": _form(words),
    }


def _form(words: Mapping[str, str]) -> dict:
    """What each head is replaced by, and which number is watched."""
    targets = [[key, words[f"effects.target_{key}"], words[f"effects.target_help_{key}"]] for key in TARGETS]
    typed = {"kind": "text", "value": "", "help": words["effects.token_help"]}
    return {
        "controls": [
            {
                "name": "how",
                "kind": "choice",
                "label": words["effects.how"],
                "value": ABLATIONS[0],
                "options": [[key, words[f"effects.how_{key}"]] for key in ABLATIONS],
            },
            {
                "name": "kind",
                "kind": "choice",
                "label": words["effects.target"],
                "value": next(iter(TARGETS)),
                "options": targets,
            },
            {
                "name": "token",
                "label": words["effects.token"],
                "placeholder": words["effects.token_empty"],
                "when": {"kind": _needing("token")},
                **typed,
            },
            {
                "name": "distractor",
                "label": words["effects.distractor"],
                "placeholder": words["effects.distractor_empty"],
                "when": {"kind": _needing("distractor")},
                **typed,
            },
        ]
    }


def _needing(name: str) -> list[str]:
    """The targets that read a field."""
    return [key for key, kind in TARGETS.items() if name in kind.needs]


def draw(scene: Scene, values: Values) -> dict[str, Picture]:
    """The editor, the next tokens, and what is known of the heads' effects."""
    at, key = position_of(scene), scene.trace.key
    pictures = {
        "edits": Picture((key.model_id, key.ids), lambda: edits_payload(scene)),
        "before_after": Picture((scene.run, at), lambda: before_after_payload(scene, at)),
    }
    try:
        watched = watched_of(scene, values.get("sweep_form"))
    except PlaygroundError as error:
        return pictures | _nothing(scene, background.failed(error, scene.language)["text"])
    found = scene.playground.results.peek(sweep_key(scene, watched))
    state = (sweep_key(scene, watched), found is not None)
    return pictures | {
        "sweep": Picture(
            state,
            lambda: background.button(
                scene.words["effects.sweep"], scene.words, found, f"{_told(scene, watched)} {_count(scene)}"
            ),
        ),
        "sweep_map": Picture(state, lambda: map_payload(scene, watched, found) if found else _empty(scene)),
    }


def _nothing(scene: Scene, why: str) -> dict[str, Picture]:
    """The sweep's parts where it cannot start."""
    name = scene.words["effects.sweep"]
    return {
        "sweep": Picture(why, lambda: background.unready(scene.words, name, why)),
        "sweep_map": Picture("", lambda: _empty(scene)),
    }


def _empty(scene: Scene) -> dict:
    """What stands in the map's place before it is measured."""
    return {"empty": {"text": scene.words["effects.sweep_empty"], "hint": scene.words["effects.sweep_empty_hint"]}}


def _count(scene: Scene) -> str:
    config = scene.model.config
    return scene.words["effects.heads_count"].format(n=config.n_layer * config.n_head)


# --- edits ---


def edits_payload(scene: Scene) -> dict:
    """The kinds of edits, and the layers, heads and tokens that they can be of."""
    words, config = scene.words, scene.model.config
    kinds = [
        {"key": key, "site": kind.site, "name": words[f"effects.kind_{key}"], "about": words[f"effects.about_{key}"]}
        for key, kind in EDITS.items()
    ]
    return {
        "kinds": kinds,
        "layers": config.n_layer,
        "heads": config.n_head,
        "most": MOST_EDITS,
        "factor": MAX_FACTOR,
        "tokens": [shorten(visible(piece), 24) for piece in scene.trace.tokens.pieces],
        "words": some(words, "effects", *_EDIT_WORDS) | some(words, "selection", "head"),
    }


# --- before and after ---


def before_after_payload(scene: Scene, at: int) -> dict:
    """The likeliest next tokens of the run with and without its edits, and how far the prediction moved."""
    words, before, after = scene.words, scene.unedited, scene.trace
    table, edited = next_tokens(before, after, at), bool(scene.picked.edits)
    rows = prediction_rows(table, [scene.model.tokenizer.piece(int(number)) for number in table["id"]])
    undecided = [entropy(trace.logits_at(at)) for trace in (before, after)]
    title = words["effects.next_title_edited" if edited else "effects.next_title"]
    return {
        "title": title.format(token=quoted(scene, int(after.tokens.ids[at])), position=at),
        "note": words["effects.next_about_edited" if edited else "effects.next_about"],
        "edited": edited,
        "rows": rows,
        "entropy": undecided,
        "kl": metric(after, Target("kl", at), before),
        "source": source(scene),
        "file": f"next-token-{at}",
        "columns": [
            words[f"effects.{name}"]
            for name in (
                "column_id",
                "column_token",
                "csv_p_before",
                "csv_p_after",
                "csv_logit_before",
                "csv_logit_after",
            )
        ],
        "python": _next_lines(scene, at),
        "run": f"{scene.run} {at}",
        "words": some(words, "effects", *_NEXT_WORDS) | plot_words(words),
    }


def _next_lines(scene: Scene, at: int) -> str:
    lines = [
        "before = run.unedited()",
        f"next_tokens(before, run, {at})",
        f"metric(run, Target('kl', {at}), before)  # nats",
    ]
    return python_lines(scene, lines, ["from model.attention.effects import Target, metric, next_tokens"])


# --- every head in turn ---


@dataclass(frozen=True)
class Watched:
    """What the sweep does to each head, and the number it watches."""

    how: str  # of model.effects.ABLATIONS
    target: Target


def watched_of(scene: Scene, asked: object) -> Watched:
    """What the form asks for; an empty target is the likeliest next token without edits, an empty distractor the
    likeliest other one. Raises InputError, in the reader's language, where a text is not one token.
    """
    kind, at = choice(asked, "kind", tuple(TARGETS)), position_of(scene)
    how, needs = choice(asked, "how", ABLATIONS), TARGETS[kind].needs
    if kind == "loss":
        if len(scene.trace.tokens) < 2:
            raise InputError(scene.words["effects.too_short"])
        return Watched(how, Target("loss"))
    if not needs:
        return Watched(how, Target(kind, at))
    typed = {name: typed_token(scene, asked, name) for name in needs}
    likely = likeliest(scene.unedited.logits_at(at), 2)
    token = likely[0] if typed["token"] is None else typed["token"]
    if "distractor" not in needs:
        return Watched(how, Target(kind, at, token))
    other = typed["distractor"]
    other = next(number for number in likely if number != token) if other is None else other
    if other == token:
        raise InputError(scene.words["effects.same_token"])
    return Watched(how, Target(kind, at, token, other))


def sweep_key(scene: Scene, watched: Watched) -> tuple:
    """All that decides what a sweep finds."""
    return ("sweep", scene.trace.key, watched.how, watched.target)


def plan_sweep(scene: Scene, values: Values) -> background.Job:
    """The sweep that the form asks for; raises InputError."""
    watched, trace = watched_of(scene, values.get("sweep_form")), scene.trace

    def work(progress: Progress) -> Swept:
        return Swept(metric(trace, watched.target), sweep(trace, watched.how, watched.target, progress))

    return background.Job(sweep_key(scene, watched), work)


def _named(scene: Scene, target: Target) -> dict[str, object]:
    """What a sentence about a target can say."""
    named: dict[str, object] = {"position": target.position}
    for name in ("token", "distractor"):
        token = getattr(target, name)
        if token is not None:
            named |= {name: quoted(scene, token), f"{name}_id": token}
    return named


def _told(scene: Scene, watched: Watched) -> str:
    """Which number is watched, with the ids of the tokens that are meant."""
    return scene.words[f"effects.watching_{watched.target.kind}"].format(**_named(scene, watched.target))


def map_payload(scene: Scene, watched: Watched, found: background.Result) -> dict:
    """The map of all heads' effects, and the strongest ones."""
    words, swept, kind = scene.words, found.value, watched.target.kind
    signed, unit = kind != "kl", words[f"effects.unit_{kind}"]
    value = words["effects.value_change" if signed else "effects.value_kl"]
    said = EffectWords(words["effects.axis_layer"], words["effects.axis_head"], value, unit)
    how = words[f"effects.by_{watched.how}"]
    read = words[{"kl": "effects.read_size", "loss": "effects.read_loss"}.get(kind, "effects.read_signed")]
    notes = [read, _told(scene, watched)]
    if signed:
        notes.append(words["effects.now"].format(value=f"{swept.start:.4g}", unit=unit))
    return {
        "figure": effect_figure(swept.effects, said, signed=signed).to_json(),
        "title": words[f"effects.title_{kind}"].format(how=how, **_named(scene, watched.target)),
        "note": " ".join(notes),
        "source": _source(scene, found),
        "file": f"effects-{kind}-{watched.how}",
        "run": f"{scene.run} {watched}",
        "columns": [said.head, said.layer, f"{value} ({unit})"],
        "python": _sweep_lines(scene, watched),
        "ranked": strongest(swept.effects),
        "signed": signed,
        "unit": unit,
        "hues": [SIGNED[1], SIGNED[-2]],
        "words": plot_words(words) | some(words, "effects", "ranked", "ranked_about", "head_effect"),
    }


def _source(scene: Scene, found: background.Result) -> str:
    words, model = scene.words, scene.model
    told = words["effects.source"].format(model=model.label, dtype=model.dtype, seconds=f"{found.seconds:.1f}")
    return f"{told} · {words['effects.on_edited']}" if scene.picked.edits else told


def _sweep_lines(scene: Scene, watched: Watched) -> str:
    target = watched.target
    given = [target.kind, target.position, target.token, target.distractor]
    while given[-1] is None:
        given.pop()
    made = f"target = Target({', '.join(map(repr, given))})"
    lines = [made, f"sweep(run, {watched.how!r}, target)  # [layer, head]"]
    return python_lines(scene, lines, ["from model.attention.effects import Target, sweep"])


TAB = Tab(
    "effects",
    build,
    fixed,
    draw,
    parts=PARTS,
    asks=("sweep_form",),
    jobs={"sweep": plan_sweep},
)
