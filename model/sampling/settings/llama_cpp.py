"""llama.cpp: the options of its command line, and the same names in the JSON of its server.

Source: tools/server/README.md ("Sampling params") and common/sampling.cpp of ggml-org/llama.cpp. On although not
written: top_k 40, top_p 0.95, min_p 0.05 and a temperature of 0.8. Logit bias comes first; then the samplers in the
order of `--samplers`. With `--mirostat` there are only the temperature and Mirostat. A grammar is asked after a draw:
if the token does not fit, the samplers run again after the grammar.
"""

import re
import shlex
from collections.abc import Mapping, Sequence

from model.errors import InputError, say
from model.sampling.pipeline import MOST_BIAS, Step
from model.sampling.settings.parsing import Given, command, json_object, merged
from model.sampling.settings.reading import (
    BREAKERS,
    Key,
    Numbers,
    Reader,
    Window,
    bias_pairs,
    id_lines,
    plain_name,
    word_lines,
)
from model.sampling.settings.records import Exported, Imported
from model.sampling.settings.writing import Writer, biases, neat
from model.sampling.warps import values_of

LABEL = "llama.cpp"
KEYS = (
    Key(("temp", "temperature"), "temperature", "temperature", 0.8),
    Key(("dynatemp_range",), "dynamic_temperature", "spread", 0),
    Key(("dynatemp_exp", "dynatemp_exponent"), "dynamic_temperature", "exponent", 1),
    Key(("top_k",), "top_k", "k", 40),
    Key(("top_p",), "top_p", "p", 0.95),
    Key(("min_p",), "min_p", "min_p", 0.05),
    Key(("top_nsigma", "top_n_sigma"), "top_n_sigma", "n", -1),
    Key(("typical", "typical_p", "typ_p"), "typical", "mass", 1),
    Key(("xtc_probability",), "xtc", "xtc_probability", 0),
    Key(("xtc_threshold",), "xtc", "threshold", 0.1),
    Key(("repeat_penalty",), "repetition_penalty", "penalty", 1),
    Key(("presence_penalty",), "presence_penalty", "presence", 0),
    Key(("frequency_penalty",), "frequency_penalty", "frequency", 0),
    Key(("dry_multiplier",), "dry", "multiplier", 0),
    Key(("dry_base",), "dry", "base", 1.75),
    Key(("dry_allowed_length",), "dry", "allowed", 2),
)
MIROSTAT = (
    Key(("mirostat_ent", "mirostat_tau"), "mirostat", "tau", 5),
    Key(("mirostat_lr", "mirostat_eta"), "mirostat", "rate", 0.1),
)
_PENALTIES = ("repetition_penalty", "frequency_penalty", "presence_penalty")
WINDOWS = (
    Window(("repeat_last_n",), _PENALTIES, 64, whole=-1, off=0),
    Window(("dry_penalty_last_n",), ("dry",), 64, whole=-1, off=0),
)
# A sampler's name, its letter in --sampler-seq, and the warps that it runs.
SAMPLERS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "penalties": ("e", _PENALTIES),
    "dry": ("d", ("dry",)),
    "top_n_sigma": ("s", ("top_n_sigma",)),
    "top_k": ("k", ("top_k",)),
    "typ_p": ("y", ("typical",)),
    "top_p": ("p", ("top_p",)),
    "min_p": ("m", ("min_p",)),
    "xtc": ("x", ("xtc",)),
    "temperature": ("t", ("temperature", "dynamic_temperature")),
}
# The default order: `common_params_sampling.samplers` in common/common.h, after the logit bias (`common_sampler_init`).
ORDER = ("fits", "logit_bias", "banned_words", *(warp for _, warps in SAMPLERS.values() for warp in warps))
_LETTERS = {letter: name for name, (letter, _) in SAMPLERS.items()}
_OTHER_NAMES = {"typical_p": "typ_p", "typical": "typ_p", "temp": "temperature", "top_nsigma": "top_n_sigma"}
_SHORT = {"s": "seed", "n": "n_predict", "predict": "n_predict", "r": "reverse_prompt", "l": "logit_bias"}
ELSEWHERE = ("seed", "n_predict", "reverse_prompt", "stop", "max_tokens")
RULES = {"grammar": "gbnf", "json_schema": "json", "j": "json"}
UNSUPPORTED: Mapping[str, tuple[object, ...]] = {
    "grammar_file": (),
    "json_schema_file": (),
    "adaptive_target": (-1, -1.0),
    "tfs": (1, 1.0),
    "tfs_z": (1, 1.0),
    "ignore_eos": ("false",),
}
_BIAS = re.compile(r"(\d+)([+-].+)")


