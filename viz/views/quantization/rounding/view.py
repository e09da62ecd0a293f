"""One layer to few bits in better ways than to the nearest level: scaled by its inputs first, or compensated."""

from dataclasses import dataclass

import gradio as gr

from model.design.past_length import bundled_text
from model.progress import Progress
from model.quantization.experiments import KINDS
from model.quantization.formats import Scheme
from model.quantization.rounding import Comparison, Outcome, compare, matrices_of
from viz.page import background
from viz.page.old_view import View
from viz.page.parts import choice, part, plot_words
from viz.page.python_lines import python_lines
from viz.page.scene import Scene
from viz.page.tab import Picture, Values
from viz.views.activations.norm.figures import told
from viz.views.predictions.figures import percent
from viz.views.quantization.rounding.figures import column_figure, error_figure, power_figure
from viz.views.sampling.kv_cache.figures import told_bytes
from viz.words import section

PARTS = ("rounding_form", "rounding_job", "rounding_errors", "rounding_table", "rounding_power", "rounding_columns")
BITS = ("3", "2", "4")  # the first of each is the one it starts with
GROUPS = ("64", "32", "128", "row")
TOKENS = ("2048", "512", "128")
WINDOW = 512  # tokens that are read at once
_OVERFITS = 1.5  # how many times the error on unseen text may be that on the seen one before it is said


@dataclass(frozen=True)
class Asked:
    """What is rounded, and how."""

    layer: int
    matrix: str
    bits: int
    group: int  # 0: a row
    tokens: int  # that the methods see

    @property
    def scheme(self) -> Scheme:
        """Whole numbers with a zero point."""
        return Scheme(self.key, self.bits, False, "group" if self.group else "channel", self.group)

    @property
    def key(self) -> str:
        """A short name."""
        return f"int{self.bits}-{self.group or 'row'}"


def build() -> dict[str, gr.HTML]:
    """What to round and the button; errors left and every number right; what happened on the way below."""
    made = {
        "rounding_form": part("rounding_form", None, kind="controls", value={}),
        "rounding_job": part("rounding_job", None, kind="job", events=("start", "cancel")),
    }
    for left, right in (("rounding_errors", "rounding_table"), ("rounding_power", "rounding_columns")):
        with gr.Row(elem_classes="pg-columns"):
            for name in (left, right):
                with gr.Column(min_width=320):
                    made[name] = part(name, None, kind="labtable" if name == "rounding_table" else "figure")
    return made


def asked_of(scene: Scene, values: Values) -> Asked:
    """What the page asks for, in the layer of the picked head."""
    value = values.get("rounding_form")
    group = choice(value, "group", GROUPS)
    matrix = choice(value, "matrix", tuple(sorted(matrices_of(scene.model.config), key=lambda name: name != "v")))
    return Asked(
        scene.head[0],
        matrix,
        int(choice(value, "bits", BITS)),
        0 if group == "row" else int(group),
        int(choice(value, "tokens", TOKENS)),
    )


def form(scene: Scene) -> dict:
    """The matrix of the picked head's layer, and into how many bits."""
    said = section(scene.words, "rounding")
    matrices = [[name, said[f"matrix_{name}"]] for name in KINDS if name in matrices_of(scene.model.config)]
    choices = {
        "matrix": (matrices, "v"),
        "bits": ([[n, said["bits_n"].format(n=n)] for n in sorted(BITS)], BITS[0]),
        "group": (
            [
                [n, said["group_row" if n == "row" else "group_n"].format(n=n)]
                for n in sorted(GROUPS, key=lambda n: 1 << 30 if n == "row" else int(n))
            ],
            GROUPS[0],
        ),
        "tokens": ([[n, said["tokens_n"].format(n=f"{int(n):,}")] for n in sorted(TOKENS, key=int)], TOKENS[0]),
    }
    return {
        "controls": [
            {"name": name, "kind": "choice", "label": said[name], "value": value, "options": options}
            for name, (options, value) in choices.items()
        ]
    }


