"""Speculative decoding: a draft proposes, the model accepts or rejects; what it gains here, measured."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import gradio as gr

from model.api import LanguageModel
from model.errors import InputError
from model.generation.draft_costs import Compared, Summary, compare, summary, swept
from model.generation.speculative import DRAFTS, MOST_DRAFTED, Draft, Request, shares_tokenizer
from model.progress import Progress
from viz.labels import visible
from viz.page import background
from viz.page.old_view import View
from viz.page.parts import choice, number, part, plot_words
from viz.page.python_lines import python_lines
from viz.page.scene import Scene
from viz.page.tab import Picture, Values
from viz.views.sampling.pipelines import spec, steps_code, steps_of
from viz.views.sampling.speculative.figures import (
    calls_figure,
    expected_calls,
    records,
    sweep_figure,
    times_figure,
)
from viz.words import some

PARTS = (
    "pipeline",
    "drafting_form",
    "drafting_job",
    "drafting_text",
    "drafting_numbers",
    "drafting_times",
    "drafting_calls",
    "drafting_sweep",
)
MOST_TOKENS = 128
MOST_SUFFIX = 8  # tokens of a suffix that is looked up
_TAIL = 10  # tokens of the prompt before the text
_TEXT_WORDS = (
    "accepted",
    "rejected",
    "unread",
    "corrected",
    "bonus",
    "alone",
    "help",
    "told_proposal",
    "told_unread",
    "told_corrected",
    "told_bonus",
    "told_call",
    "told_alone",
    "below",
    "not_below",
    "expects",
    "drawn",
    "plain_text",
    "tokens_label",
    "call_label",
    "csv_call",
    "csv_place",
    "csv_token",
    "csv_id",
    "csv_fate",
    "csv_chance",
    "csv_expected",
)


@dataclass(frozen=True, eq=False)
class Wanted:
    """What a page asks for."""

    draft: Draft
    request: Request
    other: str  # id of the model that drafts, "" where none does

    @property
    def settings(self) -> tuple:
        """All that decides the result, besides the model and the prompt."""
        return self.draft.kind, self.draft.n, self.other, self.request


def build() -> dict[str, gr.HTML]:
    """Settings on top, then the text; below it the numbers and the time beside the two predictions."""
    made = {
        "drafting_form": part("drafting_form", None, kind="controls", value={}),
        "drafting_job": part("drafting_job", None, kind="job", events=("start", "cancel")),
        "drafting_text": part("drafting_text", None, kind="drafttext"),
    }
    with gr.Row(elem_classes="pg-columns"):
        with gr.Column(min_width=320):
            made["drafting_numbers"] = part("drafting_numbers", None, kind="draftnumbers")
            made["drafting_times"] = part("drafting_times", None, kind="figure")
        with gr.Column(min_width=320):
            made["drafting_calls"] = part("drafting_calls", None, kind="figure")
            made["drafting_sweep"] = part("drafting_sweep", None, kind="figure")
    return made


# --- what is asked for ---


def drafters(scene: Scene) -> dict[str, LanguageModel]:
    """The other loaded models of the list that have the same tokens, by id."""
    playground, found = scene.playground, {}
    for _, model_id in playground.choices():
        other = playground.models.peek(model_id) if model_id != scene.model.id else None
        if other is not None and shares_tokenizer(scene.model.tokenizer, other.tokenizer):
            found[model_id] = other
    return found


def form(scene: Scene, others: Mapping[str, LanguageModel]) -> dict:
    """Who drafts, how many tokens at a time, and how much is written."""
    words, L = scene.words, scene.model.config.n_layer
    kinds = [[kind, words[f"drafting.is_{kind}"], words[f"drafting.help_{kind}"]] for kind in DRAFTS]
    models = [[key, other.label] for key, other in others.items()] or [["", words["drafting.no_model"]]]
    return {
        "controls": [
            {"name": "draft", "kind": "choice", "label": words["drafting.draft"], "value": "layers", "options": kinds},
            {
                "name": "layers",
                "kind": "range",
                "label": words["drafting.layers"].format(L=L),
                "min": 1,
                "max": L,
                "step": 1,
                "value": default_layers(L),
                "when": {"draft": ["layers"]},
            },
            {
                "name": "suffix",
                "kind": "range",
                "label": words["drafting.suffix"],
                "min": 1,
                "max": MOST_SUFFIX,
                "step": 1,
                "value": 3,
                "when": {"draft": ["ngram"]},
            },
            {
                "name": "model",
                "kind": "choice",
                "label": words["drafting.model"],
                "value": models[0][0],
                "options": models,
                "when": {"draft": ["model"]},
            },
            {
                "name": "gamma",
                "kind": "range",
                "label": words["drafting.gamma"],
                "min": 1,
                "max": MOST_DRAFTED,
                "step": 1,
                "value": 4,
            },
            {
                "name": "tokens",
                "kind": "range",
                "label": words["drafting.tokens"],
                "min": 8,
                "max": most_tokens(scene),
                "step": 8,
                "value": 40,
            },
            {"name": "seed", "kind": "number", "label": words["drafting.seed"], "min": 0, "max": 999_999, "value": 0},
        ]
    }


def most_tokens(scene: Scene) -> int:
    """How many tokens may be written here."""
    return min(MOST_TOKENS, scene.playground.options.allowed.drafted)


def default_layers(n_layer: int) -> int:
    """Most of the layers: a shallower draft is cheaper, but the model hardly ever agrees with it."""
    return max(1, n_layer - max(1, n_layer // 6))


def wanted_of(scene: Scene, values: Values, others: Mapping[str, LanguageModel]) -> Wanted:
    """What a page asks for, numbers kept within their bounds; raises InputError for steps that cannot be."""
    asked, sent, lm = values.get("drafting_form"), values.get("pipeline"), scene.model
    steps = steps_of(lm, sent.get("steps") if isinstance(sent, Mapping) else None)
    L, kind = lm.config.n_layer, choice(asked, "draft", tuple(DRAFTS))
    layers = int(number(asked, "layers", 1, L, default_layers(L)))
    n = layers if kind == "layers" else int(number(asked, "suffix", 1, MOST_SUFFIX, 3))
    other = choice(asked, "model", tuple(others) or ("",)) if kind == "model" else ""
    request = Request(
        lm.tokenizer.vocab_size,
        steps,
        int(number(asked, "gamma", 1, MOST_DRAFTED, 4)),
        int(number(asked, "tokens", 8, most_tokens(scene), 40)),
        int(number(asked, "seed", 0, 999_999, 0)),
        frozenset() if lm.tokenizer.eos_id is None else frozenset((lm.tokenizer.eos_id,)),
    )
    return Wanted(Draft(kind, n, others[other].model if other else None), request, other)


def key_of(scene: Scene, wanted: Wanted) -> tuple:
    """What decides the result: the model without the visitor's edits."""
    return "drafting", scene.model.id, tuple(scene.trace.tokens.ids.tolist()), wanted.settings


