"""The command lines of the control plane's processes.

Apart from the process handling, this is all that makes the one-machine control plane what it is: every flag that is
not plumbing has its reason beside it.
"""

from pathlib import Path
from typing import Final

import msgspec

from magos.local.controlplane.credentials import KeyPair

__all__ = ["CONTROLLERS", "Layout", "Ports", "apiserver", "controller_manager", "etcd"]

CONTROLLERS: Final = (
    "job-controller",
    "namespace-controller",
    "garbage-collector-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "root-ca-certificate-publisher-controller",
    "clusterrole-aggregation-controller",
    "persistentvolumeclaim-protection-controller",  # admission adds a finalizer that nothing else would remove
)
"""The controllers of kube-controller-manager that run: what Magos relies on, and nothing that judges nodes."""

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

    @property
    def controller_manager_kubeconfig(self) -> Path:
        return self.folder / "kube-controller-manager.kubeconfig"


def etcd(program: Path, layout: Layout, ports: Ports) -> list[str]:
    """One member, TLS with client certificates on both ports, not waiting for the disk."""
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
        "--unsafe-no-fsync",  # a cluster for trying: a power cut may lose it
        "--log-level=warn",
    ]


def apiserver(program: Path, layout: Layout, ports: Ports) -> list[str]:
    """The API server with its default admission plugins, RBAC and an audit log at level Metadata."""
    return [
        str(program),
        f"--etcd-servers=https://{_LOOPBACK}:{ports.etcd}",
        f"--etcd-cafile={layout.authority}",
        f"--etcd-certfile={layout.client.certificate}",
        f"--etcd-keyfile={layout.client.key}",
        f"--bind-address={_LOOPBACK}",
        f"--advertise-address={_LOOPBACK}",
        "--endpoint-reconciler-type=none",  # Endpoints may not hold a loopback address: the default retries for ever
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
        f"--audit-log-path={layout.folder / 'audit.log'}",
        "--audit-log-maxsize=10000",  # megabytes: rotation would make counts lie
        "--profiling=false",
    ]


def controller_manager(program: Path, layout: Layout, ports: Ports) -> list[str]:
    """The controller manager with :data:`CONTROLLERS`, without leader election: there is only one."""
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
        "--kube-api-qps=200",  # the default of 20 makes tests with many Jobs wait for the client's own throttle
        "--kube-api-burst=400",
        "--profiling=false",
    ]
