"""Attention that was computed elsewhere, as a page in a notebook, as a file and as figures.

>>> import numpy as np
>>> from viz.show_attention import show_attention
>>> attention = np.full((2, 3, 4, 4), 0.25)                                     # [layers, heads, queries, keys]
>>> shown = show_attention(attention, ["The", " cat", " sat", "."])
>>> shown.numbers().loc[(1, 2), "effective_span"].round(3)
4.0
"""

import secrets
import webbrowser
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import plotly
import plotly.graph_objects as go

from model import FOLDER
from model.arguments import check_head, is_whole, shown
from model.errors import InputError, Message, say
from model.recorded.files import save_npz
from model.recorded.numbers import NUMBERS, numbers
from model.recorded.record import AttentionRecord, record_of
from model.recorded.units import UNITS, in_units
from viz import inline
from viz.page.notebook import dressed
from viz.recorded import figures
from viz.recorded.document import document, label
from viz.recorded.onefile import page
from viz.server.joined import alone
from viz.words import LANGUAGES, words

HEIGHT = 760  # pixels
MOST_TITLE = 120
FIGURES = ("map", "overview", "number")
MOST_MAPS = 8
THEMES = ("light", "dark")


class ShownAttention:
    """Attention on a page that is served by this process: a notebook shows it in a frame; `open` shows it in the
    browser.
    """

    def __init__(self, record: AttentionRecord, title: str, height: int, language: str) -> None:
        self.record, self.title, self.height, self.language = record, title, height, language
        self._name = secrets.token_hex(6)

    @property
    def url(self) -> str:
        """The address of the page, which this process serves from now on."""
        return inline.serve_attention(self._name, self.title, self.record, self.language)

    def _repr_html_(self) -> str:
        return inline.Shown(self.url, self.height)._repr_html_()

    def __repr__(self) -> str:
        L, H, T, S = self.record.weights.shape
        return f"Attention ({self.record.mask}): {L} layers, {H} heads, {T} queries, {S} keys"

    def open(self) -> None:
        """Open the page in the browser."""
        webbrowser.open(self.url)

    def save(self, path: str | Path) -> Path:
        """Write one self-contained HTML file that works without a network, or a .npz file; the name's end decides.

        Returns the path. Raises InputError for another ending, and if the file cannot be written.
        """
        path = Path(path).expanduser()
        if path.suffix not in (".html", ".npz"):
            raise InputError("The name of the file has to end in .html or .npz.", str(path), 'For example: "x.html".')
        try:
            if path.suffix == ".npz":
                save_npz(self.record, path)
            else:
                path.write_text(self.html(), encoding="utf-8")
        except OSError as error:
            raise InputError("The file cannot be written.", f"{path}: {error.strerror}", "Choose another.") from None
        return path

    def html(self) -> str:
        """Return the self-contained HTML file as text."""
        viewer = alone(FOLDER / "static")
        script = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
        return page(
            document(self.record, self.language, self.title),
            script=viewer.script,
            style=viewer.style,
            plotly=script.read_text(encoding="utf-8"),
        )

    def numbers(self, unit: str = "tokens") -> pd.DataFrame:
        """Return the numbers of all heads, indexed by (layer, head); `unit` is "tokens", "words" or "sentences".

        A column for each number that is defined for this kind of mask (model.recorded.numbers), NaN where a head has
        none. Raises InputError for an unknown unit.
        """
        return numbers(self._within(unit))

    def figure(
        self,
        name: str = "overview",
        *,
        heads: Sequence[tuple[int, int]] = (),
        number: str = "entropy",
        unit: str = "tokens",
        theme: str = "light",
    ) -> go.Figure:
        """Draw a figure: "map", the maps of `heads`, at most 8; "overview", all heads; or "number", one `number` of
        each head.

        heads: pairs (layer, head); without any, the first head.
        number: a column of `numbers()`.
        unit: "tokens", "words" or "sentences".
        theme: "light" or "dark".

        Raises InputError for a figure, head, number or unit that does not exist.
        """
        if name not in FIGURES:
            raise InputError("No figure has this name.", shown(name), _one_of(FIGURES))
        if theme not in THEMES:
            raise InputError("There is no such theme.", shown(theme), _one_of(THEMES))
        record, catalogue = self._within(unit), words(self.language)
        first = record.first_layer
        if name == "number":
            table = numbers(record)
            if number not in table:
                raise InputError("There is no such number for this attention.", shown(number), _one_of(list(table)))
            values = table[number].to_numpy(float).reshape(record.weights.shape[:2])
            kind = catalogue["metric.unit_tokens"] if NUMBERS[record.mask][number].unit == "tokens" else ""
            drawn = figures.number(values, label(number, catalogue), kind, catalogue, first_layer=first)
        else:
            weights = _masked(record)
            if name == "map":
                picked = self._heads(heads)
                drawn = figures.maps(weights, picked, record.queries, record.keys, catalogue, first_layer=first)
            else:
                drawn = figures.overview(weights, catalogue, first_layer=first)
        return dressed(drawn, self.title or repr(self), repr(self) if self.title else "", theme)

    def close(self) -> None:
        """Stop serving this attention; the server goes on for others."""
        inline.forget_attention(self._name)

    def _within(self, unit: str) -> AttentionRecord:
        if unit not in UNITS:
            raise InputError("There is no such unit.", shown(unit), _one_of(UNITS))
        return in_units(self.record, unit)

    def _heads(self, heads: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """Return the heads to draw. Raises InputError for too many, or one that does not exist."""
        L, H = self.record.weights.shape[:2]
        first = self.record.first_layer
        for pair in heads:
            layer, head = pair if isinstance(pair, tuple | list) and len(pair) == 2 else (None, None)
            if not (is_whole(layer) and first <= layer < first + L):  # type: ignore[operator]
                hint = say("Layers run from {} to {}.", first, first + L - 1)
                raise InputError("This layer does not exist.", shown(pair if layer is None else layer), hint)
            check_head(head, H)
        if len(heads) > MOST_MAPS:
            raise InputError("These are too many maps.", str(len(heads)), say("At most {} are shown.", MOST_MAPS))
        return [(int(layer), int(head)) for layer, head in heads] or [(first, 0)]


def show_attention(
    attention: object,
    tokens: object,
    keys: object = None,
    *,
    image: object = None,
    grid: Sequence[int] | None = None,
    padding: object = None,
    key_padding: object = None,
    which: str = "",
    batch: int | None = None,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    first_layer: int | None = None,
    title: str = "",
    height: int = HEIGHT,
    language: str = "en",
) -> ShownAttention:
    """Show attention that was computed elsewhere: the last line of a notebook's cell shows the page. Outside a
    notebook, `open()` shows it in the browser.

    attention: weights after the softmax, [layers, heads, queries, keys], [heads, queries, keys] or a list with one
        array per layer, of NumPy or torch; an output of transformers; an ActivationCache of TransformerLens; saved
        values of nnsight or nnterp.
    tokens, keys: the texts of the tokens; `keys` only if the keys are other tokens, as in cross-attention. Marks of
        tokenizers (Ġ, ▁, ##) become spaces.
    image, grid: a picture whose patches are key tokens, and the (rows, columns) of its patches.
    padding, key_padding: the attention_mask of the run: padding is cut.
    which: "encoder", "decoder" or "cross", if an output has several kinds of attention.
    batch: the example to show of a batch.
    layers, heads: numbers of the layers and heads to keep. first_layer: the number of the first layer.
    title: a name for the page and the file. height: of the frame, in pixels. language: "en" or "zh".

    Raises InputError that says what was expected and got.
    """
    if language not in LANGUAGES:
        raise InputError("There is no such language.", shown(language), _one_of(LANGUAGES))
    record = record_of(
        attention,
        tokens,
        keys,
        image=image,
        grid=grid,
        padding=padding,
        key_padding=key_padding,
        which=which,
        batch=batch,
        layers=layers,
        heads=heads,
        first_layer=first_layer,
    )
    named = str(title or "")[:MOST_TITLE].encode(errors="replace").decode()  # without halves of characters
    return ShownAttention(record, named, height, language)


def _one_of(allowed: Sequence[str]) -> Message:
    return say("Choose one of: {}.", ", ".join(allowed))


def _masked(record: AttentionRecord) -> np.ndarray:
    """Return the weights for a figure, NaN where a token cannot be attended to. [L, H, T, S]"""
    if record.mask != "causal":
        return record.weights
    return np.where(np.tri(record.weights.shape[-1], dtype=bool), record.weights, np.float32(np.nan))
