"""Questions of one page: one after the other, each from the last answer's state, those that were overtaken dropped."""

import copy
import threading

from viz.page.turns import PageState


def test_questions_that_come_at_once_are_answered_one_after_the_other_and_only_the_newest_waits():
    state, began, go, took = PageState({"n": 0}), threading.Event(), threading.Event(), []

    def ask(name: str, first: bool = False) -> None:
        with state.turn() as newest:
            if first:
                began.set()
                go.wait(20)
            took.append((name, newest))
            if newest or first:
                state.now = {"n": state.now["n"] + 1}

    threads = [threading.Thread(target=ask, args=("a", True))]
    threads[0].start()
    assert began.wait(20)
    for name in "bc":
        threads.append(threading.Thread(target=ask, args=(name,)))
        threads[-1].start()
    while state.asked < 3:  # all of them are in the line
        threading.Event().wait(0.01)
    go.set()
    for thread in threads:
        thread.join(20)
    said = dict(took)
    assert took[0] == ("a", True)  # it began before the others came
    assert sorted(said.values()) == [False, True, True] and state.now == {"n": 2}


def test_an_older_question_that_comes_late_puts_nothing_back():
    state = PageState({})
    took = []
    for number in ("1", "3", "2", "4", None, "x", "5", "-7", "9" * 5000):
        with state.turn(number) as newest:
            took.append(newest)
    # Without a number that can be read it is newer than those before: 5, 6, then 5 of the page is late, 7, 8.
    assert took == [True, True, False, True, True, True, False, True, True] and state.asked == 8


def test_a_question_that_fails_lets_the_next_one_in():
    state = PageState({})
    try:
        with state.turn():
            raise ValueError
    except ValueError:
        pass
    with state.turn() as newest:
        assert newest


def test_each_page_has_a_state_of_its_own():
    built = PageState({"n": 0})
    one, other = copy.deepcopy(built), copy.deepcopy(built)
    one.now = {"n": 1}
    assert other.now == built.now == {"n": 0}
    with one.turn(), other.turn() as newest:  # no line is shared
        assert newest
