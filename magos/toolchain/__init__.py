"""Terraform and OpenTofu binaries: found, downloaded, verified and unpacked.

The package promises: no byte of an archive reaches the destination before its checksum, and the checksum file's OpenPGP
signature, were verified in this very call, cached or not. Calls block. Importing the package is cheap: the HTTP client
and the OpenPGP library are loaded when needed.

Entry point: :func:`magos.toolchain.install.install`.
"""
