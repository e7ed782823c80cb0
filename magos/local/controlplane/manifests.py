"""The manifests that come with Magos: CRDs, the base of the installation, samples.

In a checkout they are the folders at its top; an installed package carries copies.
"""

from pathlib import Path

import magos
from magos.errors import MagosError

__all__ = ["manifest_folder"]


def manifest_folder(name: str) -> Path:
    """Return the folder ``crds``, ``samples`` or ``deploy``; raise ``MagosError`` where the installation lacks it."""
    package = Path(str(magos.__file__)).parent
    for parent in (package / "manifests", package.parent):
        if (parent / name).is_dir():
            return parent / name
    raise MagosError(f"this installation of Magos has no folder {name}; reinstall the package or use a checkout")
