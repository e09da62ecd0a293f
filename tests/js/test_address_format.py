"""A state from a link or a file is checked in bounded time, whatever its size."""

import pytest

pytestmark = pytest.mark.browser
MODULE = "page/address/address_format.js"
# Make a state whose `place` holds the given count of numbers, in the form of a link or of a file.
STATE = """(place, count) => {
  const list = Array(count).fill(0);
  const states = {
    values: { values: { chat: { a: list } } },
    tokens: { tokens: list },
    nested: { values: { chat: { a: Array(200).fill(list.slice(0, count / 200)) } } },
    unknown: { other: list },
  };
  const state = { prompt: "one", ...states[place] };
  const link = `#prompt=one&values=${encodeURIComponent(JSON.stringify(state.values ?? {}))}`;
  return [module.isSmall(state), Object.keys(module.checked(state).state), Object.keys(module.parse(link))];
}"""


@pytest.mark.parametrize("place", ["values", "tokens", "nested", "unknown"])
def test_a_state_of_many_entries_is_refused_as_a_whole(call, place):
    assert call(MODULE, STATE, place, 499_000)[:2] == [False, []]
    small, names, _ = call(MODULE, STATE, place, 10_000)
    assert small and names[0] == "prompt"


def test_so_is_a_link(call):
    assert call(MODULE, STATE, "values", 10_000)[2] == ["prompt", "values"]
    assert call(MODULE, STATE, "values", 30_000)[2] == []
