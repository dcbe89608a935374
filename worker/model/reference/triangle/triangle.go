// Package triangle is the computation of the reference model: one triangle multiplication (outgoing edges) on an
// N×N×C pair tensor Z, the block that sets the memory and the time of the large structure models.
//
//	A = wa·Z    B = wb·Z    OUT[c][i][j] = Z[c][i][j] + (1/N) Σk A[c][i][k]·B[c][j][k]
//
// A training step also computes the gradient of L = ½ Σ OUT² with respect to Z:
//
//	GRAD = OUT + wa·dA + wb·dB    dA = (1/N) OUT·B    dB = (1/N) OUTᵀ·A
//
// which is two more products of the same cost. There are no parameters, hence no optimizer and none of its memory.
//
// The tensor is split over P ranks, by rows (1d) or in a square grid (2d), and each rank holds a constant number
// of tiles of N²C/P values; no rank ever holds more. The input of every step is the same tile, which no step
// writes to: it is the rebuilt batch, at no cost in time or memory. N is padded to a multiple of what the split
// needs; padding is zero and the divisor is the N asked for, so it changes no value.
//
//	tiles             1 rank   1d, P > 1   2d, P > 1
//	inference              4           5           4
//	training               5           8           5
package triangle

import (
	"errors"
	"fmt"
	"time"

	"cpbench/worker/model/reference/peer"
	"cpbench/worker/model/reference/tile"
)

// MaxTokens is the largest N that is tried: a bound on the arithmetic, far above every memory.
const MaxTokens = 1 << 22

// ErrMesh is wrapped by the error of New for a number of ranks that the topology cannot use.
var ErrMesh = errors.New("illegal mesh")

// Config is what stays the same for all sizes.
type Config struct {
	Topology string // 1d, 2d, or empty with one rank
	Channels int
	Train    bool // also compute the gradient
}

// Model is one rank's part. It is for one goroutine.
type Model struct {
	cfg   Config
	mem   *tile.Memory
	peers *peer.Peers // nil with one rank
	place func(where string)
	split split

	shard
	z, out *tile.Tile
	work   []*tile.Tile  // of the split's own
	waited time.Duration // for other ranks in the current step
}

// split is a way to divide the tensor.
type split interface {
	// shape returns the part of rank.
	shape(rank, tokens, channels int) shard
	// tiles returns how many tiles a step needs beside input and output.
	tiles(train bool) int
	// forward computes OUT from Z.
	forward(m *Model) error
	// backward computes the gradient from Z and OUT.
	backward(m *Model) error
	// gradient returns the tile in which backward leaves the gradient.
	gradient(m *Model) *tile.Tile
}

// New returns the model of one rank; peers is nil with one rank. place is told where the work stands: it computes, or
// waits for other ranks. Nothing is mapped yet.
func New(cfg Config, mem *tile.Memory, peers *peer.Peers, place func(where string)) (*Model, error) {
	world := 1
	if peers != nil {
		world = peers.World()
	}
	m := &Model{cfg: cfg, mem: mem, peers: peers, place: place}
	switch cfg.Topology {
	case "1d":
		m.split = ring{world}
	case "2d", "":
		side := 1
		for side*side < world {
			side++
		}
		if cfg.Topology == "" && world > 1 {
			return nil, fmt.Errorf("%w: %d ranks need a topology, 1d or 2d", ErrMesh, world)
		}
		if side*side != world {
			return nil, fmt.Errorf("%w: a 2d mesh needs a square number of ranks, not %d", ErrMesh, world)
		}
		m.split = grid{side}
	default:
		return nil, fmt.Errorf("%w: topology %q: want 1d or 2d", ErrMesh, cfg.Topology)
	}
	return m, nil
}

// Prepare drops the tiles of the size before, maps the input of tokens × tokens and fills it. It returns the N
// that will run, padding included. The error is *tile.OutOfMemory when the input does not fit.
func (m *Model) Prepare(tokens int) (padded int, err error) {
	if err := m.drop(); err != nil {
		return 0, err
	}
	rank := 0
	if m.peers != nil {
		rank = m.peers.Rank()
	}
	m.shard = m.split.shape(rank, tokens, m.cfg.Channels)
	if m.z, err = m.mem.New(m.size()); err != nil {
		return 0, err
	}
	m.fill(m.z.Floats())
	return m.padded, nil
}

// drop unmaps all tiles.
func (m *Model) drop() error {
	var errs []error
	for _, t := range append(m.work, m.z, m.out) {
		errs = append(errs, m.mem.Free(t))
	}
	m.z, m.out, m.work = nil, nil, nil
	return errors.Join(errs...)
}

// Barrier returns when every rank has called it.
func (m *Model) Barrier() error {
	if m.peers == nil {
		return nil
	}
	return m.peers.Barrier()
}

// Step computes one step and returns how long this rank waited for others meanwhile. The first step of a size maps
// the remaining tiles, which are then kept. The error is *tile.OutOfMemory when they do not fit, *peer.Gone when
// another rank has ended.
func (m *Model) Step() (waited time.Duration, err error) {
	if err := m.reserve(); err != nil {
		return 0, err
	}
	m.waited = 0
	if err := m.split.forward(m); err != nil {
		return 0, err
	}
	if m.cfg.Train {
		if err := m.split.backward(m); err != nil {
			return 0, err
		}
	}
	return m.waited, nil
}

// reserve maps the tiles that a step needs and that are not there yet.
func (m *Model) reserve() (err error) {
	if m.out == nil {
		if m.out, err = m.mem.New(m.size()); err != nil {
			return err
		}
	}
	for len(m.work) < m.split.tiles(m.cfg.Train) {
		t, err := m.mem.New(m.size())
		if err != nil {
			return err
		}
		m.work = append(m.work, t)
	}
	return nil
}

// residual ends the forward pass: OUT = Z + OUT/N.
func (m *Model) residual() {
	z, out, n := m.z.Floats(), m.out.Floats(), 1/float32(m.tokens)
	for i, v := range z {
		out[i] = v + out[i]*n
	}
}

// wait runs f and counts its time as waiting for other ranks.
func (m *Model) wait(f func() error) error {
	m.place("exchange with other ranks")
	start := time.Now()
	err := f()
	m.waited += time.Since(start)
	m.place("step")
	return err
}

// coefficient returns what dA and dB have in common in channel c.
func (m *Model) coefficient(c int) float32 { return weightA(c) * weightB(c) / float32(m.tokens) }

// Check is what the last step left.
type Check struct {
	Finite   bool    // no value of output or gradient is NaN or infinite
	Output   float64 // this rank's part of the checksum of the output; the whole is the sum over the ranks
	Gradient float64 // ... of the gradient, 0 in inference
}

// Check looks at the output of the last step, and at the gradient in training.
func (m *Model) Check() Check {
	out := m.out.Floats()
	c := Check{Finite: finite(out), Output: m.checksum(out)}
	if m.cfg.Train {
		grad := m.split.gradient(m).Floats()
		c.Finite = c.Finite && finite(grad)
		c.Gradient = m.checksum(grad)
	}
	return c
}

// Output returns the output tile of the last step, in place.
func (m *Model) Output() []float32 { return m.out.Floats() }
