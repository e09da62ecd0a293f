"""text-generation-webui and SillyTavern: presets in YAML or JSON, with the order in which the samplers run.

Source: modules/presets.py and modules/sampler_hijack.py of oobabooga/text-generation-webui, and
public/scripts/textgen-settings.js of SillyTavern/SillyTavern, which has other names for some numbers and sends the
order of its backend: sampler_priority to text-generation-webui, samplers to llama.cpp, sampler_order to KoboldCpp.
epsilon_cutoff and eta_cutoff count in units of 0.0001. A repetition range of 0 is the whole text.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from model.errors import say
from model.sampling.phrases import ids_in
from model.sampling.pipeline import Step
from model.sampling.settings.parsing import json_object, lines
from model.sampling.settings.reading import (
    BREAKERS,
    Key,
    Numbers,
    Reader,
    Window,
    bias_pairs,
    id_lines,
    word_lines,
)
from model.sampling.settings.records import Exported, Imported
from model.sampling.settings.writing import Writer, biases, neat
from model.sampling.warps import values_of

TENTHS = 1e-4  # the unit of epsilon_cutoff and eta_cutoff
KEYS = (
    Key(("temperature", "temp"), "temperature", "temperature", 1),
    Key(("dynatemp_exponent",), "dynamic_temperature", "exponent", 1),
    Key(("smoothing_factor",), "smoothing", "factor", 0),
    Key(("smoothing_curve",), "smoothing", "curve", 1),
    Key(("top_k",), "top_k", "k", 0),
    Key(("top_p",), "top_p", "p", 1),
    Key(("min_p",), "min_p", "min_p", 0),
    Key(("typical_p", "typical"), "typical", "mass", 1),
    Key(("epsilon_cutoff",), "epsilon", "epsilon", 0, TENTHS),
    Key(("eta_cutoff",), "eta", "eta", 0, TENTHS),
    Key(("top_a",), "top_a", "a", 0),
    Key(("top_n_sigma", "nsigma"), "top_n_sigma", "n", 0),
    Key(("xtc_threshold",), "xtc", "threshold", 0.1),
    Key(("xtc_probability",), "xtc", "xtc_probability", 0),
    Key(("repetition_penalty", "rep_pen"), "repetition_penalty", "penalty", 1),
    Key(("presence_penalty", "presence_pen"), "presence_penalty", "presence", 0),
    Key(("frequency_penalty", "freq_pen"), "frequency_penalty", "frequency", 0),
    Key(("no_repeat_ngram_size",), "no_repeat_ngram", "ngram", 0),
    Key(("dry_multiplier",), "dry", "multiplier", 0),
    Key(("dry_base",), "dry", "base", 1.75),
    Key(("dry_allowed_length",), "dry", "allowed", 2),
)
MIROSTAT = (Key(("mirostat_tau",), "mirostat", "tau", 5), Key(("mirostat_eta",), "mirostat", "rate", 0.1))
_PENALTIES = ("repetition_penalty", "presence_penalty", "frequency_penalty")
WINDOW = Window(("repetition_penalty_range", "rep_pen_range"), (*_PENALTIES, "dry"), 1024, whole=0)
# The names in sampler_priority, in the usual order, with the warp of each that is here.
PRIORITY: Mapping[str, str] = {
    "repetition_penalty": "repetition_penalty",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "dry": "dry",
    "top_n_sigma": "top_n_sigma",
    "temperature": "temperature",
    "dynamic_temperature": "dynamic_temperature",
    "quadratic_sampling": "smoothing",
    "top_k": "top_k",
    "top_p": "top_p",
    "typical_p": "typical",
    "epsilon_cutoff": "epsilon",
    "eta_cutoff": "eta",
    "tfs": "",
    "top_a": "top_a",
    "min_p": "min_p",
    "adaptive_p": "",
    "mirostat": "mirostat",
    "xtc": "xtc",
    "encoder_repetition_penalty": "",
    "no_repeat_ngram": "no_repeat_ngram",
}
# What the list does not name comes first, such as a logit bias and a grammar (`custom_sort_key` in sampler_hijack.py).
ORDER = ("fits", "banned_words", "logit_bias", *(warp for warp in PRIORITY.values() if warp))
_LAST = ("temperature", "dynamic_temperature", "quadratic_sampling")  # of temperature_last
# KoboldCpp's sampler_order: top_k, top_a, top_p, tfs, typical, temperature, repetition penalty.
KOBOLD = ("top_k", "top_a", "top_p", "tfs", "typical_p", "temperature", "repetition_penalty")
# SillyTavern's own names, by those of text-generation-webui.
SILLY = {
    "temperature": "temp",
    "repetition_penalty": "rep_pen",
    "repetition_penalty_range": "rep_pen_range",
    "presence_penalty": "presence_pen",
    "frequency_penalty": "freq_pen",
    "top_n_sigma": "nsigma",
}
ELSEWHERE = (
    "seed",
    "max_new_tokens",
    "max_length",
    "genamt",
    "stopping_strings",
    "stop_sequence",
    "custom_stopping_strings",
)
UNSUPPORTED: Mapping[str, tuple[object, ...]] = {
    "tfs": (1, 1.0),
    "encoder_repetition_penalty": (1, 1.0),
    "encoder_rep_pen": (1, 1.0),
    "guidance_scale": (1, 1.0),
    "penalty_alpha": (0, 0.0),
    "num_beams": (1,),
    "min_length": (0,),
    "adaptive_target": (0, 0.0, -1, -1.0, -0.01),
    "rep_pen_slope": (1, 1.0, 0),
    "rep_pen_decay": (0,),
    "skew": (0, 0.0),
    "ban_eos_token": ("false",),
    "ignore_eos_token": ("false",),
}


def read_webui(text: str) -> Imported:
    """Read a preset of text-generation-webui, or the JSON of a request to it."""
    return _read(Reader("webui", "text-generation-webui", _names(text)), KEYS, WINDOW)


def read_sillytavern(text: str) -> Imported:
    """Read a text completion preset of SillyTavern, or the JSON of a request to KoboldCpp."""
    reader = Reader("sillytavern", "SillyTavern", _names(text))
    return _read(reader, KEYS, replace(WINDOW, default=0))


def _names(text: str) -> Mapping[str, object]:
    given = json_object(text)
    return lines(text) if given is None else given


def _read(reader: Reader, keys: Sequence[Key], window: Window) -> Imported:
    order = _order(reader)
    numbers = reader.numbers(keys)
    reader.windows(numbers, [window])
    _spread(reader, numbers)
    texts = {"dry": _breakers(reader)}
    own = reader.number(("dry_penalty_last_n",), 0)
    if own and "dry" in numbers:
        numbers["dry"]["window"] = max(own, 0)
    mirostat = reader.number(("mirostat_mode",), 0)
    found = reader.numbers(MIROSTAT) if mirostat else {}
    for key in MIROSTAT:
        reader.take(*key.names)
    if mirostat == 1:
        reader.note(say("Mirostat 1 is not here; version 2 with the same numbers is used."))
    sampled = reader.flag("do_sample", True)
    steps: list[Step] = []
    steps += [*reader.banned(_banned(reader)), *_biased(reader)]
    steps += reader.steps(order, numbers | found, texts)
    if not sampled:
        reader.note(
            say(
                "Without do_sample, {} takes the likeliest token and leaves out the temperature and cuts.", reader.label
            )
        )
        penalties = (*_PENALTIES, "dry", "no_repeat_ngram", "banned_words", "logit_bias")
        steps = [each for each in steps if each.warp in penalties]
        steps.append(Step("temperature", (("temperature", 0.0),)))
    if any(step.warp == "xtc" for step in steps):
        reader.note(say("XTC's random numbers are shared between strategies here; the tool draws its own."))
    reader.rules({"grammar_string": "gbnf", "json_schema": "json"})
    reader.unsupported(UNSUPPORTED)
    reader.elsewhere(*ELSEWHERE)
    return reader.result(steps)


def _spread(reader: Reader, numbers: Numbers) -> None:
    """Read a dynamic temperature as the middle between its ends and the distance to them."""
    low, high = reader.number(("dynatemp_low", "min_temp"), 1), reader.number(("dynatemp_high", "max_temp"), 1)
    silly = reader.take("dynatemp") is not None
    on = reader.flag("dynatemp", False) if silly else reader.flag("dynamic_temperature", False)
    if not on or high <= low:
        del numbers["dynamic_temperature"]
        return
    numbers["dynamic_temperature"] |= {"dynamic": (low + high) / 2, "spread": (high - low) / 2}
    if silly:
        del numbers["temperature"]  # SillyTavern then sends the middle in its place


def _order(reader: Reader) -> tuple[str, ...]:
    """Read the order as warps: that of the backend whose list is there, text-generation-webui's first."""
    written, llama = reader.take("sampler_priority"), reader.take("samplers")
    kobold, last = reader.take("sampler_order"), reader.flag("temperature_last", False)
    reader.take("samplers_priorities")
    names = list(PRIORITY)
    if written:
        names = [str(each).strip() for each in (written if isinstance(written, list) else str(written).splitlines())]
        if llama or kobold:
            reader.note(say("The order is that for text-generation-webui, sampler_priority."))
    elif isinstance(llama, list):
        names = [{"typ_p": "typical_p", "penalties": "repetition_penalty"}.get(each, each) for each in map(str, llama)]
        names = [name for each in names for name in (_PENALTIES if each == "repetition_penalty" else (each,))]
    elif isinstance(kobold, list) and all(isinstance(n, int) and 0 <= n < len(KOBOLD) for n in kobold):
        names = [KOBOLD[n] for n in kobold]
        reader.note(say("The order is that for KoboldCpp, sampler_order; samplers that it does not name come first."))
    for each in dict.fromkeys(names):
        if each and each not in PRIORITY:
            reader.lacks(each)
    names = [each for each in dict.fromkeys(names) if each in PRIORITY]
    names = [*(each for each in PRIORITY if each not in names), *names]  # the tool sorts unnamed ones to the front
    if last:
        names = [*(each for each in names if each not in _LAST), *_LAST]
    return tuple(PRIORITY[each] for each in names if PRIORITY[each])


