"""The settings of the server: what is read, and how what is wrong is told."""

import pytest

from magos.apps.server import run_api
from magos.apps.serverparts import join
from magos.errors import ConfigurationError
from magos.server.settings import load_server_settings


def test_without_variables_it_listens_on_8080_and_takes_no_other_origin() -> None:
    settings = load_server_settings({"PORT": "", "MAGOS_CORS_ORIGINS": ""})
    assert (settings.port, settings.base_url, settings.cors_origins) == (8080, "http://localhost:8080", ())


def test_the_base_url_may_have_a_path_and_loses_its_last_slash() -> None:
    settings = load_server_settings({"MAGOS_BASE_URL": "https://tools.example:8443/magos/"})
    assert settings.base_url == "https://tools.example:8443/magos"


def test_origins_are_a_list() -> None:
    settings = load_server_settings({"MAGOS_CORS_ORIGINS": "https://a.example, http://localhost:3000,"})
    assert settings.cors_origins == ("https://a.example", "http://localhost:3000")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("PORT", value) for value in ("0", "65536", "http", "-1", "8080.0", "٨٠")),
        *(
            ("MAGOS_BASE_URL", value)
            for value in (
                "magos.example",
                "ftp://x",
                "https://",
                "https://x?y",
                "https://x#y",
                "https://u:p@x",
                "http://x:y",
            )
        ),
        *(("MAGOS_CORS_ORIGINS", value) for value in ("*", "https://x/", "x.example", "https://X.example", "null")),
    ],
)
def test_a_bad_value_is_one_line_that_names_its_variable(name: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=name) as raised:
        load_server_settings({name: value})
    assert "\n" not in str(raised.value)


def test_a_wrong_setting_or_flag_ends_with_exit_code_two_and_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_api([], {"PORT": "x"}, join) == 2
    assert run_api(["--log-level=loud"], {}, join) == 2
    assert run_api([], {"KUBECONFIG": "/nonexistent"}, join) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("PORT: 'x'")
    assert "--log-level" in lines[1]
