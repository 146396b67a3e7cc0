"""Everything that a client can do, by resource. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from penstock.client.calling import Caller
from penstock.client.executions import Executions
from penstock.client.generated.agents import Agents
from penstock.client.generated.audit import Audit
from penstock.client.generated.control import Control
from penstock.client.generated.deliveries import Deliveries
from penstock.client.generated.keys import Keys
from penstock.client.generated.models import Models
from penstock.client.generated.schedules import Schedules
from penstock.client.generated.schemas import Schemas
from penstock.client.generated.system import System
from penstock.client.generated.tasks import Tasks
from penstock.client.generated.tools import Tools
from penstock.client.generated.triggers import Triggers
from penstock.client.generated.upstreams import Upstreams
from penstock.client.generated.webhooks import Webhooks
from penstock.client.generated.workflows import Workflows

__all__ = ["Resources"]


class Resources:
    """A member for each resource."""

    def __init__(self, caller: Caller) -> None:
        self.workflows = Workflows(caller)
        self.tasks = Tasks(caller)
        self.executions = Executions(caller)
        self.schedules = Schedules(caller)
        self.control = Control(caller)
        self.keys = Keys(caller)
        self.audit = Audit(caller)
        self.schemas = Schemas(caller)
        self.models = Models(caller)
        self.tools = Tools(caller)
        self.agents = Agents(caller)
        self.upstreams = Upstreams(caller)
        self.webhooks = Webhooks(caller)
        self.deliveries = Deliveries(caller)
        self.triggers = Triggers(caller)
        self.system = System(caller)
