"""The same logits and the same sets of tokens as transformers' processors, on random and on adverse logits."""

from collections.abc import Callable

import pytest
import torch

from model.sampling.pipeline import Context, Step
from model.sampling.warps import run_steps

OUT = -torch.inf
TEXT = (1, 2, 3, 1, 2, 4, 1, 2)
CUTS = {
    "top_k": ("TopKLogitsWarper", "k", [1, 3, 40]),
    "top_p": ("TopPLogitsWarper", "p", [0, 0.1, 0.5, 0.9, 0.99]),
    "min_p": ("MinPLogitsWarper", "min_p", [0, 0.01, 0.05, 0.5, 1.0]),
    "typical": ("TypicalLogitsWarper", "mass", [0.1, 0.2, 0.5, 0.9, 0.99]),
    "epsilon": ("EpsilonLogitsWarper", "epsilon", [1e-4, 1e-3, 0.03]),
    "eta": ("EtaLogitsWarper", "eta", [1e-4, 1e-3, 0.03, 0.1]),
}
CUT_CASES = [(warp, value) for warp, (_, _, values) in CUTS.items() for value in values]
ADVERSE = {
    "all equal": [1.5] * 16,
    "one token": [-2.0],
    "one huge": [0.0, 1e30, -3.0, 5.0],
    "one left": [OUT, OUT, 2.0, OUT],
    "some out": [OUT, 0.0, 1.0, OUT, 2.0, OUT, -1.0, 2.5],
    "far apart": [100.0, 0.0, -100.0, 99.0, OUT],
    "two tied at the top": [3.0, 1.0, 3.0, 0.0, -1.0],
    "pairs": [2.0, 2.0, 1.0, 1.0, 0.0, 0.0, -1.0, -1.0],
}


def theirs(name: str, *given: object) -> Callable[..., torch.Tensor]:
    """A processor of transformers, by its name; the import takes seconds, so only where it is used."""
    from transformers.generation import logits_process

    return getattr(logits_process, name)(*given)


