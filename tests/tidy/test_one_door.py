"""Everything that somebody changes passes the gate: nothing else reaches the changing methods of hosts and stores.

Two kinds of places may: handlers, which get a `Context` that only the gate makes, and the modules listed here, each
with its methods and the reason. Whoever adds a module that calls one finds it here, and has to say why the gate is no
way. Decision 0030 says where the line is.
"""

import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest

from penstock.app.penstock import Penstock
from penstock.runtime import tables
from penstock.runtime.host.effect_host import EffectHost
from penstock.runtime.ports.database import Database
from penstock.runtime.ports.host import RunInputs, RunReader, WorkflowReader, WorkflowRegistry
from penstock.runtime.run_handle import Run
from penstock.runtime.schedules.scheduler import Scheduler
from penstock.runtime.tables.definitions import Definitions
from penstock.runtime.tables.runs.store import RunStore
from tests.tidy.doors import CHANGING, READING, handler_uses, made_contexts, reaches

PUT_KEY = "from penstock.runtime.tables.api_keys import put_key\n"
SOURCE = Path(__file__).parents[2] / "src" / "penstock"
PORTS = {
    "Store": RunStore,
    "Definitions": Definitions,
    "Database": Database,
    "Host": EffectHost,
    "Scheduler": Scheduler,
    "Run": Run,
    "Penstock": Penstock,
}

# The host's own machinery: it answers for nobody's call, but carries out what was called for. See decision 0030.
MACHINERY = {
    "runtime/host/embedded.py": "Store.append Store.set_work",
    "runtime/host/writes.py": "Store.append",
    "runtime/host/definitions.py": "Definitions.put",
    "runtime/host/driver.py": (
        "Host.release Host.send Host.try_move Store.claim Store.set_work Tables.remove_worker Tables.spend"
    ),
    "runtime/chains.py": "Host.start",
    "runtime/host/effects.py": "Host.send Host.start",
    "runtime/host/timers.py": "Host.send",
    "runtime/host/leases.py": "Tables.record_heartbeat Tables.register_worker Tables.remove_worker",
    "runtime/webhooks/dispatcher.py": "Tables.change_delivery Tables.claim_delivery",
    "runtime/webhooks/feed.py": "Tables.add_deliveries Tables.set_mark",
    "app/serving/checkpoints.py": "Tables.set_mark",
    "app/executors/registered_models.py": "Tables.exchange_buckets",
}
# What handlers work with: these have no way to a store but the one that they are handed.
TOOLS_OF_HANDLERS = {
    "runtime/run_handle.py": "Host.adopt Host.send",
    "runtime/control_plane/hosts.py": "Host.adopt Host.register Host.send Host.start",
    "runtime/control_plane/functions.py": "Host.send Host.start",
    "runtime/schedules/scheduler.py": "Host.send Host.start Tables.delete_schedule Tables.put_schedule",
    "runtime/upstreams/tool_registry.py": "Tables.put_resources",
    "runtime/upstreams/oauth/grants.py": "Tables.delete_resource Tables.put_resource",
}
# The gate itself: what it keeps of keys, calls and outcomes.
THE_GATE = {
    "operations/gate/rehearsal.py": "Database.write",
    "operations/gate/authentication.py": "Tables.touch_keys",
    "operations/gate/idempotency.py": "Tables.record_call Tables.release_call",
    "operations/gate/audit_log.py": "Tables.append_audit",
    "operations/gate/policies/history.py": "Tables.release_uses Tables.take_uses",
    "operations/webhooks/receiver.py": "Tables.record_call Tables.release_call",
    "operations/gate/rates/sharing.py": "Tables.exchange_buckets",
    "app/server_secret/secret.py": "Tables.set_mark",
    "app/retention.py": "Tables.forget_calls Tables.forget_deliveries Tables.forget_memory Tables.forget_usage",
}
# A program that has Penstock in it holds the host in its hands: no gate could keep it from anything.
EMBEDDING = {
    "app/penstock.py": "Host.register Host.start Penstock.register Scheduler.put_triggers",
    "testing/tester.py": "Penstock.register Penstock.start",
    "runtime/simulation/dry_run.py": "Host.send Host.start",
    "runtime/retention.py": "Store.delete_ended",
}
ALLOWED = {
    module: frozenset(methods.split())
    for table in (MACHINERY, TOOLS_OF_HANDLERS, THE_GATE, EMBEDDING)
    for module, methods in table.items()
}
# Adapters of the ports, and the client, which has a server at the other end and no host.
NOT_LOOKED_AT = ("runtime/stores/", "runtime/tables/", "client/")
MODULES = sorted(
    name for path in SOURCE.rglob("*.py") if not (name := path.relative_to(SOURCE).as_posix()).startswith(NOT_LOOKED_AT)
)