def plan(scene: Scene, values: Values) -> background.Job:
    """What the button starts."""
    wanted = wanted_of(scene, values, drafters(scene))
    ids = scene.trace.tokens.ids.tolist()

    def work(progress: Progress) -> Compared:
        return compare(scene.model.model, ids, wanted.draft, wanted.request, progress)

    return background.Job(key_of(scene, wanted), work)


# --- what is drawn ---


def draw(scene: Scene, values: Values) -> dict[str, Picture]:
    """The form, and once it has run what was written and how long it took."""
    others = drafters(scene)
    shown = {"drafting_form": Picture((scene.model.id, scene.model.config, tuple(others)), lambda: form(scene, others))}
    try:
        wanted = wanted_of(scene, values, others)
    except InputError as error:
        return shown | _broken(scene, error)
    found = scene.playground.results.peek(key_of(scene, wanted))
    state = (scene.run, wanted.settings, found is not None)
    told = summary(found.value) if found else None

    def picture(name: str, make: Callable[[], dict]) -> Picture:
        return Picture(state, make if found else lambda: _empty(scene, name))

    return shown | {
        "drafting_job": Picture((state, bool(others)), lambda: button(scene, wanted, found)),
        "drafting_text": picture("text", lambda: text_payload(scene, wanted, found.value)),
        "drafting_numbers": picture("numbers", lambda: numbers_payload(scene, wanted, found.value, told)),
        "drafting_times": picture("times", lambda: times_payload(scene, wanted, told)),
        "drafting_calls": picture("calls", lambda: calls_payload(scene, wanted, found.value, told)),
        "drafting_sweep": picture("sweep", lambda: sweep_payload(scene, wanted, found.value, told)),
    }


