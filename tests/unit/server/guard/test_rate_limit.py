"""How often one may ask: buckets of tokens, by page and by address."""

from tests.support.guard import JOIN, Clock, ask, echo, guarded, scope_of
from viz.server import middleware
from viz.server.guard.rate_limit import Buckets
from viz.work.playground import Options
from viz.work.rates import Rate


def test_a_bucket_empties_and_fills():
    clock = Clock()
    bucket = Buckets(Rate(burst=3, per_second=2), clock=clock)
    assert [bucket.wait("a") for _ in range(4)] == [0, 0, 0, 0.5]
    assert bucket.wait("b") == 0  # another client's own
    clock.now += 0.25
    assert bucket.wait("a") == 0.25  # asking too early costs nothing
    clock.now += 0.25
    assert bucket.wait("a") == 0
    clock.now += 1000
    assert [bucket.wait("a") for _ in range(4)] == [0, 0, 0, 0.5]  # never more than the burst


def test_what_was_not_needed_is_given_back():
    clock = Clock()
    bucket = Buckets(Rate(burst=2, per_second=1), clock=clock)
    for _ in range(5):
        assert bucket.wait("a") == 0
        bucket.give_back("a")
    bucket.give_back("a"), bucket.give_back("unknown")
    assert [bucket.wait("a") for _ in range(3)] == [0, 0, 1] and len(bucket) == 1  # never more than the burst


def test_buckets_of_many_clients_take_bounded_memory():
    bucket = Buckets(Rate(2, 1), capacity=10, clock=Clock())
    bucket.wait("kept"), bucket.wait("kept")
    for n in range(100):
        bucket.wait(n)
        assert bucket.wait("kept") > 0  # seen lately, so not forgotten
    assert len(bucket) == 10


def join(guarded, session="abc", **more):
    return ask(
        guarded, JOIN, "POST", body=(b'{"data":["x"],"fn_index":7,"session_hash":"%s"}' % session.encode(),), **more
    )


def test_a_page_is_asked_to_wait_and_others_are_not():
    clock = Clock()
    ours = guarded(computing_each=Buckets(Rate(2, 1), clock=clock))
    assert [join(ours).status for _ in range(3)] == [200, 200, 429]
    answer = join(ours)
    assert answer.headers["retry-after"] == "2" and "busy" in answer.text
    assert join(ours, "other").status == 200  # another page behind the same address
    assert join(ours, client=("10.0.0.2", 1)).status == 200
    clock.now += 1
    assert join(ours).status == 200


def test_an_address_cannot_have_more_by_many_pages():
    ours = guarded(computing=Buckets(Rate(5, 1), clock=Clock()))
    assert [join(ours, f"page{n}").status for n in range(7)] == [200] * 5 + [429] * 2
    assert join(ours, "page", client=("10.0.0.2", 1)).status == 200


def test_every_request_of_a_shared_server_is_counted_and_none_of_a_private_one():
    def few():
        return {name: Buckets(Rate(3, 1), clock=Clock()) for name in ("visits", "computing", "computing_each")}

    assert [ask(ours, "/config").status for ours in [guarded(**few())] * 5] == [200] * 3 + [429] * 2
    private = guarded(Options(), **few())
    assert [join(private).status for _ in range(9)] == [200] * 9


def test_a_text_cannot_pretend_to_be_another_page():
    ours = guarded(computing_each=Buckets(Rate(1, 1), clock=Clock()))
    forged = rb'{"data":["\"session_hash\":\"forged%d\""],"fn_index":7,"session_hash":"\u0061bc"}'
    assert [ask(ours, JOIN, "POST", body=(forged % n,)).status for n in range(3)] == [200, 429, 429]


def test_so_many_connections_of_one_address(monkeypatch):
    monkeypatch.setattr(middleware, "MOST_OPEN", 2)
    ours, inner = guarded(), []

    async def nested(scope, receive, send):
        if len(inner) < 3:
            messages = []

            async def keep(message):
                messages.append(message)

            inner.append(messages)
            await ours(scope_of("/"), receive, keep)
        await echo(scope, receive, send)

    ours.app = nested
    assert ask(ours, body=[b""] * 3).status == 200
    assert [messages[0]["status"] for messages in inner] == [200, 429]
    assert not ours.under_way  # nothing is left over


def test_a_class_behind_one_address_is_not_held_up():
    """Thirty pages are opened within a second, then each is typed into at seven keys a second for a minute."""
    clock = Clock()
    rates = {
        "visits": middleware.VISITS,
        "computing": middleware.COMPUTING,
        "computing_each": middleware.COMPUTING_EACH,
    }
    ours = guarded(**{name: Buckets(rate, clock=clock) for name, rate in rates.items()})
    for _ in range(30 * 80):
        assert ours.visits.wait("class") == 0
    for _ in range(10 * 60):  # the model answers some dozens of questions a second, and a page asks one at a time
        clock.now += 0.1
        for page in range(6):
            assert ours.computing_each.wait(("class", page)) == 0 and ours.computing.wait("class") == 0
            assert ours.visits.wait("class") == 0 and ours.visits.wait("class") == 0
