"""The page reads well: long tables are folded, empty columns are left out, nothing in it is markup by accident."""

import pyarrow.parquet as pq

from optimrl_jax.analysis import page
from optimrl_jax.analysis.sections import Section, TableOf
from optimrl_jax.evaluation import style


def written(directory, rows):
    page.write_page(directory, [("<h>", [Section("Title", "Text.", [TableOf("t", "caption", rows)])])], title="Page")
    return (directory / "index.html").read_text()


def test_a_long_table_is_folded_and_says_where_all_its_rows_are(tmp_path):
    text = written(tmp_path, [{"name": f"row{n}", "value": n} for n in range(50)])
    assert "<summary>50 rows</summary>" in text
    assert "(the first 40 of 50 rows, all in t.csv)" in text
    assert ("row39" in text, "row40" in text) == (True, False)
    assert len(pq.read_table(tmp_path / "t.parquet")) == 50
    assert "<summary>" not in written(tmp_path, [{"name": "one", "value": 1}])


def test_columns_without_any_value_stay_in_the_files_alone(tmp_path):
    rows = [{"name": "a", "empty": None, "nan": float("nan"), "half": None}, {"name": "b", "half": 2.0, "empty": ""}]
    text = written(tmp_path, rows)
    assert ("<th>empty" in text, "<th>nan" in text) == (False, False)
    assert "<th class='number'>half</th>" in text
    assert pq.read_table(tmp_path / "t.parquet").column_names == ["name", "empty", "nan", "half"]


def test_the_page_fits_narrow_and_dark_windows_and_escapes_what_it_shows(tmp_path):
    text = written(tmp_path, [{"policy": "<script>"}])
    assert "name='viewport'" in text
    assert "prefers-color-scheme: dark" in text
    assert "&lt;script&gt;" in text
    assert "<script>" not in text


def test_more_than_eight_policies_are_told_apart_and_long_names_keep_both_ends():
    looks = [tuple(style.bar_look(index).values()) for index in range(20)]
    assert len(set(looks)) == 20
    assert len({(style.colour(index), style.marker(index)) for index in range(20)}) == 20
    name = f"runs/{'x' * 60}/grpo@9000"
    assert len(style.short_label(name)) <= style.LONGEST_LABEL
    assert style.short_label(name).endswith("@9000")
    assert style.short_label("grpo") == "grpo"
