"""What deploys a server is as the guide says: no root, writable volumes only, real probes, known settings."""

from __future__ import annotations

import configparser
import copy
import fnmatch
import http.server
import json
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema_rs import Draft202012Validator

from penstock import __version__
from penstock.app.settings.model import Settings
from penstock.app.settings.sources import load_settings
from tests.waiting import SECONDS_MAX

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "deploy" / "systemd" / "penstock.service"
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
MANIFESTS: dict[str, Any] = {
    found["kind"]: found
    for found in yaml.safe_load_all((ROOT / "deploy" / "kubernetes" / "penstock.yaml").read_text(encoding="utf-8"))
}
# The strict schemas that are published for Kubernetes; the file says where they come from.
KUBERNETES: dict[str, Any] = json.loads(
    (ROOT / "tests" / "fixtures" / "kubernetes-1.37.json").read_text(encoding="utf-8")
)
DRAIN_SECONDS = Settings().server.drain_seconds
PROBES = {"/healthz", "/readyz"}
USER = 10001


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile, each on one line."""
    text = re.sub(r"\\\n\s*", " ", re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.MULTILINE))
    return [(line.split()[0], line.split(maxsplit=1)[1]) for line in text.splitlines() if line.strip()]


def copied() -> list[str]:
    """What the image takes from the checkout."""
    sources = [text.split()[:-1] for name, text in instructions() if name == "COPY" and not text.startswith("--from")]
    return [source for line in sources for source in line]


def test_the_image_takes_only_what_is_there_and_what_its_build_may_see() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    shown = [line[1:] for line in ignored if line.startswith("!")]
    assert "*" in ignored
    assert copied()
    for source in copied():
        assert (ROOT / source).exists(), source
        assert any(fnmatch.fnmatch(source, pattern) for pattern in shown), source


def test_the_image_is_built_from_pins_with_hashes_and_runs_without_root() -> None:
    bases = [text.split()[0] for name, text in instructions() if name == "FROM"]
    # The ordinary public image, by its name alone; the suite runs on the oldest version that is supported.
    assert set(bases) == {"python:3.11-slim"}
    last = max(place for place, (name, _) in enumerate(instructions()) if name == "FROM")
    final = dict(instructions()[last:])
    assert final["USER"] == f"{USER}:{USER}"
    installs = re.findall(r"pip install [^&]*", DOCKERFILE.replace("\\\n", " "))
    assert len(installs) == 3
    assert all("--require-hashes" in command or "--no-deps" in command for command in installs)


def test_what_builds_a_wheel_is_pinned_as_in_the_environment_of_the_tests() -> None:
    build, dev = ((ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8") for name in ("build", "dev"))
    pins = re.findall(r"^[\w.-]+==\S+", build, flags=re.MULTILINE)
    assert any(pin.startswith("hatchling==") for pin in pins)
    assert [pin for pin in pins if f"{pin} \\" not in dev] == []
    assert build.count("==") <= build.count("--hash=sha256:")


@contextmanager
def answering(status: int) -> Iterator[int]:
    """A server whose every answer has this status."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path in PROBES else 404)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(("status", "is_well"), [(200, True), (503, False)])
def test_the_health_check_of_the_image_tells_a_ready_server_from_another(status: int, is_well: bool) -> None:
    _, interpreter, option, program = COMPOSE["services"]["penstock"]["healthcheck"]["test"]
    assert (interpreter, option) == ("python", "-c")
    assert f'["python", "-c", "{program}"]' in DOCKERFILE, "the image and compose.yaml ask the same"
    with answering(status) as port:
        asked = [sys.executable, option, program.replace(":5151/", f":{port}/")]
        outcome = subprocess.run(asked, capture_output=True, timeout=SECONDS_MAX, check=False)
    assert (outcome.returncode == 0) == is_well


def test_the_service_of_compose_can_write_only_to_its_volumes() -> None:
    [service] = COMPOSE["services"].values()
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    assert int(service["stop_grace_period"].removesuffix("s")) > DRAIN_SECONDS
    named = {volume.split(":")[0] for volume in service["volumes"]}
    assert named == set(COMPOSE["volumes"])
    for volume in service["volumes"]:
        assert f'"{volume.split(":")[1]}"' in dict(instructions())["VOLUME"]


