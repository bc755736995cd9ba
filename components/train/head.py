"""The last layer of a head, `Float32Linear`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def __getattr__(name: str) -> Any:
    """`Float32Linear`, made when it is first asked for, by pickle too: importing this module does
    not import torch, which takes a second."""
    if name != "Float32Linear":
        raise AttributeError(f"module {__name__} has no attribute {name}")
    import torch

    class Float32Linear(torch.nn.Linear):
        """A linear layer that computes in float32 also under mixed precision."""

        def forward(self, input: torch.Tensor) -> torch.Tensor:
            with torch.autocast(input.device.type, enabled=False):
                weight, bias = self.weight.float(), None if self.bias is None else self.bias.float()
                return torch.nn.functional.linear(input.float(), weight, bias)

    Float32Linear.__qualname__ = name
    return globals().setdefault(name, Float32Linear)
