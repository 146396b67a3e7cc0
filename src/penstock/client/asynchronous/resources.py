"""Everything that a client can do, by resource. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from penstock.client.asynchronous.executions import AsyncExecutions
from penstock.client.caller import AsyncCaller
from penstock.client.generated.asynchronous.agents import AsyncAgents
from penstock.client.generated.asynchronous.approvals import AsyncApprovals
from penstock.client.generated.asynchronous.audit import AsyncAudit
from penstock.client.generated.asynchronous.backups import AsyncBackups
from penstock.client.generated.asynchronous.console_sessions import AsyncConsoleSessions
from penstock.client.generated.asynchronous.control import AsyncControl
from penstock.client.generated.asynchronous.deliveries import AsyncDeliveries
from penstock.client.generated.asynchronous.drafts import AsyncDrafts
from penstock.client.generated.asynchronous.grants import AsyncGrants
from penstock.client.generated.asynchronous.graphs import AsyncGraphs
from penstock.client.generated.asynchronous.keys import AsyncKeys
from penstock.client.generated.asynchronous.memories import AsyncMemories
from penstock.client.generated.asynchronous.models import AsyncModels
from penstock.client.generated.asynchronous.notifications import AsyncNotifications
from penstock.client.generated.asynchronous.policies import AsyncPolicies
from penstock.client.generated.asynchronous.preflights import AsyncPreflights
from penstock.client.generated.asynchronous.quotas import AsyncQuotas
from penstock.client.generated.asynchronous.schedules import AsyncSchedules
from penstock.client.generated.asynchronous.schemas import AsyncSchemas
from penstock.client.generated.asynchronous.sessions import AsyncSessions
from penstock.client.generated.asynchronous.system import AsyncSystem
from penstock.client.generated.asynchronous.tasks import AsyncTasks
from penstock.client.generated.asynchronous.tokens import AsyncTokens
from penstock.client.generated.asynchronous.tools import AsyncTools
from penstock.client.generated.asynchronous.triggers import AsyncTriggers
from penstock.client.generated.asynchronous.upstreams import AsyncUpstreams
from penstock.client.generated.asynchronous.webhooks import AsyncWebhooks
from penstock.client.generated.asynchronous.workflows import AsyncWorkflows

__all__ = ["AsyncResources"]


class AsyncResources:
    """A member for each resource."""

    def __init__(self, caller: AsyncCaller) -> None:
        self.workflows = AsyncWorkflows(caller)
        self.tasks = AsyncTasks(caller)
        self.executions = AsyncExecutions(caller)
        self.schedules = AsyncSchedules(caller)
        self.graphs = AsyncGraphs(caller)
        self.memories = AsyncMemories(caller)
        self.control = AsyncControl(caller)
        self.keys = AsyncKeys(caller)
        self.quotas = AsyncQuotas(caller)
        self.audit = AsyncAudit(caller)
        self.policies = AsyncPolicies(caller)
        self.tokens = AsyncTokens(caller)
        self.console_sessions = AsyncConsoleSessions(caller)
        self.schemas = AsyncSchemas(caller)
        self.models = AsyncModels(caller)
        self.tools = AsyncTools(caller)
        self.agents = AsyncAgents(caller)
        self.upstreams = AsyncUpstreams(caller)
        self.webhooks = AsyncWebhooks(caller)
        self.deliveries = AsyncDeliveries(caller)
        self.triggers = AsyncTriggers(caller)
        self.system = AsyncSystem(caller)
        self.approvals = AsyncApprovals(caller)
        self.grants = AsyncGrants(caller)
        self.drafts = AsyncDrafts(caller)
        self.preflights = AsyncPreflights(caller)
        self.backups = AsyncBackups(caller)
        self.sessions = AsyncSessions(caller)
        self.notifications = AsyncNotifications(caller)
