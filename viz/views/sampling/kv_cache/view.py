"""The KV cache: what it holds in bytes, and what it saves in time, measured on this machine."""

from collections.abc import Mapping

import gradio as gr

from model.generation.cache_costs import (
    BUDGET,
    ITEM,
    LENGTHS,
    Measured,
    Row,
    cache_bytes,
    lengths_of,
    measure,
    tensor_bytes,
)
from model.progress import Progress
from viz.page import background
from viz.page.old_view import View
from viz.page.parts import choice, part, plot_words
from viz.page.python_lines import python_lines
from viz.page.scene import Scene
from viz.page.tab import Picture, Values
from viz.views.activations.norm.figures import told
from viz.views.predictions.figures import brief, percent
from viz.views.sampling.kv_cache.figures import (
    BLUE,
    GREY,
    ORANGE,
    Growth,
    Timed,
    bytes_figure,
    times_figure,
    told_bytes,
    told_ms,
)
from viz.words import section

PARTS = (
    "cachelab_form",
    "cachelab_formula",
    "cachelab_bytes",
    "cachelab_job",
    "cachelab_times",
    "cachelab_table",
    "cachelab_prefill",
)
BATCHES = (1, 8, 32)


def build() -> dict[str, gr.HTML]:
    """Bytes: the formula left, its growth right. Time: the job, then its picture left and its table right."""
    made = {"cachelab_form": part("cachelab_form", None, kind="controls", value={})}
    with gr.Row(elem_classes="pg-columns"):
        with gr.Column(min_width=320):
            made["cachelab_formula"] = part("cachelab_formula", None, kind="cacheformula")
        with gr.Column(min_width=320):
            made["cachelab_bytes"] = part("cachelab_bytes", None, kind="figure")
    made["cachelab_job"] = part("cachelab_job", None, kind="job", events=("start", "cancel"))
    with gr.Row(elem_classes="pg-columns"):
        with gr.Column(min_width=320):
            made["cachelab_times"] = part("cachelab_times", None, kind="figure")
        with gr.Column(min_width=320):
            made["cachelab_table"] = part("cachelab_table", None, kind="labtable")
            made["cachelab_prefill"] = part("cachelab_prefill", None, kind="normfacts")
    return made


def fixed(words: Mapping[str, str]) -> dict[str, dict]:
    """How many texts at once."""
    options = [[str(n), words["cachelab.batch_one" if n == 1 else "cachelab.batch"].format(n=n)] for n in BATCHES]
    return {
        "cachelab_form": {
            "controls": [
                {
                    "name": "batch",
                    "kind": "choice",
                    "label": words["cachelab.batches"],
                    "value": "1",
                    "options": options,
                },
            ]
        }
    }


def limit_of(scene: Scene) -> int:
    """The longest context that is measured: what the model has learned and this server allows."""
    return min(scene.model.config.n_ctx, scene.playground.options.max_tokens)


def key_of(scene: Scene) -> tuple:
    """What decides the measurement: the plain model and the prompt's tokens; the cache is without edits."""
    return ("cachelab", scene.model.id, tuple(scene.trace.tokens.ids.tolist()), limit_of(scene))


def draw(scene: Scene, values: Values) -> dict[str, Picture]:
    """Bytes at once; times once they were measured."""
    batch = int(choice(values.get("cachelab_form"), "batch", tuple(map(str, BATCHES))))
    key = key_of(scene)
    found = scene.playground.results.peek(key)
    sized = (scene.model.id, len(scene.trace.tokens), batch)
    state = (key, found is not None, bool(scene.picked.edits))

    def timed(name: str, payload) -> Picture:
        empty = {"text": scene.words[f"cachelab.empty_{name}"], "hint": scene.words["cachelab.empty_hint"]}
        return Picture((state, name), lambda: payload(scene, found.value) if found else {"empty": empty})

    return {
        "cachelab_formula": Picture(sized, lambda: formula_payload(scene, batch)),
        "cachelab_bytes": Picture(sized, lambda: bytes_payload(scene, batch)),
        "cachelab_job": Picture(state, lambda: _button(scene, found)),
        "cachelab_times": timed("times", times_payload),
        "cachelab_table": timed("table", table_payload),
        "cachelab_prefill": timed("prefill", prefill_payload),
    }


# --- bytes ---


