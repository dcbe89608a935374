"""A small pairformer block whose pair tensor is spread over the ranks of a 1-D or 2-D mesh.

The pair tensor z[i, j, c] is cut into tiles. On a 1-D mesh a rank holds rows: all j of its own i.
On a q x q mesh it holds the tile of its row block and column block. No rank ever holds a full
N x N tensor, in the backward pass neither.

Three distributed operations carry the whole block; each has its own backward pass, which fetches
the tiles again instead of keeping them:

    transpose(x)          x[j, i]: tiles change places pairwise
    contract(a, b)        sum over k of a[i, k] b[k, j]: the tiles of a go along the rows of the
                          mesh, those of b along its columns, a step for each block of k (SUMMA)
    attend(q, k, v, b)    softmax over k of q[i, j] . k[i, k] + b[k, j], times v[i, k]: the same
                          steps, with a running maximum and sum as in flash attention

The outgoing triangle multiplication is contract(a, transpose(b)), the incoming one
contract(transpose(a), b); the attention around the ending node is that around the starting node
between two transpositions. They use broadcast, reduce, all_reduce, isend and irecv only, which
Gloo and NCCL have in torch 1.13 and in current releases.
"""

import contextlib
from typing import Any, Callable, List, Optional, Tuple

import torch
import torch.distributed as dist
from torch import Tensor, nn

SCORES = 1 << 24  # attention scores that exist at once


class Grid:
    """Where this rank stands: its tile is at (row, col) of rows x cols. timer() is a context
    manager around every communication."""

    def __init__(self, mesh: Any, timer: Callable[[], Any] = contextlib.nullcontext) -> None:
        self.rows = mesh.size(0)
        self.cols = mesh.size(1) if mesh.ndim == 2 else 1
        at = list(mesh.get_coordinate()) + [0]
        self.row, self.col = at[0], at[1]
        self.column_group = mesh.get_group(0)  # the ranks of my column: their rows differ
        self.row_group = mesh.get_group(1) if mesh.ndim == 2 else None
        self.timer = timer

    def rank(self, row: int, col: int) -> int:
        return row * self.cols + col

    def start(self, tokens: int) -> Tuple[int, int]:
        """Returns the global indices i, j at which this rank's tile begins."""
        return self.row * tokens // self.rows, self.col * tokens // self.cols

    def shape(self, tokens: int) -> Tuple[int, int]:
        return tokens // self.rows, tokens // self.cols

    # The steps of contract and attend: there is one for each row block of the mesh. The first
    # operand is cut along the columns of the mesh, so on a 1-D mesh each rank has all of it and
    # takes a slice; the second along its rows.

    def from_row(self, x: Tensor, step: int, dim: int) -> Tensor:
        if self.cols == 1:
            return x.chunk(self.rows, dim)[step]
        return self._broadcast(x, self.col == step, self.rank(self.row, step), self.row_group)

    def from_column(self, x: Tensor, step: int) -> Tensor:
        if self.rows == 1:
            return x
        return self._broadcast(x, self.row == step, self.rank(step, self.col), self.column_group)

    def to_row(self, grad: Tensor, part: Tensor, step: int, dim: int) -> None:
        """Adds up part over the row of the mesh, into grad of the rank that from_row took it
        from."""
        if self.cols == 1:
            grad.chunk(self.rows, dim)[step].copy_(part)
        else:
            self._reduce(grad, part, self.col == step, self.rank(self.row, step), self.row_group)

    def to_column(self, grad: Tensor, part: Tensor, step: int) -> None:
        if self.rows == 1:
            grad.copy_(part)
        else:
            self._reduce(grad, part, self.row == step, self.rank(step, self.col), self.column_group)

    def _broadcast(self, x: Tensor, mine: bool, source: int, group: Any) -> Tensor:
        tile = x.contiguous() if mine else torch.empty(x.shape, dtype=x.dtype, device=x.device)
        with self.timer():
            dist.broadcast(tile, source, group=group)
        return tile

    def _reduce(self, grad: Tensor, part: Tensor, mine: bool, target: int, group: Any) -> None:
        part = part.to(grad.dtype).contiguous()
        with self.timer():
            dist.reduce(part, target, group=group)
        if mine:
            grad.copy_(part)

    def exchange(self, parts: List[Tuple[int, Tensor]]) -> List[Tensor]:
        """Sends a tensor to each of some ranks and returns what they send back, of the same
        shapes."""
        me = self.rank(self.row, self.col)
        got = [x if peer == me else torch.empty_like(x) for peer, x in parts]
        ops = []
        for (peer, x), y in zip(parts, got):
            if peer != me:
                ops += [dist.P2POp(dist.isend, x, peer), dist.P2POp(dist.irecv, y, peer)]
        if ops:
            with self.timer():
                for work in dist.batch_isend_irecv(ops):
                    work.wait()
        return got

    def sum_(self, x: Tensor) -> Tensor:
        """Adds up x over all ranks, in place."""
        with self.timer():
            for group, size in ((self.row_group, self.cols), (self.column_group, self.rows)):
                if size > 1:
                    dist.all_reduce(x, group=group)
        return x


