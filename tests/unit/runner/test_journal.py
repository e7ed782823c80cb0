"""The one masking door of a stage: output, own lines, messages and what Python writes to standard error."""

import json
import os
import sys
import tempfile
from pathlib import Path

import pytest

from magos.masking.message import compose
from magos.masking.secretforms import secret_forms
from magos.runner.journal import Journal
from magos.runner.tokens import TokenFiles

SECRET = "hunter2-hunter2"
NEW = "tok-0123456789-new"


def written(stream: int) -> str:
    os.lseek(stream, 0, os.SEEK_SET)
    return os.read(stream, 1 << 20).decode()


@pytest.fixture
def stream(tmp_path: Path) -> int:
    return os.open(tmp_path / "log", os.O_RDWR | os.O_CREAT)


def test_every_way_into_the_log_is_masked(stream: int) -> None:
    journal = Journal(secret_forms([SECRET, "user"]), stream)
    journal.say(f"said {SECRET}")
    journal.say(compose("check the user of {name}", name=SECRET))
    journal.pass_on(f"printed {SECRET}\n".encode())
    assert journal.end_output() == b"printed ***\n"
    with journal.as_stderr():
        sys.stderr.write(f"Traceback {SECRET}")
        print(f"odd {SECRET}", "user", file=sys.stderr)
    log = written(stream)
    assert SECRET not in log
    assert "[magos-job] said ***\n[magos-job] check the user of ***\nprinted ***\n" in log
    assert "[magos-job] Traceback ***odd *** ***\n" in log
    os.close(stream)


def volume(folder: Path, generation: int, **files: str) -> None:
    """Lay a projected volume down as the kubelet does: links through ``..data``, which is exchanged in one step."""
    data = folder / f"..{generation}"
    data.mkdir(parents=True)
    for name, content in files.items():
        (data / name.replace("_", ".")).write_text(content)
        link = folder / name.replace("_", ".")
        if not link.is_symlink():
            link.symlink_to(Path("..data") / link.name)
    fresh = folder / "..data_tmp"
    fresh.symlink_to(data.name)
    fresh.replace(folder / "..data")


def test_a_token_file_is_known_from_the_start_and_whenever_it_is_exchanged(tmp_path: Path, stream: int) -> None:
    folder = tmp_path / "var" / "run" / "secrets" / "kubernetes.io" / "serviceaccount"
    volume(folder, 1, token=SECRET, namespace="production", ca_crt="-----BEGIN CERTIFICATE-----")
    journal = Journal((), stream)
    journal.watch(TokenFiles(tmp_path / "var" / "run" / "secrets").fresh_forms)
    assert journal.masked(f"{SECRET} {NEW} production") == f"*** {NEW} production"
    journal.pass_on(f"half of {NEW[:9]}".encode())
    volume(folder, 2, token=NEW)
    journal.pass_on(f"{NEW[9:]} and {SECRET}\n".encode())
    assert written(stream) == "half of *** and ***\n"
    os.close(stream)


def test_a_token_that_appears_later_or_that_a_variable_names_is_known(tmp_path: Path) -> None:
    named = tmp_path / "elsewhere"
    look = TokenFiles(tmp_path / "secrets", [named]).fresh_forms
    assert look() == ()
    named.write_text(SECRET)
    assert SECRET.encode() in look()
    (tmp_path / "secrets" / "eks.amazonaws.com").mkdir(parents=True)
    (tmp_path / "secrets" / "eks.amazonaws.com" / "token").write_text(NEW)
    assert NEW.encode() in look()
    assert look() == ()


def test_what_is_no_token_file_does_no_harm(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    folder.mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "loop").symlink_to(folder)
    (folder / "gone").symlink_to("nowhere")
    with tempfile.TemporaryDirectory(dir=folder):
        assert TokenFiles(folder).fresh_forms() == ()


def test_a_structured_credential_file_is_masked_part_by_part(tmp_path: Path) -> None:
    (tmp_path / "gcp.json").write_text(json.dumps({"type": "service_account", "private_key_id": SECRET}))
    journal = Journal()
    journal.watch(TokenFiles(tmp_path).fresh_forms)
    assert journal.masked(f"service_account {SECRET}") == "service_account ***"
