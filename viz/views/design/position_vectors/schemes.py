"""What the view of position vectors is of: a scheme over the first positions of a model, its source and its numbers."""

from collections.abc import Mapping
from dataclasses import dataclass

from model.design.positions import (
    SCHEMES,
    as_rope,
    frequencies,
    principal_shares,
    spectrum,
    vectors,
    wavelengths,
)
from model.gpt.config import ModelConfig
from viz.page.background import kept
from viz.page.parts import choice
from viz.page.scene import Scene
from viz.page.tab import Values
from viz.views.activations.norm.figures import told
from viz.views.predictions.figures import brief, percent
from viz.words import section

RANGES = (64, 256, 1024)  # positions, beside the whole context
FIRST = 256
OWN, ALL = "own", "all"


@dataclass(frozen=True, eq=False)
class Shown:
    """A scheme over the first positions of the loaded model."""

    scene: Scene
    scheme: str
    length: int

    @property
    def config(self) -> ModelConfig:
        """Of the loaded model."""
        return self.scene.model.config

    @property
    def own(self) -> bool:
        """Whether the model writes positions in this way."""
        return self.scheme == self.config.positions

    @property
    def said(self) -> dict[str, str]:
        """The words of the pictures."""
        return section(self.scene.words, "posvec")

    @property
    def name(self) -> str:
        """The scheme as the page calls it."""
        return scheme_name(self.scene.words, self.scheme)

    @property
    def key(self) -> tuple:
        """What decides the numbers."""
        return (self.scene.model.id, self.scheme, self.length)


def scheme_name(words: Mapping[str, str], scheme: str) -> str:
    """A scheme as the page calls it."""
    return words[f"posvec.scheme_{scheme}"]


def shown_of(scene: Scene, values: Values) -> Shown:
    """What the form asks for; the model's own scheme at first."""
    value, config = values.get("posvec_form"), scene.model.config
    scheme = choice(value, "scheme", (OWN, *SCHEMES))
    length = choice(value, "length", lengths_of(config))
    return Shown(scene, config.positions if scheme == OWN else scheme, config.n_ctx if length == ALL else int(length))


def lengths_of(config: ModelConfig) -> tuple[str, ...]:
    """The ranges that are offered, the first one by default."""
    some = [n for n in RANGES if n < config.n_ctx]
    first = [FIRST] if FIRST in some else []
    return (*map(str, first), ALL, *(str(n) for n in some if n not in first))


def source(shown: Shown) -> str:
    """Where the numbers are from: the weights, or a formula with whose settings."""
    said, config = shown.said, shown.config
    if shown.scheme == "learned":
        return said["source_learned" if shown.own else "source_compared"].format(model=shown.scene.model.label)
    if shown.scheme == "sinusoidal":
        return said["source_sinusoidal"].format(D=config.d_model, model=shown.scene.model.label)
    if shown.scheme == "none":
        return said["source_compared"].format(model=shown.scene.model.label)
    rope = as_rope(config)
    theta = f"{rope.rope_theta:,.10g}"
    told_ = said["source_rope" if shown.own else "source_would"].format(
        model=shown.scene.model.label, theta=theta, n=rope.d_rotary, E=rope.d_head
    )
    return f"{told_} · {scaling_of(shown)}" if rope.rope_scaling else told_


def scaling_of(shown: Shown) -> str:
    """The config's scaling in words."""
    scaling = as_rope(shown.config).rope_scaling
    return shown.said["scaling"].format(
        factor=f"{scaling.factor:g}",
        low=f"{scaling.low_freq_factor:g}",
        high=f"{scaling.high_freq_factor:g}",
        n=f"{scaling.original_n_ctx:,}",
    )


def whole_table(shown: Shown) -> object:
    """The whole learned table."""
    return vectors(shown.scene.model.model, "learned", range(shown.config.n_ctx))


# --- numbers ---------------------------------------------------------------------------------------