def formula_payload(scene: Scene, batch: int) -> dict:
    """2 L B G S E x 4 with this model's numbers, beside the tensors that are really made."""
    said, config, T = section(scene.words, "cacheformula"), scene.model.config, len(scene.trace.tokens)
    nbytes, made = cache_bytes(config, batch, T), tensor_bytes(config, batch, T)
    numbers = {
        "2": 2,
        "L": config.n_layer,
        "B": batch,
        "G": config.n_kv_head,
        "S": T,
        "E": config.d_head,
        "bytes": ITEM,
    }
    factors = [{"letter": key, "value": f"{n:,}", "label": said[f"of_{key}"]} for key, n in numbers.items()]
    exact = said["bytes"].format(n=f"{nbytes:,}")
    return {
        "title": said["title"],
        "about": said["about"],
        "factors": [each | {"letter": "" if each["letter"] in ("2", "bytes") else each["letter"]} for each in factors],
        "result": exact,
        "brief": "" if nbytes < 1000 else told_bytes(nbytes),
        "real": _real(said, made),
        "same": bool(made) and made[1] == nbytes,
        "items": _facts(scene, said, batch),
        "run": f"{scene.model.id} {batch} {T} {scene.language}",
    }


def _real(said: Mapping[str, str], made: tuple[tuple[int, ...], int] | None) -> str:
    """What the tensors say of themselves."""
    if made is None:
        return said["no_room"]
    shape, nbytes = made
    return said["real"].format(shape=" × ".join(f"{n:,}" for n in shape), n=f"{nbytes:,}")


def _facts(scene: Scene, said: Mapping[str, str], batch: int) -> list[list[str]]:
    """A token more, a full context, and what heads that share keys and values save."""
    config, weights = scene.model.config, scene.model.nbytes
    one, full = (cache_bytes(config, batch, length) for length in (1, config.n_ctx))
    share = percent(full / weights) if full < weights else said["times"].format(n=told(full / weights))
    given = {"n": f"{config.n_ctx:,}", "size": told_bytes(full), "share": share, "weights": told_bytes(weights)}
    items = [
        [said["token"], said["token_text"].format(size=told_bytes(one), batch=batch)],
        [said["full"], said["full_text" if full < weights else "full_more"].format(**given)],
    ]
    H, G = config.n_head, config.n_kv_head
    if G < H:
        every = told_bytes(cache_bytes(config, batch, config.n_ctx, H))
        text = said["shared_text"].format(H=H, G=G, size=every, times=told(H / G))
        return [*items, [said["shared"], text]]
    return [*items, [said["shared"], said["not_shared"].format(H=H)]]


def bytes_payload(scene: Scene, batch: int) -> dict:
    """The cache against context, with what it would be without shared heads, and the weights."""
    said, config = section(scene.words, "cachebytes"), scene.model.config
    n, H, G = config.n_ctx, config.n_head, config.n_kv_head
    grown = [Growth(said["cache" if G == H else "cache_shared"].format(G=G, H=H), cache_bytes(config, batch, n))]
    if G < H:
        grown.append(Growth(said["whole"].format(H=H), cache_bytes(config, batch, n, H), "dash"))
    grown.append(Growth(said["weights"], scene.model.nbytes, "dot", GREY, fixed=True))
    lines = [
        f"[cache_bytes(lm.config, {batch}, length) for length in range(lm.config.n_ctx + 1)]",
        f"cache_bytes(lm.config, {batch}, lm.config.n_ctx, lm.config.n_head)",
        "lm.nbytes",
    ]
    return {
        "figure": bytes_figure(grown, n, len(scene.trace.tokens), said),
        "title": said["title"].format(batch=batch),
        "note": said["note"],
        "source": said["source"].format(model=scene.model.label, dtype=scene.model.dtype),
        "file": f"kv-cache-bytes-batch-{batch}",
        "run": f"{scene.model.id} {batch} {len(scene.trace.tokens)} {scene.language}",
        "columns": [said["series"], said["size"], said["context"], said["size"]],
        "python": python_lines(scene, lines, ["from model.generation.cache_costs import cache_bytes"]),
        "words": plot_words(scene.words),
    }


# --- time ---


def _button(scene: Scene, found: background.Result | None) -> dict:
    words = scene.words
    hint = words["cachelab.takes"].format(seconds=round(BUDGET))
    if scene.picked.edits:
        hint = f"{hint} {words['cachelab.no_edits']}"
    return background.button(words["cachelab.start"], words, found, hint)


def plan(scene: Scene, values: Values) -> background.Job:
    """What the button starts."""
    ids, limit, model = scene.trace.tokens.ids.tolist(), limit_of(scene), scene.model.model

    def work(progress: Progress) -> Measured:
        return measure(model, ids, limit, progress)

    return background.Job(key_of(scene), work)


