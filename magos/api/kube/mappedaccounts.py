"""ServiceAccounts as the API server sees them: their metadata with the annotations that map claims (spec §9.4)."""

from msgspec import Struct

from magos.api.meta import Kind, ObjectMeta


class MappedAccount(Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True):
    """A ServiceAccount with labels and annotations."""

    metadata: ObjectMeta = ObjectMeta()


MAPPED_ACCOUNTS = Kind(
    group="", version="v1", plural="serviceaccounts", name="ServiceAccount", type=MappedAccount, metadata_only=True
)
