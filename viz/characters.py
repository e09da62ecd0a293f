"""Characters that span several tokens."""

from collections.abc import Mapping, Sequence

from model.records import Tokens
from model.text.characters import character_groups, character_parts
from viz.labels import quoted, visible


def frames(raw: Sequence[bytes]) -> list[list]:
    """Return [first token, end, character] for each character that spans several tokens.

    `raw` holds the bytes of each token. A character is an extended grapheme cluster, in the form of a label.
    """
    groups = character_groups(raw, clusters=True)
    return [[group.start, group.end, quoted(group.text)] for group in groups if group.end - group.start > 1]


def part_notes(raw: Sequence[bytes], words: Mapping[str, str]) -> dict[int, str]:
    """Format the label of each token that contains only some bytes of a character: "byte 1 of 2 of ש".

    `words` is the whole catalogue.
    """
    return {
        at: ", ".join(
            words["characters.byte" if part.first == part.last else "characters.bytes"].format(
                first=part.first, last=part.last, of=part.of, character=quoted(part.text)
            )
            for part in parts
        )
        for at, parts in character_parts(raw).items()
    }


def token_chips(tokens: Tokens, words: Mapping[str, str]) -> list[dict]:
    """Build the row of tokens: visible text, id, bytes as hex, byte span; `part` for a part of a character.

    `part` comes from `part_notes`. The text is plain and set via `textContent`. `words` is the whole catalogue.
    """
    notes = part_notes(tokens.raw, words)
    rows = zip(tokens.pieces, tokens.ids, tokens.raw, tokens.spans, strict=True)
    return [
        {"text": visible(piece), "id": int(i), "bytes": raw.hex(" "), "span": [int(a), int(b)]}
        | ({"part": notes[at]} if at in notes else {})
        for at, (piece, i, raw, (a, b)) in enumerate(rows)
    ]
