"""Multi-head, grouped and multi-query attention on the loaded model: its KV heads merged, and what that does."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import gradio as gr

from model.anatomy.anatomy import n_params
from model.design.kv_sharing import (
    MERGES,
    Stops,
    Survey,
    Variant,
    group_counts,
    pattern_at,
    readers,
    stops,
    survey,
)
from model.progress import Progress
from viz.charts.heatmap import Look, Panel, PatternWords, Window, pattern_figure
from viz.page import background
from viz.page.old_view import View
from viz.page.parts import choice, part, plot_words
from viz.page.picking import position_of
from viz.page.python_lines import python_lines
from viz.page.scene import Scene
from viz.page.tab import Picture, Values
from viz.views.activations.norm.figures import told
from viz.views.design.kv_heads.figures import (
    Sharing,
    damage_figure,
    difference,
    moved,
    past,
    sharing_figure,
    where_figure,
)
from viz.views.predictions.figures import percent
from viz.views.sampling.kv_cache.figures import told_bytes
from viz.words import section

PARTS = (
    "sharing_form",
    "sharing_job",
    "sharing_diagram",
    "sharing_table",
    "sharing_damage",
    "sharing_where",
    "sharing_before",
    "sharing_after",
    "sharing_change",
)
QUICK = 8e9  # parameters times tokens up to which a run is made at once: about 0.3 s


def build() -> dict[str, gr.HTML]:
    """Who reads what beside the table; what it costs, and where; then one head before and after."""
    made = {
        "sharing_form": part("sharing_form", None, kind="controls", value={}),
        "sharing_job": part("sharing_job", None, kind="job", events=("start", "cancel")),
    }
    for row in (
        ("sharing_diagram", "sharing_table"),
        ("sharing_damage", "sharing_where"),
        ("sharing_before", "sharing_after", "sharing_change"),
    ):
        with gr.Row(elem_classes="pg-columns"):
            for name in row:
                with gr.Column(min_width=320):
                    made[name] = part(name, None, kind="labtable" if name == "sharing_table" else "figure")
    return made


@dataclass(frozen=True)
class Chosen:
    """The number of KV heads and the way to merge that are looked at."""

    groups: int
    merge: str  # of MERGES


def counts_of(scene: Scene) -> tuple[int, ...]:
    """Numbers of KV heads that can be chosen: fewer than the model's; its own where there are none."""
    counts = group_counts(scene.model.config)
    return counts[1:] or counts


def chosen_of(scene: Scene, values: Values) -> Chosen:
    """What a page asked for; whatever does not fit the model is the first choice."""
    asked = values.get("sharing_form")
    groups = choice(asked, "groups", tuple(map(str, counts_of(scene))))
    return Chosen(int(groups), choice(asked, "merge", tuple(MERGES)))


