"""Training on several devices: one process each, by the Trainer's way through accelerate.

What stands around the training (cache, locks, tracking) is in the process that starts them. They
end when it does, however it ends: their input is a pipe from it.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from components.errors import ClaimflowError

# Files in the folder of the checkpoints: what to do, what came of it, the first error.
JOB, RESULT, FAILED = "job", "result", "failed"


def on_devices(job: dict[str, Any], devices: int, threads: int, folder: Path) -> Any:
    """What `learn(**job)` gives, run by a process on each device; the weights of job["model"]
    become what the first of them has in the end.

    threads: of each process. folder: for files on the way.
    Raises what was raised in one of them; ClaimflowError when one was killed, or if the machine
    has fewer devices.
    """
    import torch

    gpus = torch.cuda.device_count()
    if devices > (there := gpus or os.cpu_count() or 1):
        raise ClaimflowError(
            f"trainer.devices={devices} is more than this machine has: "
            f"{there} {'GPUs' if gpus else 'CPUs, and no GPU'}."
        )
    model = job["model"]
    device = model.device
    model.to("cpu")
    if gpus:
        torch.cuda.empty_cache()
    for name in (RESULT, FAILED):
        (folder / name).unlink(missing_ok=True)
    torch.save(job, folder / JOB)
    store = torch.distributed.TCPStore(  # type: ignore[attr-defined]
        "127.0.0.1", 0, is_master=True, wait_for_workers=False
    )
    with workers(devices, threads, folder, store.port) as processes:
        while any(process.poll() is None for process in processes):
            if any(process.returncode for process in processes):
                break
            time.sleep(0.05)
        codes = [process.returncode or 0 for process in processes]
    if min(codes) < 0:
        name = signal.Signals(-min(codes)).name
        raise ClaimflowError(
            f"One of the {devices} processes that train was ended by {name}; if nobody did that, "
            "memory may have run out: lower trainer.tokens or batch. Started again as it was, it "
            "goes on from its last checkpoint."
        )
    if max(codes):
        with open(folder / FAILED, "rb") as file:
            raise pickle.load(file)
    weights, made = torch.load(folder / RESULT, weights_only=True)
    for name, weight in trained(model):
        weight.data.copy_(weights[name])
    model.to(device)
    return made


@contextlib.contextmanager
def workers(
    devices: int, threads: int, folder: Path, port: int
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that run `main`; none is left behind."""
    known = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "OMP_NUM_THREADS": str(threads),
        "TORCH_CPP_LOG_LEVEL": "ERROR",  # it warns that all parameters are trained
        "WORLD_SIZE": str(devices),
        "LOCAL_WORLD_SIZE": str(devices),
    }
    processes = []
    try:
        for rank in range(devices):
            processes.append(
                subprocess.Popen(
                    [sys.executable, "-m", __name__, str(folder), str(port)],
                    env=known | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
                    stdin=subprocess.PIPE,
                    stdout=2,  # what libraries print there is no result of the command
                    start_new_session=True,  # Ctrl-C is for the command, which ends them
                )
            )
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def trained(model: Any) -> list[tuple[str, Any]]:
    """The parameters that are trained, by name."""
    return [(name, weight) for name, weight in model.named_parameters() if weight.requires_grad]


def main() -> None:
    """Run the job in the folder that the first argument names, as process RANK of WORLD_SIZE."""
    threading.Thread(target=lambda: (os.read(0, 1), os._exit(1)), daemon=True).start()
    folder, rank, size = Path(sys.argv[1]), *(int(os.environ[x]) for x in ("RANK", "WORLD_SIZE"))
    try:
        import torch

        from components.train.trainer import learn, quiet

        quiet()
        backend = "nccl" if torch.cuda.is_available() else "gloo"
        store = torch.distributed.TCPStore(  # type: ignore[attr-defined]
            "127.0.0.1", int(sys.argv[2])
        )
        torch.distributed.init_process_group(backend, store=store, rank=rank, world_size=size)
        job = torch.load(folder / JOB, weights_only=False)  # written by the command itself
        made = learn(**job)
        if rank == 0:
            weights = {name: weight.detach().cpu() for name, weight in trained(job["model"])}
            torch.save((weights, made), folder / RESULT)
        torch.distributed.destroy_process_group()
    except Exception as error:
        mendable = isinstance(error, ClaimflowError)
        with contextlib.suppress(FileExistsError), open(folder / FAILED, "xb") as file:
            pickle.dump(error if mendable else RuntimeError(traceback.format_exc()), file)
        sys.exit(1)


if __name__ == "__main__":
    main()
