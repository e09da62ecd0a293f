"""Settings in the files beside a vocabulary: special tokens by name, end tokens, chat templates.

The source of each setting, as in transformers:

- a chat template: chat_template.jinja and additional_chat_templates/*.jinja, else `chat_template` of
  tokenizer_config.json (PreTrainedTokenizerBase.from_pretrained).
- special tokens by name: tokenizer_config.json and special_tokens_map.json; the latter takes precedence if the former
  lists no `added_tokens_decoder`, which marks a self-contained file (the same function).
- end tokens: `eos_token_id` of generation_config.json, one or several, and if that file has none, of config.json
  (GenerationMixin.generate). The tokenizer's own `eos_token` ends a text as well, which transformers leaves to the
  caller.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from model.errors import CheckpointError, say
from model.text.bpe_ranks import FRESH_COPY
from model.text.vocabulary import AddedToken, Vocabulary, read_json, read_text

DEFAULT = "default"  # name of the default template
TOKENIZER_CONFIG, TOKENS_MAP = "tokenizer_config.json", "special_tokens_map.json"
GENERATION_CONFIG, CONFIG = "generation_config.json", "config.json"
ADDED = "added_tokens.json"
TEMPLATE, MORE_TEMPLATES = "chat_template.jinja", "additional_chat_templates"
_STANDARD = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
_SEVERAL = ("additional_special_tokens", "extra_special_tokens")


@dataclass(frozen=True)
class VocabularySettings:
    """Special tokens, end tokens and chat templates in the files beside a vocabulary."""

    named: Mapping[str, str | list[str]] = field(default_factory=dict)  # the texts of special tokens, by name
    end_texts: tuple[str, ...] = ()  # every `eos_token`
    end_ids: tuple[int, ...] = ()  # every `eos_token_id`; may lie outside the vocabulary
    add_bos: bool = False
    add_eos: bool = False
    templates: Mapping[str, str] = field(default_factory=dict)  # chat templates by name
    kind: str = "GPT2Tokenizer"  # value of `tokenizer_class`
    added: tuple[Mapping, ...] = ()  # added tokens as in tokenizer.json, for vocabularies without one


def read_settings(folder: Path) -> VocabularySettings:
    """Read the vocabulary settings in a model folder's files. Raises CheckpointError for a broken file."""
    config, listed, generation, model, added = (
        read_json(folder / name) if (folder / name).is_file() else {}
        for name in (TOKENIZER_CONFIG, TOKENS_MAP, GENERATION_CONFIG, CONFIG, ADDED)
    )
    ends = _token_ids(generation, GENERATION_CONFIG) or _token_ids(model, CONFIG)
    settings = settings_of(config, listed, _template_files(folder), ends)
    return replace(settings, added=_added(config.get("added_tokens_decoder"), added, settings))


def _added(decoder: object, texts: Mapping, settings: "VocabularySettings") -> tuple[Mapping, ...]:
    """Return the added tokens of tokenizer_config.json and of added_tokens.json, as in tokenizer.json.

    decoder: the former, by id; texts: the latter, text -> id. A token of the latter is special if the files name it.
    Raises CheckpointError for an invalid token.
    """
    listed = [text for value in settings.named.values() for text in (value if isinstance(value, list) else [value])]
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip"), False)
    tokens = {
        text: flags | {"content": text, "id": number, "special": text in listed, "normalized": text not in listed}
        for text, number in texts.items()
        if type(number) is int
    }
    for number, token in decoder.items() if isinstance(decoder, Mapping) else ():
        if not isinstance(token, Mapping) or not isinstance(token.get("content"), str) or not str(number).isdecimal():
            raise CheckpointError("An added token has no text or no id.", str(token)[:80], FRESH_COPY)
        tokens[token["content"]] = {**flags, **token, "id": int(number)}
    return tuple(sorted(tokens.values(), key=lambda token: token["id"]))


def settings_of(
    config: Mapping,
    listed: Mapping | None = None,
    templates: Mapping[str, str] | None = None,
    end_ids: tuple[int, ...] = (),
) -> VocabularySettings:
    """Read the settings in the content of tokenizer_config.json and of special_tokens_map.json (`listed`).

    `templates` are the chat templates with files of their own, by name. Raises CheckpointError for an invalid chat
    template.
    """
    both = (_named(config), _named(listed or {}))
    first, second = both if "added_tokens_decoder" in config else reversed(both)
    return VocabularySettings(
        named={**second, **first},
        end_texts=tuple(dict.fromkeys(str(each["eos_token"]) for each in both if "eos_token" in each)),
        end_ids=end_ids,
        add_bos=config.get("add_bos_token") is True,
        add_eos=config.get("add_eos_token") is True,
        templates=templates or _templates(config.get("chat_template")),
        kind=str(config.get("tokenizer_class", "GPT2Tokenizer")),
    )


