"""Training on several devices: a process for each by torch.multiprocessing, joined by accelerate.

What stands around the training (cache, locks, tracking) is in the process that starts them. They
end when it does, however it ends.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from components.errors import ClaimflowError

# Files in the folder of the checkpoints: the weights to begin with, those in the end with what was
# returned, and the first mistake that a user can mend.
BEFORE, AFTER, FAILED = "before.pt", "after.pt", "failed.txt"


def on_devices(train: Callable[..., Any], job: dict[str, Any], devices: int, folder: Path) -> Any:
    """What `train(**job)` gives, run by a process on each device; the weights of job["model"]
    become what the first of them has in the end.

    folder: for files on the way.
    Raises a ClaimflowError of one of them; one of its own when a process was killed, or if the
    machine has fewer devices; ProcessRaisedException for any other error.
    """
    import torch
    from torch.multiprocessing.spawn import ProcessExitedException, ProcessRaisedException, spawn

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
    for name in (AFTER, FAILED):
        (folder / name).unlink(missing_ok=True)
    torch.save({name: tensor.detach() for name, tensor in tensors(model)}, folder / BEFORE)
    store = torch.distributed.TCPStore(  # type: ignore[attr-defined]
        "127.0.0.1", 0, is_master=True, wait_for_workers=False
    )
    with without_weights(model):
        work = (train, job, devices, store.port, folder)
        started: Any = spawn(run, work, devices, join=False)  # type: ignore[no-untyped-call]
    try:
        while not started.join():
            pass
    except (ProcessExitedException, ProcessRaisedException) as error:
        if (folder / FAILED).exists():
            raise ClaimflowError((folder / FAILED).read_text("utf-8")) from None
        killed = -signal.SIGKILL in [process.exitcode for process in started.processes]
        end = "SIGKILL" if killed else getattr(error, "signal_name", None)
        if end:
            raise ClaimflowError(
                f"One of the {devices} processes that train was ended by {end}; if nobody did "
                "that, memory may have run out: lower trainer.tokens or batch. Started again as it "
                "was, it goes on from its last checkpoint."
            ) from error
        raise
    finally:
        for process in started.processes:
            process.kill()
            process.join()
    weights, made = torch.load(folder / AFTER, weights_only=True)
    for name, weight in trained(model):
        weight.data.copy_(weights[name])
    model.to(device)
    return made


def tensors(model: Any) -> list[tuple[str, Any]]:
    """Parameters and buffers, by name."""
    return [*model.named_parameters(), *model.named_buffers()]


def trained(model: Any) -> list[tuple[str, Any]]:
    """The parameters that are trained, by name."""
    return [(name, weight) for name, weight in model.named_parameters() if weight.requires_grad]


@contextlib.contextmanager
def without_weights(model: Any) -> Iterator[None]:
    """Meanwhile its tensors hold nothing: they go by a file, for which no shared memory and no
    open file for each is needed."""
    kept = [(tensor, tensor.data) for _, tensor in tensors(model)]
    try:
        for tensor, values in kept:
            tensor.data = values.new_empty(0)
        yield
    finally:
        for tensor, values in kept:
            tensor.data = values


def end_with_parent() -> None:
    """Wait for the process that started this one to end, and end."""
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)


def run(
    rank: int, train: Callable[..., Any], job: dict[str, Any], size: int, port: int, folder: Path
) -> None:
    """Do the job as process `rank` of `size`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # for the command, which ends this
    threading.Thread(target=end_with_parent, daemon=True).start()
    os.dup2(2, 1)  # what libraries print is no result of the command
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
    os.environ |= {"WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size)}
    os.environ["OMP_NUM_THREADS"] = str(job["settings"].threads)
    import torch

    from components.train.trainer import quiet

    quiet()
    before = torch.load(folder / BEFORE, weights_only=True)
    for name, tensor in tensors(job["model"]):
        tensor.data = before[name]
    backend = "nccl" if torch.cuda.is_available() else "gloo"
    store = torch.distributed.TCPStore("127.0.0.1", port)  # type: ignore[attr-defined]
    torch.distributed.init_process_group(backend, store=store, rank=rank, world_size=size)
    try:
        made = train(**job)
    except ClaimflowError as error:
        with contextlib.suppress(FileExistsError), open(folder / FAILED, "x") as file:
            file.write(str(error))
        raise
    if rank == 0:
        weights = {name: weight.detach().cpu() for name, weight in trained(job["model"])}
        torch.save((weights, made), folder / AFTER)
    torch.distributed.destroy_process_group()