def _broken(scene: Scene, error: InputError) -> dict[str, Picture]:
    """The steps cannot be: the text says why, the others keep quiet."""

    def fail() -> dict:
        raise error

    key = ("broken", str(error))
    idle = background.unready(scene.words, scene.words["drafting.start"], "")
    names = ("numbers", "times", "calls", "sweep")
    quiet = {f"drafting_{name}": Picture(key, lambda name=name: _empty(scene, name)) for name in names}
    return quiet | {"drafting_text": Picture(key, fail), "drafting_job": Picture(key, lambda: idle)}


def _empty(scene: Scene, name: str) -> dict:
    """What stands in a part's place before anything was written."""
    words = scene.words
    return {"empty": {"text": words[f"drafting.empty_{name}"], "hint": words[f"drafting.empty_{name}_hint"]}}


def button(scene: Scene, wanted: Wanted, found: background.Result | None) -> dict:
    """The button, or why there can be none."""
    words = scene.words
    if wanted.draft.kind == "model" and wanted.draft.model is None:
        return background.unready(words, words["drafting.start"], words["drafting.no_model_hint"])
    hint = words["drafting.hint"] + (f" {words['drafting.edited']}" if scene.picked.edits else "")
    return background.button(words["drafting.start"], words, found, hint)


def _shared(scene: Scene, wanted: Wanted, name: str) -> dict:
    """What all payloads of a result have."""
    return {
        "run": f"{scene.run} {wanted.settings} {name}",
        "file": f"speculative-{wanted.draft.kind}-{name}",
        "source": said_source(scene),
        "python": lines(scene, wanted),
        "words": plot_words(scene.words),
    }


def said_source(scene: Scene) -> str:
    """Whose numbers these are: always the model's without edits."""
    plain = scene.words["drafting.source"].format(model=scene.model.label, dtype=scene.model.dtype)
    return f"{plain} · {scene.words['drafting.edited']}" if scene.picked.edits else plain


def draft_name(scene: Scene, wanted: Wanted) -> str:
    """Who drafts, in words."""
    words, label = scene.words, ""
    if wanted.other:
        label = drafters(scene)[wanted.other].label
    told = {"n": wanted.draft.n, "L": scene.model.config.n_layer, "model": label}
    return words[f"drafting.named_{wanted.draft.kind}"].format(**told)


def lines(scene: Scene, wanted: Wanted, last: str = "summary(found)") -> str:
    """The Python that makes the numbers."""
    request, draft = wanted.request, wanted.draft
    made = f"Draft({draft.kind!r}, {draft.n})"
    before = []
    if wanted.other:
        before, made = [f"other = load_model({wanted.other!r})"], 'Draft("model", model=other.model)'
    imports = [
        "from model.generation.draft_costs import compare, summary",
        "from model.generation.speculative import Draft, Request",
    ]
    imports += ["from model.sampling.pipeline import Step"] if request.steps else []
    ending = f"frozenset({set(request.ending)!r})" if request.ending else "frozenset()"
    return python_lines(
        scene,
        [
            *before,
            f"steps = {steps_code(request.steps)}",
            f"request = Request(lm.tokenizer.vocab_size, steps, gamma={request.gamma}, "
            f"max_new_tokens={request.max_new_tokens}, seed={request.seed}, ending={ending})",
            f"found = compare(lm.model, run.tokens.ids.tolist(), {made}, request)",
            last,
        ],
        imports,
    )


