"""Everything that a client can do, by resource. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from penstock.client.calling import AsyncCaller
from penstock.client.executions_async import AsyncExecutions
from penstock.client.generated.agents_async import AsyncAgents
from penstock.client.generated.audit_async import AsyncAudit
from penstock.client.generated.control_async import AsyncControl
from penstock.client.generated.deliveries_async import AsyncDeliveries
from penstock.client.generated.keys_async import AsyncKeys
from penstock.client.generated.models_async import AsyncModels
from penstock.client.generated.schedules_async import AsyncSchedules
from penstock.client.generated.schemas_async import AsyncSchemas
from penstock.client.generated.system_async import AsyncSystem
from penstock.client.generated.tasks_async import AsyncTasks
from penstock.client.generated.tools_async import AsyncTools
from penstock.client.generated.triggers_async import AsyncTriggers
from penstock.client.generated.upstreams_async import AsyncUpstreams
from penstock.client.generated.webhooks_async import AsyncWebhooks
from penstock.client.generated.workflows_async import AsyncWorkflows

__all__ = ["AsyncResources"]


class AsyncResources:
    """A member for each resource."""

    def __init__(self, caller: AsyncCaller) -> None:
        self.workflows = AsyncWorkflows(caller)
        self.tasks = AsyncTasks(caller)
        self.executions = AsyncExecutions(caller)
        self.schedules = AsyncSchedules(caller)
        self.control = AsyncControl(caller)
        self.keys = AsyncKeys(caller)
        self.audit = AsyncAudit(caller)
        self.schemas = AsyncSchemas(caller)
        self.models = AsyncModels(caller)
        self.tools = AsyncTools(caller)
        self.agents = AsyncAgents(caller)
        self.upstreams = AsyncUpstreams(caller)
        self.webhooks = AsyncWebhooks(caller)
        self.deliveries = AsyncDeliveries(caller)
        self.triggers = AsyncTriggers(caller)
        self.system = AsyncSystem(caller)
