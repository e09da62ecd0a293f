"""The lock around the model: order, two lines, timeouts, interruptions, and no wake-up lost."""

import threading
import time

import pytest

from viz.work.model_lock import PATIENCE, Turns


def until(true):
    """Wait for what other threads are about to do."""
    end = time.monotonic() + 10
    while not true():
        assert time.monotonic() < end
        time.sleep(0.001)


def line_up(lock, names, done, later=False):
    """A thread for each name that notes it while it has the lock; they come one after the other."""
    threads = []
    for name in names:

        def turn(name=name):
            with lock.later() if later else lock:
                done.append(name)

        before = lock.waiting
        threads.append(threading.Thread(target=turn, daemon=True))
        threads[-1].start()
        until(lambda before=before: lock.waiting == before + 1)
    return threads


def join(threads):
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()


def test_those_who_wait_get_it_in_the_order_they_came():
    lock, done = Turns(), []
    lock.acquire()
    threads = line_up(lock, range(20), done)
    lock.release()
    join(threads)
    assert done == list(range(20)) and not lock.locked()


def test_whoever_takes_it_again_at_once_stands_behind_those_who_wait():
    lock, done = Turns(), []
    lock.acquire()
    threads = line_up(lock, "abc", done)
    lock.release()
    lock.acquire()
    assert done == ["a", "b", "c"]
    lock.release()
    join(threads)


def test_those_in_a_hurry_go_first_but_not_for_ever():
    lock, done = Turns(), []
    lock.acquire()
    patient = line_up(lock, ["p0", "p1"], done, later=True)
    hurried = line_up(lock, range(PATIENCE + 3), done)
    lock.release()
    join(patient + hurried)
    first, rest = [*range(PATIENCE)], [*range(PATIENCE, PATIENCE + 3)]
    assert done == [*first, "p0", *rest, "p1"]


def test_waiting_in_vain_ends_and_leaves_no_trace():
    lock, done = Turns(), []
    lock.acquire()
    assert lock.acquire(timeout=0.01) is False and lock.acquire(timeout=0.01, later=True) is False
    assert lock.acquire(timeout=0) is False
    assert lock.waiting == 0
    threads = line_up(lock, "a", done)
    lock.release()
    join(threads)
    assert done == ["a"] and lock.acquire(timeout=0)


def test_an_error_inside_gives_it_back():
    lock = Turns()
    with pytest.raises(ZeroDivisionError), lock:
        raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError), lock.later():
        raise ZeroDivisionError
    assert not lock.locked()


@pytest.mark.parametrize("handed", [False, True])
def test_an_interruption_while_waiting_leaves_the_line(handed, monkeypatch):
    lock = Turns()
    lock.acquire()

    def interrupted(ticket, timeout=None):
        if handed:
            lock.release()  # to the one who waits, a moment before
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Event, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        lock.acquire(timeout=10)
    assert lock.waiting == 0 and lock.locked() is not handed


def test_giving_back_what_is_not_held_is_an_error():
    with pytest.raises(RuntimeError):
        Turns().release()


def test_asking_again_for_what_one_has_is_an_error_and_no_standstill():
    lock = Turns()
    with lock, pytest.raises(RuntimeError, match="already"):
        lock.acquire()
    assert not lock.locked() and lock.acquire()


def test_fifty_threads_lose_no_wakeup_and_are_never_inside_together():
    lock, inside, most, turns = Turns(), [0], [0], [0] * 50

    def work(at):
        for n in range(100):
            timeout = 0.0005 if (at + n) % 3 == 0 else -1
            if not lock.acquire(timeout, later=at % 2 == 0):
                continue
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            turns[at] += 1
            if n % 10 == 0:
                time.sleep(0)
            inside[0] -= 1
            lock.release()

    threads = [threading.Thread(target=work, args=(at,), daemon=True) for at in range(50)]
    for thread in threads:
        thread.start()
    join(threads)
    assert most == [1] and min(turns) >= 60 and not lock.locked() and lock.waiting == 0