def text_payload(scene: Scene, wanted: Wanted, found: Compared) -> dict:
    """The text, call by call, with every proposal."""
    words, piece = scene.words, scene.model.tokenizer.piece
    told = {"draft": draft_name(scene, wanted), "n": len(found.tokens), "calls": len(found.rounds)}
    ended = words["drafting.ended"] if found.rounds[-1].ended == "end" else ""
    ids = scene.trace.tokens.ids.tolist()
    return {
        "title": words["drafting.text_title"].format(**told),
        "note": f"{words['drafting.text_note']} {ended}".strip(),
        "before": [visible(piece(token)) for token in ids[-_TAIL:]],
        "cut": len(ids) > _TAIL,
        "rounds": records(found.rounds, piece),
        "same": same(scene, found),
        "plain": None if found.tokens == found.plain_tokens else scene.model.decode(found.plain_tokens),
        **_shared(scene, wanted, "rounds"),
        "python": lines(scene, wanted, "[one.tokens for one in found.rounds]"),
        "words": plot_words(words) | some(words, "drafting", *_TEXT_WORDS),
    }


def certain(found: Compared) -> bool:
    """Whether one token alone was possible at every place, as at temperature 0."""
    chances = [one.p for each in found.rounds for one in each.proposals if one.fate != "unread"]
    chances += [each.chance for each in found.plain]
    return all(chance in (0.0, 1.0) for chance in chances)


def same(scene: Scene, found: Compared) -> str:
    """How the text lies beside the one that was written without a draft."""
    words, n = scene.words, len(found.tokens)
    if found.tokens == found.plain_tokens:
        return words["drafting.same_certain" if certain(found) else "drafting.same_luck"].format(n=n)
    both = zip(found.tokens, found.plain_tokens, strict=False)
    at = next((place for place, (a, b) in enumerate(both, 1) if a != b), min(n, len(found.plain_tokens)) + 1)
    return words["drafting.differs_rounding" if certain(found) else "drafting.differs"].format(at=at)


# --- numbers ---


def _number(value: float, digits: int = 3) -> str:
    return "–" if math.isnan(value) else "∞" if math.isinf(value) else f"{value:.{digits}g}"


def _percent(value: float) -> str:
    return "–" if math.isnan(value) else f"{100 * value:.1f} %"


def verdict(scene: Scene, wanted: Wanted, told: Summary) -> list[str]:
    """Faster or slower, and why."""
    words = scene.words
    if not told.tested:
        return [words[f"drafting.nothing_{wanted.draft.kind}"], words["drafting.nothing"].format(v=_number(told.v))]
    gamma = told.proposed / told.calls
    given = {
        "times": _number(told.speed),
        "cost": _number(gamma * told.c + told.v),
        "g": _number(gamma),
        "c": _number(told.c, 2),
        "v": _number(told.v),
        "per_call": _number(told.per_call),
        "needed": _percent(told.needed),
        "accepted": _percent(told.acceptance),
    }
    how = "faster" if told.speed >= 1.05 else "slower" if told.speed <= 0.95 else "even"
    found = [words[f"drafting.{how}"].format(**given), words["drafting.why"].format(**given)]
    if how == "slower":
        key = "never" if math.isinf(told.needed) else "needed"
        found.append(words[f"drafting.{key}"].format(**given))
    if wanted.draft.kind == "layers" and how == "slower":
        found.append(words["drafting.why_layers"])
    return found


