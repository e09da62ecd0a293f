"""Linear probes: which layers hold a label, beside shuffled labels, the commonest class and the embedding alone."""

from typing import Annotated

import numpy as np

from model.api import LanguageModel
from model.gpt.placed_vectors import vector_text
from model.probes.examples import READS, Example, Labeled
from model.probes.probe import FOLDS, Probes
from viz.labels import quoted, visible
from viz.numbers import decimals, percent, whole
from viz.seam.programs.arguments import Long, OneOf
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import measured, unprompted
from viz.seam.python_lines import model_script
from viz.seam.view import Custom, Figure, Job, Payload, Seen, Table, View
from viz.views.activations.probe.figures import accuracy_figure
from viz.views.activations.probe.measure import (
    CHOICES,
    DRAWS,
    EXAMPLES,
    OWN,
    PROBES,
    SETTINGS,
    SITE_CHOICES,
    source_of,
)
from viz.words import joined
from viz.work.playground import Playground

LISTED = 12  # examples in the table
_TEXT = 60  # characters shown on each side of a labeled token
# Where a direction read at an output can be added: to the stream right after it.
_ADDED = {"attn_out": "resid_mid", "mlp_out": "resid_post"}


def job(seen: Seen) -> Payload:
    """Say how many examples, texts and probes there are."""
    data: Labeled = seen.results["examples"]
    counts = np.bincount(data.labels(), minlength=len(data.classes))
    classes = ", ".join(f"{name} {whole(int(n))}" for name, n in zip(data.classes, counts, strict=True))
    key = "tokens" if data.of_tokens else "texts"
    values = {"n": whole(len(data.examples)), "texts": whole(len(set(data.groups().tolist()))), "classes": classes}
    return {"text": joined([seen.here[key].format(**values), seen.here["fits"].format(folds=FOLDS, draws=DRAWS)])}


def _python(seen: Seen, last: str) -> str:
    s = seen.settings
    read = f", read={s.read!r}" if s.set == OWN else ""
    lines = [f"data = labeled(lm, {source_of(s)!r})", f"found = probe(lm, data{read}, draws={DRAWS})", last]
    imports = ["from model.probes.examples import labeled", "from model.probes.probe import probe"]
    return model_script(seen.facts, lines, imports)


def _site(seen: Seen, site: str) -> str:
    return seen.words.within("settings")[f"site_{site}"]


def curve(seen: Seen) -> Payload:
    """Draw the held-out accuracy by layer at the chosen site, beside the controls."""
    found: Probes = seen.results["probes"]
    words, site = seen.here, seen.settings.site
    at = [n for n, cell in enumerate(found.cells) if cell[0] == site]
    controls = {words["majority"]: found.majority, words["embedding"]: float(found.accuracy[0])}
    layers = [found.cells[n][1] for n in at]
    named = {key: words[key] for key in ("own", "shuffled", "layer", "value")}
    best = at[int(found.accuracy[at].argmax())]
    values = {"best": percent(float(found.accuracy[best])), "layer": found.cells[best][1]}
    values |= {"embedding": percent(float(found.accuracy[0])), "majority": percent(found.majority)}
    return {
        "figure": accuracy_figure(
            layers, found.accuracy[at], found.low[at], found.high[at], found.shuffled[:, at], controls, named
        ),
        "title": words["title"].format(site=_site(seen, site)),
        "note": joined([words["note"].format(**values), words["controls"].format(draws=DRAWS)]),
        "columns": [words["series"], words["layer"], words["value"]],
        "python": _python(seen, f"found.accuracy[{at[0]} : {at[-1] + 1} : {at[1] - at[0] if len(at) > 1 else 1}]"),
    }


