"""A request of a simulated agent that changes something, and who waits for its answer, for how long."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from controller.agent.cluster.orders import Reply, Split, Unload, may_have_reached

Change = Unload | Split


@dataclass(slots=True, eq=False)
class Request:
    """One change. `order_id`: of the order that it carries out. `on_reply` is called at most once.

    Who no longer `waits` has timed out or died: no redirect is followed, and nobody hears the answer.
    """

    order_id: str
    change: Change
    on_reply: Callable[[Reply], None]
    waits: bool = True

    def answer(self, status: int, detail: str = "", noted: bool = True) -> None:
        """Answer it; `status` 0: it was received by nobody who might act on it."""
        self._end(Reply(status, may_have_reached(status, unanswered=False), detail, redirected=noted))

    def time_out(self) -> None:
        """No answer came within the read timeout."""
        self._end(Reply(0, may_have_reached(0, unanswered=True), "read timeout", redirected=True))

    def _end(self, reply: Reply) -> None:
        if self.waits:
            self.waits = False
            self.on_reply(reply)
