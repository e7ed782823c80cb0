"""The bench measures what it says. Figures are printed, never judged here: timing decides no test."""

import json
import subprocess
import sys

import pytest

from tests.bench.figures import NAMES, measure
from tests.bench.hostile import tally


def test_start_up_figures_are_ratios_to_an_empty_process() -> None:
    figures = measure(["startup.job_ratio", "startup.cli_ratio"])
    print(json.dumps(figures))
    assert set(figures) == {"startup.job_ratio", "startup.cli_ratio"}
    assert all(value > 1 for value in figures.values())


def test_an_unknown_figure_is_named() -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "tests.bench", "--json", "no.such"], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 2
    assert "no.such" in answer.stderr
    assert all(name in answer.stderr for name in NAMES)


def test_standard_output_is_one_json_object_whatever_the_measured_code_prints() -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "tests.bench", "--json", "pause.seconds_to_last_grant"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(json.loads(answer.stdout)) == {"pause.seconds_to_last_grant"}
    assert "lease" in answer.stderr, "the simulated controllers log"


def test_an_unknown_figure_is_refused_before_anything_is_measured() -> None:
    with pytest.raises(KeyError, match=r"no\.such"):
        measure(["startup.job_ratio", "no.such"])


_REPORT = b"""<?xml version="1.0" encoding="utf-8"?>
<testsuites><testsuite name="pytest">
<testcase classname="a" name="held[1]"/><testcase classname="a" name="held[2]"/>
<testcase classname="a" name="fell"><failure message="m">text</failure></testcase>
<testcase classname="a" name="stuck"><failure message="m"/></testcase>
<testcase classname="a" name="stuck"><error message="its fixture, too"/></testcase>
<testcase classname="a" name="unprepared"><error message="fixture"/></testcase>
<testcase classname="a" name="left out"><skipped message="no root"/></testcase>
</testsuite></testsuites>"""


def test_every_attack_that_was_tried_is_counted_once() -> None:
    assert tally(_REPORT) == (5, ["a::fell", "a::stuck", "a::unprepared"])
