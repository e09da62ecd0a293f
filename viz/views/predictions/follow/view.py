"""Follow a token: its logit, probability or rank after every position of the prompt, for up to three tokens."""

from collections.abc import Mapping

import gradio as gr

from model.predictions.predictions import Followed, follow_all
from viz.charts.distribution import likeliest
from viz.page.background import kept
from viz.page.old_view import View
from viz.page.parts import choice, part, plot_words
from viz.page.picking import position_of, source
from viz.page.python_lines import python_lines
from viz.page.scene import Scene
from viz.page.tab import Picture, Values
from viz.page.typed import quoted, typed_token
from viz.views.predictions.figures import FOLLOWED, Line, follow_figure
from viz.words import some

FIELDS = ("first", "second", "third")


def build() -> dict[str, gr.HTML]:
    """The form above, the picture below it."""
    return {
        "follow_form": part("follow_form", None, kind="controls", value={}),
        "follow_plot": part("follow_plot", None, kind="figure"),
    }


def fixed(words: Mapping[str, str]) -> dict[str, dict]:
    """What is drawn, and of which tokens."""
    options = [[name, words[f"follow.{name}"], words[f"follow.help_{name}"]] for name in FOLLOWED]
    fields = [
        {
            "name": name,
            "kind": "text",
            "value": "",
            "label": words[f"follow.field_{name}"],
            "placeholder": words["follow.empty_first" if name == FIELDS[0] else "follow.empty"],
            "help": words["follow.field_help"],
        }
        for name in FIELDS
    ]
    measure = {
        "name": "measure",
        "kind": "choice",
        "label": words["follow.measure"],
        "value": FOLLOWED[0],
        "options": options,
    }
    return {"follow_form": {"controls": [measure, *fields]}}


def draw(scene: Scene, values: Values) -> dict[str, Picture]:
    """The picture of what the form asks for; what was typed wrongly is said in its place."""
    asked = values.get("follow_form")
    measure, typed = choice(asked, "measure", FOLLOWED), [_typed(asked, name) for name in FIELDS]
    at = None if typed[0] else position_of(scene)  # decides only which token is the likeliest
    return {"follow_plot": Picture((scene.run, measure, typed, at), lambda: plot_payload(scene, asked, measure))}


def _typed(asked: object, name: str) -> str:
    """What stands in a field."""
    text = asked.get(name) if isinstance(asked, Mapping) else None
    return text if isinstance(text, str) else ""


def tokens_of(scene: Scene, asked: object) -> list[int]:
    """The tokens to follow, each once; an empty first field is the likeliest next token at the position looked at.

    Raises InputError, in the reader's language, where a text is not one token.
    """
    typed = [typed_token(scene, asked, name) for name in FIELDS]
    if typed[0] is None:
        typed[0] = likeliest(scene.trace.logits_at(position_of(scene)), 1)[0]
    return list(dict.fromkeys(token for token in typed if token is not None))


def followed(scene: Scene, tokens: list[int]) -> list[Followed]:
    """Their chances, worked out once."""

    def make() -> list[Followed]:
        with scene.playground.computing:
            return follow_all(scene.trace, tokens)

    key = ("follow", scene.trace.key, tuple(tokens))
    return kept(scene.playground, key, make, lambda found: sum(each.nbytes for each in found))


def plot_payload(scene: Scene, asked: object, measure: str) -> dict:
    """The lines of the tokens; raises InputError."""
    words, run, tokens = scene.words, scene.trace.tokens, tokens_of(scene, asked)
    lines = [
        Line(quoted(scene, token), token, found.logit, found.probability, found.rank)
        for token, found in zip(tokens, followed(scene, tokens), strict=True)
    ]
    named = [f"“{line.name}”" for line in lines]
    said = some(words, "follow", "axis_after", f"axis_{measure}", "hover", "next")
    made = [
        f"tokens = {tokens}  # {', '.join(named)}",
        f"[found.{measure} for found in follow_all(run, tokens)]  # after each position",
    ]
    note = [words["follow.note"]]
    if not _typed(asked, FIELDS[0]):
        note.append(words["follow.default"].format(token=named[0], position=position_of(scene)))
    return {
        "figure": follow_figure(lines, measure, run.pieces, run.ids, said),
        "title": words[f"follow.title_{measure}"].format(tokens=", ".join(named)),
        "note": " ".join(note),
        "source": source(scene),
        "file": f"follow-{measure}",
        "run": f"{scene.run} {measure} {tokens}",
        "columns": [
            words["follow.csv_token"],
            words["follow.csv_after"],
            words["surprise.csv_position"],
            words[f"follow.{measure}"],
        ],
        "python": python_lines(scene, made, ["from model.predictions.predictions import follow_all"]),
        "words": plot_words(words),
    }


VIEW = View("follow", build, draw, parts=("follow_form", "follow_plot"), fixed=fixed, asks=("follow_form",))
