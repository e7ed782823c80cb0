"""An entry of the program cache appears whole or not at all."""

import stat
from contextlib import suppress
from pathlib import Path

from magos.local.programs.cache import locked, place_program, program_path
from tests.unit.local.recorder import Recorder


def test_a_program_appears_executable_and_only_when_the_block_succeeds(tmp_path: Path) -> None:
    final = program_path(tmp_path, "tool-1", "tool")
    with suppress(ZeroDivisionError), place_program(tmp_path, "tool-1", "tool") as target:
        target.write_text("half")
        raise ZeroDivisionError
    assert list((tmp_path / "programs").iterdir()) == []
    with place_program(tmp_path, "tool-1", "tool") as target:
        target.write_text("whole")
        assert not final.exists()
    assert final.read_text() == "whole"
    assert stat.S_IMODE(final.stat().st_mode) == 0o755


def test_the_lock_of_an_entry_is_free_again_after_an_error(tmp_path: Path) -> None:
    progress = Recorder()
    with suppress(ZeroDivisionError), locked(tmp_path, "tool-1", progress):
        raise ZeroDivisionError
    with locked(tmp_path, "tool-1", progress), locked(tmp_path, "tool-2", progress):
        assert progress.said == []
