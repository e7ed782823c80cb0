"""The one Lease that replicas compete for, as stored in the API server."""

from typing import Protocol

from magos.api.kube import LEASES, Lease
from magos.runtime.client.client import ApiClient
from magos.runtime.client.errors import ApiError
from magos.runtime.client.transport import Lane


class LeaseStore(Protocol):
    """Reads and writes one Lease; raises ``ApiError``. Each call may take ``seconds``."""

    async def get(self, seconds: float) -> Lease | None:
        """Return the Lease by a consistent read, None if it does not exist."""
        ...

    async def create(self, lease: Lease, seconds: float) -> Lease:
        """Create it; fails if it exists."""
        ...

    async def replace(self, lease: Lease, seconds: float) -> Lease:
        """Replace it; fails unless its resourceVersion is still the one in ``lease``."""
        ...


class ApiLease:
    """A Lease over connections of its own, so that no other traffic can delay a renewal."""

    def __init__(self, client: ApiClient, namespace: str, name: str) -> None:
        self._client = client.on(Lane.LEASE)
        self._namespace = namespace
        self._name = name

    async def get(self, seconds: float) -> Lease | None:
        """Return the Lease by a consistent read, None if it does not exist."""
        try:
            return await self._client.get(LEASES, self._namespace, self._name, timeout=seconds)
        except ApiError as error:
            if error.not_found:
                return None
            raise

    async def create(self, lease: Lease, seconds: float) -> Lease:
        """Create it; fails if it exists."""
        return await self._client.create(LEASES, lease, timeout=seconds)

    async def replace(self, lease: Lease, seconds: float) -> Lease:
        """Replace it; fails unless its resourceVersion is still the one in ``lease``."""
        return await self._client.replace(LEASES, lease, timeout=seconds)
