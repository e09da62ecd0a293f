"""The claims: how each is measured on a text, and from which mean on it counts as true."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from model.claims import attention, heads, layers, prediction, sampling, vectors
from model.claims.reading import Reading
from model.gpt.config import ModelConfig


@dataclass(frozen=True)
class Claim:
    """A sentence as a number of a text. It is true where the number is above `low` and below `high`."""

    measure: Callable[[Reading], float]
    unit: str  # a key of UNITS
    low: float | None = None
    high: float | None = None
    needs: str = ""  # a key of NEEDS, besides those of the group

    def holds(self, value: float) -> bool:
        """Return whether a number fits the claim."""
        return (self.low is None or value > self.low) and (self.high is None or value < self.high)


UNITS = ("share", "points", "ratio", "nats", "tokens", "cosine", "depth")

# What a claim may need of a model: the key of the reason why it cannot be measured, and the test.
NEEDS: Mapping[str, Callable[[ModelConfig], bool]] = {
    "attention": lambda config: all(map(config.is_attention, range(config.n_layer))),
    "full_attention": lambda config: config.plain_attention,
    "layernorm": lambda config: config.norm == "layernorm",
    "position_vectors": lambda config: config.positions in ("learned", "sinusoidal"),
    "dense": lambda config: config.n_expert == 1 and config.mlp != "none",
    "plain": lambda config: config.plain_attention and config.n_expert == 1,
    "two_layers": lambda config: config.n_layer > 1,
}

GROUPS: Mapping[str, Mapping[str, Claim]] = {
    "attention": {
        "first_token": Claim(attention.first_token, "share", low=0.5),
        "previous": Claim(attention.previous, "share", low=0.5),
        "local": Claim(attention.local, "share", low=0.5),
        "fades": Claim(attention.fades, "ratio", low=2),
        "punctuation": Claim(attention.punctuation, "ratio", low=1),
        "names": Claim(attention.names, "ratio", low=1),
        "content": Claim(attention.content, "ratio", low=1),
        "copies": Claim(attention.copies, "ratio", low=1),
        "pronoun": Claim(attention.pronoun, "ratio", low=1),
        "verb": Claim(attention.verb, "points", low=0),
    },
    "heads": {
        "peaked_last": Claim(heads.peaked_last, "points", high=0, needs="two_layers"),
        "different": Claim(heads.different, "share", high=0.5),
        "previous_head": Claim(heads.previous_head, "share", low=0.9),
        "previous_low": Claim(heads.previous_low, "depth", high=0.5, needs="two_layers"),
        "induction_head": Claim(heads.induction_head, "share", low=0.5),
        "induction_high": Claim(heads.induction_high, "depth", low=0.5, needs="two_layers"),
        "resting": Claim(heads.resting, "share", low=0.5),
        "one_head": Claim(heads.one_head, "nats", high=0.05),
        "half_heads": Claim(heads.half_heads, "nats", high=0.1),
    },
    "layers": {
        "far_late": Claim(layers.far_late, "tokens", low=0, needs="full_attention"),
        "entropy_depth": Claim(layers.entropy_depth, "points", high=0, needs="full_attention"),
        "grows": Claim(layers.grows, "ratio", low=2),
        "direction": Claim(layers.direction, "cosine", low=0.9),
        "mlp_more": Claim(layers.mlp_more, "ratio", low=1),
        "neighbors": Claim(layers.neighbors, "cosine", low=0.5, needs="two_layers"),
        "late_decision": Claim(layers.late_decision, "depth", low=2 / 3),
        "middle_answer": Claim(layers.middle_answer, "share", low=0.5),
        "first_layer": Claim(layers.first_layer, "nats", low=0, needs="two_layers"),
        "skip_middle": Claim(layers.skip_middle, "nats", high=0.1, needs="two_layers"),
        "swap": Claim(layers.swap, "nats", high=0.1, needs="two_layers"),
    },
    "vectors": {
        "mean_matters": Claim(vectors.mean_matters, "share", high=0.01, needs="layernorm"),
        "massive_dims": Claim(vectors.massive_dims, "share", low=0.5),
        "massive_first": Claim(vectors.massive_first, "ratio", low=5),
        "silent": Claim(vectors.silent, "share", low=0.5, needs="dense"),
        "sparse": Claim(vectors.sparse, "share", high=0.1, needs="dense"),
        "forgotten": Claim(vectors.forgotten, "cosine", low=-0.1, high=0.1),
        "positions": Claim(vectors.positions, "ratio", high=1, needs="position_vectors"),
        "similar_embeddings": Claim(vectors.similar_embeddings, "cosine", low=0.2),
    },
    "sampling": {
        "top_half": Claim(sampling.top_half, "share", low=0.5),
        "top40": Claim(sampling.top40, "share", low=0.95),
        "top_p": Claim(sampling.top_p, "tokens", high=10),
        "temp07": Claim(sampling.temp07, "ratio", high=0.5),
        "nucleus": Claim(sampling.nucleus_holds, "share", low=0.85, high=0.95),
        "calibrated": Claim(sampling.calibrated, "points", low=-0.05, high=0.05),
        "greedy_loops": Claim(sampling.greedy_loops, "share", low=0.5),
        "greedy_likelier": Claim(sampling.greedy_likelier, "nats", low=0),
    },
    "prediction": {
        "rare": Claim(prediction.rare, "nats", low=0),
        "word_start": Claim(prediction.word_start, "nats", low=0),
        "sentence_start": Claim(prediction.sentence_start, "nats", low=0),
        "punctuation_easier": Claim(prediction.punctuation_easier, "nats", low=0),
        "after_the": Claim(prediction.after_the, "nats", low=0),
        "context": Claim(prediction.context, "nats", low=0),
        "repeat": Claim(prediction.repeat, "nats", low=1),
        "shuffle": Claim(prediction.shuffle, "nats", low=2),
        "last_word": Claim(prediction.last_word, "share", low=0.5),
        "last_ten": Claim(prediction.last_ten, "nats", high=0.1, needs="full_attention"),
        "hide_first": Claim(prediction.hide_first, "nats", low=1, needs="full_attention"),
        "knows": Claim(prediction.knows, "cosine", low=0.3),
        "perplexity": Claim(prediction.perplexity, "nats", low=-0.1, high=0.1),
        "int8": Claim(prediction.int8, "share", low=0.95, needs="plain"),
    },
}
CLAIMS: Mapping[str, Claim] = {key: claim for group in GROUPS.values() for key, claim in group.items()}
_OF_GROUP = {"attention": "attention", "heads": "full_attention"}


def missing(key: str, config: ModelConfig) -> str:
    """Return the key of NEEDS that a model lacks for a claim; "" if it can be measured."""
    group = next(name for name, claims in GROUPS.items() if key in claims)
    needs = (_OF_GROUP.get(group, ""), CLAIMS[key].needs)
    return next((each for each in needs if each and not NEEDS[each](config)), "")
