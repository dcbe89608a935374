"""The hooks of the pairformer for cpbench_torch. Options: channels, heads, blocks.

point.tokens is N. It is rounded up to a multiple of the first side of the mesh, and the padding is
masked.
"""

from typing import Any, NamedTuple, Optional

import torch

import cpbench_torch
import pairformer

CHANNELS = cpbench_torch.option("channels", 16)
HEADS = cpbench_torch.option("heads", 4)
BLOCKS = cpbench_torch.option("blocks", 1)

cpbench_torch.declare(
    "model", "pairformer channels=%d heads=%d blocks=%d" % (CHANNELS, HEADS, BLOCKS)
)
cpbench_torch.declare("weights", "random")
cpbench_torch.declare("checkpointing", "no")
cpbench_torch.declare("offload", "no")


class Model(NamedTuple):
    net: pairformer.Pairformer
    optimizer: Optional[torch.optim.Optimizer]
    grid: pairformer.Grid


class Batch(NamedTuple):
    tokens: int
    z: torch.Tensor
    mask: torch.Tensor
    valid: torch.Tensor


def padded(N: int, mesh: Any) -> int:
    side = mesh.size(0)
    return -(-N // side) * side


def build_model(mesh: Any, device: torch.device) -> Model:
    if CHANNELS % HEADS:
        raise cpbench_torch.Usage("channels=%d is no multiple of heads=%d" % (CHANNELS, HEADS))
    net = pairformer.Pairformer(CHANNELS, HEADS, BLOCKS).to(
        device=device, dtype=cpbench_torch.dtype()
    )
    train = cpbench_torch.job["mode"] == "training"
    net.train(train)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-4) if train else None
    return Model(net, optimizer, pairformer.Grid(mesh, lambda: cpbench_torch.phase("exchange")))


def build_batch(
    N: int, n_atoms: Optional[int], S: Optional[int], mesh: Any, device: torch.device
) -> Batch:
    grid = pairformer.Grid(mesh)
    tile = pairformer.make_tile(N, padded(N, mesh), CHANNELS, grid, device, cpbench_torch.dtype())
    return Batch(N, *tile)


def run_step(model: Model, batch: Batch, train: bool) -> torch.Tensor:
    if not train:
        return model.net(batch.z, batch.mask, batch.valid, model.grid)
    model.optimizer.zero_grad(set_to_none=True)
    out = model.net(batch.z, batch.mask, batch.valid, model.grid)
    loss = pairformer.loss_of(out, batch.tokens)
    loss.backward()
    pairformer.sum_gradients(model.net, model.grid)
    model.optimizer.step()
    return loss.detach()