def numbers_payload(scene: Scene, wanted: Wanted, found: Compared, told: Summary) -> dict:
    """What was measured beside what was predicted, each with its formula."""
    words = scene.words
    spread = f"{_percent(told.expected)} ± {100 * told.spread:.1f}" if told.tested else "–"
    ms = words["drafting.in_ms"]
    rows = [
        ("acceptance", f"{_percent(told.acceptance)} ({told.accepted} / {told.tested})", spread),
        ("per_call", _number(told.per_call), _number(told.predicted_per_call)),
        ("plain_step", ms.format(n=_number(1000 * told.plain)), ""),
        ("draft_step", f"{ms.format(n=_number(1000 * told.draft))} · c = {_number(told.c, 2)}", ""),
        ("check_step", f"{ms.format(n=_number(1000 * told.check))} · v = {_number(told.v)}", "v = 1"),
        ("speed", f"{_number(told.speed)} ×", f"{_number(told.theorem)} ×"),
        ("speed_here", f"{_number(told.speed)} ×", f"{_number(told.predicted)} ×"),
    ]
    return {
        "title": words["drafting.numbers_title"],
        "verdict": verdict(scene, wanted, told),
        "slower": told.speed <= 0.95,
        "rows": [[words[f"drafting.row_{key}"], words[f"drafting.how_{key}"], *cells] for key, *cells in rows],
        "columns": [
            words["drafting.column_number"],
            words["drafting.column_measured"],
            words["drafting.column_predicted"],
        ],
        **_shared(scene, wanted, "numbers"),
    }


def times_payload(scene: Scene, wanted: Wanted, told: Summary) -> dict:
    """Milliseconds a token, plain and speculative."""
    words = scene.words
    said = some(words, "drafting", "plain", "speculative", "one_by_one", "drafting", "checking", "ms")
    draft = (told.draft if told.proposed else 0.0) * told.proposed / told.written
    check = told.check * told.calls / told.written
    return {
        "figure": times_figure(told.plain, draft, check, said).to_json(),
        "title": words["drafting.times_title"].format(times=_number(told.speed)),
        "note": words["drafting.times_note"],
        "columns": [words["plot.series"], said["ms"], words["drafting.way"]],
        **_shared(scene, wanted, "time"),
    }


def calls_payload(scene: Scene, wanted: Wanted, found: Compared, told: Summary) -> dict:
    """How many tokens the calls wrote."""
    words = scene.words
    said = {
        "measured": words["drafting.column_measured"],
        "predicted": words["drafting.calls_predicted"],
        "tokens": words["drafting.calls_tokens"],
        "calls": words["drafting.calls"],
    }
    expected = expected_calls(
        min(told.expected, 1.0) if told.tested else 0.0, [len(one.proposals) for one in found.rounds]
    )
    return {
        "figure": calls_figure([len(one.tokens) for one in found.rounds], expected, said).to_json(),
        "title": words["drafting.calls_title"].format(n=_number(told.per_call)),
        "note": words["drafting.calls_note"],
        "columns": [words["plot.series"], said["tokens"], said["calls"]],
        **_shared(scene, wanted, "calls"),
    }


def sweep_payload(scene: Scene, wanted: Wanted, found: Compared, told: Summary) -> dict:
    """What other numbers of proposals would give."""
    words, rows = scene.words, swept(found)
    if not rows:
        return {"empty": {"text": words["drafting.nothing_sweep"], "hint": ""}}
    said = {
        "theorem": words["drafting.sweep_theorem"],
        "costs": words["drafting.sweep_costs"],
        "measured": words["drafting.column_measured"],
        "gamma": words["drafting.gamma"],
        "speed": words["drafting.sweep_speed"],
    }
    best = max((row for row in rows if not math.isnan(row[2])), key=lambda row: row[2], default=rows[0])
    title = "drafting.sweep_title" if best[2] > 1 else "drafting.sweep_title_none"
    note = words["drafting.sweep_note"].format(accepted=_percent(told.expected), c=_number(told.c, 2))
    if told.covered < 1:
        note += " " + words["drafting.sweep_covered"].format(share=_percent(told.covered))
    return {
        "figure": sweep_figure(rows, (wanted.request.gamma, told.speed), said).to_json(),
        "title": words[title].format(gamma=best[0], times=_number(best[2])),
        "note": note,
        "columns": [words["plot.series"], "γ", said["speed"]],
        **_shared(scene, wanted, "gamma"),
        "python": lines(scene, wanted, "swept(found)").replace("compare, summary", "compare, swept"),
    }


VIEW = View(
    "drafting",
    build=build,
    draw=draw,
    parts=PARTS,
    fixed=lambda words: {"pipeline": spec(words)},
    asks=("pipeline", "drafting_form"),
    jobs={"drafting_job": plan},
)
