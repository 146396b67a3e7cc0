"""Everything that a client can do, by resource. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from penstock.client.caller import Caller
from penstock.client.generated.sync.agents import Agents
from penstock.client.generated.sync.approvals import Approvals
from penstock.client.generated.sync.audit import Audit
from penstock.client.generated.sync.backups import Backups
from penstock.client.generated.sync.console_sessions import ConsoleSessions
from penstock.client.generated.sync.control import Control
from penstock.client.generated.sync.deliveries import Deliveries
from penstock.client.generated.sync.drafts import Drafts
from penstock.client.generated.sync.grants import Grants
from penstock.client.generated.sync.graphs import Graphs
from penstock.client.generated.sync.keys import Keys
from penstock.client.generated.sync.memories import Memories
from penstock.client.generated.sync.models import Models
from penstock.client.generated.sync.notifications import Notifications
from penstock.client.generated.sync.policies import Policies
from penstock.client.generated.sync.preflights import Preflights
from penstock.client.generated.sync.quotas import Quotas
from penstock.client.generated.sync.schedules import Schedules
from penstock.client.generated.sync.schemas import Schemas
from penstock.client.generated.sync.sessions import Sessions
from penstock.client.generated.sync.system import System
from penstock.client.generated.sync.tasks import Tasks
from penstock.client.generated.sync.tokens import Tokens
from penstock.client.generated.sync.tools import Tools
from penstock.client.generated.sync.triggers import Triggers
from penstock.client.generated.sync.upstreams import Upstreams
from penstock.client.generated.sync.webhooks import Webhooks
from penstock.client.generated.sync.workflows import Workflows
from penstock.client.sync.executions import Executions

__all__ = ["Resources"]


class Resources:
    """A member for each resource."""

    def __init__(self, caller: Caller) -> None:
        self.workflows = Workflows(caller)
        self.tasks = Tasks(caller)
        self.executions = Executions(caller)
        self.schedules = Schedules(caller)
        self.graphs = Graphs(caller)
        self.memories = Memories(caller)
        self.control = Control(caller)
        self.keys = Keys(caller)
        self.quotas = Quotas(caller)
        self.audit = Audit(caller)
        self.policies = Policies(caller)
        self.tokens = Tokens(caller)
        self.console_sessions = ConsoleSessions(caller)
        self.schemas = Schemas(caller)
        self.models = Models(caller)
        self.tools = Tools(caller)
        self.agents = Agents(caller)
        self.upstreams = Upstreams(caller)
        self.webhooks = Webhooks(caller)
        self.deliveries = Deliveries(caller)
        self.triggers = Triggers(caller)
        self.system = System(caller)
        self.approvals = Approvals(caller)
        self.grants = Grants(caller)
        self.drafts = Drafts(caller)
        self.preflights = Preflights(caller)
        self.backups = Backups(caller)
        self.sessions = Sessions(caller)
        self.notifications = Notifications(caller)