def read(text: str) -> Imported:
    """Read a command line with llama.cpp's options, or the JSON of a request to its server."""
    given = json_object(text)
    return read_names(_of_command(text) if given is None else merged(given), "llama_cpp", LABEL)


def _of_command(text: str) -> Given:
    """Return the options of a command by name; those that may be repeated as lists."""
    given: Given = {}
    for option, value in command(text):
        short = option.lstrip("-")
        name = _SHORT.get(short, option) if not option.startswith("--") or short in _SHORT else option
        if plain_name(name) in ("logit_bias", "dry_sequence_breaker"):
            listed = given.setdefault(plain_name(name), [])
            if isinstance(listed, list):
                listed.append(value or "")
        else:
            given[name] = value if value is not None else "true"
    return given


def read_names(given: Mapping[str, object], tool: str, label: str) -> Imported:
    """Read llama.cpp's names and values."""
    reader = Reader(tool, label, given)
    order = _order(reader)
    numbers = reader.numbers(KEYS)
    reader.windows(numbers, WINDOWS)
    heat(numbers)
    texts = {"dry": _breakers(reader)}
    if "dry" in numbers and numbers["dry"]["multiplier"] > 0 and reader.take("dry_penalty_last_n") is None:
        reader.note(say("Older versions of {} let DRY look back over the whole text.", label))
    mirostat = reader.number(("mirostat", "mirostat_mode"), 0)
    extra = reader.numbers(MIROSTAT) if mirostat else {}
    for key in MIROSTAT:
        reader.take(*key.names)
    steps = _biased(reader)
    if mirostat:
        if mirostat == 1:
            reader.note(say("Mirostat 1 is not here; version 2 with the same numbers is used."))
        reader.note(say("With Mirostat, {} runs only the temperature and Mirostat.", label))
        numbers.pop("dynamic_temperature", None)
        order = ("temperature", "mirostat")
    steps += reader.steps(order, numbers | extra, texts)
    if any(step.warp == "xtc" for step in steps):
        reader.note(say("XTC's random numbers are shared between strategies here; the tool draws its own."))
    reader.rules(RULES)
    reader.unsupported(UNSUPPORTED)
    reader.elsewhere(*ELSEWHERE)
    return reader.result(steps)


def heat(numbers: Numbers) -> None:
    """Center a dynamic temperature on the temperature, which it replaces; without a range there is only the latter."""
    if numbers["dynamic_temperature"]["spread"] > 0:
        numbers["dynamic_temperature"]["dynamic"] = max(numbers.pop("temperature")["temperature"], 0)
    else:
        del numbers["dynamic_temperature"]


def _order(reader: Reader) -> tuple[str, ...]:
    """Read the order of the samplers as warps; a sampler that is not listed does not run."""
    names = list(SAMPLERS)
    written, letters = reader.take("samplers"), reader.take("sampler_seq", "sampling_seq")
    if written is not None:
        listed = written if isinstance(written, list) else re.split(r"[;,]", str(written))
        names = [str(each).strip().lower() for each in listed if str(each).strip()]
        names = [_OTHER_NAMES.get(each, each) for each in names]
    elif letters:
        names = [_LETTERS.get(each, each) for each in str(letters)]
    known = [each for each in dict.fromkeys(names) if each in SAMPLERS]
    for each in dict.fromkeys(names):
        if each not in SAMPLERS:
            reader.lacks(each)
    return tuple(warp for each in known for warp in SAMPLERS[each][1])


def _breakers(reader: Reader) -> str:
    written = reader.take("dry_sequence_breaker", "dry_sequence_breakers")
    if not written:
        return BREAKERS
    lines = word_lines(written)
    return "" if lines == "none" else lines