def _source(scene: Scene, found: Measured) -> str:
    """Whose times these are: the model, the threads and what they do while they wait."""
    said = section(scene.words, "cachetimes")
    given = {"model": scene.model.label, "dtype": scene.model.dtype, "threads": found.threads}
    told_ = said["source"].format(**given, policy=found.waiting or said["policy_none"])
    return f"{told_} · {said['plain']}" if scene.picked.edits else told_


def _times(row: Row, whole: bool) -> tuple[float, float, float]:
    times = row.whole if whole else row.cached
    return times.median, *times.spread


def times_payload(scene: Scene, found: Measured) -> dict:
    """Milliseconds a token at growing contexts."""
    said, rows = section(scene.words, "cachetimes"), found.rows
    both = [row for row in rows if row.whole]
    timed = [
        Timed(said["without"], ORANGE, [row.length for row in both], [_times(row, True) for row in both]),
        Timed(said["with"], BLUE, [row.length for row in rows], [_times(row, False) for row in rows]),
    ]
    note = said["note"].format(n=min(len(row.cached.seconds) for row in rows))
    lines = [f"measure(lm.model, run.tokens.ids.tolist(), {limit_of(scene)})"]
    return {
        "figure": times_figure(timed, said),
        "title": said["title"],
        "note": " ".join(text for text in (note, _left_out(scene, found)) if text),
        "source": _source(scene, found),
        "file": "kv-cache-times",
        "run": f"{scene.run} times",
        "columns": [said["series"], said["spread"], said["context"], said["time"]],
        "python": python_lines(scene, lines, ["from model.generation.cache_costs import measure"]),
        "words": plot_words(scene.words),
    }


def _left_out(scene: Scene, found: Measured) -> str:
    """What was not measured, and why."""
    said, texts = section(scene.words, "cachetimes"), []
    slow = [f"{row.length:,}" for row in found.rows if not row.whole]
    if slow:
        texts.append(said["too_slow"].format(lengths=", ".join(slow), seconds=round(BUDGET)))
    if len(lengths_of(limit_of(scene))) < len(LENGTHS):
        texts.append(said["limited"].format(n=f"{limit_of(scene):,}"))
    return " ".join(texts)


def table_payload(scene: Scene, found: Measured) -> dict:
    """Every number, and that both ways say the same."""
    said, rows = section(scene.words, "cachetable"), []
    for row in found.rows:
        with_, without = (told_ms(row.cached.median), told_ms(row.whole.median) if row.whole else "–")
        ratio = f"{row.ratio:.1f} ×" if row.whole else "–"
        gap = _gap(row.gap) if row.whole else "–"
        agree = said["yes" if row.agree else "no"] if row.whole else "–"
        rows.append([f"{row.length:,}", with_, without, ratio, gap, agree])
    gaps = [row.gap for row in found.rows if row.whole]
    agreed = all(row.agree for row in found.rows if row.whole)
    check = said["same" if agreed else "differ"].format(gap=_gap(max(gaps)))
    return {
        "title": said["title"],
        "columns": [said[key] for key in ("context", "with", "without", "ratio", "gap", "agree")],
        "rows": rows,
        "check": check,
        "note": check,
        "same": agreed,
        "file": "kv-cache-table",
        "run": f"{scene.run} table",
    }


def _gap(value: float) -> str:
    """A difference of logits: 1.8e−5."""
    return f"{value:.1e}".replace("e-0", "e-").replace("-", "−")


def prefill_payload(scene: Scene, found: Measured) -> dict:
    """The prompt at once against one token at a time."""
    said, T = section(scene.words, "cacheprefill"), found.prompt
    prefill, step = found.prefill.median, found.step.median
    given = {"n": f"{T:,}", "ms": told_ms(prefill), "each": told_ms(prefill / T), "step": told_ms(step)}
    items = [
        [said["prefill"], said["prefill_text" if T > 1 else "prefill_one"].format(**given)],
        [said["step"], said["step_text"].format(**given, rate=brief(float(f"{1 / step:.3g}")))],
    ]
    if T > 1:
        ratio = step / (prefill / T)
        items.append([said["why"], said["why_text"].format(ratio=told(float(f"{ratio:.2g}")))])
    return {"title": said["title"], "items": items, "run": f"{scene.run} prefill"}


VIEW = View(
    "cachelab",
    build,
    draw,
    parts=PARTS,
    fixed=fixed,
    asks=("cachelab_form",),
    jobs={"cachelab_job": plan},
)
