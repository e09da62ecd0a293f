"""How many operations a prompt and a token take, by a formula that PyTorch's counter agrees with."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import gradio as gr

from model.anatomy.flops import (
    Operation,
    Reading,
    by_group,
    cache_moved,
    counted,
    crossing,
    intensity,
    next_token,
    operations,
    prompt,
    rules,
    total,
    training,
    weights_read,
)
from viz.page import background
from viz.page.old_view import View
from viz.page.parts import choice, number, part, plot_words
from viz.page.scene import Scene
from viz.page.tab import Picture, Values
from viz.views.activations.norm.figures import told
from viz.views.anatomy.compute import times
from viz.views.anatomy.compute.figures import COLOURS, Band, Mark, contexts, told_flops, work_figure
from viz.views.anatomy.old_subject import FORM, Subject, config_python, subject_key, subject_of
from viz.views.predictions.figures import percent
from viz.views.sampling.kv_cache.figures import told_bytes
from viz.words import section

PARTS = (FORM, "work_form", "work_figure", "work_facts", "work_prompt", "work_step", *times.PARTS)
MOST = 1 << 20  # tokens of a context
SHOWN = ("whole", "step", "lines")
ITEMS = {"float32": 4, "bfloat16": 2, "int8": 1}
# Matrix products of one layer, or of the model: T tokens pass, S are seen; E is the width of a head, M of the MLP.
FORMULAS = {
    "q": "2·T·D·H·E",
    "k": "2·T·D·G·E",
    "v": "2·T·D·G·E",
    "scores": "2·H·T·S·E",
    "mix": "2·H·T·S·E",
    "o": "2·T·H·E·D",
    "gate": "2·T·D·M",
    "up": "2·T·D·M",
    "down": "2·T·M·D",
    "head": "2·T·D·V",
}
COUNTED_LAYERS = 200  # PyTorch counts a forward of at most so many layers


@dataclass(frozen=True)
class Asked:
    """What the page asks for, with the prompt's length for a context that is left out."""

    tokens: int
    every: bool  # the head runs for every token of the prompt
    shown: str
    item: int  # bytes of a number

    @property
    def prompt(self) -> Reading:
        """The prompt's forward."""
        return prompt(self.tokens, None if self.every else 1)

    @property
    def step(self) -> Reading:
        """The forward of the token after it."""
        return next_token(self.tokens)


def build() -> dict[str, gr.HTML]:
    """The curve left, what it comes to right; both tables; then the measurement."""
    made = {"work_form": part("work_form", None, kind="controls", value={})}
    with gr.Row(elem_classes="pg-columns"):
        with gr.Column(min_width=320):
            made["work_figure"] = part("work_figure", None, kind="figure")
        with gr.Column(min_width=320):
            made["work_facts"] = part("work_facts", None, kind="normfacts")
    with gr.Row(elem_classes="pg-columns"):
        for name in ("work_prompt", "work_step"):
            with gr.Column(min_width=320):
                made[name] = part(name, None, kind="labtable")
    return made | times.build()


def fixed(words: Mapping[str, str]) -> dict[str, dict]:
    """The context, what of it is drawn, and how large a number is."""
    said = section(words, "work")

    def options(name: str, keys: tuple[str, ...]) -> list[list[str]]:
        return [[key, said[f"{name}_{key}"]] for key in keys]

    return {
        "work_form": {
            "controls": [
                {
                    "name": "tokens",
                    "kind": "number",
                    "min": 1,
                    "max": MOST,
                    "step": 1,
                    "label": said["tokens"],
                    "value": "",
                },
                {
                    "name": "shown",
                    "kind": "choice",
                    "label": said["shown"],
                    "value": SHOWN[0],
                    "options": options("shown", SHOWN),
                },
                {
                    "name": "logits",
                    "kind": "choice",
                    "label": said["logits"],
                    "value": times.LOGITS[0],
                    "options": options("logits", times.LOGITS),
                },
                {
                    "name": "item",
                    "kind": "choice",
                    "label": said["item"],
                    "value": "float32",
                    "options": options("item", tuple(ITEMS)),
                },
            ]
        }
    }


def asked_of(scene: Scene, values: Values) -> Asked:
    """What the page asks for, within bounds."""
    value = values.get("work_form")
    return Asked(
        int(number(value, "tokens", 1, MOST, len(scene.trace.tokens))),
        times.every_of(values),
        choice(value, "shown", SHOWN),
        ITEMS[choice(value, "item", tuple(ITEMS))],
    )


def draw(scene: Scene, values: Values) -> dict[str, Picture]:
    """All that is derived at once; times once they were measured, of the loaded model only."""
    asked = asked_of(scene, values)

    def of(name: str, payload) -> Picture:
        return Picture(
            (subject_key(scene, values), asked, name), lambda: payload(scene, subject_of(scene, values), asked)
        )

    return {
        "work_figure": of("figure", figure_payload),
        "work_facts": of("facts", facts_payload),
        "work_prompt": of("prompt", lambda *given: table_payload(*given, "prompt")),
        "work_step": of("step", lambda *given: table_payload(*given, "step")),
        **times.draw(scene, values),
    }


