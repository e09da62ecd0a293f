"""Speculative decoding and its timing: texts with and without a draft, generated alternately."""

from dataclasses import dataclass

from model.api import LanguageModel
from model.generation.draft_costs import Compared, Summary, compare, summary
from model.generation.requests import DRAFTS, MOST_DRAFTED, Draft, Request, shares_tokenizer
from model.progress import Progress
from model.text.chat import ending, typable
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Number, Range, Settings
from viz.seam.view import Measure
from viz.words import Words

MOST_TOKENS = 128
MOST_SUFFIX = 8  # maximum number of tokens in the suffix to look up
MOST_SEED = 999_999


@dataclass(frozen=True, eq=False)
class Drafted:
    """A text generated with a draft beside one generated without, and their statistics."""

    request: Request
    compared: Compared
    summary: Summary
    typed: str | None  # the text generated with a draft, as it would be typed; None if that is impossible
    plain_text: str  # the text generated without a draft


# --- settings ---


def drafters(scene: Scene) -> dict[str, LanguageModel]:
    """Return the other loaded models with the same tokenizer, by id."""
    return {
        model_id: other
        for model_id, other in scene.playground.loaded().items()
        if model_id != scene.model.id and shares_tokenizer(scene.model.tokenizer, other.tokenizer)
    }


def default_layers(n_layer: int) -> int:
    """Return the default depth of a draft: most layers, because the model rarely accepts the proposals of a shallow
    draft.
    """
    return max(1, n_layer - max(1, n_layer // 6))


def most_tokens(scene: Scene) -> int:
    """Return the maximum number of tokens that this server generates with a draft."""
    return min(MOST_TOKENS, scene.playground.options.allowed.drafted)


def _name(words: Words, option: str, scene: Scene) -> str:
    return drafters(scene)[option].label if option else words["model_none"]


SETTINGS = (
    Choice("draft", tuple(DRAFTS)),
    Range(
        "layers",
        1,
        lambda scene: scene.model.config.n_layer,
        default=lambda scene: default_layers(scene.model.config.n_layer),
        when={"draft": ("layers",)},
        label=lambda words, scene: words["layers"].format(L=scene.model.config.n_layer),
    ),
    Range("suffix", 1, MOST_SUFFIX, default=3, when={"draft": ("ngram",)}),
    Choice("model", lambda scene: tuple(drafters(scene)) or ("",), when={"draft": ("model",)}, scene_label=_name),
    Range("gamma", 1, MOST_DRAFTED, default=4),
    Range("tokens", 8, most_tokens, step=8, default=lambda scene: min(40, most_tokens(scene))),
    Number("seed", 0, MOST_SEED, default=0),
)


def drafted_by(settings: Settings) -> tuple[str, int, str]:
    """Return the draft's kind, its number of layers or of suffix tokens, and the id of the draft model.

    A number or id that the kind does not use is 0 or "".
    """
    kind = settings.draft
    return kind, {"layers": settings.layers, "ngram": settings.suffix}.get(kind, 0), settings.model * (kind == "model")


# --- measurements ---


def question(scene: Scene, settings: Settings) -> Settings:
    """Return the settings with those of the draft that its kind does not use set to 0 or ""."""
    kind, n, other = drafted_by(settings)
    return settings.but(layers=n if kind == "layers" else 0, suffix=n if kind == "ngram" else 0, model=other)


def measure(scene: Scene, settings: Settings, progress: Progress) -> Drafted:
    """Generate the text with and without the draft. Raises InputError if the draft is invalid or the steps were
    rejected.
    """
    settings.pipeline.check()
    kind, n, other = drafted_by(settings)
    lm, ids = scene.model, scene.tokens.ids.tolist()
    request = Request(
        lm.tokenizer.vocab_size,
        settings.pipeline.steps,
        settings.gamma,
        settings.tokens,
        settings.seed,
        ending(lm.tokenizer),
    )
    drafter = drafters(scene).get(other)
    compared = compare(lm.model, ids, Draft(kind, n, drafter.model if drafter else None), request, progress)
    return Drafted(
        request,
        compared,
        summary(compared),
        typable(lm.tokenizer, compared.tokens),
        lm.decode(compared.plain_tokens),
    )


def measure_drafters(scene: Scene, settings: Settings) -> dict[str, str]:
    """Return the labels of the models that can serve as a draft, by id."""
    return {model_id: other.label for model_id, other in drafters(scene).items()}


def cost(scene: Scene, settings: Settings) -> tuple[float, float]:
    """Estimate the number of forward passes and of tokens that they process, as if every proposal were rejected.

    A pass of the draft counts as the ratio of its parameters or layers to those of the model.
    """
    drafter = drafters(scene).get(settings.model)
    draft = drafter.n_params / scene.model.n_params if drafter else settings.layers / scene.model.config.n_layer
    runs = settings.tokens * (2 + draft)
    return runs, runs + 2 * len(scene.tokens)


MAIN = Measure(
    "main",
    measure,
    depends=("plain",),
    settings=("pipeline", *(each.name for each in SETTINGS)),
    slow=True,
    question=question,
    cost=cost,
)
DRAFTERS = Measure("drafters", measure_drafters, depends=("model", "loaded"), locks=False)
