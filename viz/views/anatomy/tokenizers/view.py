"""One text in several vocabularies: what it costs in each, how unequal languages are, and the merges step by step."""

from collections.abc import Mapping
from dataclasses import dataclass

import gradio as gr

from model.anatomy.tokenizer_comparison import BYTES, CHARACTERS, Cut, built_in, counted, cut, here
from model.errors import InputError
from model.text.bpe_steps import MOST_CHARACTERS, Piece, candidates, replay
from model.text.tokenizer import Tokenizer
from viz.labels import visible
from viz.page.old_view import View
from viz.page.parts import choice, part, plot_words
from viz.page.playground import Playground
from viz.page.python_lines import python_lines
from viz.page.scene import Scene
from viz.page.tab import Picture, Values
from viz.views.anatomy.tokenizers.figures import (
    LANGUAGES,
    MOST_CHIPS,
    SAMPLES,
    chips,
    part_text,
    premium_figure,
)
from viz.views.predictions.figures import percent
from viz.words import section

PARTS = ("vocabs_form", "vocabs_counts", "vocabs_chips", "vocabs_merge", "vocabs_languages", "vocabs_samples")
MOST_TEXT = 2000  # characters of a text that somebody writes
MOST_PAIRS = 6  # pairs that could be merged, in one step
LOADED = "loaded"


@dataclass(frozen=True, eq=False)
class Named:
    """A vocabulary with the name that the page gives it; None as tokenizer: bytes or characters."""

    key: str
    label: str
    tokenizer: Tokenizer | None


def build() -> dict[str, gr.HTML]:
    """The text; its numbers and chips; its merges; the samples."""
    made = {"vocabs_form": part("vocabs_form", None, kind="controls", value={})}
    made["vocabs_counts"] = part("vocabs_counts", None, kind="labtable")
    made["vocabs_chips"] = part("vocabs_chips", None, kind="vocabchips")
    made["vocabs_merge"] = part("vocabs_merge", None, kind="mergesteps")
    with gr.Row(elem_classes="pg-columns"):
        with gr.Column(min_width=320):
            made["vocabs_languages"] = part("vocabs_languages", None, kind="figure")
        with gr.Column(min_width=320):
            made["vocabs_samples"] = part("vocabs_samples", None, kind="labtable")
    return made


def fixed(words: Mapping[str, str]) -> dict[str, dict]:
    """The text, and whose merges are shown."""
    said = section(words, "vocabs")
    options = [[key, said[key]] for key in (LOADED, *here())]
    return {
        "vocabs_form": {
            "controls": [
                {
                    "name": "text",
                    "kind": "text",
                    "lines": 2,
                    "label": said["text"],
                    "value": "",
                    "placeholder": said["text_hint"].format(n=f"{MOST_TEXT:,}"),
                },
                {"name": "merges", "kind": "choice", "label": said["merges"], "value": LOADED, "options": options},
            ]
        }
    }


def tokenizer_of(playground: Playground, name: str) -> Tokenizer:
    """The vocabulary of a built-in model: that of the model in memory, else read alone."""
    loaded = playground.models.peek(name)
    return loaded.tokenizer if loaded else built_in(name)


def vocabularies(scene: Scene) -> list[Named]:
    """The loaded model's, those of built-in models that are on this computer, bytes and characters."""
    said = section(scene.words, "vocabs")
    found = [Named(LOADED, said["named_loaded"].format(name=scene.model.label), scene.model.tokenizer)]
    found += [Named(key, said[key], tokenizer_of(scene.playground, key)) for key in here() if key != scene.model.id]
    return found + [Named(key, said[key], None) for key in (BYTES, CHARACTERS)]


def asked_text(scene: Scene, values: Values) -> str:
    """What was written, else the prompt; raises InputError for a text that is too long."""
    value = values.get("vocabs_form")
    text = value.get("text") if isinstance(value, Mapping) else None
    text = text if isinstance(text, str) and text else scene.prompt
    if text is not scene.prompt and len(text) > MOST_TEXT:
        hint = f"At most {MOST_TEXT} characters are compared."
        raise InputError("The text is too long to compare.", f"{len(text)} characters", hint)
    return text


