"""Every limit of Penstock by name, each with the reason for its value: one module for each area.

Plain constants only: no settings, no environment. A limit that operators may change is read from the settings by `app`,
with the constant here as its default. The package exports
the names of all its modules: write `limits.NAME`. Read `runs` first.
"""

from penstock.base.limits.agent_profile import *
from penstock.base.limits.agents import *
from penstock.base.limits.documents import *
from penstock.base.limits.executors import *
from penstock.base.limits.expressions import *
from penstock.base.limits.gate import *
from penstock.base.limits.graph_language import *
from penstock.base.limits.graphs import *
from penstock.base.limits.host import *
from penstock.base.limits.http import *
from penstock.base.limits.identity import *
from penstock.base.limits.mcp import *
from penstock.base.limits.policy import *
from penstock.base.limits.process import *
from penstock.base.limits.runs import *
from penstock.base.limits.schemas import *
from penstock.base.limits.stored_queries import *
from penstock.base.limits.stores import *
from penstock.base.limits.upstreams import *
from penstock.base.limits.webhooks import *
