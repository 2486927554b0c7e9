"""Carries out the actions of the hand-over core, on the agent's event loop.

From `released` over serve to `serving` there is no hop between threads: the event is handled, the runtime called and
the answer sent in this loop. Invariants: once the lease has expired, no bundle starts being served and no answer is
sent; after `end` has returned, the runtime serves nothing. `end` waits for no call for ever: one that hangs may be
serving, and only the end of the process stops that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Any

from controller.agent.handover import actions as do
from controller.agent.handover.actions import Action, Answer, Cancel, Outcome, Work
from controller.agent.handover.core import HandoverCore
from controller.agent.metrics import AgentMetrics
from controller.brokers.runtime import BrokerRuntime, Where
from controller.domain.entries import Entry
from controller.domain.errors import Fenced, InvariantBroken, few_text
from controller.domain.events import BrokerEvent
from controller.domain.ids import Bundle, Session
from controller.domain.state import ClusterState

log = logging.getLogger(__name__)

# Below the controller's release deadline of 10 s: a hanging flush becomes a drop, and the answer still counts.
RELEASE_LIMIT_MS = 8_000
# For a drop, which has nothing to wait for, and for calls that were cancelled: what takes longer hangs.
DROP_LIMIT_MS = 8_000


class HandoverDriver:
    """Drives one session's hand-overs on one runtime; after `end`, `begin` takes the next session."""

    def __init__(
        self,
        runtime: BrokerRuntime,
        *,
        say: Callable[[Answer], None],
        may_act: Callable[[], bool],
        where: Callable[[Session], Where | None],
        boot_ms: Callable[[], int],
        metrics: AgentMetrics,
        on_moved: Callable[[], None] = lambda: None,
    ) -> None:
        """`may_act`: whether the session is registered and its lease valid, asked before each serve and answer.
        `where`: a session's address. `on_moved` is called when a bundle was taken, given away or split."""
        self._runtime = runtime
        self._say = say
        self._may_act = may_act
        self._where = where
        self._boot_ms = boot_ms
        self._metrics = metrics
        self._on_moved = on_moved
        self._running: dict[Bundle, asyncio.Task[Outcome]] = {}
        self._side: dict[asyncio.Task[None], None] = {}
        self._given_up: set[asyncio.Task[Outcome]] = set()  # cancelled by this driver; the runtime may raise the same
        self._heard_at: dict[Bundle, int] = {}
        self.core: HandoverCore | None = None

    # ---------------------------------------------------------------- inputs

    def begin(self, core: HandoverCore, state: ClusterState) -> None:
        """Start driving a session that has been registered; `state` names what it was granted since."""
        self.core = core
        self.perform(core.resync(state, self._boot_ms()))

    def on_entries(self, entries: Sequence[Entry], state: ClusterState) -> None:
        """Process entries that have just been applied."""
        if self.core is not None:
            self.perform(self.core.on_entries(entries, state, self._boot_ms()))

    def on_jump(self, state: ClusterState) -> None:
        """Process a state that was replaced as a whole."""
        if self.core is not None:
            self.perform(self.core.resync(state, self._boot_ms()))

    def on_event(self, event: BrokerEvent) -> None:
        """Process a broker event; only `released` matters here, the others are for the controller."""
        if self.core is None or event.kind != "released" or event.bundle is None or event.epoch is None:
            return
        now = self._boot_ms()
        self._heard_at[event.bundle] = now
        actions = self.core.on_released(event.bundle, event.epoch, event.session, now)
        self.perform(actions)
        if event.bundle not in self._running:
            del self._heard_at[event.bundle]

    def tick(self) -> None:
        """Repeat answers and failed work; detect bundles that the runtime stopped serving on its own."""
        if self.core is None:
            return
        now = self._boot_ms()
        truth = self._runtime.serving()
        self.perform(self.core.on_lost([b for b in self.core.serving() if b not in truth], now))
        self.perform(self.core.tick(now))
        self._metrics.served_bundles.set(len(truth))

    async def end(self) -> None:
        """End the session; returns once nothing is served. Raises InvariantBroken when the runtime cannot stop, or a
        call of it hangs."""
        if self.core is None:
            return
        drops = [a.bundle for a in self.core.end() if isinstance(a, do.Drop)]
        self.core = None
        tasks: list[asyncio.Task[Any]] = [*self._running.values(), *self._side]
        self._given_up.update(self._running.values())
        for task in tasks:
            task.cancel()
        await self._drop_all([*drops, *self._runtime.serving()])
        if tasks:
            await self._wait_for_cancelled(tasks)
        # Cancelled work may have started serving its bundle after the drop above.
        await self._drop_all([*(drops if tasks else ()), *self._runtime.serving()])
        self._running.clear()
        self._metrics.served_bundles.set(len(self._runtime.serving()))
        if self._runtime.serving():
            raise InvariantBroken(f"the runtime goes on serving {sorted(map(str, self._runtime.serving()))[:5]}")

    # ---------------------------------------------------------------- actions

    def perform(self, actions: Sequence[Action]) -> None:
        """Start the actions. Returns at once."""
        for action in actions:
            if isinstance(action, Answer):
                if self._may_act():
                    self._metrics.answers.labels(action.kind).inc()
                    self._say(action)
            elif isinstance(action, Cancel):
                self._given_up.add(self._running[action.bundle])
                self._running[action.bundle].cancel()
            elif isinstance(action, do.Reopen):
                self._reopen_aside(action)
            else:
                self._start(action)

    def _start(self, work: Work) -> None:
        task = asyncio.get_running_loop().create_task(self._attempt(work))
        self._running[work.bundle] = task
        task.add_done_callback(partial(self._on_finished, self.core, work, self._boot_ms()))

    def _on_finished(self, core: HandoverCore | None, work: Work, began_ms: int, task: asyncio.Task[Outcome]) -> None:
        """A call of the runtime has ended, or was cancelled before its first step."""
        outcome = Outcome.CANCELLED if task.cancelled() else task.result()
        now, name = self._boot_ms(), type(work).__name__.lower()
        self._given_up.discard(task)
        if outcome is Outcome.CANCELLED:
            after_s = (now - began_ms) / 1000
            log.warning("%s of %s: cancelled after %.1f s; what it did is uncertain", name, work.bundle, after_s)
        self._metrics.work.labels(name, outcome.value).inc()
        self._metrics.work_seconds.labels(name).observe((now - began_ms) / 1000)
        if core is None or core is not self.core:
            return  # the session has ended; `end` drops whatever was served
        del self._running[work.bundle]
        heard = self._heard_at.pop(work.bundle, None)
        if heard is not None and isinstance(work, do.Serve) and outcome is Outcome.DONE:
            self._metrics.handover_seconds.observe((now - heard) / 1000)
        self.perform(core.on_done(work, outcome, now))
        if not isinstance(work, do.Hold | do.Fence):
            self._on_moved()

    def _reopen_aside(self, action: do.Reopen) -> None:
        async def reopen() -> None:
            try:
                await self._runtime.reopen(action.topic)
            except Exception:
                log.exception("reopening %s failed", action.topic)

        task = asyncio.get_running_loop().create_task(reopen())
        self._side[task] = None
        task.add_done_callback(lambda done: self._side.pop(done, None))

    async def _attempt(self, work: Work) -> Outcome:
        try:
            if isinstance(work, do.Serve) and not self._may_act():
                return Outcome.FAILED
            await self._call(work)
        except Fenced as error:
            log.warning("%s: fenced: %s", work, error)
            return Outcome.FENCED if isinstance(work, do.Serve | do.Fence) else Outcome.FAILED
        except asyncio.CancelledError:
            if asyncio.current_task() in self._given_up:
                raise
            log.warning("%s of %s was cancelled, by the runtime itself", type(work).__name__.lower(), work.bundle)
            return Outcome.FAILED
        except Exception:
            log.exception("%s failed", work)
            return Outcome.FAILED
        return Outcome.DONE

    async def _call(self, work: Work) -> None:
        runtime = self._runtime
        match work:
            case do.Serve(bundle, epoch):
                await runtime.serve(bundle, epoch)
            case do.Hold(bundle):
                await runtime.hold(bundle)
            case do.Release(bundle, to):
                release = runtime.release(bundle, self._where(to) if to else None)
                await asyncio.wait_for(release, RELEASE_LIMIT_MS / 1000)
            case do.Drop(bundle):
                await asyncio.wait_for(runtime.drop(bundle), DROP_LIMIT_MS / 1000)
            case do.Fence(bundle, epoch):
                await runtime.fence(bundle, epoch)
            case do.Split(parent, children):
                await runtime.split(parent, children)

    async def _wait_for_cancelled(self, tasks: Collection[asyncio.Task[Any]]) -> None:
        await asyncio.wait(tasks, timeout=DROP_LIMIT_MS / 1000)
        if not all(task.done() for task in tasks):
            of = [str(bundle) for bundle, task in self._running.items() if not task.done()]
            raise self._hangs(f"a cancelled call of the runtime for {few_text(of) or 'a topic to reopen'}")

    async def _drop_all(self, named: Iterable[Bundle]) -> None:
        """Drop these at once. Raises InvariantBroken if a drop hangs: whether its bundle is still served is unknown."""
        drops = {bundle: asyncio.create_task(self._runtime.drop(bundle)) for bundle in dict.fromkeys(named)}
        if not drops:
            return
        await asyncio.wait(drops.values(), timeout=DROP_LIMIT_MS / 1000)
        for bundle, task in drops.items():
            if task.done() and (task.cancelled() or task.exception() is not None):
                log.error("dropping %s failed: %s", bundle, "CancelledError" if task.cancelled() else task.exception())
        hanging = [bundle for bundle, task in drops.items() if not task.done()]
        if hanging:
            for bundle in hanging:
                drops[bundle].cancel()
            raise self._hangs(f"dropping {few_text(list(map(str, hanging)))}")

    def _hangs(self, what: str) -> InvariantBroken:
        text = f"{what} hangs: it has not ended within {DROP_LIMIT_MS / 1000:g} s"
        log.error("%s", text)  # the process ends, and whoever runs it may show the text or not
        return InvariantBroken(text)