def _transposed(x: Tensor, grid: Grid) -> Tensor:
    """x is [C, i, j]. On a q x q mesh two tiles change places; on a 1-D mesh every rank sends a
    block to every other."""
    if grid.rows == 1:
        return x.transpose(1, 2).contiguous()
    if grid.cols > 1:
        tile = x.transpose(1, 2).contiguous()
        return grid.exchange([(grid.rank(grid.col, grid.row), tile)])[0]
    blocks = [b.transpose(1, 2).contiguous() for b in x.chunk(grid.rows, 2)]
    return torch.cat(grid.exchange(list(enumerate(blocks))), 2)


class _Transpose(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, grid: Grid) -> Tensor:
        ctx.grid = grid
        return _transposed(x, grid)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tuple[Tensor, None]:
        return _transposed(grad, ctx.grid), None


class _Contract(torch.autograd.Function):
    """a is [C, i, k], b is [C, k, j]."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, grid: Grid) -> Tensor:
        ctx.grid = grid
        ctx.save_for_backward(a, b)
        out = a.new_zeros(a.shape[0], a.shape[1], b.shape[2])
        for step in range(grid.rows):
            out.baddbmm_(grid.from_row(a, step, 2), grid.from_column(b, step))
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tuple[Tensor, Tensor, None]:
        a, b = ctx.saved_tensors
        grid: Grid = ctx.grid
        grad = grad.contiguous()
        grad_a, grad_b = torch.empty_like(a), torch.empty_like(b)
        for step in range(grid.rows):
            b_step = grid.from_column(b, step)
            grid.to_row(grad_a, grad @ b_step.transpose(1, 2), step, 2)
            a_step = grid.from_row(a, step, 2)
            grid.to_column(grad_b, a_step.transpose(1, 2) @ grad, step)
        return grad_a, grad_b, None


def _slices(q: Tensor, keys: int) -> List[slice]:
    """Cuts the rows i so that their scores stay below SCORES."""
    rows, heads, queries, _ = q.shape
    size = max(1, SCORES // (heads * queries * keys))
    return [slice(i, min(i + size, rows)) for i in range(0, rows, size)]


def _scores(q: Tensor, k: Tensor, bias: Tensor, valid: Tensor) -> Tensor:
    """Returns q . k + bias in float32 or better, [i, H, j, k]; keys that are padding get almost
    nothing."""
    s = (q @ k.transpose(2, 3)).to(torch.promote_types(q.dtype, torch.float32))
    return (s + bias.transpose(1, 2)).masked_fill_(~valid, -1e9)


class _Attend(torch.autograd.Function):
    """q, k, v are [i, H, j, D] with j the second token of the pair, bias is [H, k, j]; q is
    scaled already. valid tells which of all keys are no padding."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, bias: Tensor, valid: Tensor, grid: Grid
    ) -> Tensor:
        keys = valid.chunk(grid.rows)
        wide = torch.promote_types(q.dtype, torch.float32)
        out = torch.zeros(q.shape, dtype=wide, device=q.device)
        top = torch.full(q.shape[:3] + (1,), -float("inf"), dtype=wide, device=q.device)
        total = torch.zeros_like(top)
        for step in range(grid.rows):
            k_step, v_step = grid.from_row(k, step, 2), grid.from_row(v, step, 2)
            b_step = grid.from_column(bias, step)
            for i in _slices(q, k_step.shape[2]):
                s = _scores(q[i], k_step[i], b_step, keys[step])
                above = torch.maximum(top[i], s.amax(3, keepdim=True))
                fade = torch.exp(top[i] - above)
                p = torch.exp(s.sub_(above))
                total[i] = total[i] * fade + p.sum(3, keepdim=True)
                out[i] = out[i] * fade + (p.to(v.dtype) @ v_step[i]).to(wide)
                top[i] = above
        out = (out / total).to(q.dtype)
        ctx.grid = grid
        ctx.save_for_backward(q, k, v, bias, valid, out, top + total.log())
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tuple[Optional[Tensor], ...]:
        q, k, v, bias, valid, out, weight = ctx.saved_tensors
        grid: Grid = ctx.grid
        keys = valid.chunk(grid.rows)
        grad_q, grad_k, grad_v = torch.zeros_like(q), torch.empty_like(k), torch.empty_like(v)
        grad_b = torch.empty_like(bias)
        shift = (grad * out).sum(3, keepdim=True).to(weight.dtype)
        for step in range(grid.rows):
            k_step, v_step = grid.from_row(k, step, 2), grid.from_row(v, step, 2)
            b_step = grid.from_column(bias, step)
            part_k = torch.empty(k_step.shape, dtype=k.dtype, device=k.device)
            part_v, part_b = torch.empty_like(part_k), torch.zeros_like(b_step)
            for i in _slices(q, k_step.shape[2]):
                p = torch.exp(_scores(q[i], k_step[i], b_step, keys[step]).sub_(weight[i]))
                part_v[i] = p.to(v.dtype).transpose(2, 3) @ grad[i]
                s = p.mul_((grad[i] @ v_step[i].transpose(2, 3)).to(p.dtype).sub_(shift[i]))
                part_b += s.sum(0).transpose(1, 2).to(bias.dtype)
                s = s.to(q.dtype)
                grad_q[i] += s @ k_step[i]
                part_k[i] = s.transpose(2, 3) @ q[i]
            grid.to_row(grad_k, part_k, step, 2)
            grid.to_row(grad_v, part_v, step, 2)
            grid.to_column(grad_b, part_b, step)
        return grad_q, grad_k, grad_v, grad_b, None, None


