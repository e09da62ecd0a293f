"""Where the parameters are: by component, layer and tensor, and whether the sum is what the model really has."""

import gradio as gr

from model.anatomy.anatomy import ARCHITECTURES, n_params, weights
from model.anatomy.anatomy import PARTS as COMPONENTS
from model.anatomy.blueprint import Share, by_component, shares
from model.gpt.config import ModelConfig
from viz.page.old_view import View
from viz.page.parts import part, plot_words
from viz.page.scene import Scene
from viz.page.tab import Picture, Values
from viz.views.anatomy.parameters.figures import share_text, tree_figure
from viz.views.anatomy.subject import FORM, Subject, config_python, subject_key, subject_of
from viz.words import section

PARTS = (FORM, "params_tree", "params_table")


def build() -> dict[str, gr.HTML]:
    """The tree map left, the table right; the form is built by the diagram."""
    made = {}
    with gr.Row(elem_classes="pg-columns"):
        with gr.Column(min_width=320):
            made["params_tree"] = part("params_tree", None, kind="figure")
        with gr.Column(min_width=320):
            made["params_table"] = part("params_table", None, kind="labtable")
    return made


def draw(scene: Scene, values: Values) -> dict[str, Picture]:
    """Both from the config; the table compares with what is loaded and what was published."""
    key = subject_key(scene, values)
    return {
        "params_tree": Picture(key, lambda: tree_payload(scene, subject_of(scene, values))),
        "params_table": Picture(key, lambda: table_payload(scene, subject_of(scene, values))),
    }


def published_of(config: ModelConfig) -> tuple[int, str] | None:
    """The published count of an architecture with this very config, and its source."""
    for architecture in ARCHITECTURES.values():
        if architecture.published is not None and architecture.config == config:
            return architecture.published, architecture.source
    return None


def tree_payload(scene: Scene, subject: Subject) -> dict:
    """The tree map."""
    said, words = section(scene.words, "paramstree"), scene.words
    components = section(words, "paramscomponents")
    tensors = [(COMPONENTS[each.part], each.layer, each.name, each.size) for each in weights(subject.config)]
    sums = by_component(shares(subject.config), COMPONENTS)
    most = max(sums, key=sums.get)
    total = n_params(subject.config)
    note = said["note"].format(component=components[most], share=share_text(sums[most] / total))
    return {
        "figure": tree_figure(tensors, said | components),
        "title": said["title"].format(label=subject.label, n=f"{total:,}"),
        "note": note,
        "source": said["source"].format(source=subject.source),
        "file": f"parameters-{subject.key}",
        "run": f"{subject.id} {scene.language}",
        "columns": [said["tensor"], said["parameters"]],
        "python": config_python(
            scene,
            subject,
            ["[(each.name, each.size) for each in weights(config)]"],
            ["from model.anatomy.anatomy import weights"],
        ),
        "words": plot_words(words),
    }


def table_payload(scene: Scene, subject: Subject) -> dict:
    """Every part with its tensors, parameters of one block and of all, and the sum beside other counts of it."""
    said, config = section(scene.words, "paramstable"), subject.config
    found, total = shares(config), n_params(config)
    rows = [_row(scene, part, share) for part, share in found.items()]
    rows.append([said["total"], "", "", f"{total:,}", share_text(1.0)])
    check, same = verdict(scene, subject, total)
    lines = [
        [row[0], row[1], share.once, share.whole, share.share] for row, share in zip(rows, found.values(), strict=False)
    ]
    imports = ["from model.anatomy.anatomy import n_params", "from model.anatomy.blueprint import shares"]
    count = ["sum(p.numel() for p in lm.model.parameters())"] if subject.live else []
    return {
        "title": said["title"],
        "about": said["tied"] if config.tie_embeddings else said["untied"],
        "columns": [said[column] for column in ("part", "tensors", "once", "whole", "share")],
        "rows": rows,
        "lines": lines,
        "check": check,
        "same": same,
        "run": f"{subject.id} {scene.language}",
        "file": f"parameters-{subject.key}-table",
        "source": said["source_live" if subject.live else "source"].format(source=subject.source),
        "python": config_python(scene, subject, ["shares(config)", "n_params(config)", *count], imports),
    }


def _row(scene: Scene, part: str, share: Share) -> list:
    """One part of the table."""
    words = scene.words
    component, own = words[f"paramscomponents.{COMPONENTS[part]}"], words[f"paramsparts.{part}"]
    tensors = ", ".join(f"{each.name.rpartition('.')[2]} {'×'.join(map(str, each.shape))}" for each in share.tensors)
    if part == "qk_norm":
        tensors = f"2 × weight {share.tensors[0].shape[0]}"
    once = f"{share.once:,}" if share.tensors[0].layer is not None else "–"
    shown = {"text": share_text(share.share), "bar": share.share}
    return [f"{component} · {own}", tensors, once, f"{share.whole:,}", shown]


def verdict(scene: Scene, subject: Subject, total: int) -> tuple[str, bool]:
    """Whether other counts of the same model say the same: what is loaded, and what was published."""
    said, published = section(scene.words, "paramstable"), published_of(subject.config)
    texts, same = [said["sum"].format(n=f"{total:,}")], True
    if subject.live:
        counted = scene.model.n_params
        same = counted == total
        texts.append(said["loaded" if same else "loaded_other"].format(n=f"{counted:,}"))
    if published:
        equal = published[0] == total
        same = same and equal
        told = said["published" if equal else "published_other"]
        texts.append(told.format(n=f"{published[0]:,}", source=published[1]))
    elif not subject.live:
        texts.append(said["unpublished"])
    return " ".join(texts), same and (subject.live or published is not None)


VIEW = View("params", build, draw, parts=PARTS, asks=(FORM,))
