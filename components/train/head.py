"""The last layer of a head."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@functools.cache
def float32_linear() -> type[torch.nn.Linear]:
    """A linear layer that computes in float32 also under mixed precision."""
    import torch

    class Float32Linear(torch.nn.Linear):
        def forward(self, input: torch.Tensor) -> torch.Tensor:
            with torch.autocast(input.device.type, enabled=False):
                weight, bias = self.weight.float(), None if self.bias is None else self.bias.float()
                return torch.nn.functional.linear(input.float(), weight, bias)

    return Float32Linear
