"""What a fresh process imports: start-up time and memory are promises."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

from tests.unit.runtime.client.kubeconfigs import document, write


def test_importing_the_modules_does_not_import_opentelemetry_or_the_http_server() -> None:
    code = (
        "import sys, magos.runtime.manager.instruments, magos.runtime.manager.health\n"
        "import magos.runtime.leaderelection.elector\n"
        "print([m for m in sys.modules if m.split('.')[0] in ('opentelemetry', 'prometheus_client', 'aiohttp')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_loading_configuration_does_not_import_the_generated_client(tmp_path: Path) -> None:
    write(tmp_path / "config", document({"token": "t"}))
    code = (
        "import sys; from magos.runtime.client.config import load_config; import magos.runtime.client.http\n"
        f"load_config({str(tmp_path / 'config')!r}, environ={{}})\n"
        "import json; print(json.dumps([m for m in sys.modules if m.startswith(('kubernetes_asyncio', 'aiohttp'))]))"
    )

    async def main() -> bytes:
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
        return (await process.communicate())[0]

    assert json.loads(asyncio.run(main())) == []
