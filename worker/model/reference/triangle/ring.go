package triangle

import (
	"cpbench/worker/model/reference/tile"

	"golang.org/x/sync/errgroup"
)

// ring splits the tensor into blocks of rows, one for each of world ranks. The right factor goes round: every
// rank multiplies by the block that it has, passes it on and takes the next one in. In training the gradient of the right factor travels with its block and comes home after a full round.
type ring struct{ world int }

// The work tiles of a ring.
const (
	ringA    = iota // the left factor; afterwards unused
	ringB           // the block that is being multiplied
	ringNext        // the block that arrives; with one rank nothing does
)

func (g ring) shape(rank, tokens, channels int) shard {
	n := (tokens + g.world - 1) / g.world
	return shard{
		tokens: tokens, padded: n * g.world, channels: channels,
		row: rank * n, rows: n, cols: n * g.world,
	}
}

func (g ring) tiles(train bool) int {
	n := ringB + 1
	if g.world > 1 {
		n++
	}
	switch {
	case train && g.world > 1:
		n += 3 // gradient, and that of the travelling block twice
	case train:
		n++
	}
	return n
}

// gradient returns the tile after those of the forward pass.
func (g ring) gradient(m *Model) *tile.Tile { return m.work[g.tiles(false)] }

func (g ring) forward(m *Model) error {
	a, out := m.work[ringA].Floats(), m.out.Floats()
	clear(out)
	for c := range m.channels {
		scaled(m.at(a, c), m.at(m.z.Floats(), c), weightA(c))
		scaled(m.at(m.work[ringB].Floats(), c), m.at(m.z.Floats(), c), weightB(c))
	}
	err := g.round(m, func(owner int, b *tile.Tile) error {
		for c := range m.channels {
			products(m.at(out, c)[owner*m.rows:], m.cols, m.at(a, c), m.rows, m.at(b.Floats(), c), m.rows, m.cols)
		}
		return nil
	})
	if err != nil {
		return err
	}
	m.residual()
	return nil
}

func (g ring) backward(m *Model) error {
	z, out, grad := m.z.Floats(), m.out.Floats(), g.gradient(m).Floats()
	copy(grad, out)
	copy(m.work[ringB].Floats(), z)
	travelling, next := g.gradient(m), (*tile.Tile)(nil)
	if g.world > 1 {
		travelling, next = m.work[g.tiles(false)+1], m.work[g.tiles(false)+2]
		clear(travelling.Floats())
	}
	n, k := m.rows, m.cols
	err := g.round(m, func(owner int, b *tile.Tile) error {
		for c := range m.channels {
			block := m.at(out, c)[owner*n:]
			combine(m.at(grad, c), n, matrix{block, k, 1}, m.at(b.Floats(), c), n, k, m.coefficient(c))
			combine(m.at(travelling.Floats(), c), n, matrix{block, 1, k}, m.at(z, c), n, k, m.coefficient(c))
		}
		if g.world == 1 {
			return nil
		}
		if err := m.wait(func() error { return g.shift(m, travelling, next) }); err != nil {
			return err
		}
		travelling, next = next, travelling
		return nil
	})
	if err != nil || g.world == 1 {
		return err
	}
	for i, v := range travelling.Floats() {
		grad[i] += v
	}
	return nil
}

// round calls use once for the block of every rank, beginning with this rank's own, which is in tile B.
func (g ring) round(m *Model, use func(owner int, b *tile.Tile) error) error {
	if g.world == 1 {
		return use(0, m.work[ringB])
	}
	b, next := m.work[ringB], m.work[ringNext]
	for hop := range g.world {
		owner := (m.peers.Rank() + hop) % g.world
		if err := use(owner, b); err != nil {
			return err
		}
		if hop == g.world-1 {
			break
		}
		if err := m.wait(func() error { return g.shift(m, b, next) }); err != nil {
			return err
		}
		b, next = next, b
	}
	return nil
}

// shift sends a tile to the rank before and fills another from the rank behind.
func (g ring) shift(m *Model, from, into *tile.Tile) error {
	before, behind := (m.peers.Rank()+g.world-1)%g.world, (m.peers.Rank()+1)%g.world
	var both errgroup.Group
	both.Go(func() error {
		err := m.peers.Send(before, from.Bytes())
		if err != nil {
			m.peers.Close() // else the other half could wait for ever
		}
		return err
	})
	err := m.peers.Receive(behind, into.Bytes())
	if err != nil {
		m.peers.Close()
	}
	if sent := both.Wait(); err == nil {
		err = sent
	}
	return err
}
