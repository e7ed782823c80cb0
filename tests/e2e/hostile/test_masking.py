"""Secrets that something else than a plain print shows: wrapped by the tool, mounted as a token, echoed by a server."""

import base64
import json
import sys
from pathlib import Path

import pytest

from magos.api.result import Outcome
from magos.api.runnerpod import Stage
from magos.local.servers.mirror import ReleaseMirror
from tests.e2e.canary import echoing_server
from tests.e2e.runner.conftest import mirror, workspace
from tests.e2e.runner.pod import PLAN, RUN, Workspace, plan
from tests.e2e.runner.policypod import Rendered, policy

__all__ = ["mirror", "workspace"]  # the fixtures

DSN = "host=db.internal port=5432 user=app password=hunter2-hunter2 sslmode=require options=-csearch_path=private-4711"
TOKEN = ".".join(
    base64.urlsafe_b64encode(part).decode().rstrip("=")
    for part in (b'{"alg":"RS256","kid":"k"}', b'{"sub":"system:serviceaccount:ns:magos-job"}', b"\x01signature" * 20)
)


def leaked(secret: str, text: str) -> list[str]:
    return [word for word in secret.split() if word in text]


@pytest.mark.parametrize("before", [0, 25, 50])
def test_a_connection_string_that_a_diagnostic_wraps_reaches_neither_log_nor_result(
    workspace: Workspace,
    before: int,
) -> None:
    text = f"""
variable "dsn" {{}}
resource "terraform_data" "a" {{
  lifecycle {{
    precondition {{
      condition     = length(var.dsn) == 0
      error_message = "{"x" * before} cannot connect with ${{var.dsn}} to ${{jsonencode(var.dsn)}}, says user"
    }}
  }}
}}
"""
    workspace.commit({"main.tf": workspace.backend + text})
    pod, result = plan(workspace, TF_VAR_dsn=DSN, MAGOS_REDACT_ENV="TF_VAR_dsn")
    assert result.reason == "PlanFailed"
    assert "cannot connect with *** to" in " ".join(result.message.split())
    assert leaked(DSN, pod.log) == leaked(DSN, result.message) == []


def test_plain_words_of_a_structured_secret_stay_readable(
    workspace: Workspace,
) -> None:
    account = {"type": "service_account", "universe_domain": "googleapis.com", "private_key": "key-0123456789"}
    advice = "enable iam.googleapis.com for the service_account"
    text = f"""
variable "account" {{}}
resource "terraform_data" "a" {{
  lifecycle {{
    precondition {{
      condition     = length(var.account) == 0
      error_message = "{advice}, not ${{jsondecode(var.account).private_key}}"
    }}
  }}
}}
"""
    workspace.commit({"main.tf": workspace.backend + text})
    pod, result = plan(workspace, TF_VAR_account=json.dumps(account), MAGOS_REDACT_ENV="TF_VAR_account")
    assert f"{advice}, not ***" in " ".join(result.message.split())
    assert "key-0123456789" not in pod.log


def test_the_mounted_token_is_masked_when_a_configuration_prints_it(workspace: Workspace) -> None:
    text = 'output "t" {\n  value = file("@TOKEN@")\n}\noutput "s" {\n  value = split(".", file("@TOKEN@"))[2]\n}\n'
    pod = workspace.pod(PLAN, RUN)
    token = pod.root / "var/run/secrets/kubernetes.io/serviceaccount/token"
    token.parent.mkdir(parents=True)
    token.write_text(TOKEN)
    workspace.commit({"main.tf": workspace.backend + text.replace("@TOKEN@", str(token))})
    assert pod.run().result is Outcome.SUCCEEDED
    assert pod.log.count("***") >= 2
    assert TOKEN not in pod.log
    assert TOKEN.split(".")[2] not in pod.log


_QUOTING = """#!{python}
import json, sys
plan = json.load(open(sys.argv[sys.argv.index("--json") + 1]))
value = plan["variables"]["password"]["value"]
results = [{{"policy": "p", "result": "fail", "message": f"not allowed: {{value}} of user"}}]
summary = {{"pass": 0, "fail": 1, "warn": 0, "error": 0, "skip": 0}}
print(json.dumps({{"kind": "ClusterReport", "results": results, "summary": summary}}))
print("Error: also", value, file=sys.stderr)
sys.exit(1)
"""


def test_a_policy_that_quotes_a_variable_from_a_secret_is_masked_although_nobody_declared_it_sensitive(
    workspace: Workspace, tmp_path: Path
) -> None:
    """The evaluator is a stand-in that says exactly what a policy with such a message expression lets Kyverno say."""
    secret = "hunter2-hunter2"
    text = 'variable "password" {}\nresource "terraform_data" "a" {\n  input = var.password\n}\n'
    workspace.commit({"main.tf": workspace.backend + text})
    program = tmp_path / "evaluators" / "kyverno"
    program.parent.mkdir()
    program.write_text(_QUOTING.format(python=sys.executable))
    program.chmod(0o755)
    rendered = Rendered(workspace.pod(PLAN, RUN, TF_VAR_password=secret, MAGOS_REDACT_ENV="TF_VAR_password"))
    result = rendered.judge(program.parent, policy("false"))
    assert [violation.message for violation in result.violations] == ["not allowed: *** of user"]
    assert result.message == "1 violation: p: not allowed: *** of user; change the code or the policy"
    assert secret not in rendered.pod.log + rendered.log
    assert "Error: also ***" in rendered.pod.log + rendered.log


def test_what_a_git_server_repeats_is_masked_in_log_status_and_result(
    tmp_path: Path,
    mirror: ReleaseMirror,
) -> None:
    password = "tr0ub4dor&3/corr+ct-h0rse"
    here = Workspace(
        tmp_path, {"TF_VERSION": "1.9.5", "MAGOS_TF_DISTRIBUTION": "opentofu", "MAGOS_OPENTOFU_MIRROR": mirror.url}
    )
    with echoing_server() as url:
        login = {"GIT_USERNAME": "user", "GIT_PASSWORD": password}
        pod = here.pod(PLAN, RUN, REPO_URL=url, MAGOS_ALLOWED_GIT_SCHEMES="http", **login)
        result = pod.run()
    assert result.reason == "GitFailed"
    status = pod.root / "scratch" / Stage.FETCH / "status.json"
    for text in (pod.log, result.message, status.read_text()):
        squeezed = "".join(text.split())
        for secret in (password, base64.b64encode(f"user:{password}".encode()).decode()):
            assert not [at for at in range(len(secret) - 11) if secret[at : at + 12] in squeezed]
    assert "not you: ***" in result.message
