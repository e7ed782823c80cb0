"""One control plane with the deployed RBAC, one identity provider and one ``magos-api`` for all tests of login."""

from collections.abc import Iterator
from pathlib import Path

import bcrypt
import pytest
from anyio.from_thread import start_blocking_portal

from magos.local.ports import free_ports
from magos.local.servers.postgres import postgres_server
from tests.e2e.auth.installation import LOG, PASSWORD, SYSTEM, Browser, Installation, Team, running_api
from tests.e2e.auth.issuer import running_issuer
from tests.envtest.cluster import Cluster, started_cluster

_ROOT = Path(__file__).parents[3]
_PEOPLE = {
    "ann": {"email": "ann@example.com", "email_verified": True, "groups": ["everybody", "payments"]},
    "eve": {"email": "eve@example.com", "email_verified": True, "groups": ["everybody"]},
}


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A control plane with everything of ``deploy/kustomize/base``, of which nothing runs; everybody is a user."""
    with started_cluster(tmp_path_factory.mktemp("control-plane")) as cluster:
        kubectl = cluster.kubectl
        kubectl.run("apply", "--server-side", f"--kustomize={_ROOT / 'crds'}")
        kubectl.run("wait", "--for=condition=Established", "--timeout=60s", "customresourcedefinition", "--all")
        kubectl.run("apply", f"--kustomize={_ROOT / 'deploy' / 'kustomize' / 'base'}")
        mapped = 'rbac.magosproject.io/claims={"groups":["everybody"]}'
        kubectl.run("annotate", "serviceaccount", "magos-user", f"--namespace={SYSTEM}", mapped)
        yield cluster


@pytest.fixture(scope="session")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The settings of a history in a database of its own."""
    folder = tmp_path_factory.mktemp("postgres")
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(postgres_server(folder, settings={"fsync": "off"})) as server,
    ):
        yield server.login.environment()


@pytest.fixture(scope="session")
def installation(
    tmp_path_factory: pytest.TempPathFactory, installed: Cluster, database: dict[str, str]
) -> Iterator[Installation]:
    """All of it, running."""
    folder = tmp_path_factory.mktemp("api")
    [port] = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    with running_issuer(folder, f"{url}/login", _PEOPLE) as issuer:
        environ = {
            **database,
            "OIDC_ISSUER_URL": issuer.url,
            "OIDC_CA_FILE": str(folder / "ca.pem"),
            "ADMIN_ACCOUNT_PASSWORD_HASH": bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode(),
        }
        with running_api(installed, folder, url, environ):
            yield Installation(cluster=installed, issuer=issuer, url=url, ca_file=folder / "ca.pem", log=folder / LOG)


@pytest.fixture(scope="session")
def payments(installation: Installation) -> Team:
    """The team whose Workspaces ann may look at."""
    return Team(installation.cluster, "payments")


@pytest.fixture(scope="session")
def others(installation: Installation) -> Team:
    """A team that neither ann nor eve belongs to."""
    return Team(installation.cluster, "others")


@pytest.fixture
def browser(installation: Installation, payments: Team, others: Team) -> Iterator[Browser]:
    """A browser that nobody has used yet."""
    del payments, others
    found = Browser(installation)
    yield found
    found.http.close()
