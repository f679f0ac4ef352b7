"""GPT's forward and backward pass out of kernels: the fast twin of `GPT.forward` under autocast.

Nothing is compiled by torch. Matrices are multiplied in bfloat16 copies that are renewed once a step; every other pass
over the activations is a kernel of our own; gradients are added up in float32 where the optimizer finds them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from nanopace.train.kernels.embedding import embed
from nanopace.train.kernels.head import head_loss, head_losses
from nanopace.train.kernels.heads import attend
from nanopace.train.kernels.linear import Weight, gelu_mlp, linear
from nanopace.train.kernels.norm import add_norm
from nanopace.train.model import GPT


class FusedGPT:
    """Calls the weights of a GPT, which stays what is saved, sampled from and trained."""

    def __init__(self, model: GPT, *, stream: torch.dtype = torch.bfloat16, keep: bool = True) -> None:
        self._shape, self._stream, self._keep = model.shape, stream, keep
        self._masters: list[Tensor] = list(model.parameters())
        self._copies = [torch.empty_like(each, dtype=torch.bfloat16) for each in self._masters]
        self._gradients = [torch.zeros_like(each) for each in self._masters]
        self._by_name = {
            name: (master, copy, gradient)
            for (name, master), copy, gradient in zip(
                model.named_parameters(), self._copies, self._gradients, strict=True
            )
        }
        for master, gradient in zip(self._masters, self._gradients, strict=True):
            master.grad = gradient
        self.renew()

    def forget(self) -> None:
        """Gradients to zero, where the optimizer finds them."""
        torch._foreach_zero_(self._gradients)

    @torch.no_grad()
    def renew(self) -> None:
        """After the weights have changed."""
        torch._foreach_copy_(self._copies, self._masters)

    def loss(self, tokens: Tensor, targets: Tensor, share: float = 1.0) -> Tensor:
        """The mean loss; going back from it adds `share` times its gradient."""
        return head_loss(self._hidden(tokens), self._half("transformer.wte.weight"), targets.reshape(-1), share)

    @torch.no_grad()
    def sequence_losses(self, tokens: Tensor, targets: Tensor) -> Tensor:
        losses = head_losses(self._hidden(tokens), self._half("transformer.wte.weight").value, targets.reshape(-1))
        return losses.view(targets.shape).mean(dim=1)

    def _hidden(self, tokens: Tensor) -> Tensor:
        full, half, shape = self._full, self._half, self._shape
        x = embed(tokens, full("transformer.wte.weight"), full("transformer.wpe.weight"), self._stream)
        branch = None
        for layer in range(shape.n_layer):
            name = f"transformer.h.{layer}."
            x, y = add_norm(x, branch, *full(name + "ln_1.weight"))
            found = attend(linear(y, half(name + "attn.c_attn.weight")), len(tokens), shape.n_head)
            branch = linear(found, half(name + "attn.c_proj.weight"))
            x, y = add_norm(x, branch, *full(name + "ln_2.weight"))
            branch = gelu_mlp(y, half(name + "mlp.c_fc.weight"), half(name + "mlp.c_proj.weight"), keep=self._keep)
        _, y = add_norm(x, branch, *full("transformer.ln_f.weight"))
        return y

    def _half(self, name: str) -> Weight:
        _, copy, gradient = self._by_name[name]
        return Weight(copy, gradient)

    def _full(self, name: str) -> Weight:
        master, _, gradient = self._by_name[name]
        return Weight(master.detach(), gradient)
