"""transformers: a generation_config.json, or the arguments of GenerationConfig and generate.

Source: `_get_logits_processor` in generation/utils.py and `_get_default_generation_params` in
generation/configuration_utils.py of huggingface/transformers 5.23. Without do_sample everything from the temperature on
is left out and the likeliest token is taken. On although not written, when sampling: top_k 50.
"""

import json
from collections.abc import Mapping, Sequence

from model.errors import say
from model.sampling.pipeline import MOST_BIAS, Step
from model.sampling.settings.parsing import json_object, lines, python_call
from model.sampling.settings.reading import Key, Reader, bias_pairs, id_lines, number
from model.sampling.settings.records import Exported, Imported
from model.sampling.settings.writing import Writer, biases
from model.sampling.warps import values_of

LABEL = "transformers"
PENALTIES = (
    Key(("repetition_penalty",), "repetition_penalty", "penalty", 1),
    Key(("no_repeat_ngram_size",), "no_repeat_ngram", "ngram", 0),
)
KEYS = (
    Key(("temperature",), "temperature", "temperature", 1),
    Key(("top_k",), "top_k", "k", 50),
    Key(("top_p",), "top_p", "p", 1),
    Key(("min_p",), "min_p", "min_p", 0),
    Key(("typical_p",), "typical", "mass", 1),
    Key(("epsilon_cutoff",), "epsilon", "epsilon", 0),
    Key(("eta_cutoff",), "eta", "eta", 0),
)
# bad_words_ids and suppress_tokens are "banned_words"; prefix_allowed_tokens_fn, a function, would be "fits".
FIRST = ("logit_bias", "repetition_penalty", "no_repeat_ngram", "banned_words", "fits")
ORDER = (*FIRST, "temperature", "top_k", "top_p", "min_p", "typical", "epsilon", "eta")
_WRITTEN = tuple(warp for warp in ORDER if warp != "fits")
ELSEWHERE = ("max_new_tokens", "max_length", "stop_strings", "seed")
UNSUPPORTED: Mapping[str, tuple[object, ...]] = {
    "guidance_scale": (1, 1.0),
    "encoder_repetition_penalty": (1, 1.0),
    "min_length": (0,),
    "min_new_tokens": (0,),
    "num_beams": (1,),
    "penalty_alpha": (0, 0.0),
    "top_h": (),
    "begin_suppress_tokens": ("[]",),
    "forced_bos_token_id": (),
    "forced_eos_token_id": (),
    "exponential_decay_length_penalty": (),
    "watermarking_config": (),
}
GREEDY = Step("temperature", (("temperature", 0.0),))


def read(text: str) -> Imported:
    """Read a generation_config.json, or keyword arguments in Python."""
    given = json_object(text)
    if given is None:
        call = python_call(text)
        given = call[1] if call else lines(text)
    reader = Reader("transformers", LABEL, given)
    sampled = reader.flag("do_sample", False)
    first, last = reader.numbers(PENALTIES), reader.numbers(KEYS) if sampled else {}
    steps: list[Step] = []
    bans: list[str] = []
    if bias := reader.take("sequence_bias"):
        steps += _biased(reader, bias, bans)
    for name in ("bad_words_ids", "suppress_tokens"):
        bans += id_lines(reader.take(name) or [])
    steps += [*reader.steps(FIRST, first), *reader.banned(bans), *reader.steps(ORDER, last)]
    if not sampled:
        reader.note(
            say("Without do_sample, {} takes the likeliest token and leaves out the temperature and cuts.", LABEL)
        )
        for key in KEYS:
            reader.take(*key.names)
        steps.append(GREEDY)
    elif any(each.warp == "temperature" and dict(each.values)["temperature"] == 0 for each in steps):
        reader.note(say("{} refuses a temperature of 0; here it is greedy.", LABEL))
        steps = [*(each for each in steps if each.warp in FIRST), GREEDY]
    reader.unsupported(UNSUPPORTED)
    reader.elsewhere(*ELSEWHERE)
    return reader.result(steps)


def _biased(reader: Reader, value: object, bans: list[str]) -> list[Step]:
    """Read sequence_bias, [[[token ids], number]] or {(token ids): number}.

    One token becomes a logit bias; several in a row are added to `bans` if the number is at most -MOST_BIAS.
    """
    items = [[list(ids), n] for ids, n in value.items() if isinstance(ids, tuple)] if isinstance(value, dict) else value
    pairs = [each for each in items if isinstance(each, list) and len(each) == 2] if isinstance(items, list) else []
    single = [each for each in pairs if _one(each[0])]
    several = [ids for ids, n in pairs if not _one(ids) and number("sequence_bias", n) <= -MOST_BIAS]
    bans += id_lines(several)
    if len(single) < len(pairs) or not pairs:
        reader.note(say("A bias of several tokens in a row is left out; only one of −100 or less is read, as a ban."))
    if not single:
        return []
    reader.note(say("The logit bias names tokens by id: check that the ids are this model's."))
    return [Step("logit_bias", tokens=bias_pairs([(each[0][0], each[1]) for each in single]))]


def _one(ids: object) -> bool:
    return isinstance(ids, list) and len(ids) == 1


def write(steps: Sequence[Step]) -> Exported:
    """Write a generation_config.json."""
    writer = Writer("transformers", LABEL)
    kept = writer.kept(steps, _WRITTEN)
    writer.in_order(kept, _WRITTEN)
    greedy = any(each.warp == "temperature" and values_of(each)["temperature"] == 0 for each in kept)
    if greedy:
        kept = [each for each in kept if each.warp in FIRST]
    written: dict[str, object] = {"do_sample": not greedy}
    written |= writer.numbers(kept, PENALTIES) | ({} if greedy else writer.numbers(kept, KEYS))
    if any(values_of(each).get("window") for each in kept):
        writer.note(say("{} looks at the whole text: there is no window.", LABEL))
    if bans := [list(ids) for each in kept if each.warp == "banned_words" for ids in writer.banned(each)]:
        written["bad_words_ids"] = bans
    if biases(kept):
        written["sequence_bias"] = [[[token], float(bias)] for token, bias in biases(kept)]
        writer.note(say("The logit bias names tokens by this model's ids."))
    return writer.result(json.dumps(written, indent=2))
