"""One text in several vocabularies: token counts, a comparison of languages, and the BPE merges one by one."""

from typing import Annotated

from model.api import LanguageModel
from model.loading.tokenizer_comparison import BYTES, Counted, built_in
from model.text.bpe_steps import MOST_CHARACTERS
from model.text.library.steps import Lattice
from model.text.public_vocabularies import PUBLIC
from viz.characters import frames, part_notes
from viz.labels import visible
from viz.numbers import NONE, decimals, percent, whole
from viz.seam.programs.arguments import Long, OneOf
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import measured
from viz.seam.python_lines import script
from viz.seam.scene import Scene
from viz.seam.view import Custom, Figure, Measure, Payload, Seen, Table, View
from viz.views.anatomy.tokenizers.figures import (
    LANGUAGES,
    MOST_CHIPS,
    SAMPLES,
    chips,
    part_text,
    premium_figure,
)
from viz.views.anatomy.tokenizers.measure import (
    ALSO,
    IDS,
    LOADED,
    MERGES,
    TEXT,
    Compared,
    Replayed,
    measure,
    measure_merges,
    measure_samples,
    names_special,
    replayed,
)
from viz.work.playground import Playground

MOST_CONSIDERED = 6  # maximum number of arcs listed per step of a lattice
# words of the replay that depend on the kind of tokenizer: key -> key of its own text
OWN = {
    "merges": {},
    "parts": {key: f"parts_{key}" for key in ("about", "done", "nothing")},
    "unigram": {key: f"unigram_{key}" for key in ("about", "slider", "next", "pairs", "done", "piece")}
    | {"nothing": "unknown"},
    "wordpiece": {key: f"wordpiece_{key}" for key in ("about", "slider", "next", "pairs", "done", "piece")}
    | {"nothing": "unknown"},
}
_IMPORTS = ["from model.loading.tokenizer_comparison import counted, cut"]


def name_of(seen: Seen, key: str) -> str:
    """Return the display name of a vocabulary."""
    return seen.words.within("names")[key].format(name=seen.facts.label)


def _special(seen: Seen) -> str:
    """Return the argument of the Python lines that recognizes special tokens in an encoder's text."""
    return ", special=True" if seen.facts.config.two_way else ""


def counts(seen: Seen) -> Payload:
    """Build the table of token counts, and of bytes and characters per token, for every vocabulary."""
    words, text = seen.here, seen.result.text
    rows, lines = [], []
    largest = max((row.counted.bytes_per_token for row in seen.result.rows if row.counted), default=0) or 1
    for row in seen.result.rows:
        name, counted = name_of(seen, row.key), row.counted
        if counted is None:
            rows.append([{"text": name, "help": seen.words["refused"]}, *[NONE] * 5])
            lines.append([name, *[""] * 5])
            continue
        rows.append(
            [
                name,
                whole(row.cut.size),
                whole(counted.tokens),
                {"text": decimals(counted.bytes_per_token), "bar": counted.bytes_per_token / largest},
                decimals(counted.characters_per_token),
                {"text": percent(counted.single), "help": words["single_help"]},
            ]
        )
        lines.append([name, row.cut.size, *vars(counted).values()])
    available = {row.key for row in seen.result.rows} | {seen.facts.model_id}
    absent = "" if "smollm2-135m" in available else f" {words['absent']}"
    turns = f" {words['turns']}" if seen.facts.prompt.turns and not seen.settings.text else ""
    loaded = f"counted(cut('loaded', lm.tokenizer, text{_special(seen)}))"
    python = [f"text = {text!r}", loaded, "counted(cut('bytes', None, text))"]
    return {
        "title": words["title"],
        "about": words["about"].format(characters=whole(len(text)), bytes=whole(len(text.encode()))) + turns + absent,
        "columns": [words[key] for key in ("vocabulary", "size", "tokens", "bytes_per", "characters_per", "single")],
        "rows": rows,
        "lines": lines,
        "source": seen.words["measured"],
        "file": "tokenizers",
        "python": script(seen.facts, python, _IMPORTS),
    }


def side_by_side(seen: Seen) -> Payload:
    """Build one row of token chips per vocabulary."""
    words, rows = seen.here, []
    for row in seen.result.rows:
        n = len(row.cut.raw) if row.cut else 0
        rows.append(
            {
                "name": name_of(seen, row.key),
                "count": words["count"].format(n=whole(n)) if row.cut else "",
                "chips": chips(row.cut.raw, row.cut.ids, part_notes(row.cut.raw, seen.all_words)) if row.cut else [],
                "frames": [each for each in frames(row.cut.raw) if each[1] <= MOST_CHIPS] if row.cut else [],
                "more": words["more"].format(n=whole(n - MOST_CHIPS)) if n > MOST_CHIPS else "",
                "problem": "" if row.cut else seen.words["refused"],
            }
        )
    return {
        "title": words["title"],
        "about": words["about"],
        "rows": rows,
        "ids": seen.settings.ids,
        "words": words.plain(),
        "source": seen.words["measured"],
        "file": "tokens-side-by-side",
        "python": script(seen.facts, [f"lm.tokenizer.encode({seen.result.text!r}{_special(seen)}).pieces"]),
    }


