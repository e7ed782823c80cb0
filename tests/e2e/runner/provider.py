"""A real provider for tests: small, and without need of an account or a network."""

from pathlib import Path

import msgspec

from magos.local.programs.assets import AssetSettings, obtain
from magos.local.programs.progress import Progress
from magos.local.programs.recipes import Recipe

__all__ = ["TIME_PROVIDER", "time_provider_program"]

TIME_PROVIDER = Recipe(
    name="terraform-provider-time",
    version="0.14.2",
    module="github.com/hashicorp/terraform-provider-time",
    package="github.com/hashicorp/terraform-provider-time",
    usual_minutes=0.5,
)


def time_provider_program(settings: AssetSettings, progress: Progress) -> Path:
    """Build the ``time`` provider, for a folder that serves as a provider registry (``filesystem_mirror``)."""
    return obtain(TIME_PROVIDER, msgspec.structs.replace(settings, sources=None), progress)