def draw(scene: Scene, values: Values) -> dict[str, Picture]:
    """All of it at once; only the text and the model decide what is shown."""
    value = values.get("vocabs_form")
    which = choice(value, "merges", (LOADED, *here()))
    written = value.get("text") if isinstance(value, Mapping) else None
    key = (scene.model.id, scene.prompt, written if isinstance(written, str) else "", here())

    return {
        "vocabs_counts": Picture(key, lambda: counts_payload(scene, asked_text(scene, values))),
        "vocabs_chips": Picture(key, lambda: chips_payload(scene, asked_text(scene, values))),
        "vocabs_merge": Picture((key, which), lambda: merge_payload(scene, asked_text(scene, values), which)),
        "vocabs_languages": Picture((scene.model.id, here()), lambda: languages_payload(scene)),
        "vocabs_samples": Picture((scene.model.id, here()), lambda: samples_payload(scene)),
    }


def tried(named: Named, text: str) -> Cut | None:
    """The text in a vocabulary; None where it has no token for a part of it."""
    try:
        return cut(named.key, named.tokenizer, text)
    except InputError:
        return None


def counts_payload(scene: Scene, text: str) -> dict:
    """Tokens, bytes and characters a token in every vocabulary."""
    said, names = section(scene.words, "vocabcounts"), section(scene.words, "vocabs")
    rows, lines = [], []
    found = [(named, tried(named, text)) for named in vocabularies(scene)]
    most = max((counted(each).bytes_per_token for _, each in found if each), default=0) or 1
    for named, each in found:
        if each is None:
            rows.append([{"text": named.label, "help": names["refused"]}, "–", "–", "–", "–", "–"])
            lines.append([named.label, "", "", "", "", ""])
            continue
        numbers = counted(each)
        size = f"{each.size:,}"
        rows.append(
            [
                named.label,
                size,
                f"{numbers.tokens:,}",
                {"text": f"{numbers.bytes_per_token:.2f}", "bar": numbers.bytes_per_token / most},
                f"{numbers.characters_per_token:.2f}",
                {"text": percent(numbers.single), "help": said["single_help"]},
            ]
        )
        lines.append([named.label, each.size, *vars(numbers).values()])
    n = len(text.encode())
    lines_of = [f"text = {text!r}", "counted(cut('loaded', lm.tokenizer, text))", "counted(cut('bytes', None, text))"]
    absent = "" if "smollm2-135m" in (*here(), scene.model.id) else f" {names['absent']}"
    return {
        "title": said["title"],
        "about": said["about"].format(characters=f"{len(text):,}", bytes=f"{n:,}") + absent,
        "columns": [said[key] for key in ("vocabulary", "size", "tokens", "bytes_per", "characters_per", "single")],
        "rows": rows,
        "lines": lines,
        "source": names["source"],
        "file": "tokenizers",
        "run": scene.run,
        "python": python_lines(scene, lines_of, ["from model.anatomy.tokenizer_comparison import counted, cut"]),
    }


def chips_payload(scene: Scene, text: str) -> dict:
    """The tokens of each vocabulary in a row."""
    said, names = section(scene.words, "vocabchips"), section(scene.words, "vocabs")
    rows = []
    for named in vocabularies(scene):
        each = tried(named, text)
        n = len(each.raw) if each else 0
        rows.append(
            {
                "name": named.label,
                "count": said["count"].format(n=f"{n:,}") if each else "",
                "chips": chips(each.raw, each.ids) if each else [],
                "more": said["more"].format(n=f"{n - MOST_CHIPS:,}") if n > MOST_CHIPS else "",
                "problem": "" if each else names["refused"],
            }
        )
    return {
        "title": said["title"],
        "about": said["about"],
        "rows": rows,
        "words": said,
        "source": names["source"],
        "file": "tokens-side-by-side",
        "run": scene.run,
        "python": python_lines(scene, [f"lm.tokenizer.encode({text!r}).pieces"]),
    }


# --- merges ------------------------------------------------------------------------------------------------