def steps(seen: Seen) -> Payload:
    """List every piece of the text with its merges. `first` is the index of the piece with the most merges."""
    words, result = seen.here, seen.result
    if not result.pieces:
        return {"empty": {"text": words["none"], "hint": words["none_hint"]}}
    name = seen.facts.label if result.which == LOADED else name_of(seen, result.which)
    about = words[OWN[result.kind].get("about", "about")]
    about = about if result.complete else f"{about} {words['cut'].format(n=MOST_CHARACTERS)}"
    tokenizer, special, imports = "lm.tokenizer", _special(seen), ["from model.text.bpe_steps import replay"]
    if result.which != LOADED:
        tokenizer, special = f"built_in({result.which!r})", ""
        imports.append("from model.loading.tokenizer_comparison import built_in")
    return {
        "title": words["title"].format(name=name),
        "about": about,
        "pieces": [_piece(each) for each in result.pieces],
        "first": max(range(len(result.pieces)), key=lambda at: (_size(result.pieces[at]), -at)),
        "words": words.plain() | {key: words[own] for key, own in OWN[result.kind].items()},
        "file": "merges",
        "python": script(seen.facts, [f"replay({tokenizer}, {result.text!r}{special})"], imports),
    }


def _piece(result: Replayed) -> dict:
    """Convert a piece to the page's format.

    Each merge is [index of the left part, rank, label, pairs that could be merged, number of pairs not listed].
    """
    piece = result.piece
    return {
        "text": visible(piece.text),
        "bytes": [part_text(each) for each in piece.parts(0)],
        "merges": [
            [
                step.at,
                step.rank,
                part_text(step.left + step.right),
                [[part_text(left), part_text(right), rank] for left, right, rank in step.pairs],
                step.more,
            ]
            for step in result.steps
        ],
        "ids": list(piece.ids),
        "added": piece.added,
        "whole": piece.whole,
        "lattice": lattice_payload(piece.lattice) if piece.lattice else None,
    }


def _size(result: Replayed) -> int:
    return max(len(result.steps), len(result.piece.lattice.arcs) if result.piece.lattice else 0)


def lattice_payload(lattice: Lattice) -> dict:
    """Convert a lattice to the page's format: characters, arcs [start, end, label, id, score] and steps.

    A step is [number of characters covered, path up to there, [[arc, total]] considered, best first, number of arcs
    that are not listed].
    """
    signs = [visible(each.replace("▁", " ")) for each in lattice.characters]

    def shown(value: float | None) -> str:
        return "" if value is None else decimals(value)

    steps = []
    for number, step in enumerate(lattice.steps):
        path = lattice.path[: number + 1] if lattice.arcs[0].score is None else _back(lattice, step.at)
        listed = [[arc, shown(total)] for arc, total in step.considered[:MOST_CONSIDERED]]
        steps.append([step.at, list(path), listed, max(0, len(step.considered) - MOST_CONSIDERED)])
    return {
        "characters": signs,
        "arcs": [
            [arc.start, arc.end, arc.prefix + "".join(signs[arc.start : arc.end]), arc.id, shown(arc.score)]
            for arc in lattice.arcs
        ],
        "steps": steps,
    }


def _back(lattice: Lattice, at: int) -> list[int]:
    """Return the arcs of the best path up to a position, from the first to the last."""
    path: list[int] = []
    while at:
        path.insert(0, lattice.steps[at - 1].considered[0][0])
        at = lattice.arcs[path[0]].start
    return path


# --- languages ---


def languages(seen: Seen) -> Payload:
    """Draw the token count of the same sentence in each language, relative to English."""
    words, names = seen.here, seen.words.within("texts")
    rows = {key: [by_text[name] for name in LANGUAGES] for key, by_text in seen.result.items()}
    tokens = {name_of(seen, key): [each.tokens for each in row] for key, row in rows.items() if all(row)}
    lines = [f"texts = {list(LANGUAGES.values())!r}", "[len(lm.tokenizer.encode_ids(text)) for text in texts]"]
    return {
        "figure": premium_figure(tokens, [names[key] for key in LANGUAGES], words),
        "title": words["title"],
        "note": words["note"],
        "source": seen.words["measured"],
        "file": "tokens-by-language",
        "columns": [words[key] for key in ("vocabulary", "of", "x", "y")],
        "python": script(seen.facts, lines),
    }