def pair(warp: str, value: float, logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Our result and theirs. They compute in the precision they are given; float64 makes their sums comparable."""
    make, name, _ = CUTS[warp]
    ours = run_steps(logits, (Step(warp, ((name, float(value)),)),))
    return ours, theirs(make, value)(None, logits.double()[None])[0].float()


@pytest.mark.parametrize("size", [2, 17, 1000, 50257])
@pytest.mark.parametrize(("warp", "value"), CUT_CASES)
def test_cuts_of_random_logits(warp, value, size):
    for seed, scale in enumerate((0.3, 2.0, 6.0)):
        logits = scale * torch.randn(size, generator=torch.Generator().manual_seed(seed))
        ours, expected = pair(warp, value, logits)
        assert torch.equal(ours, expected)


@pytest.mark.parametrize("size", [3, 30])
@pytest.mark.parametrize(("warp", "value"), CUT_CASES)
def test_cuts_of_few_logits_in_their_own_precision(warp, value, size):
    make, name, _ = CUTS[warp]
    for seed in range(4):
        logits = 2 * torch.randn(size, generator=torch.Generator().manual_seed(seed))
        ours = run_steps(logits, (Step(warp, ((name, float(value)),)),))
        assert torch.equal(ours, theirs(make, value)(None, logits[None])[0])


@pytest.mark.parametrize("size", [5, 300])
@pytest.mark.parametrize(("warp", "value"), CUT_CASES)
def test_cuts_with_tokens_that_are_out(warp, value, size):
    for seed in range(4):
        generator = torch.Generator().manual_seed(seed)
        logits = 3 * torch.randn(size, generator=generator)
        logits[torch.rand(size, generator=generator) < 0.5] = OUT
        logits[seed] = 0.0
        ours, expected = pair(warp, value, logits)
        assert torch.equal(ours, expected)


@pytest.mark.parametrize("logits", ADVERSE.values(), ids=ADVERSE)
@pytest.mark.parametrize(("warp", "value"), CUT_CASES)
def test_cuts_of_adverse_logits(warp, value, logits):
    logits = torch.tensor(logits)
    ours, expected = pair(warp, value, logits)
    if warp == "top_p":  # their sort is not stable: which of several equal tokens stay is theirs to choose
        ours, expected = ours.sort().values, expected.sort().values
    assert torch.equal(ours, expected)


@pytest.mark.parametrize(("warp", "value"), [("top_k", 3), ("min_p", 0.25), ("epsilon", 0.125), ("eta", 0.125)])
def test_two_tied_at_the_edge_both_stay(warp, value):
    logits = torch.tensor([1 / 2, 1 / 8, 1 / 8, 1 / 16, 3 / 16]).log()
    make, name, _ = CUTS[warp]
    ours = run_steps(logits, (Step(warp, ((name, float(value)),)),))
    assert torch.isfinite(ours[1]) == torch.isfinite(ours[2])
    assert torch.equal(ours, theirs(make, value)(None, logits[None])[0])


@pytest.mark.parametrize("t", [0.01, 0.3, 0.7, 1.0, 2.5])
def test_temperature(t):
    logits = torch.cat((5 * torch.randn(1000), torch.tensor([OUT, 1e30, 0.0])))
    ours = run_steps(logits, (Step("temperature", (("temperature", t),)),))
    assert torch.equal(ours, theirs("TemperatureLogitsWarper", t)(None, logits[None])[0])


@pytest.mark.parametrize("penalty", [0.01, 0.5, 0.9, 1.0, 1.2, 2.0])
@pytest.mark.parametrize("logits", [*ADVERSE.values(), [-4.0, -1.0, 0.0, 1.0, 4.0, OUT]])
def test_repetition_penalty(penalty, logits):
    logits, text = torch.tensor(logits), tuple(id % len(logits) for id in TEXT)
    ours = run_steps(logits, (Step("repetition_penalty", (("penalty", penalty),)),), Context(text, 3))
    processor = theirs("RepetitionPenaltyLogitsProcessor", penalty)
    assert torch.equal(ours, processor(torch.tensor([text]), logits[None])[0])


@pytest.mark.parametrize(
    ("warp", "name", "setting", "off"),
    [
        ("top_k", "k", "top_k", 0),
        ("top_p", "p", "top_p", 1.0),
        ("min_p", "min_p", "min_p", 0.0),
        ("epsilon", "epsilon", "epsilon_cutoff", 0.0),
        ("eta", "eta", "eta_cutoff", 0.0),
        ("typical", "mass", "typical_p", 1.0),
        ("repetition_penalty", "penalty", "repetition_penalty", 1.0),
        ("no_repeat_ngram", "ngram", "no_repeat_ngram_size", 0),
    ],
)
def test_the_number_that_switches_a_warp_off_is_theirs(warp, name, setting, off):
    """Their `generate` makes the processors from its settings: off, it makes none or one that changes nothing."""
    from transformers import GenerationConfig, GPT2Config, GPT2LMHeadModel

    logits, text = torch.cat((3 * torch.randn(200), torch.tensor([OUT, -1000.0]))), TEXT
    model = GPT2LMHeadModel(GPT2Config(n_layer=1, n_head=1, n_embd=2, vocab_size=len(logits), n_positions=16))
    config = GenerationConfig(**{"do_sample": True, "top_k": 0, setting: off})
    model._prepare_special_tokens(config, device="cpu")
    processors = model._get_logits_processor(config, len(text), torch.tensor([text]), None, [], "cpu")
    assert torch.equal(processors(torch.tensor([text]), logits[None])[0], logits)
    assert torch.equal(run_steps(logits, (Step(warp, ((name, float(off)),)),), Context(text, 2)), logits)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 8, 9])
@pytest.mark.parametrize("seed", range(5))
def test_no_repeat_ngram(n, seed):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(9, generator=generator)
    random = torch.randint(0, 3, (40,), generator=generator).tolist()
    for text in (TEXT, tuple(random), tuple(random[:3])):
        ours = run_steps(logits, (Step("no_repeat_ngram", (("ngram", n),)),), Context(text, 2))
        processor = theirs("NoRepeatNGramLogitsProcessor", n)
        assert torch.equal(ours, processor(torch.tensor([text]), logits[None])[0])


def test_a_chain_of_processors():
    """In the order in which transformers' generate puts them."""
    logits = 3 * torch.randn(2000)
    chain = theirs(
        "LogitsProcessorList",
        [
            theirs("RepetitionPenaltyLogitsProcessor", 1.3),
            theirs("NoRepeatNGramLogitsProcessor", 3),
            theirs("TemperatureLogitsWarper", 0.7),
            theirs("TopKLogitsWarper", 200),
            theirs("TopPLogitsWarper", 0.9),
            theirs("MinPLogitsWarper", 0.02),
            theirs("TypicalLogitsWarper", 0.9),
        ],
    )
    steps = (
        Step("repetition_penalty", (("penalty", 1.3),)),
        Step("no_repeat_ngram", (("ngram", 3),)),
        Step("temperature", (("temperature", 0.7),)),
        Step("top_k", (("k", 200),)),
        Step("top_p", (("p", 0.9),)),
        Step("min_p", (("min_p", 0.02),)),
        Step("typical", (("mass", 0.9),)),
    )
    ours = run_steps(logits, steps, Context(TEXT, 4))
    assert torch.equal(ours, chain(torch.tensor([TEXT]), logits[None])[0])
    assert 1 < torch.isfinite(ours).sum() < 200