def reached(module: str, source: str) -> dict[str, str]:
    """What a module reaches without being called by the gate, and where first."""
    by_handlers = module.startswith("operations/")
    found: dict[str, str] = {}
    for reach in reaches(source):
        if not (by_handlers and reach.with_context):
            found.setdefault(f"{reach.port}.{reach.method}", str(reach))
    return found


def complaints(module: str, source: str) -> list[str]:
    """What is wrong with how a module reaches what changes something."""
    found, allowed = reached(module, source), ALLOWED.get(module, frozenset())
    told = [f"{place} is reached past the gate" for name, place in found.items() if name not in allowed]
    told += [f"{name} is allowed and not reached: strike it" for name in sorted(allowed - set(found))]
    if module != "operations/gate/pipeline.py" and not module.startswith("runtime/executors/"):
        told += [f"line {line}: only the gate makes a Context" for line in made_contexts(source)]
        told += [f"line {line}: only the gate calls a handler" for line in handler_uses(source)]
    return told


def test_nothing_past_the_gate_reaches_what_changes_something() -> None:
    found = {module: complaints(module, (SOURCE / module).read_text(encoding="utf-8")) for module in MODULES}
    assert {module: told for module, told in found.items() if told} == {}


def test_every_module_that_may_exists() -> None:
    assert set(ALLOWED) <= set(MODULES)


def test_the_ports_for_reading_have_nothing_that_changes() -> None:
    assert set().union(*map(methods_of, (RunReader, WorkflowReader))) <= READING["Host"]
    assert set().union(*map(methods_of, (RunInputs, WorkflowRegistry))) <= CHANGING["Host"]


def methods_of(port: type) -> set[str]:
    return {method for method, _ in inspect.getmembers(port, callable) if not method.startswith("_")}


def test_every_function_of_the_tables_is_known_to_read_or_to_change() -> None:
    functions: set[str] = set()
    for module in pkgutil.walk_packages(tables.__path__, f"{tables.__name__}."):
        found = vars(importlib.import_module(module.name))
        functions |= {
            name
            for name in found.get("__all__", ())
            if inspect.isfunction(found[name])
            and next(iter(inspect.signature(found[name]).parameters), "") == "database"
        }
    assert functions == CHANGING["Tables"] | READING["Tables"], "put a new function into one of the tables of doors.py"
    assert not CHANGING["Tables"] & READING["Tables"]


@pytest.mark.parametrize("name", PORTS)
def test_every_method_of_a_port_is_known_to_read_or_to_change(name: str) -> None:
    methods = methods_of(PORTS[name])
    methods -= {"on_commit", "report"}  # fields that hold a function
    assert methods == CHANGING[name] | READING[name], "put a new method into one of the tables of tests/tidy/doors.py"
    assert not CHANGING[name] & READING[name]


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("async def f(gate):\n    await gate.services.platform.write(change)\n", "Database.write"),
        (f"{PUT_KEY}async def f(gate):\n    await put_key(gate.services.platform, row)\n", "Tables.put_key"),
        (f"{PUT_KEY}async def f(gate):\n    later(put_key, row)\n", "Tables.put_key"),
        ("async def f(gate):\n    await gate.services.host.send(run_id, given)\n", "Host.send"),
        ("async def f(gate):\n    runs = gate.services.host\n    await runs.start(given)\n", "Host.start"),
        ("async def f(a: EmbeddedHost):\n    await a.start(given)\n", "Host.start"),
        ("class A:\n    kept: Store\n    def f(self):\n        return self.kept.append(write)\n", "Store.append"),
        ("async def f(penstock):\n    await penstock.run(run_id).answer(1)\n", "Run.answer"),
        ("async def f(x):\n    later(x.delete_runs)\n", "Store.delete_runs"),
        ("async def f(x):\n    await Run(x, h, n).cancel()\n", "Run.cancel"),
        ("async def f(services):\n    context = Context(services=services)\n", "only the gate makes a Context"),
        ("async def f(capability):\n    await capability.handler(None, {})\n", "only the gate calls a handler"),
    ],
)
def test_a_module_that_reaches_past_the_gate_is_found(source: str, told: str) -> None:
    assert any(told in complaint for complaint in complaints("rest/endpoints.py", source))


@pytest.mark.parametrize(
    "source",
    [
        "async def f(rows):\n    rows.append(1)\n",
        "async def f(task):\n    task.cancel()\n    server.start()\n",
        "async def f(gate):\n    await gate.services.store.row(run_id)\n",
    ],
)
def test_what_only_has_the_same_name_is_not_found(source: str) -> None:
    assert complaints("rest/endpoints.py", source) == []


def test_a_function_with_a_context_is_no_excuse_outside_of_the_operations() -> None:
    source = f"{PUT_KEY}async def f(context: Context):\n    await put_key(context.services.platform, row)\n"
    assert complaints("operations/anything.py", source) == []
    assert complaints("mcp_surface/anything.py", source) != []
