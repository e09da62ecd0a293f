"""Patching on the compare tab: which vectors carry what differs between run A and run B."""

from dataclasses import dataclass

from model.api import LanguageModel
from model.attention.effects import PATCH_SITES, Target, metric, patch, recovered
from model.errors import InputError
from model.gpt.trace import Trace
from model.progress import Progress
from viz.labels import visible
from viz.page import background
from viz.page.background import Job, kept
from viz.page.parts import choice, plot_words
from viz.page.picking import source
from viz.page.python_lines import python_lines
from viz.page.scene import Scene
from viz.page.tab import Picture, Values
from viz.views.compare.runs.figures import HeadWords, by_position, likely, merged, patch_figure, shares_of
from viz.views.compare.runs.run_b import Other, models_ready, other_run, text_of
from viz.words import some, translate

INTO = ("b", "a")  # which run receives the other's vectors
MOST_PLACES = 16_384  # layers x tokens of a map
SMALLEST_GAP = 1e-3  # logits; shares of less say nothing
MOST_TYPED = 200  # characters of a token
PARTS = ("patch_form", "patch_job", "patch_map")


@dataclass(frozen=True, eq=False)
class Patching:
    """What is put into what, and the number that is watched."""

    clean: Trace
    corrupted: Trace
    target: Target
    site: str  # of PATCH_SITES
    into: str  # of INTO
    ends: tuple[float, float]  # the target's number in the clean and in the corrupted run

    @property
    def key(self) -> tuple:
        """What decides the result."""
        return ("patch", self.clean.key, self.corrupted.key, self.target, self.site)


def form(scene: Scene, other: Other) -> dict:
    """What to patch, and which two tokens to tell apart."""
    words = scene.words
    placeholders = [visible(scene.model.tokenizer.piece(i)) for i in opposed(scene, other)]
    names = zip(("token", "distractor"), placeholders, strict=True)
    typed = [
        {
            "name": name,
            "kind": "text",
            "label": words[f"compare.of_{name}"],
            "value": "",
            "placeholder": text,
            "help": words["compare.token_help"],
        }
        for name, text in names
    ]
    return {
        "controls": [
            {
                "name": "site",
                "kind": "choice",
                "label": words["compare.site"],
                "value": PATCH_SITES[0],
                "options": [[key, words[f"compare.{key}"], words[f"compare.{key}_help"]] for key in PATCH_SITES],
            },
            {
                "name": "into",
                "kind": "choice",
                "label": words["compare.into"],
                "value": INTO[0],
                "options": [[key, words[f"compare.into_{key}"], words[f"compare.into_{key}_help"]] for key in INTO],
            },
            *typed,
        ]
    }


def opposed(scene: Scene, other: Other) -> tuple[int, int]:
    """Two tokens that tell the runs apart: the likeliest next one of A and of B.

    Where that is the same one, those whose probability is highest in A against B, and in B against A.
    """

    def make() -> tuple[int, int]:
        size = scene.model.tokenizer.vocab_size
        a, b = (shares_of(trace.logits_at(-1)[:size]) for trace in (scene.trace, other.trace))
        first, second = likely(a, 1)[0], likely(b, 1)[0]
        return (first, second) if first != second else (likely(a - b, 1)[0], likely(b - a, 1)[0])

    return kept(scene.playground, ("opposed", scene.trace.key, other.trace.key), make)


def patching_of(scene: Scene, other: Other, asked: object) -> Patching:
    """What is asked for; raises InputError, in the reader's words, where it cannot be done."""
    words, a, b = scene.words, scene.trace, other.trace
    _check(scene, other)
    tokens = list(opposed(scene, other))
    for n, name in enumerate(("token", "distractor")):
        if typed := text_of(asked, name)[:MOST_TYPED]:
            tokens[n] = _one_token(scene.model, typed, a, words["compare.not_one_token"], words["compare.token_help"])
    site, into = choice(asked, "site", PATCH_SITES), choice(asked, "into", INTO)
    clean, corrupted = (a, b) if into == "b" else (b, a)
    target = Target("difference", -1, *tokens)
    ends = kept(
        scene.playground,
        ("ends", clean.key, corrupted.key, target),
        lambda: (metric(clean, target), metric(corrupted, target)),
    )
    if abs(ends[0] - ends[1]) < SMALLEST_GAP:
        raise InputError(words["compare.no_gap"], "", words["compare.no_gap_hint"])
    return Patching(clean, corrupted, target, site, into, ends)


def _check(scene: Scene, other: Other) -> None:
    """Raise InputError unless the runs can be patched into one another."""
    words, lengths = scene.words, (len(scene.trace.tokens), len(other.trace.tokens))
    if other.model is not scene.model:
        raise InputError(words["compare.patch_models"])
    if lengths[0] != lengths[1]:
        raise InputError(words["compare.patch_lengths"].format(a=lengths[0], b=lengths[1]))
    if scene.trace.key == other.trace.key:
        raise InputError(words["compare.patch_alike"])
    if scene.model.config.n_layer * lengths[0] > MOST_PLACES:
        most = MOST_PLACES // scene.model.config.n_layer
        raise InputError(words["compare.patch_long"].format(n=most))


