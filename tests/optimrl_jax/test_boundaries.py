"""Every field at the edge of its range is either taken, or refused in one line that names it."""

import pytest

from optimrl_jax.jobs.checked_fields import freeze, thaw
from optimrl_jax.jobs.errors import SettingsError
from optimrl_jax.jobs.field_texts import field_texts, set_field
from optimrl_jax.settings import Settings
from optimrl_jax.simulator.settings import SimulatorSettings

EDGES = {int: ("-1", "0", "1"), float: ("-1", "0", "1e-9", "1", "inf", "nan"), bool: ("true", "false"), str: ("", "x")}
KINDS = {"settings": Settings, "simulator": SimulatorSettings}
FIELDS = [(name, field.name) for name, kind in KINDS.items() for field in field_texts(kind)]


def value_of(values, name):
    for part in name.split("."):
        values = values[part]
    return values


@pytest.mark.parametrize(("kind", "name"), FIELDS, ids=lambda part: part)
def test_the_edges_of_a_field_are_taken_or_refused_by_name(kind, name):
    default = value_of(thaw(KINDS[kind]()), name)
    refused, taken = [], []
    for text in (*EDGES.get(type(default), ("()", "1")), str(default)):
        values: dict = {}
        try:
            set_field(values, KINDS[kind], name, text)
            taken.append(freeze(KINDS[kind], values))
        except SettingsError as error:
            refused.append(str(error))
    assert taken
    assert all(freeze(KINDS[kind], thaw(settings)) == settings for settings in taken)
    assert all(name in message and "expected" in message for message in refused)
