"""Compares the spread pairformer with a plain one: outputs, and gradients of a training step.

    PYTHONPATH=FOLDER_OF_CPBENCH_TORCH python3 parity.py

It runs every mesh of 1, 2 and 4 processes on this machine, on the CPU with Gloo. The plain version
below shares only the weights with the spread one. It exits with 1 if anything differs.
"""

import os
import subprocess
import sys
import tempfile
from typing import Any, List, Tuple

import torch
import torch.distributed as dist
from torch import Tensor

import cpbench_torch
import pairformer

MESHES = {1: ["1d", "2d"], 2: ["1d"], 4: ["1d", "2d"]}
TOKENS = [8, 13]  # 13 is divisible by no mesh
CHANNELS, HEADS = 8, 2
TOLERANCE = 1e-10  # in float64


def multiply(m: Any, z: Tensor, mask: Tensor) -> Tensor:
    x = m.norm(z)
    a, b = (m.sides(x) * torch.sigmoid(m.side_gates(x)) * mask[..., None]).chunk(2, -1)
    y = torch.einsum("ikc,jkc->ijc" if m.outgoing else "kic,kjc->ijc", a, b)
    return m.out(m.out_norm(y)) * torch.sigmoid(m.gate(x))


def attend(m: Any, z: Tensor) -> Tensor:
    x = m.norm(z if m.starting else z.transpose(0, 1))
    n = x.shape[0]
    q, k, v = m.qkv(x).view(n, n, 3, m.heads, -1).unbind(2)
    s = torch.einsum("ijhd,ikhd->ijkh", q, k) / q.shape[-1] ** 0.5 + m.bias(x)[None]
    y = torch.einsum("ijkh,ikhd->ijhd", s.softmax(2), v).reshape(n, n, -1)
    out = m.out(y * torch.sigmoid(m.gate(x)))
    return out if m.starting else out.transpose(0, 1)


def plain(net: pairformer.Pairformer, z: Tensor, mask: Tensor) -> Tensor:
    for b in net.blocks:
        z = z + multiply(b.outgoing, z, mask)
        z = z + multiply(b.incoming, z, mask)
        z = z + attend(b.starting, z)
        z = z + attend(b.ending, z)
        z = z + b.transition(z)
    return z


def build() -> pairformer.Pairformer:
    torch.manual_seed(3)
    net = pairformer.Pairformer(CHANNELS, HEADS, blocks=2).double()
    for p in net.parameters():  # no weight is left at 0 or 1
        p.data += 0.1 * torch.randn_like(p)
    return net


class Alone:
    """A mesh of one rank, without a process group."""

    ndim = 1

    def size(self, dim: int = 0) -> int:
        return 1

    def get_coordinate(self) -> List[int]:
        return [0]

    def get_group(self, dim: int = 0) -> None:
        return None


def expected(tokens: int) -> Tuple[Tensor, List[Tensor]]:
    net = build()
    z, mask, _ = pairformer.make_tile(
        tokens, tokens, CHANNELS, pairformer.Grid(Alone()), "cpu", torch.float64
    )
    out = plain(net, z, mask)
    pairformer.loss_of(out, tokens).backward()
    return out.detach(), [p.grad for p in net.parameters()]


def largest(a: Tensor, b: Tensor) -> float:
    return float((a - b).abs().max()) if a.numel() else 0.0


def compare(mesh: Any, tokens: int) -> Tuple[float, float]:
    """Returns the largest error of the output and of the gradients on this rank."""
    grid = pairformer.Grid(mesh)
    padded = -(-tokens // grid.rows) * grid.rows
    net = build()
    z, mask, valid = pairformer.make_tile(tokens, padded, CHANNELS, grid, "cpu", torch.float64)
    out = net(z, mask, valid, grid)
    pairformer.loss_of(out, tokens).backward()
    pairformer.sum_gradients(net, grid)
    want, gradients = expected(tokens)
    whole = torch.zeros(padded, padded, CHANNELS, dtype=torch.float64)
    whole[:tokens, :tokens] = want
    (i, j), (rows, cols) = grid.start(padded), grid.shape(padded)
    error = largest(out.detach(), whole[i : i + rows, j : j + cols])
    floor = 1e-6 * max(float(g.abs().max()) for g in gradients)
    return error, max(
        largest(p.grad, g) / max(float(g.abs().max()), floor)
        for p, g in zip(net.parameters(), gradients)
    )


def rank(number: int, world: int, store: str) -> int:
    torch.set_num_threads(1)
    pairformer.SCORES = 64  # so that the scores are computed in several slices
    dist.init_process_group("gloo", init_method="file://" + store, rank=number, world_size=world)
    wrong = 0
    for topology in MESHES[world]:
        mesh = cpbench_torch.build_mesh(torch.device("cpu"), topology, number, world)
        for tokens in TOKENS:
            out, grad = compare(mesh, tokens)
            good = out < TOLERANCE and grad < TOLERANCE
            wrong += not good
            sys.stdout.write(
                "%s %s P=%d rank=%d N=%d: output %.1e, gradients %.1e\n"
                % ("ok" if good else "WRONG", topology, world, number, tokens, out, grad)
            )
            sys.stdout.flush()
    dist.destroy_process_group()
    return 1 if wrong else 0


def main() -> int:
    if len(sys.argv) == 4:
        return rank(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
    wrong = 0
    for world in MESHES:
        with tempfile.TemporaryDirectory() as folder:
            store = os.path.join(folder, "store")
            ranks = [
                subprocess.Popen([sys.executable, __file__, str(r), str(world), store])
                for r in range(world)
            ]
            wrong += sum(p.wait() != 0 for p in ranks)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
