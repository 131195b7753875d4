"""The stored schema of run files is that of the dataclasses."""

from docs.making.keys import SCHEMA
from regard.config.schema import written
from regard.runs import keys


def test_the_stored_schema_is_current():
    current = SCHEMA.read_text(encoding="utf-8") == written(keys.described())
    assert current, "a key of a run file has changed; write the stored schema: python -m docs.making.keys"