def facts_payload(shown: Shown) -> dict:
    """A few numbers of the scheme."""
    said = section(shown.scene.words, "posvec_facts")
    items = {"learned": learned_facts, "sinusoidal": turn_facts, "rope": turn_facts, "none": none_facts}
    made = none_facts if shown.scheme == "learned" and not shown.own else items[shown.scheme]
    return {
        "title": said["title"].format(name=shown.name),
        "about": source(shown),
        "items": made(shown, said),
        "run": f"{' '.join(map(str, shown.key))} {shown.scene.language} facts",
    }


def learned_facts(shown: Shown, said: Mapping[str, str]) -> list[list[str]]:
    """Of the table in the weights."""
    found = kept(shown.scene.playground, ("posvec", shown.scene.model.id), lambda: _measured(shown))
    n, D = shown.config.n_ctx, shown.config.d_model
    size, token, shares, waves = found["size"], found["token"], found["shares"], found["waves"]
    items = [
        [said["parameters"], said["parameters_text"].format(n=f"{n:,}", D=D, all=f"{n * D:,}")],
        [
            said["length"],
            said["length_text"].format(
                first=told(size[0]), middle=told(size[1]), last=told(size[2]), token=told(token)
            ),
        ],
        [
            said["components"],
            said["components_text"].format(one=percent(shares[0]), few=percent(shares[1]), half=found["half"], D=D),
        ],
    ]
    if waves:
        each = [said["wave"].format(length=brief(length), share=percent(share)) for length, share in waves]
        items.append([said["waves"], said["waves_two"].format(first=each[0], second=each[1]) if each[1:] else each[0]])
    return items


def _measured(shown: Shown) -> dict:
    """Lengths, principal components and strongest waves of the table."""
    table = whole_table(shown)
    lengths = (table**2).sum(1) ** 0.5
    embed = shown.scene.model.model.embed.weight.detach()
    token = float(embed.norm(dim=1).mean()) * (shown.config.d_model**0.5 if shown.config.embed_scale else 1.0)
    shares = principal_shares(table)
    sums = shares.cumsum()
    waves = []
    if len(table) > 1:
        found = spectrum(table)
        for at in (-found.share).argsort()[:2]:
            waves.append((float(found.wavelength[at]), float(found.share[at])))
    size = [float(lengths[at]) for at in (0, len(table) // 2, -1)]
    half = min(int((sums < 0.5).sum()) + 1, len(shares))
    return {
        "size": size,
        "token": token,
        "shares": (float(shares[0]), float(sums[:4][-1])),
        "half": half,
        "waves": waves,
    }


def turn_facts(shown: Shown, said: Mapping[str, str]) -> list[list[str]]:
    """Of sines or RoPE: pairs, wavelengths, what turns less than once."""
    config = shown.config
    found = wavelengths(frequencies(config, shown.scheme))
    n, slow = len(found), int((found > config.n_ctx).sum())
    given = {
        "short": brief(float(found.min())),
        "long": brief(float(found.max())),
        "n": n,
        "slow": slow,
        "context": f"{config.n_ctx:,}",
    }
    items = [[said["span"], said["span_text"].format(**given)], [said["slow"], said["slow_text"].format(**given)]]
    if shown.scheme == "sinusoidal":
        length = told((config.d_model / 2) ** 0.5)
        return [*items, [said["length"], said["sine_length"].format(length=length, D=config.d_model)]]
    rope = as_rope(config)
    key = "theta_all" if rope.d_rotary == rope.d_head else "theta_text"
    theta = said[key].format(theta=f"{rope.rope_theta:,.10g}", turned=rope.d_rotary, E=rope.d_head)
    items.append([said["theta"], theta])
    if rope.rope_scaling:
        items.append([said["scaled"], scaling_of(shown)])
    return items


def none_facts(shown: Shown, said: Mapping[str, str]) -> list[list[str]]:
    """What is left to know an order by, and what else can be looked at."""
    items = [[said["mask"], said["mask_text"]]] if shown.scheme == "none" else []
    own = scheme_name(shown.scene.words, shown.config.positions)
    return [*items, [said["model"], said["model_text"].format(model=shown.scene.model.label, own=own)]]
