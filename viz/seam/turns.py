"""How the turns of a conversation are called."""

from collections import Counter
from collections.abc import Mapping, Sequence


def turn_names(roles: Sequence[str], words: Mapping[str, str]) -> list[str]:
    """A name for each turn: its role, numbered where the role speaks more than once. `words`: the whole catalogue."""
    often, seen, names = Counter(roles), Counter[str](), []
    for role in roles:
        seen[role] += 1
        name = words[f"chat.{role}"]
        names.append(words["chat.turn"].format(role=name, n=seen[role]) if often[role] > 1 else name)
    return names
