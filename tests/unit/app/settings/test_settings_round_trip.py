"""Any settings survive being written: to a file, to the environment, and past the JSON Schema."""

import json
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory

import jsonschema_rs
import yaml
from hypothesis import HealthCheck, given
from hypothesis import settings as run

from penstock.app.settings.model import Settings
from penstock.app.settings.schema import settings_schema
from penstock.app.settings.sources import load_settings
from penstock.app.settings.view import settings_document, settings_environment, settings_view
from tests.unit.app.settings.strategies import settings


class Quoting(yaml.SafeDumper):
    """Quotes every text: YAML 1.1, which the library writes, has other numbers and words than YAML 1.2."""


Quoting.add_representer(str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"'))
SCHEMA = jsonschema_rs.validator_for(settings_schema())
BOUNDED = run(deadline=None, suppress_health_check=list(HealthCheck))


@BOUNDED
@given(chosen=settings())
def test_settings_written_to_a_file_are_read_back(chosen: Settings) -> None:
    document = settings_document(chosen)
    SCHEMA.validate(document)
    with TemporaryDirectory() as folder, chdir(folder):
        text = yaml.dump(document, Dumper=Quoting, allow_unicode=True)
        Path("penstock.yaml").write_text(text, encoding="utf-8")
        assert load_settings(environment={}).settings == chosen


@BOUNDED
@given(chosen=settings())
def test_settings_written_to_the_environment_are_read_back(chosen: Settings) -> None:
    with TemporaryDirectory() as folder, chdir(folder):
        assert load_settings(environment=settings_environment(chosen)).settings == chosen


@BOUNDED
@given(chosen=settings())
def test_settings_to_look_at_are_json_and_have_every_key(chosen: Settings) -> None:
    view = settings_view(chosen)
    assert set(view) == set(settings_document(chosen))
    json.dumps(view)
