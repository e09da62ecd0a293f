"""Where long work queues: so many jobs and races at once, a line behind them, and a polite no beyond that."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from model.errors import PlaygroundError


@dataclass(frozen=True)
class Bounds:
    """How much long work a server takes on."""

    running: int = 4  # at once; they take turns at the model
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

    def wait(self, seconds: float) -> int:
        """0 as soon as it is this ticket's turn, else how many stand before it after so many seconds."""
        with self.desk.changed:
            self.desk.changed.wait_for(lambda: self.running, seconds)
            return 0 if self.running else self.desk.line.index(self) + 1

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
    line: list[Ticket] = field(default_factory=list)
    working: list[Ticket] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def join(self, owner: str) -> Ticket:
        """A ticket for a visitor's work; raises PlaygroundError where there is no room."""
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
            ticket = Ticket(owner, self, client)
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
        while self.line and len(self.working) < self.bounds.running:
            clients, owners = ([getattr(each, name) for each in self.working] for name in ("client", "owner"))
            chosen = min(self.line, key=lambda each: (clients.count(each.client), owners.count(each.owner)))
            self.line.remove(chosen)
            chosen.running = True
            self.working.append(chosen)
        self.changed.notify_all()
