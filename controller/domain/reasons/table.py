"""Every reason code with its explanation: the one table behind views, `ballast explain CODE` and docs/reasons.md."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from controller.domain.decision import Reason
from controller.domain.reasons.configured import CONFIGURED
from controller.domain.reasons.explained import Explained
from controller.domain.reasons.hard import HARD
from controller.domain.reasons.normal import NORMAL
from controller.domain.reasons.throttled import THROTTLED

REASON_TABLE: Mapping[Reason, Explained] = MappingProxyType({**NORMAL, **THROTTLED, **CONFIGURED, **HARD})
