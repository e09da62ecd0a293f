"""Known kinds of prompts: what a text asks for, and the answer where it follows from the text or is a listed fact.

Recognition reads the text alone; no model runs. A text of no known kind gives None, which is the usual case.
"""

import functools
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).with_name("kinds.toml")
KINDS = ("indirect_object", "repeated", "fact", "question", "arithmetic", "code", "few_shot", "chinese")
LONGEST = 2_000  # maximum number of characters to examine, counted from the end of the text
SHORTEST_REPEAT, LONGEST_REPEAT = 4, 12  # words that must have occurred before


@dataclass(frozen=True)
class KindOfPrompt:
    """A recognized kind, and the answer without a leading space; "" if the answer is unknown."""

    kind: str  # one of KINDS
    answer: str = ""


@functools.cache
def data() -> dict:
    """Read the listed facts and prompts."""
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def recognize(text: str) -> KindOfPrompt | None:
    """Return the kind of a prompt, or None. The text continues at its end; spaces there do not matter."""
    seen = text[-LONGEST:].rstrip()
    for test in (_chinese, _few_shot, _code, _arithmetic, _fact, _question, _indirect_object, _repeated):
        if seen and (found := test(seen)):
            return found
    return None


def _chinese(text: str) -> KindOfPrompt | None:
    """Recognize a text that consists mostly of Chinese characters."""
    letters = [letter for letter in text if letter.isalpha()]
    chinese = sum("\u3400" <= letter <= "\u9fff" for letter in letters)
    # Japanese mixes them with kana.
    kana = any("\u3040" <= letter <= "\u30ff" for letter in letters)
    return KindOfPrompt("chinese") if chinese > len(letters) / 2 and not kana else None


def _few_shot(text: str) -> KindOfPrompt | None:
    """Recognize at least two solved lines with the same arrow or separator, and one to solve."""
    *solved, last = text.splitlines()
    for sign in ("->", "=>", "→", ":"):
        pairs = [line.split(sign) for line in solved if line.strip()]
        whole = all(len(pair) == 2 and pair[0].strip() and pair[1].strip() for pair in pairs)
        if len(pairs) >= 2 and whole and last.endswith(sign) and last.removesuffix(sign).strip():
            return KindOfPrompt("few_shot")
    return None


_CODE = re.compile(
    r"^[ \t]*(def \w+\(|class \w+.*[:{]$|import \w+|from [\w.]+ import |#include\b|function \w*\("
    r"|(const|let|var) \w+ ?=|(public|private|static) \w+|(if|while|elif) .*[=<>(].*:$"
    r"|for \w+ in .*:$|with .* as \w+:$"
    r"|(if|for|while) ?\(|return\b.*[;(+*/]|\w+ = [\w\[({\"'])",
    re.MULTILINE,
)
_RETURN = re.compile(r"def \w+\((\w+), (\w+)\):\s+return (\w+) (?:[+\-*/%]|\*\*)$")


def _code(text: str) -> KindOfPrompt | None:
    """Recognize program code; the answer is known for a function of two arguments that combines them."""
    if not _CODE.search(text):
        return None
    if found := _RETURN.search(text):
        first, second, used = found.groups()
        if used in (first, second) and first != second:
            return KindOfPrompt("code", second if used == first else first)
    return KindOfPrompt("code")


_SUM = re.compile(
    r"(?<![\d.,/])(-?\d{1,6})\s*([+\-−–*x×·/÷]|plus|minus|times|divided by)\s*(\d{1,6})"
    r"\s*(?:=|is|equals|is equal to|makes|\?)$"
)
_OPERATIONS = {"+": "+", "plus": "+", "-": "-", "−": "-", "–": "-", "minus": "-", "/": "/", "÷": "/", "divided by": "/"}


def _arithmetic(text: str) -> KindOfPrompt | None:
    """Recognize a calculation of two whole numbers; the answer is known if it is whole, too."""
    if not (found := _SUM.search(text)):
        return None
    a, b, operation = int(found[1]), int(found[3]), _OPERATIONS.get(found[2], "*")
    if operation == "/":
        return KindOfPrompt("arithmetic", str(a // b) if b and a % b == 0 else "")
    return KindOfPrompt("arithmetic", str({"+": a + b, "-": a - b, "*": a * b}[operation]))


@functools.cache
def _patterns() -> tuple[tuple[str, re.Pattern, dict[str, str]], ...]:
    """Build the patterns of the listed relations: (kind, pattern, answers by lowercase name)."""
    patterns = []
    for relation in data()["facts"].values():
        answers = {name.lower(): answer for name, answer in relation["answers"].items()}
        name = r"(?P<x>(?:the )?[\w][\w' -]{1,40}?)"
        for kind, templates in (("fact", relation["says"]), ("question", relation["asks"])):
            for template in templates:
                pattern = re.escape(template).replace(r"\{x\}", name)
                patterns.append((kind, re.compile(rf"(?:^|[.!?:\n]\s*){pattern}$", re.IGNORECASE), answers))
    return tuple(patterns)


def _fact(text: str) -> KindOfPrompt | None:
    """Recognize a listed relation, as a sentence to complete or as a question."""
    for kind, pattern, answers in _patterns():
        if found := pattern.search(text):
            return KindOfPrompt(kind, answers.get(found["x"].lower(), ""))
    return None


def _question(text: str) -> KindOfPrompt | None:
    """Recognize a text that ends with a question of at least three words."""
    last = re.split(r"[.!?\n]\s+", text)[-1]
    return KindOfPrompt("question") if text.endswith("?") and len(last.split()) >= 3 else None


_NAME = r"[A-Z][a-z]+"
_PAIR = re.compile(rf"\b({_NAME}) and ({_NAME})\b")
_GIVES = re.compile(rf"\b({_NAME}) (?:[a-z]+ ){{1,8}}to$")


def _indirect_object(text: str) -> KindOfPrompt | None:
    """Recognize two people, one giving something "to" the other; the answer is the one who is named only once.

    Wang et al. 2022, "Interpretability in the wild".
    """
    gives, pairs = _GIVES.search(text), list(_PAIR.finditer(text))
    if not gives or not pairs:
        return None
    first, second = pairs[-1].groups()
    giver = gives[1]
    if first == second or giver not in (first, second) or gives.start() < pairs[-1].end():
        return None
    other = second if giver == first else first
    return KindOfPrompt("indirect_object", other) if len(re.findall(rf"\b{other}\b", text)) == 1 else None


def _repeated(text: str) -> KindOfPrompt | None:
    """Recognize a text whose last words occurred before; the answer is the word that followed them there."""
    words = text.split()
    for length in range(min(LONGEST_REPEAT, len(words) // 2), SHORTEST_REPEAT - 1, -1):
        tail = words[-length:]
        for start in range(len(words) - 2 * length, -1, -1):
            if words[start : start + length] == tail:
                return KindOfPrompt("repeated", _plain(words[start + length]))
    return None


def _plain(word: str) -> str:
    """Return a word without the punctuation around it."""
    return re.sub(r"^\W+|\W+$", "", word)