def _one_token(model: LanguageModel, text: str, trace: Trace, what: str, hint: str) -> int:
    """The token a person typed, with a space before it or without, whichever is likelier in the run."""
    found = [model.tokenizer.encode_ids(each) for each in dict.fromkeys((text, f" {text.lstrip()}", text.strip()))]
    ids = [each[0] for each in found if len(each) == 1]
    if not ids:
        raise InputError(what, visible(text)[:40], hint)
    logits = trace.logits_at(-1)
    return max(ids, key=lambda i: logits[i])


def pictures(scene: Scene, other: Other, asked: object) -> dict[str, Picture]:
    """The form, the button or why there is none, and the map once it is there."""
    start = scene.words["compare.patch_start"]
    runs = (scene.run, other.run)
    if other.model is scene.model:
        made = {"patch_form": Picture((*runs, "form"), lambda: form(scene, other))}
    else:
        made = {"patch_form": Picture("nothing", lambda: {"controls": []})}
    try:
        found = patching_of(scene, other, asked)
    except InputError as error:
        got = f" ({error.got})" if error.got else ""
        why = f"{translate(error.what, scene.language)}{got} {translate(error.hint, scene.language)}".strip()
        idle = background.unready(scene.words, start, why)
        return made | {"patch_job": Picture(why, lambda: idle), "patch_map": Picture("", lambda: {"absent": True})}
    result = scene.playground.results.peek(found.key)
    button = background.button(start, scene.words, result, _cost(scene, found))
    drawn = (found.key, found.into, found.ends, result is not None)
    chart = (
        Picture(drawn, lambda: _map(scene, other, found, result)) if result else Picture("", lambda: {"absent": True})
    )
    return made | {"patch_job": Picture(drawn, lambda: button), "patch_map": chart}


def plan(scene: Scene, values: Values) -> Job:
    """What the button starts; raises PlaygroundError where it cannot."""
    other = other_run(scene, values.get("compare_form"), models_ready(scene))
    found = patching_of(scene, other, values.get("patch_form"))

    def work(progress: Progress) -> object:
        return patch(found.clean, found.corrupted, found.target, found.site, progress)

    return Job(found.key, work)


def _cost(scene: Scene, found: Patching) -> str:
    """How many runs it takes, and about how long: a run starts at the layer it is patched in."""
    ids = zip(found.clean.key.ids, found.corrupted.key.ids, strict=True)
    first = next((t for t, (one, two) in enumerate(ids) if one != two), 0)
    runs = scene.model.config.n_layer * (len(found.clean.tokens) - first)
    seconds = max(1, round(runs * scene.trace.seconds / 2))
    return scene.words["compare.patch_cost"].format(runs=runs, seconds=seconds)


def _map(scene: Scene, other: Other, found: Patching, result: background.Result) -> dict:
    words, piece = scene.words, scene.model.tokenizer.piece
    share = words["compare.share"]
    said = HeadWords(words["compare.layer"], words["compare.patched_token"], words["compare.raw"], share)
    effects, a, b = result.value, scene.trace.tokens, other.trace.tokens
    tokens = merged(a, b, by_position(a.ids.tolist(), b.ids.tolist()))
    figure = patch_figure(recovered(effects, *found.ends), effects, tokens, said)
    two = {"token": visible(piece(found.target.token)), "distractor": visible(piece(found.target.distractor))}
    sides = {"clean": "A", "corrupted": "B"} if found.into == "b" else {"clean": "B", "corrupted": "A"}
    ends = {"m_clean": f"{found.ends[0]:+.3f}", "m_corrupted": f"{found.ends[1]:+.3f}"}
    clean, corrupted = ("run", "other") if found.into == "b" else ("other", "run")
    lines = [
        other.line,
        f"target = Target('difference', -1, {found.target.token}, {found.target.distractor})",
        f"clean, corrupted = {clean}, {corrupted}",
        f"effects = patch(clean, corrupted, target, {found.site!r})  # [L, T]",
        "recovered(effects, metric(clean, target), metric(corrupted, target))",
    ]
    return {
        "figure": figure.to_json(),
        "title": words["compare.map_title"].format(site=words[f"compare.{found.site}"], **two, **sides),
        "note": words["compare.map_note"].format(**two, **sides, **ends),
        "source": source(scene),
        "file": f"patching-{found.site}",
        "run": f"{scene.run} {other.run} {found.site}",
        "columns": [words["compare.layer"], words["compare.patched_token"], share],
        "python": python_lines(scene, lines, ["from model.attention.effects import Target, metric, patch, recovered"]),
        "words": plot_words(words) | some(words, "pattern", "query", "key", "weight"),
    }
