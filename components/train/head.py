"""The last layer of a head. Imported only where torch is in use: it imports it."""

from __future__ import annotations

import torch


class Float32Linear(torch.nn.Linear):
    """A linear layer that computes in float32 also under mixed precision."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        with torch.autocast(input.device.type, enabled=False):
            weight, bias = self.weight.float(), None if self.bias is None else self.bias.float()
            return torch.nn.functional.linear(input.float(), weight, bias)
