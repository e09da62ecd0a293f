"""Where long work queues: so many jobs and races at once, a line behind them, and a polite no beyond that."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from model.errors import PlaygroundError


@dataclass(frozen=True)
class Bounds:
    """How much long work a server takes on."""

    running: int = 4  # jobs at once for each place where models are; they take turns there
    texts: int = 8  # texts at once, likewise, which share their forwards (model.generation.together)
    waiting: int = 32  # behind them, enough for a class that presses a button together
    each: int = 3  # running or waiting, of one visitor
    reserve: int = 8  # places in line that who has several in it leaves to others
    several: int = 4


@dataclass(eq=False)
class Ticket:
    """A place in the line, or at work."""

    owner: str  # the visit
    desk: "Desk"
    client: str = ""  # who that is: an address or a login name
    running: bool = False
    text: bool = False  # whether it is a text, which shares its forwards with others

    def wait(self, seconds: float) -> int:
        """0 as soon as it is this ticket's turn, else its place among those of its kind after so many seconds."""
        with self.desk.changed:
            self.desk.changed.wait_for(lambda: self.running, seconds)
            if self.running:
                return 0
            line = self.desk.line
            return 1 + sum(other.text == self.text for other in line[: line.index(self)])

    def leave(self) -> None:
        """Make room for the next one; a second time does nothing."""
        self.desk.leave(self)


@dataclass(eq=False)
class Desk:
    """All long work of a server.

    Free places go to the client (an address or a login name) with the least at work, then to its visit with the least,
    then in the order they came. Whoever invents visits is one client.
    """

    bounds: Bounds = field(default_factory=Bounds)
    client_of: Callable[[str], str] = lambda owner: owner
    places: Callable[[], int] = lambda: 1  # where models are: viz.work.engine.Engine.places
    line: list[Ticket] = field(default_factory=list)
    working: list[Ticket] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def join(self, owner: str, *, text: bool = False) -> Ticket:
        """A ticket for a visitor's job or text; raises PlaygroundError where there is no room."""
        with self.changed:
            tickets = sum(ticket.owner == owner for ticket in (*self.line, *self.working))
            if tickets >= self.bounds.each:
                raise PlaygroundError(
                    "The server is still busy with what you started before.", "", "Wait until it ends, or cancel it."
                )
            client = self.client_of(owner)
            several = sum(ticket.client == client for ticket in self.line) >= self.bounds.several
            if len(self.line) >= self.bounds.waiting - (self.bounds.reserve if several else 0):
                raise PlaygroundError("The server is busy with others' work.", "", "Try again in a moment.")
            ticket = Ticket(owner, self, client, text=text)
            self.line.append(ticket)
            self._call()
            return ticket

    def leave(self, ticket: Ticket) -> None:
        """Take a ticket out of the line or from work."""
        with self.changed:
            for place in (self.line, self.working):
                if ticket in place:
                    place.remove(ticket)
            self._call()

    def _call(self) -> None:
        while free := [ticket for ticket in self.line if self._has_room(ticket.text)]:
            clients, owners = ([getattr(each, name) for each in self.working] for name in ("client", "owner"))
            chosen = min(free, key=lambda each: (clients.count(each.client), owners.count(each.owner)))
            self.line.remove(chosen)
            chosen.running = True
            self.working.append(chosen)
        self.changed.notify_all()

    def _has_room(self, text: bool) -> bool:
        """Whether another text, or another job, may begin."""
        at_work = sum(ticket.text == text for ticket in self.working)
        return at_work < self.places() * (self.bounds.texts if text else self.bounds.running)
