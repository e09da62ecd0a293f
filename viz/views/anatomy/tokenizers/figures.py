"""Tokenizer comparison: sample sentences, their tokens as chips, and a figure that compares languages."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from viz.charts.axes import GRAY, axis, figure
from viz.charts.lines import bars
from viz.labels import plotly_text, visible
from viz.theme import HUES

HEIGHT = 380
MOST_CHIPS = 160  # maximum number of tokens drawn per vocabulary
# First sentence of Article 1 of the Universal Declaration of Human Rights (United Nations 1948) in seven languages.
LANGUAGES = {
    "en": "All human beings are born free and equal in dignity and rights.",
    "de": "Alle Menschen sind frei und gleich an Würde und Rechten geboren.",
    "ru": "Все люди рождаются свободными и равными в своем достоинстве и правах.",
    "zh": "人人生而自由，在尊严和权利上一律平等。",
    "ja": "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。",
    "hi": "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है।",
    "ar": "يولد جميع الناس أحراراً متساوين في الكرامة والحقوق.",
}
SAMPLES = LANGUAGES | {
    "code": "def add(a, b):\n    return {key: a[key] + b[key] for key in a if key in b}\n",
    "numbers": "3.14159265 + 2,718,281 = 2026-11-22, 1e-05, 0x7FFF, 123456789",
    "emoji": "👍🏽 🎉🎉 👩‍👩‍👧 🇨🇭 ❤️ 🤖",
}


def part_text(raw: bytes) -> str:
    """Format the bytes of a token as a visible label, in hexadecimal if they are not valid UTF-8 on their own."""
    try:
        return visible(raw.decode())
    except UnicodeDecodeError:
        return " ".join(f"{byte:02X}" for byte in raw)


def chips(raw: Sequence[bytes], ids: Sequence[int | None], notes: Mapping[int, str]) -> list[list]:
    """Build one chip for each of the first tokens: [label, id, number of bytes, is a partial character, note].

    `notes` maps the position of a token that is only part of a character to a description of this part.
    """
    return [
        [part_text(each), number, len(each), not _is_text(each), notes.get(at, "")]
        for at, (each, number) in enumerate(zip(raw[:MOST_CHIPS], ids[:MOST_CHIPS], strict=True))
    ]


def _is_text(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def premium_figure(counts: Mapping[str, Sequence[int]], names: Sequence[str], words: Mapping[str, str]) -> go.Figure:
    """Draw the token count of the same sentence in each language relative to the first language, by vocabulary.

    `counts`: vocabulary -> tokens in each language; `names`: names of the languages. `words`: "y", "tokens".
    """
    hover, x = "%{x}: %{y:.2f} × (%{text})", [plotly_text(name) for name in names]
    traces = [
        bars(
            vocabulary,
            x,
            [each / tokens[0] for each in tokens],
            HUES[at % len(HUES)],
            hover=hover,
            text=[plotly_text(f"{each} {words['tokens']}") for each in tokens],
        )
        for at, (vocabulary, tokens) in enumerate(counts.items())
    ]
    horizontal = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": 1, "y1": 1}
    parity = horizontal | {"line": {"width": 1, "dash": "dot", "color": GRAY}}
    more = {"barmode": "group", "bargap": 0.25}
    return figure(traces, axis(""), axis(words["y"]), height=HEIGHT, meta={"shapes": [parity]}, more=more)