def samples(seen: Seen) -> Payload:
    """Build the table of bytes per token for every sample and every vocabulary except bytes."""
    words, names = seen.here, seen.words.within("texts")
    result = {key: row for key, row in seen.result.items() if key != BYTES}
    largest = max(each.bytes_per_token for row in result.values() for each in row.values() if each)

    def cell(each: Counted | None, text: str) -> dict:
        if each is None:
            return {"text": NONE, "help": seen.words["refused"]}
        shown = words["cell_help"].format(tokens=each.tokens, bytes=len(text.encode()))
        return {"text": decimals(each.bytes_per_token), "bar": each.bytes_per_token / largest, "help": shown}

    def row(name: str) -> list[Counted | None]:
        return [each[name] for each in result.values()]

    return {
        "title": words["title"],
        "about": words["about"],
        "columns": [words["sample"], *(name_of(seen, key) for key in result)],
        "rows": [[names[name], *(cell(each, text) for each in row(name))] for name, text in SAMPLES.items()],
        "lines": [[names[name], *(each.bytes_per_token if each else "" for each in row(name))] for name in SAMPLES],
        "source": seen.words["measured"],
        "file": "bytes-per-token",
    }


# --- for programs ---


def tokenizers(scene: Scene) -> dict:
    """Count the tokens of the prompt and of sample texts (languages, code, numbers, emoji) in several vocabularies.

    Returns:
        vocabularies: name, size, tokens, bytes_per_token, characters_per_token and single (fraction of the bytes that
        are tokens of their own and only part of a character); only the name if the vocabulary cannot encode the text.
        samples: kind, text, and tokens by vocabulary (null if it cannot encode the text).
    """
    result: Compared = measured(VIEW, "main", scene)
    rows = [
        {"name": row.key, "size": row.cut.size, **vars(row.counted)} if row.cut else {"name": row.key}
        for row in result.rows
    ]
    by_vocabulary = measured(VIEW, "samples", scene)
    answers = [
        {
            "kind": name,
            "text": text,
            "tokens": {key: each[name] and each[name].tokens for key, each in by_vocabulary.items()},
        }
        for name, text in SAMPLES.items()
    ]
    return {"vocabularies": rows, "samples": answers}


def merges(
    playground: Playground,
    model: LanguageModel,
    text: Annotated[str, Long()] = "unbelievable",
    vocabulary: Annotated[str, OneOf((LOADED, *PUBLIC))] = LOADED,
) -> dict:
    """Replay how the tokens of a text are built: the merges of byte-pair encoding, or the paths of other tokenizers.

    Args:
        text: At most 300 characters.
        vocabulary: loaded (the model's), or a public one: gpt2, cl100k_base or o200k_base.

    Returns:
        pieces: text, added (an added token, matched before any merge), whole (a token found without merges), merges
        (left, right and rank, in order), ids, and lattice: for Unigram and WordPiece, all tokens that fit into the
        piece (start and end in characters, id, score, prefix) and the indices of those on the path; null for others.
    """
    pieces = [
        {
            "text": each.piece.text,
            "added": each.piece.added,
            "whole": each.piece.whole,
            "merges": [
                {"left": part_text(step.left), "right": part_text(step.right), "rank": step.rank} for step in each.steps
            ],
            "ids": list(each.piece.ids),
            "lattice": _lattice(each.piece.lattice),
        }
        for each in (
            replayed(model.tokenizer, text, names_special(model))
            if vocabulary == LOADED
            else replayed(built_in(vocabulary), text)
        )
    ]
    return {"pieces": pieces}


def _lattice(lattice: Lattice | None) -> dict | None:
    return lattice and {"arcs": [vars(arc) for arc in lattice.arcs], "path": list(lattice.path)}


VIEW = View(
    "tokenizers",
    needs=(),
    settings=(TEXT, ALSO, MERGES, IDS),
    measures=(
        Measure("main", measure, ("model", "prompt", "built_in"), ("text", "also"), locks=False),
        Measure("merges", measure_merges, ("model", "prompt", "built_in"), ("text", "merges"), locks=False),
        Measure("samples", measure_samples, ("model", "built_in"), ("also",), locks=False),
    ),
    layout=("form", "counts", "chips", "merges", ("languages", "samples")),
    parts={
        "counts": Table(counts, settings=()),
        "chips": Custom("vocabchips", side_by_side, settings=("ids",)),
        "merges": Custom("mergesteps", steps, "merges", settings=()),
        "languages": Figure(languages, "samples", settings=()),
        "samples": Table(samples, "samples", settings=()),
    },
    api=(Endpoint(tokenizers, reads="plain run"), Endpoint(merges, reads="model", kind="computed")),
    form_depends=("built_in",),
)
