"""Parameter counts by component, layer and tensor, checked against the loaded model and published counts."""

from dataclasses import dataclass

from model.anatomy.anatomy import PARTS as COMPONENTS
from model.anatomy.anatomy import n_params, weights
from model.anatomy.parameter_shares import ParameterShare, by_component, shares_of
from viz.numbers import NONE, percent, whole
from viz.seam.scene import Scene
from viz.seam.settings import Settings
from viz.seam.view import Figure, Measure, Payload, Seen, Table, View
from viz.views.anatomy.parameters.figures import Tensor, tree_figure
from viz.views.anatomy.subject import (
    ASKING,
    FORM,
    Subject,
    config_python,
    label_of,
    published_of,
    source_of,
    subject_of,
)
from viz.words import joined


@dataclass(frozen=True)
class Counted:
    """The parameter counts of one architecture, and independent counts to check them against."""

    subject: Subject
    tensors: tuple[Tensor, ...]  # every tensor
    parts: dict[str, ParameterShare]  # by key of `COMPONENTS`
    total: int
    loaded: int | None  # sum(p.numel()) of the loaded model; None for another architecture
    published: tuple[int, str] | None  # published count and its source

    @property
    def same(self) -> bool:
        """True if there is at least one independent count and all of them equal `total`."""
        others = [count for count in (self.loaded, self.published and self.published[0]) if count is not None]
        return bool(others) and all(count == self.total for count in others)


def measure(scene: Scene, settings: Settings) -> Counted:
    """Count the parameters from the config. Only `loaded` is counted from the weights themselves."""
    subject = subject_of(scene, settings)
    listed = weights(subject.config)
    return Counted(
        subject,
        tuple((COMPONENTS[each.part], each.layer, each.name, each.size) for each in listed),
        shares_of(listed),
        n_params(subject.config),
        scene.model.n_params if subject.live else None,
        published_of(subject.config),
    )


# --- drawing ---


def tree(seen: Seen) -> Payload:
    """Draw the treemap of the parameters."""
    words, counted, components = seen.here, seen.result, seen.words.within("components").plain()
    subject, sums = counted.subject, by_component(counted.parts, COMPONENTS)
    largest = max(sums, key=sums.get)
    lines = ["[(each.name, each.size) for each in weights(config)]"]
    return {
        "figure": tree_figure(counted.tensors, words.plain() | components),
        "title": words["title"].format(label=label_of(subject, seen), n=whole(counted.total)),
        "note": words["note"].format(component=components[largest], share=percent(sums[largest] / counted.total)),
        "source": words["derived"].format(source=source_of(subject, seen)),
        "file": f"parameters-{subject.key}",
        "columns": [words["tensor"], words["parameters"]],
        "python": config_python(seen, subject, lines, ["from model.anatomy.anatomy import weights"]),
    }


def table(seen: Seen) -> Payload:
    """Build the table of each part's tensors and parameters, in one block and in all blocks.

    Below it, the sum is compared with the independent counts.
    """
    words, counted = seen.here, seen.result
    subject, parts = counted.subject, counted.parts.values()
    rows = [_row(seen, part, share) for part, share in counted.parts.items()]
    lines = [[row[0], row[1], share.once, share.whole, share.share] for row, share in zip(rows, parts, strict=True)]
    count = ["sum(p.numel() for p in lm.model.parameters())"] if subject.live else []
    imports = ["from model.anatomy.anatomy import n_params", "from model.anatomy.parameter_shares import shares"]
    source = words["derived_live" if subject.live else "derived"]
    return {
        "title": words["title"],
        "about": words["tied" if subject.config.tie_embeddings else "untied"],
        "columns": [words[column] for column in ("part", "tensors", "once", "whole", "share")],
        "rows": [*rows, [words["total"], "", "", whole(counted.total), percent(1.0)]],
        "lines": lines,
        "check": _check(seen),
        "same": counted.same,
        "source": source.format(source=source_of(subject, seen)),
        "file": f"parameters-{subject.key}-table",
        "python": config_python(seen, subject, ["shares(config)", "n_params(config)", *count], imports),
    }


def _row(seen: Seen, part: str, share: ParameterShare) -> list:
    """Build the table row of one part."""
    component, name = seen.words.within("components")[COMPONENTS[part]], seen.words.within("parts")[part]
    tensors = ", ".join(f"{each.name.rpartition('.')[2]} {'×'.join(map(str, each.shape))}" for each in share.tensors)
    if part == "qk_norm":
        tensors = f"2 × weight {share.tensors[0].shape[0]}"
    if not share.alike:  # of the first layer with the part
        tensors += ", …"
    once = whole(share.once) if share.tensors[0].layer is not None and share.alike else NONE
    return [
        f"{component} · {name}",
        tensors,
        once,
        whole(share.whole),
        {"text": percent(share.share), "bar": share.share},
    ]


def _check(seen: Seen) -> str:
    """Describe whether the independent counts agree with the sum."""
    words, counted = seen.here, seen.result
    total, published = counted.total, counted.published
    sentences = [words["sum"].format(n=whole(total))]
    if counted.loaded is not None:
        sentences.append(words["loaded" if counted.loaded == total else "loaded_other"].format(n=whole(counted.loaded)))
    if published:
        sentence = words["published" if published[0] == total else "published_other"]
        sentences.append(sentence.format(n=whole(published[0]), source=published[1]))
    elif counted.loaded is None:
        sentences.append(words["unpublished"])
    return joined(sentences)


VIEW = View(
    "parameters",
    needs=("layers",),
    measures=(Measure("main", measure, depends=("model",), settings=(FORM,), locks=False),),
    layout=(FORM, ("tree", "table")),
    parts={FORM: ASKING, "tree": Figure(tree), "table": Table(table)},
)