def texts_of(scene: Scene, tokens: int) -> list[list[int]]:
    """Pieces of the bundled text: as many as hold `tokens` to fit to, and one more to measure on."""
    size = min(WINDOW, scene.model.config.n_ctx, scene.playground.options.max_tokens)
    ids = scene.model.encode(bundled_text()).ids.tolist()
    n = max(1, min(tokens // size, len(ids) // size - 1))
    whole = [ids[at : at + size] for at in range(0, (n + 1) * size, size)]
    return [whole[0][:tokens], whole[1]] if tokens < size else whole


def key_of(scene: Scene, asked: Asked) -> tuple:
    """What decides the comparison: the plain model, not the prompt or its edits."""
    return ("rounding", scene.model.id, asked, scene.playground.options.max_tokens)


def plan(scene: Scene, values: Values) -> background.Job:
    """What the button starts."""
    asked, model = asked_of(scene, values), scene.model.model
    texts = texts_of(scene, asked.tokens)

    def work(progress: Progress) -> Comparison:
        return compare(model, asked.layer, asked.matrix, asked.scheme, texts, progress)

    return background.Job(key_of(scene, asked), work)


def draw(scene: Scene, values: Values) -> dict[str, Picture]:
    """Everything of the comparison, once it was made."""
    asked = asked_of(scene, values)
    key = key_of(scene, asked)
    found = scene.playground.results.peek(key)
    state = (key, found is not None)

    def made(name: str, payload) -> Picture:
        empty = {"text": scene.words[f"rounding.empty_{name}"], "hint": scene.words["rounding.empty_hint"]}
        return Picture((state, name), lambda: payload(scene, asked, found.value) if found else {"empty": empty})

    return {
        "rounding_form": Picture(scene.model.id, lambda: form(scene)),
        "rounding_job": Picture(state, lambda: _button(scene, asked, found)),
        "rounding_errors": made("errors", errors_payload),
        "rounding_table": made("table", table_payload),
        "rounding_power": made("power", power_payload),
        "rounding_columns": made("columns", columns_payload),
    }


def _button(scene: Scene, asked: Asked, found: background.Result | None) -> dict:
    said = section(scene.words, "rounding")
    hint = said["takes"].format(layer=asked.layer, matrix=said[f"matrix_{asked.matrix}"])
    return background.button(said["start"], scene.words, found, hint)


def _shared(scene: Scene, asked: Asked, found: Comparison, name: str, lines: str) -> dict:
    """What all payloads have: whose numbers they are, and how to make them."""
    said = section(scene.words, "rounding")
    made = [
        f"ids, size = lm.encode(bundled_text()).ids.tolist(), {found.held_out_tokens}",
        f"texts = [ids[at : at + size] for at in range(0, {found.fit_tokens + found.held_out_tokens}, size)]",
        f"scheme = {asked.scheme!r}",
        f"found = compare(lm.model, {asked.layer}, {asked.matrix!r}, scheme, texts)",
        lines,
    ]
    if found.fit_tokens < found.held_out_tokens:
        made[1] = f"texts = [ids[:{found.fit_tokens}], ids[size : 2 * size]]"
    imports = [
        "from model.design.past_length import bundled_text",
        "from model.quantization.formats import Scheme",
        "from model.quantization.rounding import compare",
    ]
    return {
        "title": said[f"title_{name}"],
        "source": said["source"].format(
            model=scene.model.label,
            dtype=scene.model.dtype,
            name=found.name,
            bits=asked.bits,
            group=said["group_n"].format(n=asked.group) if asked.group else said["group_row"],
            fit=f"{found.fit_tokens:,}",
            held_out=f"{found.held_out_tokens:,}",
        ),
        "file": f"rounding-{name}",
        "run": f"{scene.model.id} {asked} {name} {scene.language}",
        "python": python_lines(scene, made, imports),
        "words": plot_words(scene.words),
    }


def _best(found: Comparison) -> Outcome:
    return min(found.outcomes, key=lambda each: each.held_out)


def errors_payload(scene: Scene, asked: Asked, found: Comparison) -> dict:
    """The error of the matrix's output by method."""
    said, best, plain = section(scene.words, "rounding"), _best(found), found.outcomes[0]
    names = [said[each.method] for each in found.outcomes]
    note = said["note_errors"]
    if best is plain:
        note = f"{note} {said['best_nearest']}"
    else:
        given = {"best": said[best.method], "error": percent(best.held_out), "plain": percent(plain.held_out)}
        note = f"{note} {said['best'].format(**given, times=told(float(f'{plain.held_out / best.held_out:.2g}')))}"
    worst = max(found.outcomes, key=lambda each: each.held_out / max(each.fit, 1e-30))
    if worst.held_out > _OVERFITS * worst.fit:
        given = {"method": said[worst.method], "times": told(float(f"{worst.held_out / worst.fit:.2g}"))}
        note = f"{note} {said['overfits'].format(**given)}"
    fit, held_out = ([getattr(each, name) for each in found.outcomes] for name in ("fit", "held_out"))
    return _shared(scene, asked, found, "errors", "{each.method: each.held_out for each in found.outcomes}") | {
        "figure": error_figure(names, fit, held_out, said),
        "note": note,
        "columns": [said["text"], said["method"], said["error"]],
    }


def table_payload(scene: Scene, asked: Asked, found: Comparison) -> dict:
    """Every number."""
    said, rows, lines = section(scene.words, "rounding"), [], []
    for each in found.outcomes:
        rows.append(
            [
                {"text": said[each.method], "help": said[f"help_{each.method}"]},
                percent(each.fit),
                percent(each.held_out),
                percent(each.weight),
                told(float(f"{each.kl:.3g}")),
                percent(each.agree),
                f"{each.seconds:.2f}",
            ]
        )
        lines.append([each.method, each.fit, each.held_out, each.weight, each.kl, each.agree, each.seconds])
    full = 4 * found.shape[0] * found.shape[1]
    about = said["about_table"].format(
        rows=f"{found.shape[0]:,}",
        columns=f"{found.shape[1]:,}",
        size=told_bytes(found.nbytes),
        full=told_bytes(full),
        per=told(float(f"{8 * found.nbytes / (found.shape[0] * found.shape[1]):.3g}")),
    )
    columns = [said[name] for name in ("method", "seen", "unseen", "of_weights", "kl", "agree", "seconds")]
    return _shared(scene, asked, found, "table", "found.outcomes") | {
        "about": about,
        "columns": columns,
        "rows": rows,
        "lines": lines,
    }


def power_payload(scene: Scene, asked: Asked, found: Comparison) -> dict:
    """How the scaling was found."""
    said = section(scene.words, "rounding")
    return _shared(scene, asked, found, "power", "dict(zip(found.powers, found.errors))") | {
        "figure": power_figure(found.powers, found.errors, found.power, said),
        "note": said["note_power"].format(power=f"{found.power:g}"),
        "columns": [said["method"], said["power"], said["error"]],
    }


def columns_payload(scene: Scene, asked: Asked, found: Comparison) -> dict:
    """What compensating does on the way."""
    said = section(scene.words, "rounding")
    return _shared(scene, asked, found, "columns", "list(zip(found.columns, found.plain, found.made_up))") | {
        "figure": column_figure(found.columns, found.plain, found.made_up, said),
        "note": said["note_columns"],
        "columns": [said["method"], said["columns"], said["error"]],
    }


VIEW = View(
    "rounding",
    build,
    draw,
    parts=PARTS,
    asks=("rounding_form",),
    jobs={"rounding_job": plan},
)
