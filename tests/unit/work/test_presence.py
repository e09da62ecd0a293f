"""Who is there, and whose a visit is."""

from viz.work import presence
from viz.work.presence import Presence


def test_a_page_is_there_until_its_last_line_is_closed():
    there = Presence()
    there.arrive("a"), there.arrive("a")
    assert there.is_here("a") and not there.is_heard("a") and not there.is_here("b")
    assert not there.depart("a") and there.is_here("a")
    assert there.depart("a") and not there.is_here("a")


def test_who_reads_answers_is_there_too():
    there = Presence()
    there.listen("a")
    assert there.is_heard("a") and there.is_here("a")
    assert there.deafen("a") and not there.is_here("a")


def test_the_first_to_ask_in_the_name_of_a_visit_owns_it(monkeypatch):
    monkeypatch.setattr(presence, "MOST_OWNERS", 3)
    there = Presence()
    assert there.owner_of("a") == "a"  # nobody has asked
    assert there.belongs("a", "ann") and there.belongs("a", "ann") and not there.belongs("a", "bob")
    assert there.owner_of("a") == "ann"
    for n in range(4):
        there.belongs(f"v{n}", "eve")
    assert there.owner_of("a") == "a" and len(there._owners) == 3  # remembered within bounds
