"""Settings are checked once, and a mistake names field, value and what was expected."""

import pytest

from configs import base
from optimrl_jax import settings
from optimrl_jax.jobs.checked_fields import freeze, thaw
from optimrl_jax.jobs.errors import SettingsError

WRONG = [
    ("sandbox", "limit_s", -1.0, "sandbox.limit_s = -1.0: expected a positive number"),
    ("sandbox", "address", 3, "sandbox.address = 3: expected a value of type str"),
    ("grpo", "rollouts", 1, "grpo.rollouts = 1: expected at least 2"),
    ("grpo", "rollouts", True, "grpo.rollouts = True: expected a value of type int"),
    ("environment", "tolerance", 1.5, "environment.tolerance = 1.5: expected a share in [0, 1]"),
    ("environment", "alpha", float("nan"), "environment.alpha = nan: expected a finite number"),
    ("data", "stop", "```", "data.stop = '```': expected a tuple"),
    ("data", "stop", ("```", ""), "data.stop = ('```', ''): expected texts that are not empty"),
    ("evaluation", "ks", 1, "evaluation.ks = 1: expected a tuple"),
    ("compute", "dtype", "float8", "compute.dtype = 'float8': expected one of float32, bfloat16"),
    ("model", "depth", 4, "model.depth = 4: expected one of the fields"),
]


@pytest.mark.parametrize(("section", "field", "value", "message"), WRONG)
def test_a_wrong_value_names_field_value_and_expectation(section, field, value, message):
    with pytest.raises(SettingsError) as raised:
        freeze(settings.Settings, {section: {field: value}})
    assert str(raised.value).startswith(message)


def test_the_base_configuration_lists_every_field_with_its_default():
    values = base.get_config().to_dict()
    assert freeze(settings.Settings, values) == settings.Settings()
    assert values == thaw(settings.Settings())


def test_whole_numbers_serve_as_seconds():
    frozen = freeze(settings.Settings, {"sandbox": {"limit_s": 2}})
    assert frozen.sandbox.limit_s == 2.0
    assert isinstance(frozen.sandbox.limit_s, float)


def test_every_field_has_a_meaning():
    for section in thaw(settings.Settings()):
        kind = type(getattr(settings.Settings(), section))
        for field in getattr(kind, "__dataclass_fields__", {}).values():
            assert len(field.metadata["meaning"]) > 3, f"{section}.{field.name}"
