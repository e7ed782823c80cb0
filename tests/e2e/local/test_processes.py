"""Child processes of the one-machine mode: their start, their end, and that none stays behind."""

import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import anyio
import pytest

from magos.local.processes import ProcessFailed, ProcessSpec, read_tail, running, start

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def _python(log: Path, code: str) -> ProcessSpec:
    return ProcessSpec(name="child", argv=[sys.executable, "-u", "-c", textwrap.dedent(code)], log_file=log)


async def _says(child_log: Path, text: str) -> bool:
    return text in await anyio.to_thread.run_sync(read_tail, child_log)


async def test_output_of_both_streams_goes_to_the_log_and_the_status_is_the_programs_own(tmp_path: Path) -> None:
    log = tmp_path / "deep" / "child.log"
    child = await start(_python(log, "import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)"))
    assert await child.wait() == 7
    assert await child.tail() == "out\nerr"


async def test_leaving_the_block_ends_the_child_with_sigterm(tmp_path: Path) -> None:
    log = tmp_path / "child.log"
    code = """
        import signal, sys
        signal.signal(signal.SIGTERM, lambda *_: (print('bye'), sys.exit(0)))
        print('ready'); signal.pause()
    """
    async with running(_python(log, code)) as child:
        await child.wait_until_ready(lambda: _says(log, "ready"), 20)
    assert child.returncode == 0
    assert await child.tail() == "ready\nbye"


async def test_a_child_that_ignores_sigterm_is_killed_after_the_grace(tmp_path: Path) -> None:
    log = tmp_path / "child.log"
    code = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready'); signal.pause()"
    child = await start(_python(log, code))
    await child.wait_until_ready(lambda: _says(log, "ready"), 20)
    assert await child.stop(grace=0.1) == -signal.SIGKILL


async def test_a_signal_does_not_take_the_exit_status_from_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def poll(_: object) -> None:
        pytest.fail("whoever asks the child itself whether it has ended takes its exit status from the loop")

    log = tmp_path / "child.log"
    async with running(_python(log, "import signal; print('ready'); signal.pause()")) as child:
        await child.wait_until_ready(lambda: _says(log, "ready"), 20)
        with monkeypatch.context() as patched:
            patched.setattr(subprocess.Popen, "poll", poll)
            child.send_signal(signal.SIGTERM)
        assert await child.wait() == -signal.SIGTERM


async def test_stop_completes_when_it_is_cancelled_and_may_be_called_twice(tmp_path: Path) -> None:
    with anyio.CancelScope() as scope:
        async with running(_python(tmp_path / "child.log", "import signal; signal.pause()")) as child:
            scope.cancel()
            await anyio.sleep_forever()
    assert child.returncode == -signal.SIGTERM
    assert await child.stop() == -signal.SIGTERM


async def test_a_child_that_ends_before_it_is_ready_is_reported_with_the_end_of_its_log(tmp_path: Path) -> None:
    async with running(_python(tmp_path / "child.log", "import sys; print('no such flag'); sys.exit(3)")) as child:
        with pytest.raises(ProcessFailed, match=r"(?s)child ended with status 3 before it was ready.*no such flag"):
            await child.wait_until_ready(_never, 20)


async def test_a_child_that_is_not_ready_in_time_is_reported(tmp_path: Path) -> None:
    async with running(_python(tmp_path / "child.log", "import signal; signal.pause()")) as child:
        with pytest.raises(ProcessFailed, match=r"did not become ready within 0\.2 s"):
            await child.wait_until_ready(_never, 0.2)


async def test_a_missing_program_is_named(tmp_path: Path) -> None:
    spec = ProcessSpec(name="etcd", argv=["/nowhere/etcd"], log_file=tmp_path / "log")
    with pytest.raises(ProcessFailed, match=r"etcd cannot be started: /nowhere/etcd is not an executable file"):
        await start(spec)


async def test_the_child_has_the_given_environment_and_folder_and_its_own_session(tmp_path: Path) -> None:
    code = "import os; print(os.environ['COLOUR'], os.getcwd(), os.getsid(0) == os.getpid())"
    spec = ProcessSpec(
        name="child",
        argv=[sys.executable, "-c", code],
        log_file=tmp_path / "log",
        env={"COLOUR": "red"},
        cwd=tmp_path,
    )
    child = await start(spec)
    assert await child.wait() == 0
    assert await child.tail() == f"red {tmp_path} True"


def test_a_child_does_not_survive_the_sigkill_of_its_parent(tmp_path: Path) -> None:
    code = f"""
        import anyio
        from pathlib import Path
        from magos.local.processes import ProcessSpec, start
        async def main():
            child = await start(ProcessSpec(name="c", argv=["sleep", "600"], log_file=Path({str(tmp_path / "log")!r})))
            print(child.pid, flush=True)
            await anyio.sleep_forever()
        anyio.run(main)
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        entry = Path(f"/proc/{pid}/stat")
        assert entry.exists()
        parent.kill()
    end = time.monotonic() + 20
    while entry.exists() and entry.read_text().split()[2] != "Z":
        assert time.monotonic() < end, "the child is still there"


async def _never() -> bool:
    return False
