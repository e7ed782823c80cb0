"""What the one-machine mode is made of: pinned versions, where each program comes from, how it is built.

A recipe is data. Its :attr:`Recipe.key` covers everything that decides the outcome of a build, so two programs with
one key are interchangeable and a changed recipe never meets an old cache entry.
"""

import hashlib
from typing import Final

import msgspec

__all__ = [
    "ETCD",
    "GO_VERSION",
    "KUBERNETES_VERSION",
    "KYVERNO",
    "TIME_PROVIDER",
    "TOFU",
    "TOFU_VERSION",
    "Recipe",
    "kubernetes",
]

KUBERNETES_VERSION: Final = "1.36.3"
ETCD_VERSION: Final = "3.6.16"
TOFU_VERSION: Final = "1.12.6"
KYVERNO_VERSION: Final = "1.19.1"
GO_VERSION: Final = "1.26.6"
"""The oldest Go that builds every recipe; also the version that is installed where there is none."""

# Raised when gobuild.py changes in a way that changes what comes out.
_BUILDER_GENERATION: Final = 1


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """One program, built from a Go module of the public module proxies or downloaded from its makers.

    ``local_modules`` is the version under which the modules that the module's own go.mod maps to a folder beside it
    (Kubernetes: "staging") are published; empty where that go.mod already requires the published ones.
    ``stamps`` are the link-time values ``-X symbol=value``.
    """

    name: str
    version: str
    module: str
    package: str
    stamps: tuple[tuple[str, str], ...] = ()
    local_modules: str = ""
    usual_minutes: float
    """How long a cold build takes on two cores: shown so that nobody thinks it hangs."""

    @property
    def key(self) -> str:
        """Name of the cache entry: readable, and unique for version and recipe."""
        outcome = msgspec.structs.replace(self, usual_minutes=0)
        content = msgspec.json.encode((_BUILDER_GENERATION, outcome))
        return f"{self.name}-{self.version}-{hashlib.sha256(content).hexdigest()[:12]}"

    @property
    def title(self) -> str:
        return f"{self.name} {self.version}"


def kubernetes(name: str, version: str = KUBERNETES_VERSION) -> Recipe:
    """A program of Kubernetes itself (``kube-apiserver``, ``kube-controller-manager``) at ``major.minor.patch``.

    Unstamped, the API server reports v0.0.0 and refuses its own feature gates, hence the stamps.
    """
    major, minor, patch = version.split(".")
    stamped = "k8s.io/component-base/version"
    return Recipe(
        name=name,
        version=version,
        module="k8s.io/kubernetes",
        package=f"k8s.io/kubernetes/cmd/{name}",
        stamps=(
            (f"{stamped}.gitVersion", f"v{version}"),
            (f"{stamped}.gitMajor", major),
            (f"{stamped}.gitMinor", minor),
        ),
        local_modules=f"v0.{minor}.{patch}",
        usual_minutes=6 if name == "kube-apiserver" else 1.5,
    )


ETCD: Final = Recipe(
    name="etcd",
    version=ETCD_VERSION,
    module="go.etcd.io/etcd/server/v3",
    package="go.etcd.io/etcd/server/v3",
    usual_minutes=1,
)

TOFU: Final = Recipe(
    name="tofu",
    version=TOFU_VERSION,
    module="github.com/opentofu/opentofu",
    package="github.com/opentofu/opentofu/cmd/tofu",
    stamps=(("github.com/opentofu/opentofu/version.dev", "no"),),
    usual_minutes=5,
)

KYVERNO: Final = Recipe(
    name="kyverno",
    version=KYVERNO_VERSION,
    module="github.com/kyverno/kyverno",
    package="github.com/kyverno/kyverno/cmd/cli/kubectl-kyverno",
    stamps=(("github.com/kyverno/kyverno/pkg/version.BuildVersion", f"v{KYVERNO_VERSION}"),),
    usual_minutes=10,
)
"""The policy evaluator's command line; 320 MB, so nothing obtains it unless policies are to be evaluated."""

TIME_PROVIDER: Final = Recipe(
    name="terraform-provider-time",
    version="0.14.2",
    module="github.com/hashicorp/terraform-provider-time",
    package="github.com/hashicorp/terraform-provider-time",
    usual_minutes=0.5,
)
"""A small provider that needs no account and no network: a real provider process for tests."""
