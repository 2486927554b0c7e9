"""`Page`: the parts of the application that all requests share."""

from __future__ import annotations

from controller.config.settings import Settings
from controller.operations.commands import send_and_wait
from controller.ui.actions import Send
from controller.ui.cluster import LiveCluster
from controller.ui.heard import Listening
from controller.ui.live import Following, Hub
from controller.ui.loads import NewestLoads
from controller.ui.security import Rules
from controller.ui.shared import Shared


class Page:
    """One cluster's page. `ask_kafka`: whether to ask Kafka for the controller. `send`: how commands are sent."""

    def __init__(self, settings: Settings, rules: Rules, ask_kafka: bool = True, send: Send = send_and_wait) -> None:
        self.settings, self.rules, self.send = settings, rules, send
        self.cluster = LiveCluster(settings)
        self.hub = Hub(self.cluster)
        self.following = Following(self.cluster, self.hub)
        self.listening = Listening(settings, ask_kafka)
        self.loads = NewestLoads()
        self.shared = Shared()

    def start(self) -> None:
        """Begin to follow the tables."""
        self.following.start()
        self.listening.start()

    def stop(self) -> None:
        """End what `start` began, and all streams."""
        self.hub.close()
        self.listening.stop()
        self.following.stop()