def _breakers(reader: Reader) -> str:
    """Read DRY's breakers: a list, or its JSON with or without brackets."""
    written = reader.take("dry_sequence_breakers")
    if isinstance(written, str) and written.strip():
        bare = written.strip()
        try:
            written = json.loads(bare if bare.startswith("[") else f"[{bare}]")
        except (ValueError, RecursionError):
            reader.note(say("The breakers of DRY cannot be read; the usual ones are used."))
            return BREAKERS
    return word_lines(written) if isinstance(written, list) else BREAKERS


def _banned(reader: Reader) -> list[str]:
    """Read text-generation-webui's custom_token_bans, "1, 2", and SillyTavern's banned words, one per line: ids in
    brackets, each for itself, or words, in quotation marks or not.
    """
    listed = str(reader.take("custom_token_bans") or "")
    bans = id_lines([each for each in listed.split(",") if each.strip()])
    texts = [str(reader.take(name) or "") for name in ("banned_tokens", "global_banned_tokens")]
    if not reader.flag("send_banned_tokens", True):
        return bans
    for line in (line.strip() for text in texts for line in text.splitlines() if line.strip()):
        if ids := ids_in(line):
            bans += id_lines(ids)
            continue
        if not (line.startswith('"') and line.endswith('"')):
            reader.note(say("{} bans each token of a line without quotation marks; here, all in a row.", reader.label))
        bans.append(line.strip('"'))
    return bans


