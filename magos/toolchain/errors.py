"""Why a tool could not be installed, as the reasons of spec §7.6 (exit code 4)."""

from enum import StrEnum

from magos.errors import MagosError


class ToolReason(StrEnum):
    """The reasons an installation may end with."""

    TOOL_DOWNLOAD_FAILED = "ToolDownloadFailed"
    CHECKSUM_MISMATCH = "ChecksumMismatch"
    SIGNATURE_INVALID = "SignatureInvalid"


class ToolError(MagosError):
    """Installing a tool failed for ``reason``; ``message`` names URL without userinfo, version, expected and found."""

    def __init__(self, reason: ToolReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
