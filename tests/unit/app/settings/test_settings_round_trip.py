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
def test_settings_are_read_back_from_a_file_and_from_the_environment_and_can_be_looked_at(chosen: Settings) -> None:
    """One test for all, because settings take longer to draw than to write and read."""
    document = settings_document(chosen)
    SCHEMA.validate(document)
    with TemporaryDirectory() as folder, chdir(folder):
        assert load_settings(environment=settings_environment(chosen)).settings == chosen
        text = yaml.dump(document, Dumper=Quoting, allow_unicode=True)
        Path("penstock.yaml").write_text(text, encoding="utf-8")
        assert load_settings(environment={}).settings == chosen
    view = settings_view(chosen)
    assert set(view) == set(document)
    json.dumps(view)