def _biased(reader: Reader) -> list[Step]:
    """Read a logit bias: {token id: number}, or SillyTavern's [{"text", "value"}].

    A text there is a word after a space, a word as it is in braces, or ids in brackets (`getLogitBiasListResult` in
    public/scripts/logit-bias.js); every token of it gets the number.
    """
    value = reader.take("logit_bias")
    if not value:
        return []
    if not isinstance(value, list) or not all(isinstance(each, Mapping) for each in value):
        reader.note(say("The logit bias names tokens by id: check that the ids are this model's."))
        return [Step("logit_bias", tokens=bias_pairs(value))]
    lines, pairs = [], []
    for each in value:
        text, bias = str(each.get("text") or "").strip()[:200], each.get("value", 0)
        (_, checked), *_ = bias_pairs([(0, bias)])
        if ids := ids_in(text):
            pairs += [(token, checked) for token in ids]
        elif text:
            word = text[1:-1] if text.startswith("{") and text.endswith("}") else f" {text}"
            lines.append(f"{word.replace(chr(10), ' ')}: {checked:g}")
    if lines:
        reader.note(say("The bias of a word is added to each of its tokens."))
    if pairs:
        reader.note(say("The logit bias names tokens by id: check that the ids are this model's."))
    return [Step("logit_bias", tokens=tuple(pairs), text="\n".join(lines))] if lines or pairs else []


