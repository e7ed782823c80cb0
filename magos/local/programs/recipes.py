"""The programs of the one-machine mode: pinned versions, where each program comes from, how it is built.

A recipe is data. Its :attr:`Recipe.key` covers everything that decides the outcome of a build, so two programs with the
same key are interchangeable and a changed recipe never uses an old cache entry.
"""

import hashlib
from typing import Final

import msgspec

KUBERNETES_VERSION: Final = "1.36.3"
ETCD_VERSION: Final = "3.6.16"
TOFU_VERSION: Final = "1.12.6"
KYVERNO_VERSION: Final = "1.19.1"
GO_VERSION: Final = "1.26.6"
"""The oldest Go that builds every recipe, and the version that is installed on a machine without Go."""

_BUILDER_GENERATION: Final = 1
"""Raise it with a change of gobuild.py that changes the built programs."""


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """One program, built from a published Go module or downloaded from its publisher.

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
    """Duration of a build on two cores with empty caches; users see it before the build starts."""

    @property
    def key(self) -> str:
        """The name of the cache entry: readable, and unique for version and recipe."""
        outcome = msgspec.structs.replace(self, usual_minutes=0)
        content = msgspec.json.encode((_BUILDER_GENERATION, outcome))
        return f"{self.name}-{self.version}-{hashlib.sha256(content).hexdigest()[:12]}"

    @property
    def title(self) -> str:
        return f"{self.name} {self.version}"


def kubernetes(name: str, version: str = KUBERNETES_VERSION) -> Recipe:
    """Return the recipe of ``kube-apiserver`` or ``kube-controller-manager`` at ``major.minor.patch``.

    Without the stamps the API server reports v0.0.0 and refuses its own feature gates.
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
"""The command line that evaluates policies; it has 320 MB, so obtain it only if there are policies to evaluate."""
