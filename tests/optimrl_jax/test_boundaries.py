"""Every field at the edge of its range is either taken, or refused in one line that names it."""

import pytest

from beam_pipelines.options import BuildOptions
from optimrl_jax.jobs import command_line
from optimrl_jax.jobs.checked_fields import freeze, thaw
from optimrl_jax.jobs.errors import EXIT_USER_ERROR, SettingsError
from optimrl_jax.jobs.field_texts import field_texts, set_field
from optimrl_jax.settings import Settings
from optimrl_jax.simulator.settings import SimulatorSettings
from sandbox import protocol
from tests import source

EDGES = {
    int: ("-1", "0", "1", "1e9", str(10**18)),
    float: ("-1", "0", "1e-9", "1", "1e300", "inf", "nan"),
    bool: ("true", "false", "maybe"),
    str: ("", "x"),
    tuple: ("()", "1", "('x',)", "(-1,)", "(('x',),)", "(None,)"),
}
KINDS = {"settings": Settings, "simulator": SimulatorSettings, "build": BuildOptions}
FIELDS = [(name, field.name) for name, kind in KINDS.items() for field in field_texts(kind)]


def value_of(values, name):
    for part in name.split("."):
        values = values[part]
    return values


@pytest.mark.parametrize(("kind", "name"), FIELDS, ids=lambda part: part)
def test_the_edges_of_a_field_are_taken_or_refused_by_name(kind, name):
    default = value_of(thaw(KINDS[kind]()), name)
    refused, taken = [], []
    for text in (*EDGES[type(default)], str(default)):
        values: dict = {}
        try:
            set_field(values, KINDS[kind], name, text)
            taken.append(freeze(KINDS[kind], values))
        except SettingsError as error:
            refused.append(str(error))
    assert taken
    assert all(freeze(KINDS[kind], thaw(settings)) == settings for settings in taken)
    assert all(name in message and "expected" in message for message in refused)


@pytest.mark.parametrize("kind", ["settings", "simulator"])
def test_the_command_line_refuses_in_one_line_with_code_2(kind, tmp_path, capsys, monkeypatch):
    """One value of every third field that refuses one."""
    monkeypatch.setattr(command_line.signal, "signal", lambda *_: None)
    monkeypatch.setattr(command_line, "log_to_terminal", lambda: None)
    started = []
    config = f"--config={source.ROOT / 'configs' / ('base' if kind == 'settings' else kind)}.py"
    for field in list(field_texts(KINDS[kind]))[::3]:
        default = value_of(thaw(KINDS[kind]()), field.name)
        for text in EDGES[type(default)]:
            argv = ["job", config, f"--workdir={tmp_path}", f"--config.{field.name}={text}"]
            if command_line.run_job(started.append, argv, kind=KINDS[kind]) == EXIT_USER_ERROR:
                said = capsys.readouterr().err
                assert said.startswith("job: ")
                assert field.name in said
                assert said.count("\n") == 1
                break
    assert started


BOUNDS = [
    ("settings", "sandbox.limit_s", protocol.MOST_SECONDS),
    ("settings", "sandbox.repeats", protocol.MOST_REPEATS),
    ("build", "limit_s", protocol.MOST_SECONDS),
    ("build", "repeats", protocol.MOST_REPEATS),
    ("build", "memory_mib", (1 << 40) // protocol.MEBIBYTE),
]


@pytest.mark.parametrize(("kind", "name", "most"), BOUNDS)
def test_no_setting_asks_the_sandbox_for_more_than_it_gives(kind, name, most):
    def taken(value):
        values: dict = {}
        set_field(values, KINDS[kind], name, str(value))
        return freeze(KINDS[kind], values)

    assert value_of(thaw(taken(most)), name) == most
    with pytest.raises(SettingsError, match=name):
        taken(most + 1)
