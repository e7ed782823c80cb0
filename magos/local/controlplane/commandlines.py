"""The command lines of the control plane's three processes; a flag that could surprise has its reason beside it."""

from pathlib import Path
from typing import Final

import msgspec

from magos.local.controlplane.credentials import KeyPair

CONTROLLERS: Final = (
    "job-controller",
    "namespace-controller",
    "garbage-collector-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "root-ca-certificate-publisher-controller",
    "clusterrole-aggregation-controller",
    "persistentvolumeclaim-protection-controller",  # only it removes the finalizer that admission adds
)
"""The controllers of kube-controller-manager that run: those that Magos relies on, and none that watches nodes."""

_LOOPBACK: Final = "127.0.0.1"


class Ports(msgspec.Struct, frozen=True):
    """TCP ports on 127.0.0.1."""

    etcd: int
    etcd_peer: int
    apiserver: int
    controller_manager: int


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """The files of one control plane."""

    folder: Path
    authority: Path
    server: KeyPair
    client: KeyPair
    service_account_key: Path
    token_file: Path
    audit_policy: Path
    audit_log: Path

    @property
    def controller_manager_kubeconfig(self) -> Path:
        return self.folder / "kube-controller-manager.kubeconfig"


def etcd(program: Path, layout: Layout, ports: Ports) -> list[str]:
    """Return the command of a single member: TLS with client certificates on both ports, no waiting for the disk."""
    client, peer = f"https://{_LOOPBACK}:{ports.etcd}", f"https://{_LOOPBACK}:{ports.etcd_peer}"
    files = {"cert-file": layout.server.certificate, "key-file": layout.server.key, "trusted-ca-file": layout.authority}
    return [
        str(program),
        "--name=magos",
        f"--data-dir={layout.folder / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=magos={peer}",
        "--client-cert-auth",
        "--peer-client-cert-auth",
        *(f"--{name}={path}" for name, path in files.items()),
        *(f"--peer-{name}={path}" for name, path in files.items()),
        "--unsafe-no-fsync",  # a power cut may lose the data of this cluster, which is for trying and testing
        "--log-level=warn",
    ]


def apiserver(program: Path, layout: Layout, ports: Ports) -> list[str]:
    """Return the command of the API server: default admission plugins, RBAC, an audit log at level Metadata."""
    return [
        str(program),
        f"--etcd-servers=https://{_LOOPBACK}:{ports.etcd}",
        f"--etcd-cafile={layout.authority}",
        f"--etcd-certfile={layout.client.certificate}",
        f"--etcd-keyfile={layout.client.key}",
        f"--bind-address={_LOOPBACK}",
        f"--advertise-address={_LOOPBACK}",
        "--endpoint-reconciler-type=none",  # the default retries for ever: Endpoints may not hold a loopback address
        f"--secure-port={ports.apiserver}",
        f"--tls-cert-file={layout.server.certificate}",
        f"--tls-private-key-file={layout.server.key}",
        f"--client-ca-file={layout.authority}",
        f"--token-auth-file={layout.token_file}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-signing-key-file={layout.service_account_key}",
        f"--service-account-key-file={layout.service_account_key}",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--authorization-mode=Node,RBAC",
        "--allow-privileged=true",
        "--kubelet-preferred-address-types=InternalIP",
        f"--kubelet-client-certificate={layout.client.certificate}",
        f"--kubelet-client-key={layout.client.key}",
        f"--audit-policy-file={layout.audit_policy}",
        f"--audit-log-path={layout.audit_log}",
        "--audit-log-maxsize=10000",  # megabytes: never rotated, so that counts over the log are right
        "--profiling=false",
    ]


def controller_manager(program: Path, layout: Layout, ports: Ports) -> list[str]:
    """Return the command of the only controller manager, with :data:`CONTROLLERS` and without leader election."""
    kubeconfig = layout.controller_manager_kubeconfig
    return [
        str(program),
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        f"--bind-address={_LOOPBACK}",
        f"--secure-port={ports.controller_manager}",
        f"--tls-cert-file={layout.server.certificate}",
        f"--tls-private-key-file={layout.server.key}",
        f"--controllers={','.join(CONTROLLERS)}",
        "--leader-elect=false",
        f"--service-account-private-key-file={layout.service_account_key}",
        f"--root-ca-file={layout.authority}",
        "--kube-api-qps=200",  # with the default of 20 its client throttles itself when a test has many Jobs
        "--kube-api-burst=400",
        "--profiling=false",
    ]
