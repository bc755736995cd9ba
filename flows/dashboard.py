"""Start the MLflow UI on the local store of `tracking.uri`.

python -m flows.dashboard              http://127.0.0.1:5000
python -m flows.dashboard port=5001
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flows.cli import entry

if TYPE_CHECKING:
    from omegaconf import DictConfig

KIND = "workflowType=machine_learning"  # which of its two faces MLflow shows


def main(config: DictConfig) -> None:
    """Become the server; Ctrl-C ends it."""
    import os
    import socket
    import sys

    from components.errors import ClaimflowError
    from flows.tracking import connection

    uri, port = str(config.tracking.uri), int(config.port)
    if not uri.startswith("sqlite:///"):
        raise ClaimflowError(
            f"tracking.uri={config.tracking.uri} is no local store: open a server in a browser, "
            "or give tracking.uri=sqlite:///FILE."
        )
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise ClaimflowError(f"Port {port} is in use. Give another: port={port + 1}") from error
    with connection(config) as (_, experiment):  # on a fresh clone an empty store is set up first
        page = f"http://127.0.0.1:{port}/#/experiments/{experiment}/runs?{KIND}"
    print(f"MLflow UI on {page} (Ctrl-C ends it)", flush=True)
    server = ["server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    os.execv(sys.executable, [sys.executable, "-m", "mlflow", *server, "--backend-store-uri", uri])


if __name__ == "__main__":
    entry(main, "dashboard")