def form(scene: Scene) -> dict:
    """How many KV heads, and how they are made."""
    words, H = scene.words, scene.model.config.n_head
    counts = [
        [str(n), words["sharing.groups_one" if n == 1 else "sharing.groups_some"].format(n=n, size=H // n)]
        for n in counts_of(scene)
    ]
    merges = [[key, words[f"sharing.is_{key}"], words[f"sharing.help_{key}"]] for key in MERGES]
    return {
        "controls": [
            {
                "name": "groups",
                "kind": "choice",
                "label": words["sharing.groups"],
                "value": counts[0][0],
                "options": counts,
            },
            {"name": "merge", "kind": "choice", "label": words["sharing.merge"], "value": "mean", "options": merges},
        ]
    }


# --- what is computed, and when ---------------------------------------------------------------------


def ids_of(scene: Scene) -> list[int]:
    """The prompt; edits are left out."""
    return scene.trace.tokens.ids.tolist()


def survey_key(scene: Scene) -> tuple:
    """What decides the numbers of all variants."""
    return ("sharing", scene.model.id, scene.trace.key.ids)


def stops_key(scene: Scene, chosen: Chosen) -> tuple:
    """What decides the run of one variant."""
    return (*survey_key(scene), chosen)


def _work(scene: Scene) -> float:
    """One run, as parameters times tokens."""
    return n_params(scene.model.config) * len(scene.trace.tokens)


def _runs(scene: Scene) -> int:
    """Runs of a survey: the model, its own number of heads, and every other by every merge."""
    return 2 + (len(group_counts(scene.model.config)) - 1) * len(MERGES)


def _got(scene: Scene, key: tuple, quick: bool, make: Callable[[], object]) -> object | None:
    """A value that is there, or that is quick to make; else None."""
    found = scene.playground.results.peek(key)
    if found is not None or not quick:
        return found and found.value

    def locked() -> object:
        with scene.playground.computing:
            return make()

    return background.kept(scene.playground, key, locked)


def survey_of(scene: Scene) -> Survey | None:
    """Every variant's numbers; None where they take a while and nobody asked for them yet."""
    quick = _runs(scene) * _work(scene) <= QUICK
    return _got(scene, survey_key(scene), quick, lambda: survey(scene.model.model, ids_of(scene)))


def stops_of(scene: Scene, chosen: Chosen) -> Stops | None:
    """The run of the chosen variant; None where it takes a while and nobody asked for it yet."""

    def make() -> Stops:
        return stops(scene.model.model, ids_of(scene), chosen.groups, chosen.merge)

    return _got(scene, stops_key(scene, chosen), _work(scene) <= QUICK, make)


def plan(scene: Scene, values: Values) -> background.Job:
    """What the button starts: all variants' numbers where they are not there, and the run of the chosen one."""
    chosen, results, ids = chosen_of(scene, values), scene.playground.results, ids_of(scene)
    model = scene.model.model

    def work(progress: Progress) -> bool:
        if results.peek(survey_key(scene)) is None:
            found = survey(model, ids, progress)
            background.kept(scene.playground, survey_key(scene), lambda: found)
        if results.peek(stops_key(scene, chosen)) is None:
            kept = stops(model, ids, chosen.groups, chosen.merge, progress)
            background.kept(scene.playground, stops_key(scene, chosen), lambda: kept)
        return True

    return background.Job(("sharing job", *stops_key(scene, chosen)), work)


def draw(scene: Scene, values: Values) -> dict[str, Picture]:
    """What is quick at once; the rest once it was computed."""
    chosen = chosen_of(scene, values)
    found, run = survey_of(scene), stops_of(scene, chosen)
    alone = group_counts(scene.model.config) == (1,)
    base = (scene.model.id, scene.trace.key.ids, scene.language, bool(scene.picked.edits))
    there = (base, chosen, found is not None, run is not None)

    def picture(name: str, key: object, value: object, payload: Callable[[], dict]) -> Picture:
        words = scene.words
        empty = {"text": words[f"sharing.empty_{name}"], "hint": words["sharing.empty_hint"]}
        if alone:
            empty = {"text": words["sharing.alone"], "hint": words["sharing.alone_hint"]}
        waiting = value is None or (alone and name != "table")
        return Picture((key, name), lambda: {"empty": empty} if waiting else payload())

    head = (there, scene.head)
    return {
        "sharing_form": Picture(base, lambda: form(scene)),
        "sharing_job": Picture(there, lambda: _button(scene, found, run)),
        "sharing_diagram": Picture((base, chosen.groups, scene.head), lambda: diagram_payload(scene, chosen)),
        "sharing_table": picture("table", there, found, lambda: table_payload(scene, found, chosen)),
        "sharing_damage": picture("damage", there, found, lambda: damage_payload(scene, found)),
        "sharing_where": picture("where", there, found, lambda: where_payload(scene, found, chosen)),
        "sharing_before": picture("before", (base, scene.head), run, lambda: map_payload(scene, run, "before")),
        "sharing_after": picture("after", head, run, lambda: map_payload(scene, run, "after")),
        "sharing_change": picture("change", head, run, lambda: map_payload(scene, run, "change")),
    }


def _button(scene: Scene, found: Survey | None, run: Stops | None) -> dict:
    words = scene.words
    edits = f" {words['sharing.no_edits']}" if scene.picked.edits else ""
    if found is not None and run is not None:
        return {"state": "done", "text": words["sharing.ready"] + edits, "cancel": words["job.cancel"]}
    name = words["sharing.start" if found is None else "sharing.start_maps"]
    seconds = max(1, round(_work(scene) * (_runs(scene) if found is None else 1) / 2e10))
    return background.button(name, words, None, words["sharing.takes"].format(seconds=seconds) + edits)


# --- what is shown ----------------------------------------------------------------------------------


def measured_source(scene: Scene) -> str:
    """Whose numbers these are: the plain model's and the merged one's."""
    said = scene.words["sharing.source"].format(model=scene.model.label, dtype=scene.model.dtype)
    return f"{said} · {scene.words['sharing.plain']}" if scene.picked.edits else said


def diagram_payload(scene: Scene, chosen: Chosen) -> dict:
    """Which KV head each query head reads."""
    said, config, (layer, head) = section(scene.words, "sharingdiagram"), scene.model.config, scene.head
    shared = Sharing(readers(config, chosen.groups), layer, head)
    return {
        "figure": sharing_figure(shared, said),
        "title": said["title_one" if chosen.groups == 1 else "title"].format(H=config.n_head, g=chosen.groups),
        "note": said["note" if config.n_kv_head > chosen.groups else "note_same"],
        "source": said["source"].format(model=scene.model.label),
        "file": f"shared-kv-heads-{chosen.groups}",
        "run": f"{scene.run} {chosen.groups} {scene.head}",
        "columns": [said["column_place"], said["column_row"], said["column_name"]],
        "python": python_lines(
            scene,
            [f"readers(lm.config, {chosen.groups})  # (KV head before, after) of each query head"],
            ["from model.design.kv_sharing import readers"],
        ),
        "words": plot_words(scene.words),
    }


def _lines(*more: str) -> list[str]:
    return ["found = survey(lm.model, run.tokens.ids.tolist())", *more]


def table_payload(scene: Scene, found: Survey, chosen: Chosen) -> dict:
    """Every variant: what it saves and what it breaks."""
    said, full, worst = section(scene.words, "sharingtable"), found.variants[0], max(v.kl for v in found.variants)
    context = scene.model.config.n_ctx
    rows = [
        [
            _name(scene, variant, variant is full),
            {"text": told_bytes(variant.cache * context), "bar": variant.cache / full.cache},
            f"{variant.parameters / 1e6:,.2f} M",
            {"text": told(variant.kl), "bar": variant.kl / worst if worst else 0.0},
            percent(variant.agree),
            "–" if variant.loss is None else f"{variant.loss:.3f}",
        ]
        for variant in found.variants
    ]
    same = full.kl < 1e-6 and full.agree == 1
    numbers = ("groups", "merge", "cache", "parameters", "kl", "agree", "loss")
    return {
        "title": said["title"],
        "about": said["about"],
        "columns": [said[key] for key in ("variant", "cache", "parameters", "kl", "agree", "loss")],
        "rows": rows,
        "check": said["same" if same else "apart"].format(kl=told(full.kl)),
        "same": same,
        "run": f"{scene.run} {chosen} table",
        "file": "shared-kv-heads",
        "source": f"{measured_source(scene)} · {said['derived'].format(n=f'{context:,}')}",
        "lines": [[_name(scene, v, v is full), *(getattr(v, name) for name in numbers[2:])] for v in found.variants],
        "python": python_lines(
            scene,
            _lines(f"[({', '.join(f'v.{name}' for name in numbers)}) for v in found.variants]"),
            ["from model.design.kv_sharing import survey"],
        ),
    }


def _name(scene: Scene, variant: Variant, own: bool) -> str:
    words = scene.words
    if own:
        return words["sharing.own"].format(n=variant.groups)
    return f"{variant.groups} · {words[f'sharing.is_{variant.merge}']}"


def damage_payload(scene: Scene, found: Survey) -> dict:
    """The loss, or for one token the divergence, against the number of KV heads."""
    said, own = section(scene.words, "sharingdamage"), found.variants[0]
    by = "kl" if found.loss is None else "loss"
    plain = 0.0 if found.loss is None else found.loss
    curves = {
        merge: (
            scene.words[f"sharing.is_{merge}"],
            [plain, *(getattr(v, by) for v in found.variants[1:] if v.merge == merge)],
        )
        for merge in MERGES
    }
    counts = [own.groups, *dict.fromkeys(v.groups for v in found.variants[1:])]
    return {
        "figure": damage_figure(counts, curves, plain, said | {"value": said[by]}),
        "title": said[f"title_{by}"],
        "note": said["note"],
        "source": measured_source(scene),
        "file": "shared-kv-heads-loss",
        "run": f"{scene.run} damage",
        "columns": [said["series"], said["groups"], said[by]],
        "python": python_lines(
            scene,
            _lines(f"[(v.groups, v.merge, v.{by}) for v in found.variants]"),
            ["from model.design.kv_sharing import survey"],
        ),
        "words": plot_words(scene.words),
    }


def where_payload(scene: Scene, found: Survey, chosen: Chosen) -> dict:
    """The divergence at every position of the chosen variant."""
    said = section(scene.words, "sharingwhere")
    variant = next(v for v in found.variants if (v.groups, v.merge) == (chosen.groups, chosen.merge))
    at = position_of(scene)
    pick = f"next(v for v in found.variants if (v.groups, v.merge) == ({chosen.groups}, {chosen.merge!r})).divergences"
    return {
        "figure": where_figure(variant.divergences, scene.trace.tokens.pieces, said),
        "title": said["title"].format(variant=_name(scene, variant, False)),
        "note": said["note"].format(kl=told(variant.kl), most=told(float(variant.divergences.max()))),
        "source": measured_source(scene),
        "file": f"shared-kv-heads-{chosen.groups}-{chosen.merge}-tokens",
        "run": f"{scene.run} {chosen} {at} where",
        "columns": [said["series"], said["position"], said["kl"], said["token"]],
        "python": python_lines(scene, _lines(pick), ["from model.design.kv_sharing import survey"]),
        "words": plot_words(scene.words),
    }


def patterns_of(scene: Scene, run: Stops) -> tuple[object, object]:
    """The head's pattern in the model and in the merged one, each [T, T] and NaN above the diagonal."""

    def make() -> object:
        with scene.playground.computing:
            return pattern_at(scene.model.model, run, *scene.head)

    chosen = Chosen(run.groups, run.merge)
    after = background.kept(scene.playground, (*stops_key(scene, chosen), scene.head), make)
    return past(scene.unedited.pattern(*scene.head)), after


def map_payload(scene: Scene, run: Stops, which: str) -> dict:
    """The head "before" or "after" merging, or its "change": after minus before."""
    said, (layer, head) = section(scene.words, "sharingmaps"), scene.head
    before, after = patterns_of(scene, run)
    z = {"before": before, "after": after, "change": difference(before, after)}[which]
    value, tokens = said["change" if which == "change" else "weight"], scene.trace.tokens
    words = PatternWords(said["query"], said["key"], value, said["largest"])
    look = Look("signed") if which == "change" else Look()
    counts = {"layer": layer, "head": head, "G": scene.model.config.n_kv_head, "g": run.groups}
    original = f"run.unedited().pattern({layer}, {head})"
    kept = f"kept = stops(lm.model, run.tokens.ids.tolist(), {run.groups}, {run.merge!r})"
    merged = f"pattern_at(lm.model, kept, {layer}, {head})"
    last = {"before": original, "after": merged, "change": f"{merged} - {original}"}[which]
    lines = [f"{last}  # [T, T]"] if which == "before" else [kept, f"{last}  # [T, T]"]
    imports = [] if which == "before" else ["from model.design.kv_sharing import pattern_at, stops"]
    figure = pattern_figure([Panel(value, z)], tokens, words, Window.whole(len(tokens)), look)
    figure.layout.meta |= {"height": 440, "narrow": 400}
    return {
        "figure": figure.to_json(),
        "title": said[f"title_{which}"].format(**counts),
        "note": said[f"note_{which}"].format(moved=percent(moved(before, after))),
        "source": measured_source(scene),
        "file": f"shared-kv-heads-{run.groups}-{run.merge}-{layer}-{head}-{which}",
        "run": f"{scene.run} {run.groups} {run.merge} {scene.head} {which}",
        "columns": [value, said["query"], said["key"]],
        "python": python_lines(scene, lines, imports),
        "words": plot_words(scene.words),
    }


def fixed(words: Mapping[str, str]) -> dict[str, dict]:
    """Nothing: the form depends on the model."""
    return {}


VIEW = View(
    "sharing",
    build,
    draw,
    parts=PARTS,
    fixed=fixed,
    asks=("sharing_form",),
    jobs={"sharing_job": plan},
)