def run_name(scene: Scene, *given: object) -> str:
    """A short name for what is shown."""
    return hashlib.sha256(repr((*given, scene.language)).encode()).hexdigest()[:12]


def derived(scene: Scene, subject: Subject) -> str:
    """The line below what follows from a config."""
    return scene.words["work.derived"].format(model=subject.label, source=subject.source)


# --- the curve ---


def longest(subject: Subject, asked: Asked) -> int:
    """Where the contexts of the figure end: past every crossing; on logarithmic axes at the model's own, too."""
    most = max(asked.tokens, round(1.5 * crossing(subject.config, "layer")))
    return min(max(most, subject.config.n_ctx) if asked.shown == "lines" else most, 4 * MOST)


def reading_at(asked: Asked, T: int) -> Reading:
    """What the figure shows at a context of T tokens."""
    if asked.shown == "step":
        return Reading(1, T)
    return prompt(T, None if asked.every else 1)


def figure_payload(scene: Scene, subject: Subject, asked: Asked) -> dict:
    """FLOPs against context, with the contexts at which attention overtakes."""
    said, config = section(scene.words, "workfigure"), subject.config
    stacked = asked.shown != "lines"
    x = contexts(longest(subject, asked), not stacked)
    groups = [by_group(operations(config, reading_at(asked, T))) for T in x]
    bands = [Band(key, said[key], [each[key] for each in groups]) for key in COLOURS]
    marks = []
    for against in ("projections", "layer"):
        at = crossing(config, against)
        found = by_group(operations(config, reading_at(asked, max(1, round(at)))))["attention"]
        text = said[f"mark_{against}"].format(n=f"{at:,.0f}")
        marks.append(Mark(at, text, found if not stacked and against == "projections" else None))
    if config.n_ctx <= x[-1]:
        marks.append(Mark(config.n_ctx, said["mark_context"].format(n=f"{config.n_ctx:,}"), strong=False))
    marks.append(Mark(asked.tokens, said["mark_here"].format(n=f"{asked.tokens:,}"), strong=False))
    reading = "Reading(1, T)" if asked.shown == "step" else f"prompt(T, {'T' if asked.every else 1})"
    lines = [
        f"[by_group(operations(config, {reading})) for T in {x[:3]} + {x[-1:]}]",
        "crossing(config, 'projections'), crossing(config, 'layer')",
    ]
    imports = ["from model.anatomy.flops import Reading, by_group, crossing, operations, prompt"]
    return {
        "figure": work_figure(
            x, bands, sorted(marks, key=lambda mark: -mark.at), stacked, said | {"axis": said[f"axis_{asked.shown}"]}
        ),
        "title": said[f"title_{asked.shown}"],
        "note": said[f"note_{asked.shown}"],
        "source": derived(scene, subject),
        "file": f"flops-{subject.key}-{asked.shown}",
        "run": run_name(scene, subject.id, asked, "figure"),
        "columns": [said["series"], said["flops"], said["context"], said["axis_" + asked.shown]],
        "python": config_python(scene, subject, lines, imports),
        "words": plot_words(scene.words),
    }


# --- what it comes to ---


def _off(share: float) -> str:
    """A difference as a percentage with its sign."""
    return f"{100 * share:+.1f} %".replace("-", "−")


def facts_payload(scene: Scene, subject: Subject, asked: Asked) -> dict:
    """Totals, the rules of thumb beside them, the crossing in closed form, and the arithmetic intensity."""
    said = section(scene.words, "workfacts")
    items = [
        *_totals(said, subject, asked),
        *_rules(said, subject, asked),
        *_crossings(said, subject),
        *_intensities(said, subject, asked),
    ]
    return {
        "title": said["title"].format(n=f"{asked.tokens:,}"),
        "items": [list(item) for item in items],
        "run": run_name(scene, subject.id, asked, "facts"),
    }


def _totals(said: Mapping[str, str], subject: Subject, asked: Asked) -> list[tuple[str, str]]:
    """Of the prompt and of a token."""
    found, T = operations(subject.config, asked.prompt), asked.tokens
    every, useful = total(found), total(found, useful=True)
    one = total(operations(subject.config, asked.step))
    given = {
        "n": f"{every:,}",
        "brief": told_flops(every),
        "each": told_flops(every / T),
        "useful": told_flops(useful),
        "less": percent(1 - useful / every),
    }
    step = {"n": f"{one:,}", "brief": told_flops(one), "T": f"{T:,}"}
    return [(said["prompt"], said["prompt_text"].format(**given)), (said["step"], said["step_text"].format(**step))]