# --- the way back ---


def write_webui(steps: Sequence[Step]) -> Exported:
    """Write a preset of text-generation-webui as JSON, with its order."""
    writer = Writer("webui", "text-generation-webui")
    return writer.result(json.dumps(_written(writer, steps), indent=2, ensure_ascii=False))


def write_sillytavern(steps: Sequence[Step]) -> Exported:
    """Write a text completion preset of SillyTavern, with the order for text-generation-webui."""
    writer = Writer("sillytavern", "SillyTavern")
    written = {SILLY.get(name, name): value for name, value in _written(writer, steps).items()}
    if "dynatemp_low" in written:
        written |= {"dynatemp": written.pop("dynamic_temperature")}
        written |= {"min_temp": written.pop("dynatemp_low"), "max_temp": written.pop("dynatemp_high")}
        if any(step.warp == "temperature" for step in steps):
            writer.note(say("{} replaces the temperature by the dynamic one.", writer.label))
    banned = [f'"{word}"' for step in steps if step.warp == "banned_words" for word in writer.words(step)]
    banned += [f"[{token}]" for token in writer.banned_ids(steps, words=False)]
    if banned:
        written["banned_tokens"] = "\n".join(banned)
    if pairs := biases(steps):
        written["logit_bias"] = [{"text": f"[{token}]", "value": bias} for token, bias in pairs]
        writer.note(say("The logit bias names tokens by this model's ids."))
    return writer.result(json.dumps(written, indent=2, ensure_ascii=False))


def _written(writer: Writer, steps: Sequence[Step]) -> dict[str, object]:
    kept = writer.kept(steps, ORDER)
    here = {step.warp: values_of(step) for step in kept}
    written: dict[str, object] = {"do_sample": True}
    written |= writer.numbers(kept, [key for key in KEYS if key.warp in here])
    if "dynamic_temperature" in here:
        middle, spread = here["dynamic_temperature"]["dynamic"], here["dynamic_temperature"]["spread"]
        written |= {"dynamic_temperature": True, "dynatemp_low": neat(max(middle - spread, 0))}
        written["dynatemp_high"] = neat(middle + spread)
    if "mirostat" in here:
        written |= {"mirostat_mode": 2} | writer.numbers(kept, MIROSTAT)
    written |= writer.windows(kept, [WINDOW])
    for step in kept:
        if step.warp == "dry" and step.text != BREAKERS:
            written["dry_sequence_breakers"] = json.dumps(writer.words(step), ensure_ascii=False)
    kind, rule = writer.rule(kept, ("gbnf",))
    if kind:
        written["grammar_string"] = rule
    if writer.tool == "webui":
        if bans := writer.banned_ids(kept):
            written["custom_token_bans"] = ",".join(map(str, bans))
        if pairs := biases(kept):
            written["logit_bias"] = {str(token): bias for token, bias in pairs}
            writer.note(say("The logit bias names tokens by this model's ids."))
    names = {warp: name for name, warp in PRIORITY.items() if warp}
    listed = [names[step.warp] for step in kept if step.warp in names]
    return written | {"sampler_priority": [*(name for name in PRIORITY if name not in listed), *listed]}
