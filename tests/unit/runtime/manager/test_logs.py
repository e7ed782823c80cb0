"""Logs are JSON lines, and logging never waits for whoever reads them."""

import io
import json
import logging
import threading
from typing import Any

import structlog
from hypothesis import given
from hypothesis import strategies as st

from magos.runtime.manager.logs import LineWriter, logging_to, render


def logged(stream: io.BytesIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_has_time_level_logger_message_and_what_is_bound() -> None:
    stream = io.BytesIO()
    early = structlog.get_logger("magos.early")
    with logging_to(stream, "info"):
        log = structlog.get_logger("magos.runtime.controller.controller").bind(
            controller="workspace", namespace="a", name="b"
        )
        log.info("pass ended", seconds=0.5)
        log.debug("not shown")
        early.warning("made before", trace_id="x")
        with structlog.contextvars.bound_contextvars(run_id="20260101T000000-00000000"):
            log.error("two\nlines")
    first, second, third = logged(stream)
    assert list(first)[:4] == ["time", "level", "logger", "message"]
    assert first.pop("time").endswith("Z")
    assert first == {
        "level": "info",
        "logger": "magos.runtime.controller.controller",
        "message": "pass ended",
        "controller": "workspace",
        "namespace": "a",
        "name": "b",
        "seconds": 0.5,
    }
    assert (second["level"], second["logger"], second["trace_id"]) == ("warning", "magos.early", "x")
    assert (third["message"], third["run_id"]) == ("two\nlines", "20260101T000000-00000000")


def test_errors_carry_their_traceback() -> None:
    stream = io.BytesIO()
    with logging_to(stream):
        log = structlog.get_logger("magos")
        try:
            _ = 1 / int("0")
        except ZeroDivisionError as error:
            log.exception("it failed")
            log.error("it failed", exc_info=error)  # noqa: TRY400 - both ways are in use
    first, second = logged(stream)
    assert first["level"] == second["level"] == "error"
    assert first["traceback"].endswith("ZeroDivisionError: division by zero\n")
    assert second["traceback"] == first["traceback"]


def test_the_standard_library_logs_in_the_same_form() -> None:
    stream = io.BytesIO()
    with logging_to(stream):
        logging.getLogger("aiohttp.client").warning("closed %s", "early")
        logging.getLogger("aiohttp.client").info("not shown")
    [line] = logged(stream)
    assert (line["level"], line["logger"], line["message"]) == ("warning", "aiohttp.client", "closed early")
    assert not [
        handler for handler in logging.getLogger().handlers if type(handler).__module__ == "magos.runtime.manager.logs"
    ]


def test_fields_do_not_hide_what_every_line_has() -> None:
    line = json.loads(render("info", "l", "m", {"level": "floor", "time": 7}))
    assert (line["level"], line["field_level"], line["field_time"]) == ("info", "floor", 7)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.builds(object),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(st.text(st.characters(codec=None)), st.dictionaries(st.text(), ANYTHING))
def test_whatever_is_logged_becomes_one_line_of_json(message: str, fields: dict[str, Any]) -> None:
    fields.pop("exc_info", None)
    line = render("info", "logger", message, fields)
    assert b"\n" not in line
    assert isinstance(json.loads(line), dict)


class Stuck(io.BytesIO):
    """A pipe that nobody reads until it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.released = threading.Event()
        self.blocked = threading.Event()

    def write(self, data: Any, /) -> int:
        self.blocked.set()
        self.released.wait(30)
        return super().write(data)


def test_a_pipe_that_nobody_reads_costs_lines_not_time() -> None:
    stream = Stuck()
    writer = LineWriter(stream, capacity=100)
    writer.put(b'"first"')
    assert stream.blocked.wait(30)
    for _ in range(1000):
        writer.put(b"1")
    stream.released.set()
    writer.close()
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert len(lines) == 102
    assert lines[-1]["dropped"] == 900


def test_a_reader_that_left_ends_the_writing() -> None:
    stream = io.BytesIO()
    stream.close()
    writer = LineWriter(stream)
    writer.put(b"1")
    writer.close()
    assert not writer._thread.is_alive()
