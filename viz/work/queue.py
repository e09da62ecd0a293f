"""A fair queue of limited length for views, jobs and texts of all pages."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from model.errors import PlaygroundError

KINDS = ("view", "job", "text")
MOST_SERVED = 4096  # maximum number of clients and visits whose last turn is stored


@dataclass(frozen=True)
class Bounds:
    """Limits of a server's work: how much runs at once in each process that holds models, and how much may wait."""

    views: int = 4  # maximum number of concurrent page questions
    running: int = 4  # maximum number of concurrent jobs, which take turns at the model
    texts: int = 8  # maximum number of concurrent texts, which share their forward passes (model.generation.together)
    questions: int = 64  # maximum number of waiting page questions
    share: int = 64  # maximum number of waiting page questions per client
    waiting: int = 32  # maximum number of waiting jobs and texts, enough for a class that presses a button together
    each: int = 3  # maximum number of jobs and texts per visit, running or waiting
    reserve: int = 8  # waiting places that are not available to clients with `several` or more waiting jobs and texts
    several: int = 4


class QueueFull(PlaygroundError):
    """Error raised if the queue has no room for another question of a client."""

    def __init__(self) -> None:
        super().__init__("The server is busy with others' work.", "", "Try again in a moment.")


@dataclass(eq=False)
class Ticket:
    """A place among the waiting or running work."""

    owner: str  # id of the visit
    queue: "Queue"
    client: str = ""  # an address or a login name
    kind: str = "job"  # one of KINDS
    name: str = ""  # the purpose; a visit has only one ticket per name at a time
    running: bool = False
    # Set once the result is no longer needed. The ticket keeps its place until its work has ended, but it no longer
    # counts toward its visit's limit.
    cancelled: threading.Event = field(default_factory=threading.Event)
    called: Callable[[], object] = lambda: None  # called once, from any thread, when the work may begin

    def wait(self, seconds: float) -> int:
        """Wait at most `seconds`. Returns 0 when the work may start, else its position among the waiting work of its
        kind.
        """
        with self.queue.changed:
            self.queue.changed.wait_for(lambda: self.running, seconds)
            if self.running:
                return 0
            line = self.queue.line
            return 1 + sum(other.kind == self.kind for other in line[: line.index(self)])

    def leave(self) -> None:
        """Make room for the next ticket; a second call does nothing."""
        self.queue.leave(self)


@dataclass(eq=False)
class Queue:
    """All waiting and running work of a server.

    A free place goes to the client (an address or a login name) with the least work of that kind, then to its visit
    with the least. Ties go to the client, and then the visit, whose last turn is longest ago, and then by order of
    arrival. A client that invents visits still counts as one client. Views, jobs and texts have separate places.
    """

    bounds: Bounds = field(default_factory=Bounds)
    client_of: Callable[[str], str] = lambda owner: owner
    places: Callable[[], int] = lambda: 1  # number of processes that hold models: viz.work.engine.Engine.places
    line: list[Ticket] = field(default_factory=list)
    working: list[Ticket] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)
    # (client,) or (client, visit) -> number of the last turn
    _served: OrderedDict[tuple[str, ...], int] = field(default_factory=OrderedDict)
    _turns: int = 0

    def join(
        self, owner: str, kind: str = "job", called: Callable[[], object] = lambda: None, name: str = ""
    ) -> Ticket:
        """Create a ticket for work of `kind` for a visit; `called` is called when the work may begin.

        A visit's earlier ticket of the same name is cancelled: a page that restarts something has closed the previous
        request, but the server may see the two in either order. Raises QueueFull, or PlaygroundError for a visit with
        too much work.
        """
        with self.changed:
            client = self.client_of(owner)
            for other in (*self.line, *self.working):
                if name and (other.owner, other.name) == (owner, name):
                    other.cancelled.set()
            self._check_room(owner, client, kind)
            ticket = Ticket(owner, self, client, kind, name, called=called)
            self.line.append(ticket)
            begun = self._begin()
        _call(begun)
        return ticket

    def leave(self, ticket: Ticket) -> None:
        """Remove a ticket from the waiting or the running work."""
        with self.changed:
            for place in (self.line, self.working):
                if ticket in place:
                    place.remove(ticket)
            begun = self._begin()
        _call(begun)

    def _check_room(self, owner: str, client: str, kind: str) -> None:
        long = kind != "view"
        of_kind = [ticket for ticket in self.line if (ticket.kind != "view") == long]
        mine = sum(ticket.client == client for ticket in of_kind)
        if not long:
            if len(of_kind) >= self.bounds.questions or mine >= self.bounds.share:
                raise QueueFull
            return
        pending = [each for each in (*of_kind, *self.working) if each.kind != "view" and not each.cancelled.is_set()]
        if sum(each.owner == owner for each in pending) >= self.bounds.each:
            raise PlaygroundError(
                "The server is still busy with what you started before.", "", "Wait until it ends, or cancel it."
            )
        if len(of_kind) >= self.bounds.waiting - (self.bounds.reserve if mine >= self.bounds.several else 0):
            raise QueueFull

    def _begin(self) -> list[Ticket]:
        """Start waiting work while places are free; returns the tickets that started."""
        begun = []
        for kind in KINDS:
            while self._free(kind) and (waiting := [ticket for ticket in self.line if ticket.kind == kind]):
                chosen = min(waiting, key=self._rank)
                self.line.remove(chosen)
                chosen.running = True
                self.working.append(chosen)
                self._note(chosen)
                begun.append(chosen)
        self.changed.notify_all()
        return begun

    def _rank(self, ticket: Ticket) -> tuple[int, int, int, int]:
        """Return the sort key among tickets of one kind; the smallest goes first."""
        alike = [each for each in self.working if each.kind == ticket.kind]
        of_client = sum(each.client == ticket.client for each in alike)
        of_owner = sum(each.owner == ticket.owner for each in alike)
        last_of_client = self._served.get((ticket.kind, ticket.client), 0)
        return of_client, last_of_client, of_owner, self._served.get((ticket.kind, ticket.client, ticket.owner), 0)

    def _note(self, ticket: Ticket) -> None:
        self._turns += 1
        for key in ((ticket.kind, ticket.client), (ticket.kind, ticket.client, ticket.owner)):
            self._served.pop(key, None)
            self._served[key] = self._turns
        while len(self._served) > MOST_SERVED:
            self._served.popitem(last=False)

    def _free(self, kind: str) -> bool:
        """Return whether another ticket of a kind may start."""
        at_work = sum(ticket.kind == kind for ticket in self.working)
        most = {"view": self.bounds.views, "job": self.bounds.running, "text": self.bounds.texts}[kind]
        return at_work < self.places() * most


def _call(tickets: list[Ticket]) -> None:
    for ticket in tickets:
        ticket.called()
