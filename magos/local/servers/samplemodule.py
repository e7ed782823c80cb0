"""The Terraform configuration of the sample repository, as text.

Each environment has a root module that calls a shared module of the same repository. The modules use only the built-in
``terraform_data``, so they download no provider, and keep their state outside the clone, where it outlives the pod.
"""

import json
from pathlib import Path
from typing import Final

_VERSIONS: Final = 'terraform {{\n  required_version = ">= 1.5"\n\n  backend "local" {{\n    path = {path}\n  }}\n}}\n'

_ROOT: Final = """\
variable "replicas" {
  description = "How many instances of the service to run."
  type        = number
  default     = @REPLICAS@
}

module "service" {
  source = "../../modules/service"

  environment = @ENVIRONMENT@
  release     = @RELEASE@
  replicas    = var.replicas
}

output "endpoint" {
  description = "Where the service answers."
  value       = module.service.endpoint
}

output "release" {
  description = "The release that runs."
  value       = module.service.release
}
"""

_SERVICE: Final = """\
variable "environment" {
  type = string
}

variable "release" {
  type = string
}

variable "replicas" {
  type = number
}

resource "terraform_data" "network" {
  input = { name = "${var.environment}-network" }
}

resource "terraform_data" "instance" {
  count = var.replicas

  input = {
    name    = "${var.environment}-service-${count.index}"
    network = terraform_data.network.output.name
    release = var.release
  }
}

output "endpoint" {
  value = "https://service.${var.environment}.example"
}

output "release" {
  value = length(terraform_data.instance) > 0 ? terraform_data.instance[0].output.release : var.release
}
"""

_README: Final = """\
# Sample infrastructure

One folder an environment below `environments/`, a shared module below `modules/`.
Change a release in `environments/dev/main.tf`, commit, and watch Magos apply it.
"""

SHARED: Final = {"README.md": _README, "modules/service/main.tf": _SERVICE}
"""The files that all environments share."""

BROKEN: Final = """\
resource "terraform_data" "broken" {
  input = var.no_such_variable
}
"""
"""A file that fails every plan with a diagnostic, because it refers to an undeclared variable."""

_SLOW: Final = """\
resource "terraform_data" "slow" {
  triggers_replace = [timestamp()]

  provisioner "local-exec" {
    command = "sleep @SECONDS@"
  }
}
"""


def hcl_string(text: str) -> str:
    """Return ``text`` as a quoted HCL string, with template sequences escaped so that they stand for themselves."""
    return json.dumps(text, ensure_ascii=False).replace("${", "$${").replace("%{", "%%{")


def environment_files(environment: str, *, release: str, replicas: int, state: Path) -> dict[str, str]:
    """Return the root module of ``environment``, by path in the repository; its state goes to the file ``state``."""
    filled = {"@ENVIRONMENT@": hcl_string(environment), "@RELEASE@": hcl_string(release), "@REPLICAS@": str(replicas)}
    root = _ROOT
    for mark, value in filled.items():
        root = root.replace(mark, value)
    folder = f"environments/{environment}"
    return {
        f"{folder}/main.tf": root,
        f"{folder}/versions.tf": _VERSIONS.format(path=hcl_string(str(state))),
    }


def slow_file(seconds: int) -> str:
    """Return a file that makes every apply last at least ``seconds``, long enough to watch or interrupt it."""
    return _SLOW.replace("@SECONDS@", str(seconds))
