"""What must be held: weights, cache, activations, gradients and the optimizer's state; and what of it fits where."""

from collections.abc import Mapping
from dataclasses import replace

import gradio as gr

from model.anatomy.footprint import (
    FORMATS,
    MODES,
    Setting,
    kept_bytes,
    largest,
    n_tensors,
    optimizer_bytes,
    parts,
    published_kept,
    total_bytes,
    weights_bytes,
    working_bytes,
)
from model.anatomy.measured_memory import MOST_TOKENS, Held, measure
from model.generation.cache_costs import ITEM, cache_bytes, tensor_bytes
from model.progress import Progress
from viz.page import background
from viz.page.old_view import View
from viz.page.parts import choice, number, part, plot_words
from viz.page.scene import Scene
from viz.page.tab import Picture, Values
from viz.views.anatomy.compute.times import is_live
from viz.views.anatomy.compute.view import derived, run_name
from viz.views.anatomy.memory.figures import COLOURS, Layer, contexts, memory_figure
from viz.views.anatomy.old_subject import FORM, Subject, config_python, subject_key, subject_of
from viz.views.predictions.figures import percent
from viz.views.sampling.kv_cache.figures import told_bytes
from viz.words import section

OURS = ("memory_table", "memory_fits", "memory_formats", "memory_facts")
PARTS = (FORM, "memory_form", "memory_figure", *OURS, "memory_job", "memory_held")
BUDGETS = (8, 16, 24, 80)  # GB, 1000^3 bytes
GB = 10**9
MOST_TOKENS_ASKED, MOST_BATCH = 1 << 20, 4096
ATTENTION = ("fused", "explicit")
ITEMS = {"float32": 4, "bfloat16": 2}


def build() -> dict[str, gr.HTML]:
    """The figure left, its numbers right; formats and what fits; then the measurement."""
    made = {"memory_form": part("memory_form", None, kind="controls", value={})}
    with gr.Row(elem_classes="pg-columns"):
        with gr.Column(min_width=320):
            made["memory_figure"] = part("memory_figure", None, kind="figure")
        with gr.Column(min_width=320):
            made |= {name: part(name, None, kind="labtable") for name in ("memory_table", "memory_fits")}
    with gr.Row(elem_classes="pg-columns"):
        with gr.Column(min_width=320):
            made["memory_formats"] = part("memory_formats", None, kind="labtable")
        with gr.Column(min_width=320):
            made["memory_facts"] = part("memory_facts", None, kind="normfacts")
    made["memory_job"] = part("memory_job", None, kind="job", events=("start", "cancel"))
    made["memory_held"] = part("memory_held", None, kind="labtable")
    return made


def fixed(words: Mapping[str, str]) -> dict[str, dict]:
    """What is run, in which numbers, and how much of it."""
    said = section(words, "memory")

    def chosen(name: str, keys: tuple[str, ...], value: str) -> dict:
        options = [[key, said[f"{name}_{key}"]] for key in keys]
        return {"name": name, "kind": "choice", "label": said[name], "value": value, "options": options}

    whole, reading = {"kind": "number", "min": 1, "step": 1}, {"when": {"mode": ["inference"]}}
    return {
        "memory_form": {
            "controls": [
                chosen("mode", MODES, MODES[0]),
                chosen("form", tuple(FORMATS), "float32") | reading,
                chosen("item", tuple(ITEMS), "float32") | reading,
                whole | {"name": "batch", "label": said["batch"], "value": 1, "max": MOST_BATCH},
                whole | {"name": "tokens", "label": said["tokens"], "value": "", "max": MOST_TOKENS_ASKED},
                chosen("attention", ATTENTION, ATTENTION[0]),
            ]
        }
    }


def setting_of(subject: Subject, values: Values) -> Setting:
    """What the page asks for, within bounds; the whole context where none is given."""
    value = values.get("memory_form")
    return Setting(
        mode=choice(value, "mode", MODES),
        form=choice(value, "form", tuple(FORMATS)),
        batch=int(number(value, "batch", 1, MOST_BATCH, 1)),
        tokens=int(number(value, "tokens", 1, MOST_TOKENS_ASKED, min(subject.config.n_ctx, MOST_TOKENS_ASKED))),
        item=ITEMS[choice(value, "item", tuple(ITEMS))],
        explicit=choice(value, "attention", ATTENTION) == "explicit",
    )