def _biased(reader: Reader) -> list[Step]:
    """Read the logit bias: options TOKEN_ID+BIAS, or pairs in JSON, where a word stands for its tokens.

    A bias of -inf, in JSON also false, is a ban.
    """
    value = reader.take("logit_bias")
    if not value:
        return []
    pairs: list[tuple[object, object]] = []
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        found = [_BIAS.fullmatch(each.strip()) for each in value]
        if not all(found):
            raise InputError("A logit bias is not a token and a number.", str(value)[:40], "Write pairs of them.")
        pairs = [(each[1], each[2]) for each in found if each]
    else:
        listed = value.items() if isinstance(value, Mapping) else value if isinstance(value, list) else [value]
        for pair in listed:
            if not isinstance(pair, list | tuple) or len(pair) != 2:
                raise InputError("A logit bias is not a token and a number.", str(pair)[:40], "Write pairs of them.")
            pairs.append((pair[0], pair[1]))
    bans, tokens, lines = [], list[tuple[int, float]](), []
    for token, bias in pairs:
        word = isinstance(token, str) and not token.strip().isdigit()
        banned = bias is False or str(bias).strip() == "-inf"
        if word:
            amount = bias_pairs([(0, -MOST_BIAS if banned else bias)])[0][1]
            lines.append(f"{str(token)[:200].replace(chr(10), ' ')}: {amount:g}")
        elif banned:
            bans += id_lines([token])
        else:
            tokens += bias_pairs([(token, str(bias).replace("inf", "100") if isinstance(bias, str) else bias)])
    if tokens:
        reader.note(say("The logit bias names tokens by id: check that the ids are this model's."))
    if lines:
        reader.note(say("The bias of a word is added to each of its tokens."))
    steps = [Step("logit_bias", tokens=tuple(tokens), text="\n".join(lines))] if tokens or lines else []
    return [*steps, *reader.banned(bans)]


# --- the way back ---


def write(steps: Sequence[Step]) -> Exported:
    """Write the options of a command, with the order of the samplers."""
    writer = Writer("llama_cpp", LABEL)
    kept = writer.kept(steps, (*ORDER, "mirostat"))
    kind, rule = writer.rule(kept, ("gbnf", "json"))
    kept = [step for step in kept if step.warp != "fits"]  # it holds wherever it stands
    options = _numbers(writer, kept)
    names = _names(writer, kept)
    words = [] if any(step.warp == "mirostat" for step in kept) else ["--samplers", ";".join(names)]
    for name, value in options.items():
        words += [f"--{name.replace('_', '-')}", f"{value}"]
    for step in kept:
        if step.warp == "dry" and step.text != BREAKERS:
            for word in writer.words(step) or ["none"]:
                words += ["--dry-sequence-breaker", word.replace("\n", "\\n").replace("\t", "\\t")]
    for token, bias in biases(kept):
        words += ["--logit-bias", f"{token}{bias:+}"]
    for token in writer.banned_ids(kept):
        words += ["--logit-bias", f"{token}-inf"]
    if kind:
        words += ["--grammar" if kind == "gbnf" else "--json-schema", rule]
    if biases(kept):
        writer.note(say("The logit bias names tokens by this model's ids."))
    return writer.result(shlex.join(words))


def _numbers(writer: Writer, kept: Sequence[Step]) -> dict[str, float | int]:
    """Write the numbers; what the tool would do if nothing were written is left out of --samplers instead."""
    here = {step.warp: values_of(step) for step in kept}
    written = {key.names[0]: neat(here[key.warp][key.parameter]) for key in (*KEYS, *MIROSTAT) if key.warp in here}
    if "dynamic_temperature" in here:
        written = {"temp": neat(here["dynamic_temperature"]["dynamic"])} | written
    if "mirostat" in here:
        written = {"mirostat": 2} | written
        if set(here) - {"mirostat", "temperature", "logit_bias", "banned_words"}:
            writer.note(say("With Mirostat, {} runs only the temperature and Mirostat.", LABEL))
        if "temperature" not in here:
            written["temp"] = 1
    return written | writer.windows(kept, WINDOWS)


def _names(writer: Writer, kept: Sequence[Step]) -> list[str]:
    """Return the samplers in the order of the steps; note steps that the tool does not run in this order."""
    by_warp = {warp: name for name, (_, warps) in SAMPLERS.items() for warp in warps}
    warps = [step.warp for step in kept]
    names = list(dict.fromkeys(by_warp[warp] for warp in warps if warp in by_warp))
    own = [warp for name in names for warp in SAMPLERS[name][1] if warp in warps]
    first = [warp for warp in ("logit_bias", "banned_words") if warp in warps]
    last = ["mirostat"] if "mirostat" in warps else []
    if warps != [*first, *own, *last]:
        writer.note(say("{} runs them in its own order: {}.", LABEL, ", ".join([*first, *own, *last])))
    return names
