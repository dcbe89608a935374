package triangle

import (
	"cpbench/worker/model/reference/tile"

	"golang.org/x/sync/errgroup"
)

// grid splits the tensor into side × side square blocks; rank r*side+s holds block (r, s). The product goes as in
// SUMMA: in turn t every block (r, t) is passed along its row, and every block (s, t) to the column s. A sender
// works straight from its own input or output tile, which stays as it is meanwhile, so two tiles for what arrives
// are enough whatever the number of ranks.
type grid struct{ side int }

// The work tiles of a grid.
const (
	gridX    = iota // what came for the left side
	gridY           // what came for the right side
	gridGrad        // training only
)

func (g grid) shape(rank, tokens, channels int) shard {
	n := (tokens + g.side - 1) / g.side
	return shard{
		tokens: tokens, padded: n * g.side, channels: channels,
		row: rank / g.side * n, col: rank % g.side * n, rows: n, cols: n,
	}
}

func (g grid) tiles(train bool) int {
	if train {
		return gridGrad + 1
	}
	return gridY + 1
}

func (g grid) gradient(m *Model) *tile.Tile { return m.work[gridGrad] }

// need is a block that a rank needs next.
type need struct {
	owner int
	again bool // it is the one that the rank has just had in X: nothing is sent
}

// forwardNeeds lists what a rank needs of the inputs, in order: for every turn t, (r, t) and (s, t).
func (g grid) forwardNeeds(rank int) []need {
	r, s := rank/g.side, rank%g.side
	var needs []need
	for t := range g.side {
		needs = append(needs, need{owner: r*g.side + t}, need{owner: s*g.side + t, again: r == s})
	}
	return needs
}

// backwardNeeds lists what a rank needs for its gradient, in order: for every turn t, output (r, t), input (t, s)
// and output (t, r).
func (g grid) backwardNeeds(rank int) []need {
	r, s := rank/g.side, rank%g.side
	var needs []need
	for t := range g.side {
		needs = append(needs, need{owner: r*g.side + t}, need{owner: t*g.side + s}, need{owner: t*g.side + r, again: t == r})
	}
	return needs
}

func (g grid) forward(m *Model) error {
	clear(m.out.Floats())
	x, y := m.work[gridX].Floats(), m.work[gridY].Floats()
	source := func(int) *tile.Tile { return m.z }
	err := g.pass(m, g.forwardNeeds, source, func(next func(into *tile.Tile) error) error {
		for range g.side {
			if err := inTurn(next, m.work[gridX], m.work[gridY]); err != nil {
				return err
			}
			for c := range m.channels {
				a, b := m.at(x, c), m.at(y, c)
				scaled(a, a, weightA(c))
				scaled(b, b, weightB(c))
				products(m.at(m.out.Floats(), c), m.cols, a, m.rows, b, m.rows, m.cols)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	m.residual()
	return nil
}

func (g grid) backward(m *Model) error {
	x, y, grad := m.work[gridX].Floats(), m.work[gridY].Floats(), m.work[gridGrad].Floats()
	copy(grad, m.out.Floats())
	n := m.rows
	source := func(i int) *tile.Tile {
		if i%3 == 1 {
			return m.z
		}
		return m.out
	}
	return g.pass(m, g.backwardNeeds, source, func(next func(into *tile.Tile) error) error {
		for range g.side {
			if err := inTurn(next, m.work[gridX], m.work[gridY]); err != nil {
				return err
			}
			for c := range m.channels {
				combine(m.at(grad, c), n, matrix{m.at(x, c), n, 1}, m.at(y, c), n, n, m.coefficient(c))
			}
			if err := next(m.work[gridX]); err != nil {
				return err
			}
			for c := range m.channels {
				combine(m.at(grad, c), n, matrix{m.at(x, c), 1, n}, m.at(y, c), n, n, m.coefficient(c))
			}
		}
		return nil
	})
}

// pass runs one round of the exchange. Every rank computes every other's list of needs and sends it the blocks
// that are its own, in the order of the list; source names the tile from which the i-th need of any rank is
// served. Meanwhile consume takes this rank's own needs one after the other. The round ends when all is received
// and sent. It cannot lock up: a sender waits only for its receiver, and only until that one's turn has come.
func (g grid) pass(m *Model, needs func(int) []need, source func(int) *tile.Tile, consume func(next func(*tile.Tile) error) error) error {
	me := 0
	var senders errgroup.Group
	if m.peers != nil {
		me = m.peers.Rank()
		for to := range m.peers.World() {
			if to != me {
				senders.Go(func() error { return serve(m, to, me, needs(to), source) })
			}
		}
	}
	mine, i := needs(me), 0
	err := consume(func(into *tile.Tile) error {
		n, from := mine[i], source(i)
		i++
		return m.fetch(n, me, from, into, m.work[gridX])
	})
	if m.peers == nil {
		return err
	}
	if err != nil {
		m.peers.Close() // the senders wait for ranks that will not go on
	}
	if sent := m.wait(senders.Wait); err == nil {
		err = sent
	}
	return err
}

// inTurn takes two needs.
func inTurn(next func(*tile.Tile) error, x, y *tile.Tile) error {
	if err := next(x); err != nil {
		return err
	}
	return next(y)
}

// serve sends a rank the blocks of its list that are mine.
func serve(m *Model, to, me int, list []need, source func(int) *tile.Tile) error {
	for i, n := range list {
		if n.owner == me && !n.again {
			if err := m.peers.Send(to, source(i).Bytes()); err != nil {
				return err
			}
		}
	}
	return nil
}

// fetch brings a block into a tile: from another rank, from this rank's own tile, or from x where it already is.
func (m *Model) fetch(n need, me int, own, into, x *tile.Tile) error {
	switch {
	case n.again:
		if into != x {
			copy(into.Bytes(), x.Bytes())
		}
		return nil
	case n.owner == me:
		copy(into.Bytes(), own.Bytes())
		return nil
	}
	return m.wait(func() error { return m.peers.Receive(n.owner, into.Bytes()) })
}