def merge_payload(scene: Scene, text: str, which: str) -> dict:
    """Every piece of the text with its merges; the longest way first."""
    said, names = section(scene.words, "vocabmerge"), section(scene.words, "vocabs")
    tokenizer = scene.model.tokenizer if which == LOADED else tokenizer_of(scene.playground, which)
    name = scene.model.label if which == LOADED else names[which]
    shown = text[:MOST_CHARACTERS]
    pieces = replay(tokenizer, shown)
    if not pieces:
        return {"empty": {"text": said["none"], "hint": said["none_hint"]}}
    told = [_piece(tokenizer, piece) for piece in pieces]
    notes = [said["about"]] + ([said["cut"].format(n=MOST_CHARACTERS)] if len(text) > len(shown) else [])
    loading = ["lm.tokenizer"] if which == LOADED else [f"built_in({which!r})"]
    imports = ["from model.text.bpe_steps import replay"]
    imports += [] if which == LOADED else ["from model.anatomy.tokenizer_comparison import built_in"]
    return {
        "title": said["title"].format(name=name),
        "about": " ".join(notes),
        "pieces": told,
        "first": max(range(len(pieces)), key=lambda at: (len(pieces[at].merges), -at)),
        "words": said,
        "source": said["source"],
        "file": "merges",
        "run": f"{scene.run} {which}",
        "python": python_lines(scene, [f"replay({loading[0]}, {shown!r})"], imports),
    }


def _piece(tokenizer: Tokenizer, piece: Piece) -> dict:
    """A piece for the page: labels of its bytes, and of each merge the place, rank, label and rivals."""
    ranks, parts, merges = tokenizer.vocabulary.ranks, piece.parts(0), []
    for merge in piece.merges:
        rivals = candidates(ranks, parts)
        pairs = [[part_text(parts[at]), part_text(parts[at + 1]), rank] for rank, at in rivals[:MOST_PAIRS]]
        joined = parts[merge.at] + parts[merge.at + 1]
        parts = [*parts[: merge.at], joined, *parts[merge.at + 2 :]]
        merges.append([merge.at, merge.rank, part_text(joined), pairs, max(0, len(rivals) - MOST_PAIRS)])
    return {
        "text": visible(piece.text),
        "bytes": [part_text(each) for each in piece.parts(0)],
        "merges": merges,
        "ids": list(piece.ids),
        "added": piece.added,
        "whole": piece.whole,
    }


# --- languages ---------------------------------------------------------------------------------------------


def languages_payload(scene: Scene) -> dict:
    """Tokens of the same sentence over those of the English one."""
    said, names = section(scene.words, "vocablang"), section(scene.words, "vocabs")
    found = {named.label: [tried(named, text) for text in LANGUAGES.values()] for named in vocabularies(scene)}
    counts = {label: [len(each.raw) for each in row] for label, row in found.items() if all(row)}
    lines = [f"texts = {list(LANGUAGES.values())!r}", "[len(lm.tokenizer.encode_ids(text)) for text in texts]"]
    return {
        "figure": premium_figure(counts, [said[key] for key in LANGUAGES], said),
        "title": said["title"],
        "note": said["note"],
        "source": names["source"],
        "file": "tokens-by-language",
        "run": f"{scene.model.id} {scene.language} languages",
        "columns": [said["vocabulary"], said["of"], said["x"], said["y"]],
        "python": python_lines(scene, lines),
        "words": plot_words(scene.words),
    }


def samples_payload(scene: Scene) -> dict:
    """Bytes a token for every sample in every vocabulary."""
    said, names = section(scene.words, "vocablang"), section(scene.words, "vocabs")
    compared = [named for named in vocabularies(scene) if named.key != BYTES]
    found = {key: [tried(named, text) for named in compared] for key, text in SAMPLES.items()}
    numbers = {key: [counted(each) if each else None for each in row] for key, row in found.items()}
    most = max(each.bytes_per_token for row in numbers.values() for each in row if each)

    def cell(each, text: str) -> object:
        if each is None:
            return {"text": "–", "help": names["refused"]}
        told = said["cell_help"].format(tokens=each.tokens, bytes=len(text.encode()))
        return {"text": f"{each.bytes_per_token:.2f}", "bar": each.bytes_per_token / most, "help": told}

    return {
        "title": said["table_title"],
        "about": said["table_about"],
        "columns": [said["sample"], *(named.label for named in compared)],
        "rows": [[said[key], *(cell(each, SAMPLES[key]) for each in row)] for key, row in numbers.items()],
        "lines": [[said[key], *(each.bytes_per_token if each else "" for each in row)] for key, row in numbers.items()],
        "source": names["source"],
        "file": "bytes-per-token",
        "run": f"{scene.model.id} {scene.language} samples",
    }


VIEW = View("vocabs", build, draw, parts=PARTS, fixed=fixed, asks=("vocabs_form",))