def transpose(x: Tensor, grid: Grid) -> Tensor:
    """Returns x[c, j, i] of a spread tensor x[c, i, j]."""
    return _Transpose.apply(x, grid)


class TriangleMultiplication(nn.Module):
    def __init__(self, channels: int, outgoing: bool) -> None:
        super().__init__()
        self.outgoing = outgoing
        self.norm = nn.LayerNorm(channels)
        self.sides = nn.Linear(channels, 2 * channels)
        self.side_gates = nn.Linear(channels, 2 * channels)
        self.out_norm = nn.LayerNorm(channels)
        self.out = nn.Linear(channels, channels)
        self.gate = nn.Linear(channels, channels)

    def forward(self, z: Tensor, mask: Tensor, grid: Grid) -> Tensor:
        x = self.norm(z)
        sides = self.sides(x) * torch.sigmoid(self.side_gates(x)) * mask.unsqueeze(-1)
        a, b = sides.permute(2, 0, 1).contiguous().chunk(2, 0)
        if self.outgoing:
            b = transpose(b.contiguous(), grid)
        else:
            a = transpose(a.contiguous(), grid)
        y = _Contract.apply(a, b, grid).permute(1, 2, 0)
        return self.out(self.out_norm(y)) * torch.sigmoid(self.gate(x))