def _token_id(text: str | list[str] | None, key: str, ids: Mapping[str, int]) -> int | None:
    """Return the id of the token that the files name under `key`, or None if they name no token."""
    if text is None:
        return None
    if not isinstance(text, str) or text not in ids:
        what = say("The {} in {} is not in the vocabulary.", key, TOKENIZER_CONFIG)
        raise CheckpointError(what, str(text)[:80], FRESH_COPY)
    return ids[text]


def with_settings(
    base: Vocabulary, ids: Mapping[str, int], added: Sequence[AddedToken], settings: VocabularySettings
) -> Vocabulary:
    """Fill in `base` with the settings of the files beside it; a single special token is both BOS and EOS, as in
    GPT-2.

    End tokens outside the vocabulary are stored in `rows_that_end` until the model's rows are known.
    """
    special = [token.id for token in added if token.special]
    bos, eos = (_token_id(settings.named.get(key), key, ids) for key in ("bos_token", "eos_token"))
    ends = [_token_id(text, "eos_token", ids) for text in settings.end_texts]
    ends += [number for number in settings.end_ids if 0 <= number < len(base.raw)]
    if bos is None and eos is None and len(special) == 1 and not base.library:
        bos = eos = special[0]
    if eos is None:
        eos = next((number for number in ends if number in special), None)
    bos = bos if base.bos_id is None else base.bos_id
    if base.library and settings.add_eos and eos is not None and not base.finish:
        base = replace(base, finish=(eos,))
    templates = dict(settings.templates)
    return replace(
        base,
        bos_id=bos,
        eos_id=eos,
        add_bos=base.add_bos or (settings.add_bos and bos is not None),
        chat_template=templates.pop(DEFAULT, None),
        other_templates=templates,
        end_ids=tuple(dict.fromkeys(number for number in ends if number is not None)),
        rows_that_end=tuple(number for number in settings.end_ids if number >= len(base.raw)),
        disputed_end=bool(settings.end_ids) and eos not in settings.end_ids,
        named=settings.named,
    )


def _named(values: Mapping) -> dict[str, str | list[str]]:
    """Return the text of each special token by its name in chat templates."""
    texts: dict[str, str | list[str]] = {}
    for key, value in values.items():
        if key in _SEVERAL and isinstance(value, list):
            texts[key] = [text for each in value if (text := _content(each)) is not None]
        elif key == "extra_special_tokens" and isinstance(value, Mapping):
            texts |= {name: text for name, each in value.items() if (text := _content(each)) is not None}
        elif isinstance(key, str) and key.endswith("_token") and (text := _content(value)) is not None:
            texts[key] = text
        elif key in _STANDARD[:2] and value is not None:
            what = say("The {} in {} is not in the vocabulary.", key, TOKENIZER_CONFIG)
            raise CheckpointError(what, str(value)[:80], FRESH_COPY)
    return texts


def _content(token: object) -> str | None:
    """Return the text of a token: the value itself or its "content"."""
    text = token.get("content") if isinstance(token, Mapping) else token
    return text if isinstance(text, str) else None


def _token_ids(values: Mapping, name: str) -> tuple[int, ...]:
    """Return the ids in the `eos_token_id` of a file, which holds one or a list. Raises CheckpointError for anything
    else.
    """
    value = values.get("eos_token_id")
    ids = value if isinstance(value, list) else [] if value is None else [value]
    if not set(map(type, ids)) <= {int}:
        what = say("The eos_token_id in {} is not a token id.", name)
        raise CheckpointError(what, str(value)[:80], "Write one id, or a list of ids.")
    return tuple(ids)


def _template_files(folder: Path) -> dict[str, str]:
    """Read the chat templates with files of their own, by name."""
    files = {DEFAULT: folder / TEMPLATE} if (folder / TEMPLATE).is_file() else {}
    files |= {path.stem: path for path in sorted((folder / MORE_TEMPLATES).glob("*.jinja"))}
    return {name: read_text(path) for name, path in files.items()}


def _templates(value: object) -> dict[str, str]:
    """Return the chat templates of tokenizer_config.json by name, given as a string, a list or an object."""
    if value is None:
        return {}
    if isinstance(value, str):
        return {DEFAULT: value}
    pairs = list(value.items()) if isinstance(value, Mapping) else []
    if isinstance(value, list) and all(isinstance(each, Mapping) for each in value):
        pairs = [(each.get("name"), each.get("template")) for each in value]
    if (pairs or value in ([], {})) and all(isinstance(each, str) for pair in pairs for each in pair):
        return dict(pairs)
    what = say("The chat template in {} must be a text, or several templates with names.", TOKENIZER_CONFIG)
    raise CheckpointError(what, type(value).__name__, FRESH_COPY)