def use(seen: Seen) -> Payload:
    """Build the numbers of the chosen cell, and its direction as an edit and for the view of steering."""
    found: Probes = seen.results["probes"]
    data: Labeled = seen.results["examples"]
    words, site, layer = seen.here, seen.settings.site, seen.settings.layer
    if (site, layer) not in found.cells:
        return {"title": words["title"].format(site=_site(seen, site), layer=layer), "told": [words["missing"]]}
    at = found.at(site, layer)
    vector, share = found.directions[at, 0], float(found.accuracy[at])
    control = found.shuffled[:, at]
    values = {
        "share": percent(share),
        "low": percent(float(found.low[at])),
        "high": percent(float(found.high[at])),
        "mean": percent(float(control.mean())),
        "most": percent(float(control.max())),
        "p": decimals(float(found.p[at])),
        "corrected": decimals(float(found.corrected[at])),
        "cells": whole(len(found.cells)),
    }
    told = [words["accuracy"].format(**values), words["control"].format(**values), _verdict(seen, at)]
    told.append(words["direction"].format(name=data.classes[0], length=decimals(float(np.linalg.norm(vector)))))
    where = _ADDED.get(site, site)
    name = words["vector_name"].format(name=data.classes[0])[:60]
    edit = {"kind": "add_vector", "layer": layer, "factor": 1.0, "site": where}
    edit |= {"vector": vector_text(vector), "name": name}
    form = {"source": "numbers", "numbers": edit["vector"], "layer": layer, "factor": 1}
    form |= {"more": True, "site": where} if where != "resid_post" else {}
    return {
        "title": words["title"].format(site=_site(seen, site), layer=layer),
        "told": told,
        "use": words["use"],
        "edit": edit,
        "open": {"text": words["open"], "tab": "effects", "view": "steering", "form": form},
    }


def _verdict(seen: Seen, at: int) -> str:
    """Say whether the label is read better than from the embedding alone, by the intervals."""
    found: Probes = seen.results["probes"]
    key = "above" if found.low[at] > found.high[0] else "below" if found.high[at] < found.low[0] else "like"
    values = {"share": percent(float(found.accuracy[0]))}
    values |= {"low": percent(float(found.low[0])), "high": percent(float(found.high[0]))}
    return seen.here[key].format(**values)


def cells(seen: Seen) -> Payload:
    """Build the table of accuracies by layer and site, with intervals."""
    found: Probes = seen.results["probes"]
    words = seen.here
    sites = [site for site in SITE_CHOICES if any(site == each for each, _ in found.cells)]

    def cell(site: str, layer: int) -> dict[str, str]:
        if (site, layer) not in found.cells:
            return {"text": "–"}
        at = found.at(site, layer)
        interval = f" {percent(float(found.low[at]))}–{percent(float(found.high[at]))}"
        return {"text": percent(float(found.accuracy[at])), "small": interval}

    layers = sorted({layer for _, layer in found.cells})
    first = [words["embedding"], *(cell("resid_pre", 0) if n == 0 else {"text": ""} for n in range(len(sites)))]
    return {
        "title": words["title"],
        "about": words["about"].format(majority=percent(found.majority), least=percent(float(found.shuffled.max()))),
        "columns": [words["layer"], *(_site(seen, site) for site in sites)],
        "rows": [first, *([str(layer), *(cell(site, layer) for site in sites)] for layer in layers)],
        "python": _python(seen, "dict(zip(found.cells, found.accuracy))"),
    }