class TriangleAttention(nn.Module):
    def __init__(self, channels: int, heads: int, starting: bool) -> None:
        super().__init__()
        self.heads, self.starting = heads, starting
        self.norm = nn.LayerNorm(channels)
        self.qkv = nn.Linear(channels, 3 * channels, bias=False)
        self.bias = nn.Linear(channels, heads, bias=False)
        self.gate = nn.Linear(channels, channels)
        self.out = nn.Linear(channels, channels)

    def forward(self, z: Tensor, valid: Tensor, grid: Grid) -> Tensor:
        if self.starting:
            return self.start(z, valid, grid)
        turned = transpose(z.permute(2, 0, 1).contiguous(), grid).permute(1, 2, 0)
        y = self.start(turned, valid, grid)
        return transpose(y.permute(2, 0, 1).contiguous(), grid).permute(1, 2, 0)

    def start(self, z: Tensor, valid: Tensor, grid: Grid) -> Tensor:
        x = self.norm(z)
        rows, cols, channels = x.shape
        qkv = self.qkv(x).view(rows, cols, 3, self.heads, -1).permute(2, 0, 3, 1, 4).contiguous()
        q, k, v = qkv.unbind(0)
        bias = transpose(self.bias(x).permute(2, 0, 1).contiguous(), grid)
        y = _Attend.apply(q * q.shape[-1] ** -0.5, k, v, bias, valid, grid)
        y = y.permute(0, 2, 1, 3).reshape(rows, cols, channels)
        return self.out(y * torch.sigmoid(self.gate(x)))


class Transition(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(channels)
        self.wide = nn.Linear(channels, 4 * channels)
        self.out = nn.Linear(4 * channels, channels)

    def forward(self, z: Tensor) -> Tensor:
        return self.out(torch.relu(self.wide(self.norm(z))))


class Block(nn.Module):
    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.outgoing = TriangleMultiplication(channels, outgoing=True)
        self.incoming = TriangleMultiplication(channels, outgoing=False)
        self.starting = TriangleAttention(channels, heads, starting=True)
        self.ending = TriangleAttention(channels, heads, starting=False)
        self.transition = Transition(channels)

    def forward(self, z: Tensor, mask: Tensor, valid: Tensor, grid: Grid) -> Tensor:
        z = z + self.outgoing(z, mask, grid)
        z = z + self.incoming(z, mask, grid)
        z = z + self.starting(z, valid, grid)
        z = z + self.ending(z, valid, grid)
        return z + self.transition(z)


class Pairformer(nn.Module):
    """Some blocks. The output is 0 where the input is padding."""

    def __init__(self, channels: int, heads: int, blocks: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(channels, heads) for _ in range(blocks))

    def forward(self, z: Tensor, mask: Tensor, valid: Tensor, grid: Grid) -> Tensor:
        for block in self.blocks:
            z = block(z, mask, valid, grid)
        return z * mask.unsqueeze(-1)


def loss_of(z: Tensor, tokens: int) -> Tensor:
    """Returns this rank's share of the loss: the shares of all ranks add up to the mean of
    squares."""
    wide = z.to(torch.promote_types(z.dtype, torch.float32))
    return wide.square().sum() / (tokens * tokens * z.shape[-1])


def sum_gradients(model: nn.Module, grid: Grid) -> None:
    """Adds up the gradients of the weights, which all ranks share, as one flat tensor."""
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    flat = grid.sum_(torch.cat([g.reshape(-1) for g in grads]))
    for g, part in zip(grads, flat.split([g.numel() for g in grads])):
        g.copy_(part.view_as(g))


def make_tile(
    tokens: int, padded: int, channels: int, grid: Grid, device: Any, dtype: Any
) -> Tuple[Tensor, ...]:
    """Returns this rank's tile of a synthetic input, its mask, and which tokens are no padding.
    It is a function of the global indices: no larger tensor is made on the way, and every mesh
    computes on the same numbers."""
    (i0, j0), (rows, cols) = grid.start(padded), grid.shape(padded)
    i = torch.arange(i0, i0 + rows, device=device).view(-1, 1, 1)
    j = torch.arange(j0, j0 + cols, device=device).view(1, -1, 1)
    c = torch.arange(channels, device=device).view(1, 1, -1)
    z = torch.sin((i * 7 + 1) * 0.37 + c * 0.61).to(dtype) * torch.cos(
        (j * 5 + 2) * 0.23 - c * 0.17
    ).to(dtype)
    mask = ((i < tokens) & (j < tokens)).squeeze(-1).to(dtype)
    return z * mask.unsqueeze(-1), mask, torch.arange(padded, device=device) < tokens