def _rules(said: Mapping[str, str], subject: Subject, asked: Asked) -> list[tuple[str, str]]:
    """2 N and 6 N beside the exact numbers, and Kaplan's formula."""
    config, T = subject.config, asked.tokens
    N, exact = rules(config), total(operations(config, asked.prompt)) / T
    kaplan = N["forward"] + 2 * config.n_layer * T * config.n_head * config.d_head
    learn = training(config, asked.prompt) / T
    given = {
        "N": f"{N['blocks']:,}",
        "rule": told_flops(N["forward"]),
        "off": _off(N["forward"] / exact - 1),
        "all": f"{N['all']:,}",
        "rule_all": told_flops(N["forward_all"]),
        "off_all": _off(N["forward_all"] / exact - 1),
        "exact": told_flops(exact),
    }
    more = {"kaplan": told_flops(kaplan), "off": _off(kaplan / exact - 1)}
    train = {"rule": told_flops(N["training"]), "exact": told_flops(learn), "off": _off(N["training"] / learn - 1)}
    return [
        (said["rule"], said["rule_text"].format(**given)),
        (said["kaplan"], said["kaplan_text"].format(**more)),
        (said["training"], said["training_text"].format(**train)),
    ]


def _crossings(said: Mapping[str, str], subject: Subject) -> list[tuple[str, str]]:
    """Where attention overtakes, solved."""
    c = subject.config
    given = {
        "D": f"{c.d_model:,}",
        "G": c.n_kv_head,
        "H": c.n_head,
        "first": told_number(crossing(c)),
        "layer": told_number(crossing(c, "layer")),
        "useful": told_number(crossing(c, useful=True)),
    }
    return [(said["crossing"], said["crossing_text"].format(**given))]


def told_number(value: float) -> str:
    """A number of tokens: whole where it is."""
    return f"{value:,.0f}" if abs(value - round(value)) < 1e-9 else f"{value:,.1f}"


def _intensities(said: Mapping[str, str], subject: Subject, asked: Asked) -> list[tuple[str, str]]:
    """FLOPs for a byte, of the prompt and of a token."""
    items = []
    for name, reading in (("prompt", asked.prompt), ("step", asked.step)):
        moved = asked.item * (weights_read(subject.config, reading) + cache_moved(subject.config, reading))
        value = intensity(subject.config, reading, asked.item)
        given = {"value": told(value), "size": told_bytes(moved), "item": asked.item}
        items.append((said[f"intensity_{name}"], said[f"intensity_{name}_text"].format(**given)))
    return items


# --- every operation ---


def _row(said: Mapping[str, str], op: Operation, every: int) -> list:
    """One operation: a layer, all layers, its share, and what is counted apart."""
    share = op.all_products / every if every else 0.0
    one = f"{op.products:,}" if op.layers > 1 and op.products else "–"
    whole = f"{op.all_products:,}" if op.all_products else "0"
    return [
        said[op.key],
        FORMULAS.get(op.key, "0"),
        one,
        whole,
        {"text": percent(share), "bar": share} if op.all_products else "–",
        f"{op.all_elementwise:,}" if op.all_elementwise else "–",
    ]


def table_payload(scene: Scene, subject: Subject, asked: Asked, which: str) -> dict:
    """All operations of the prompt, or of one token more, beside what PyTorch counts."""
    said = section(scene.words, "worktable")
    reading = asked.prompt if which == "prompt" else asked.step
    found = operations(subject.config, reading)
    every = total(found)
    rows = [_row(said, op, every) for op in found]
    layer = sum(op.products for op in found if op.layers == subject.config.n_layer and op.key != "head")
    rest = sum(op.all_elementwise for op in found)
    rows.append([said["total"], "", f"{layer:,}", f"{every:,}", "100 %", f"{rest:,}"])
    given = {"T": f"{asked.tokens:,}", "logits": f"{reading.logits:,}"}
    imports = ["from model.anatomy.flops import counted, next_token, operations, prompt, total"]
    made = f"prompt({asked.tokens}, {reading.logits})" if which == "prompt" else f"next_token({asked.tokens})"
    lines = [f"found = operations(config, {made})", f"total(found), sum(counted(config, {made}).values())"]
    return {
        "title": said[f"title_{which}"].format(**given),
        "about": said[f"about_{which}"].format(**given),
        "columns": [said[key] for key in ("operation", "formula", "layer", "layers", "share", "elementwise")],
        "rows": rows,
        **_check(scene, subject, reading, every),
        "source": derived(scene, subject),
        "file": f"flops-{subject.key}-{which}-{asked.tokens}",
        "python": config_python(scene, subject, lines, imports),
        "run": run_name(scene, subject.id, asked, which),
    }


def _check(scene: Scene, subject: Subject, reading: Reading, every: int) -> dict:
    """What PyTorch's counter says of the same forward."""
    said = section(scene.words, "worktable")
    if subject.config.n_layer > COUNTED_LAYERS:
        return {"check": said["uncounted"].format(n=COUNTED_LAYERS), "same": False}
    key = ("work counted", subject.id, reading)
    found = background.kept(scene.playground, key, lambda: sum(counted(subject.config, reading).values()))
    return {"check": said["same" if found == every else "apart"].format(n=f"{found:,}"), "same": found == every}


VIEW = View(
    "work",
    build,
    draw,
    parts=PARTS,
    fixed=fixed,
    asks=(FORM, "work_form"),
    jobs={"work_job": times.plan},
)
