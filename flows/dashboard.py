"""Start the MLflow UI on the store of `tracking.uri`.

python -m flows.dashboard              http://127.0.0.1:5000
python -m flows.dashboard port=5001
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flows.cli import entry

if TYPE_CHECKING:
    from omegaconf import DictConfig


def main(config: DictConfig) -> None:
    """Become the server; Ctrl-C ends it."""
    import os
    import socket
    import sys

    from components.errors import ClaimflowError
    from flows.tracking import connect

    uri, port = config.tracking.uri, config.port
    if not uri:
        raise ClaimflowError("No store to show: give tracking=mlflow or tracking.uri=…")
    if uri.startswith(("http://", "https://")):
        raise ClaimflowError(f"{uri} is a server and has its own page: open it in a browser.")
    if not isinstance(port, int) or not 0 < port < 65536:
        raise ClaimflowError(f"port={port} is wrong: give a number from 1 to 65535.")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except PermissionError as error:
            raise ClaimflowError(
                f"Port {port} needs rights you lack: give one from 1024."
            ) from error
        except OSError as error:
            raise ClaimflowError(f"Port {port} is in use. Give another: port={port + 1}") from error
    _, experiment = connect(config)  # sets up an empty store: the page opens on a fresh clone
    page = f"#/experiments/{experiment}/runs?workflowType=machine_learning"
    print(f"MLflow UI on http://127.0.0.1:{port}/{page} (Ctrl-C ends it)", flush=True)
    os.environ["MLFLOW_SERVER_ENABLE_JOB_EXECUTION"] = "false"  # no helpers for judges and such
    server = ["server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    os.execv(sys.executable, [sys.executable, "-m", "mlflow", *server, "--backend-store-uri", uri])


if __name__ == "__main__":
    entry(main, "dashboard")
