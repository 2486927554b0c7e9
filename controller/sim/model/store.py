"""The shared store's fences, asked of the real ones in memory. A fence counts once it is on disk."""

from __future__ import annotations

from controller.brokers.memory.fences import MemoryFences
from controller.sim.model.configuration import Configuration
from controller.sim.model.states import Shared, Stored


class StoreRules:
    """Which epochs the store takes."""

    def __init__(self, configuration: Configuration, bug: str = "") -> None:
        self._configuration = configuration
        self._bug = bug
        self._excluded: dict[tuple[Stored, int, int], bool] = {}

    def excludes(self, in_force: Stored, bundle: int, epoch: int) -> bool:
        """Whether a fence above the epoch covers some part of the bundle."""
        key = (in_force, bundle, epoch)
        found = self._excluded.get(key)
        if found is None:
            bundles, real = self._configuration.bundles, self._configuration.real_epoch
            store = MemoryFences()
            for place, fence in enumerate(in_force):
                if fence:
                    store.raise_to(bundles[place], real(place, fence))
            found = self._excluded[key] = store.excludes(bundles[bundle], real(bundle, epoch))
        return found

    def raise_fence(self, shared: Shared, bundle: int, epoch: int) -> Shared:
        """The fence is raised, and that is confirmed."""
        return shared._replace(
            in_force=shared.in_force if self._bug == "serve_without_fence" else _put(shared.in_force, bundle, epoch),
            on_disk=shared.on_disk if self._bug == "fence_before_disk" else _put(shared.on_disk, bundle, epoch),
            confirmed=_put(shared.confirmed, bundle, epoch),
        )

    def may_forget(self, shared: Shared) -> bool:
        """Whether a restart of the store would change anything."""
        return shared.on_disk != shared.in_force

    def restart(self, shared: Shared) -> Shared:
        """The store after a restart: only what is on disk counts."""
        return shared._replace(in_force=shared.on_disk)


def _put(fences: Stored, bundle: int, epoch: int) -> Stored:
    return (*fences[:bundle], max(fences[bundle], epoch), *fences[bundle + 1 :])