def draw(scene: Scene, values: Values) -> dict[str, Picture]:
    """All that is derived at once; what is measured beside it once it was, of the loaded model only."""
    asked = repr(values.get("memory_form"))

    def of(name: str, payload) -> Picture:
        def make() -> dict:
            subject = subject_of(scene, values)
            return payload(scene, subject, setting_of(subject, values))

        return Picture((subject_key(scene, values), asked, name), make)

    live, key = is_live(scene, values), key_of(scene)
    found = scene.playground.results.peek(key) if live else None
    state = (key, found is not None, live)
    return {
        "memory_figure": of("figure", figure_payload),
        "memory_table": of("table", table_payload),
        "memory_fits": of("fits", fits_payload),
        "memory_formats": of("formats", formats_payload),
        "memory_facts": of("facts", facts_payload),
        "memory_job": Picture((state, "job"), lambda: _button(scene, found, live)),
        "memory_held": Picture((state, "held"), lambda: held_payload(scene, found.value if found else None, live)),
    }


# --- what is derived ---


def _python(scene: Scene, subject: Subject, setting: Setting, lines: list[str], names: str = "Setting, parts") -> str:
    """Lines that begin with this setting."""
    made = f"setting = {setting!r}"
    return config_python(scene, subject, [made, *lines], [f"from model.anatomy.footprint import {names}"])


def figure_payload(scene: Scene, subject: Subject, setting: Setting) -> dict:
    """All of it, stacked, against the context."""
    said, config = section(scene.words, "memoryfigure"), subject.config
    names = section(scene.words, "memoryparts")
    x = contexts(max(round(1.25 * setting.tokens), 16))
    each = [parts(config, replace(setting, tokens=T)) for T in x]
    layers = [Layer(key, names[key], [one[key] for one in each]) for key in COLOURS]
    budgets = {f"{size} GB": size * GB for size in BUDGETS}
    here = said["here"].format(n=f"{setting.tokens:,}")
    lines = [f"[parts(config, replace(setting, tokens=T)) for T in {x[:3] + x[-1:]}]"]
    imports = ["from dataclasses import replace", "from model.anatomy.footprint import Setting, parts"]
    return {
        "figure": memory_figure(x, layers, budgets, setting.tokens, said | {"here": here}),
        "title": said[f"title_{setting.mode}"].format(batch=setting.batch),
        "note": said[f"note_{setting.mode}"],
        "source": derived(scene, subject),
        "file": f"memory-{subject.key}-{setting.mode}",
        "run": run_name(scene, subject.id, setting, "figure"),
        "columns": [said["part"], said["size"], said["context"], said["size"]],
        "python": config_python(scene, subject, [f"setting = {setting!r}", *lines], imports),
        "words": plot_words(scene.words),
    }


def _formula(said: Mapping[str, str], key: str, setting: Setting) -> str:
    """How a part is worked out in this setting."""
    mode = "inference" if setting.mode == "inference" else "training"
    return said.get(f"of_{key}_{setting.mode}") or said[f"of_{key}_{mode}"]


def table_payload(scene: Scene, subject: Subject, setting: Setting) -> dict:
    """Every part in bytes, and how it is worked out."""
    said, names = section(scene.words, "memorytable"), section(scene.words, "memoryparts")
    found = {key: n for key, n in parts(subject.config, setting).items() if n}
    whole = sum(found.values())
    rows = [
        [
            names[key],
            f"{n:,}",
            told_bytes(n),
            {"text": percent(n / whole), "bar": n / whole},
            _formula(said, key, setting),
        ]
        for key, n in found.items()
    ]
    rows.append([said["total"], f"{whole:,}", told_bytes(whole), "100 %", ""])
    return {
        "title": said["title"].format(batch=setting.batch, tokens=f"{setting.tokens:,}"),
        "columns": [said[key] for key in ("part", "bytes", "size", "share", "how")],
        "rows": rows,
        "about": said["about_inference" if setting.mode == "inference" else "about_training"],
        "source": derived(scene, subject),
        "file": f"memory-{subject.key}-{setting.mode}-parts",
        "python": _python(scene, subject, setting, ["parts(config, setting)"]),
        "run": run_name(scene, subject.id, setting, "table"),
    }