def test_variables_of_the_image_and_of_compose_are_settings() -> None:
    variables = dict(re.findall(r"(PENSTOCK_\w+)=(\S+)", DOCKERFILE))
    variables.update(COMPOSE["services"]["penstock"]["environment"])
    loaded = load_settings(None, environment=variables)
    assert loaded.ignored == ()
    storage = loaded.settings.storage
    assert (loaded.settings.server.host, storage.path) == ("0.0.0.0", "/var/lib/penstock/penstock.db")
    assert (storage.backup_folder, storage.backups.every is not None) == ("/var/lib/penstock-backups", True)


def test_the_manifests_run_one_server_without_privileges(tmp_path: Path) -> None:
    workload = MANIFESTS["StatefulSet"]["spec"]
    pod = workload["template"]["spec"]
    [container] = pod["containers"]
    assert workload["replicas"] == 1
    assert pod["automountServiceAccountToken"] is False
    assert pod["terminationGracePeriodSeconds"] > DRAIN_SECONDS
    assert pod["securityContext"].items() >= {"runAsNonRoot": True, "runAsUser": USER, "fsGroup": USER}.items()
    # Otherwise each mount makes the secret readable for the group, which the server refuses.
    assert pod["securityContext"]["fsGroupChangePolicy"] == "OnRootMismatch"
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["image"] == f"penstock:{__version__}"
    probes = {container[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "liveness", "readiness")}
    assert probes == PROBES
    claims = {claim["metadata"]["name"] for claim in workload["volumeClaimTemplates"]}
    volumes = {volume["name"] for volume in pod["volumes"]} | claims
    mounted = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    assert set(mounted.values()) == volumes
    settings_file = tmp_path / "penstock.yaml"
    settings_file.write_text(MANIFESTS["ConfigMap"]["data"]["penstock.yaml"], encoding="utf-8")
    storage = load_settings(settings_file, environment={}).settings.storage
    assert mounted[str(Path(storage.path).parent)] == "data"
    assert mounted[str(storage.backup_folder)] == "backups"
    assert MANIFESTS["Service"]["spec"]["selector"] == workload["selector"]["matchLabels"]
    assert MANIFESTS["Service"]["metadata"]["name"] == workload["serviceName"]


def schema_problems(kind: str, manifest: dict[str, Any]) -> list[str]:
    """What the published schema of Kubernetes says against a manifest."""
    schema = {**KUBERNETES, "oneOf": [item for item in KUBERNETES["oneOf"] if item["$ref"].endswith(f".{kind}")]}
    return [
        f"{list(error.instance_path)}: {error.message}" for error in Draft202012Validator(schema).iter_errors(manifest)
    ]


@pytest.mark.parametrize("kind", MANIFESTS)
def test_a_manifest_fits_the_schema_of_kubernetes(kind: str) -> None:
    assert schema_problems(kind, MANIFESTS[kind]) == []


def test_a_misspelt_or_mistyped_field_of_a_manifest_is_found() -> None:
    misspelt = copy.deepcopy(MANIFESTS["StatefulSet"])
    misspelt["spec"]["template"]["spec"]["containers"][0]["imagePullPolice"] = "Always"
    assert any("imagePullPolice" in problem for problem in schema_problems("StatefulSet", misspelt))
    mistyped = copy.deepcopy(MANIFESTS["StatefulSet"])
    mistyped["spec"]["replicas"] = "one"
    assert schema_problems("StatefulSet", mistyped) != []


def test_the_unit_waits_for_the_server_and_protects_the_machine() -> None:
    parsed = configparser.ConfigParser(strict=False, interpolation=None)
    parsed.optionxform = str  # type: ignore[assignment,method-assign]  # keys are written as they are
    parsed.read_string(UNIT.read_text(encoding="utf-8"))
    service = parsed["Service"]
    assert service["Type"] == "notify"
    assert "penstock serve" in service["ExecStart"]
    assert int(service["TimeoutStopSec"]) > DRAIN_SECONDS
    assert (service["ProtectSystem"], service["NoNewPrivileges"], service["CapabilityBoundingSet"]) == (
        "strict",
        "yes",
        "",
    )


def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("there is no systemd-analyze")
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text(encoding="utf-8").replace("/srv/penstock/bin/penstock", "/bin/true"))
    verified = subprocess.run(
        [analyze, "verify", str(unit)], capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )
    assert (verified.returncode, verified.stderr) == (0, "")
    unit.write_text(unit.read_text().replace("ProtectSystem=strict", "ProtectSystem=stricter"))
    broken = subprocess.run(
        [analyze, "verify", str(unit)], capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )
    assert "stricter" in broken.stderr, "a mistake would be found"