def examples(seen: Seen) -> Payload:
    """Build the table of held-out examples at the chosen cell, the wrong ones first; the export has all."""
    found: Probes | None = seen.results["probes"]
    data: Labeled = seen.results["examples"]
    words, cell = seen.here, (seen.settings.site, seen.settings.layer)
    guesses = None if found is None or cell not in found.cells else found.predicted[found.at(*cell)]
    rows = []
    for at, example in enumerate(data.examples):
        guess = "" if guesses is None else data.classes[guesses[at]]
        rows.append([*_shown(example), visible(data.classes[example.label]), visible(guess)])
    wrong = [row for row in rows if row[-1] and row[-1] != row[-2]]
    right = [row for row in rows if not row[-1] or row[-1] == row[-2]]
    every = max(1, len(right) // LISTED)  # spread over the set
    shown = [*wrong[: LISTED // 2], *right[::every]][:LISTED]
    names = ("text", *(("token",) if data.of_tokens else ()), "label", "predicted")
    key = "title" if guesses is None else "tested"
    return {
        "title": words[key].format(n=whole(len(rows)), wrong=whole(len(wrong)), layer=cell[1]),
        "note": words["note"],
        "columns": [words[name] for name in names],
        "rows": shown,
        "lines": rows,
        "file": "probe-examples",
        "python": _python(seen, "data.examples, found.predicted  # [cell, example]"),
    }


def _shown(example: Example) -> list[str]:
    """Return the text of an example and, if its label is of a token, that token."""
    if example.position is None:
        return [visible(example.text)]
    text, (start, end) = example.text.encode(), example.span
    before, token, after = (text[a:b].decode(errors="replace") for a, b in ((0, start), (start, end), (end, None)))
    before = before if len(before) <= _TEXT else f"…{before[-_TEXT:]}"
    after = after if len(after) <= _TEXT else f"{after[:_TEXT]}…"
    return [visible(f"{before}{token}{after}"), quoted(visible(token))]


# --- for programs ---


def linear_probe(
    playground: Playground,
    model: LanguageModel,
    set: Annotated[str, OneOf(CHOICES)] = "number",
    own: Annotated[str, Long()] = "",
    read: Annotated[str, OneOf(READS)] = "last",
) -> dict:
    """Measure how well a label of texts or tokens can be read from every layer by a linear probe, beside controls.

    Args:
        set: A built-in set, or own for the lines of `own`.
        own: Lines with a label, a tab or colon, and a text; or texts with marked tokens, as in "The [animal:dog] ran";
            empty for a built-in set.
        read: Whether a labeled text is read at its last token, or as the mean over its tokens; used with own.

    Returns:
        classes; examples: number; cells: records with site, layer, accuracy on held-out texts, low and high (95%
        interval), shuffled (mean and maximum accuracy with shuffled labels), p, corrected, and vector: the direction
        towards the first class as text, for edits of kind add_vector; majority: share of the commonest class. The
        first cell, resid_pre of layer 0, is the embedding alone.
    """
    scene = unprompted(playground, model)
    settings = {"set": set, "own": own, "read": read}
    data: Labeled = measured(VIEW, "examples", scene, **settings)
    found: Probes = measured(VIEW, "probes", scene, **settings)
    records = []
    for at, (site, layer) in enumerate(found.cells):
        record = {"site": site, "layer": layer, "vector": vector_text(found.directions[at, 0])}
        record |= {name: float(getattr(found, name)[at]) for name in ("accuracy", "low", "high", "p", "corrected")}
        record["shuffled_mean"] = float(found.shuffled[:, at].mean())
        record["shuffled_max"] = float(found.shuffled[:, at].max())
        records.append(record)
    return {
        "classes": list(data.classes),
        "examples": len(data.examples),
        "majority": found.majority,
        "cells": records,
    }


_CHOSEN = ("site", "layer")
_BOTH = ("probes", "examples")
VIEW = View(
    "probe",
    settings=SETTINGS,
    form_depends=("model",),
    measures=(EXAMPLES, PROBES),
    layout=("form", "job", ("curve", "use"), "cells", "examples"),
    parts={
        "job": Job("probes", job, also=("examples",), settings=()),
        "curve": Figure(curve, of=_BOTH, settings=("site",)),
        "use": Custom("steer", use, of=_BOTH, settings=_CHOSEN),
        "cells": Table(cells, of=_BOTH, settings=()),
        "examples": Table(examples, of="examples", also=("probes",), settings=_CHOSEN),
    },
    api=(Endpoint(linear_probe, reads="model", long=True),),
)