def fits_payload(scene: Scene, subject: Subject, setting: Setting) -> dict:
    """The longest context and the largest batch in a few sizes of memory."""
    said, rows = section(scene.words, "memoryfits"), []
    fixed_bytes = total_bytes(subject.config, replace(setting, batch=1, tokens=1))
    for size in BUDGETS:
        tokens, batch = largest(subject.config, setting, size * GB)
        long = f"{tokens:,} *" if tokens > subject.config.n_ctx else f"{tokens:,}"
        rows.append([f"{size} GB", long if tokens else said["none"], f"{batch:,}" if batch else said["none"]])
    lines = [f"[largest(config, setting, size * 10**9) for size in {BUDGETS}]"]
    given = {"batch": setting.batch, "tokens": f"{setting.tokens:,}", "size": told_bytes(fixed_bytes)}
    return {
        "title": said["title"],
        "columns": [said["memory"], said["context"].format(**given), said["batch"].format(**given)],
        "rows": rows,
        "about": said["about"].format(**given),
        "note": said["star"].format(n=f"{subject.config.n_ctx:,}"),
        "check": said["star"].format(n=f"{subject.config.n_ctx:,}") if any("*" in row[1] for row in rows) else "",
        "same": False,
        "source": derived(scene, subject),
        "file": f"memory-{subject.key}-{setting.mode}-fits",
        "python": _python(scene, subject, setting, lines, "Setting, largest"),
        "run": run_name(scene, subject.id, setting, "fits"),
    }


def formats_payload(scene: Scene, subject: Subject, setting: Setting) -> dict:
    """The weights in four formats."""
    said, rows = section(scene.words, "memoryformats"), []
    full, config = weights_bytes(subject.config), subject.config
    for form in FORMATS:
        n = weights_bytes(config, form)
        rows.append(
            [
                said[form],
                f"{32 * n / full:.2f}",
                f"{n:,}",
                told_bytes(n),
                {"text": percent(n / full), "bar": n / full},
                said[f"of_{form}"],
            ]
        )
    lines = ["{form: weights_bytes(config, form) for form in FORMATS}"]
    return {
        "title": said["title"],
        "columns": [said[key] for key in ("form", "bits", "bytes", "size", "share", "how")],
        "rows": rows,
        "about": said["about"],
        "source": derived(scene, subject),
        "file": f"memory-{subject.key}-formats",
        "python": config_python(scene, subject, lines, ["from model.anatomy.footprint import FORMATS, weights_bytes"]),
        "run": run_name(scene, subject.id, "formats"),
    }


def facts_payload(scene: Scene, subject: Subject, setting: Setting) -> dict:
    """Rules beside the exact numbers: bytes a parameter, a token of cache, and published formulas."""
    said, c = section(scene.words, "memoryfacts"), subject.config
    N, adam = weights_bytes(c) // ITEM, optimizer_bytes(c)
    B, T = setting.batch, setting.tokens
    token = cache_bytes(c, 1, 1) * setting.item // ITEM
    every = cache_bytes(c, 1, 1, c.n_head) * setting.item // ITEM
    items = [
        (
            said["token"],
            said["token_text"].format(
                size=told_bytes(token), item=setting.item, G=c.n_kv_head, H=c.n_head, every=told_bytes(every)
            ),
        ),
        (said["adam"], said["adam_text"].format(n=f"{adam:,}", size=told_bytes(adam), count=f"{n_tensors(c):,}")),
        (said["mixed"], said["mixed_text"].format(size=told_bytes(16 * N), N=f"{N:,}")),
        (
            said["kept"],
            said["kept_text"].format(
                batch=B,
                tokens=f"{T:,}",
                fused=told_bytes(kept_bytes(c, B, T, item=2)),
                explicit=told_bytes(kept_bytes(c, B, T, True, item=2)),
            ),
        ),
        _published(said, subject, setting),
    ]
    return {
        "title": said["title"],
        "items": [list(item) for item in items],
        "run": run_name(scene, subject.id, setting, "facts"),
    }


def _published(said: Mapping[str, str], subject: Subject, setting: Setting) -> tuple[str, str]:
    """Korthikanti's formula for the blocks, where this architecture is the one that it counts."""
    c, B, T = subject.config, setting.batch, setting.tokens
    if c.d_mlp != 4 * c.d_model or c.n_kv_head != c.n_head or c.n_head * c.d_head != c.d_model or c.mlp == "swiglu":
        return said["published"], said["published_other"]
    given = {
        "full": told_bytes(published_kept(c, B, T)),
        "part": told_bytes(published_kept(c, B, T, explicit=False)),
        "ours": told_bytes(kept_bytes(c, B, T, True, item=2)),
    }
    return said["published"], said["published_text"].format(**given)


# --- what is measured ---


def key_of(scene: Scene) -> tuple:
    """What decides the measurement: the plain model and the prompt's first tokens."""
    return ("memory held", scene.model.id, tuple(scene.trace.tokens.ids.tolist()[:MOST_TOKENS]))


def plan(scene: Scene, values: Values) -> background.Job:
    """What the button starts."""
    ids, model = scene.trace.tokens.ids.tolist(), scene.model.model

    def work(progress: Progress) -> Held:
        return measure(model, ids, progress)

    return background.Job(key_of(scene), work)


def _button(scene: Scene, found: background.Result | None, live: bool) -> dict:
    words = scene.words
    if not live:
        return background.unready(words, words["memory.start"], words["memory.not_here"])
    return background.button(words["memory.start"], words, found, words["memory.takes"].format(n=MOST_TOKENS))


def held_payload(scene: Scene, found: Held | None, live: bool) -> dict:
    """Measured beside derived: weights and cache at once, activations once the button was pressed."""
    said, config = section(scene.words, "memoryheld"), scene.model.config
    if not live:
        return {"empty": {"text": scene.words["memory.start"], "hint": scene.words["memory.not_here"]}}
    T = found.tokens if found else min(len(scene.trace.tokens), MOST_TOKENS)
    made = tensor_bytes(config, 1, T)
    pairs = [
        ("weights", weights_bytes(config), found.weights if found else scene.model.nbytes),
        ("cache", cache_bytes(config, 1, T), found.cache if found else made[1] if made else None),
    ]
    fused, explicit = Setting(tokens=T), Setting(tokens=T, explicit=True)
    pairs += [
        ("peak", working_bytes(config, fused), found and found.peak),
        ("peak_explicit", working_bytes(config, explicit), found and found.peak_explicit),
        ("kept", kept_bytes(config, 1, T), found and found.kept),
        ("kept_explicit", kept_bytes(config, 1, T, True), found and found.kept_explicit),
    ]
    rows = [
        [said[key], f"{n:,}", "–" if m is None else f"{m:,}", "–" if m is None else _apart(n, m)] for key, n, m in pairs
    ]
    known = [(n, m) for _, n, m in pairs if m is not None]
    same = all(n == m for n, m in known)
    return {
        "title": said["title"].format(T=f"{T:,}"),
        "about": said["about" if found else "about_before"],
        "columns": [said[key] for key in ("what", "derived", "measured", "apart")],
        "rows": rows,
        "check": said["same" if same else "differ"].format(n=len(known)),
        "same": same,
        "source": said["source"].format(model=scene.model.label, dtype=scene.model.dtype),
        "file": "memory-measured",
        "run": f"{scene.run} held {found is not None}",
    }


def _apart(derived_bytes: int, measured: int) -> str:
    """Measured less derived."""
    if derived_bytes == measured:
        return "0"
    return f"{measured - derived_bytes:+,} ({100 * (measured / derived_bytes - 1):+.1f} %)".replace("-", "−")


VIEW = View(
    "memory",
    build,
    draw,
    parts=PARTS,
    fixed=fixed,
    asks=(FORM, "memory_form"),
    jobs={"memory_job": plan},
)
