package stream

import (
	"bytes"
	"slices"
	"time"
)

const (
	// MaxAnswer is the largest answer that is kept, in bytes; a longer one is ended with ErrTooLarge.
	MaxAnswer = 256 << 20
	maxReads  = 4 << 20
	blockSize = 1 << 20
	leastRoom = 16 << 10
	page      = 4 << 10
	readSize  = 24 // bytes of a Read

	blockReads = 4096
)

// log holds the bytes of an answer and their times. It grows by whole blocks, so that no read waits for what came before
// it to be copied, however long the answer is.
type log struct {
	blocks [][]byte // the last one is being filled
	times  [][]Read // as well
	size   int
	reads  int
	last   time.Duration // of the last read
}

func newLog(room int) log {
	if room <= 0 {
		room = blockSize
	}
	g := log{blocks: [][]byte{make([]byte, 0, room+leastRoom)}, times: [][]Read{make([]Read, 0, blockReads)}}
	// The kernel gives memory when it is first written to, which would take its time within the first reads.
	for b := g.blocks[0][:cap(g.blocks[0])]; len(b) > 0; b = b[min(len(b), page):] {
		b[0] = 0
	}
	for r := g.times[0][:cap(g.times[0])]; len(r) > 0; r = r[min(len(r), page/readSize):] {
		r[0] = Read{}
	}
	return g
}

// room is where the next read may write.
func (g *log) room() []byte {
	last := g.blocks[len(g.blocks)-1]
	if cap(last)-len(last) < leastRoom {
		last = make([]byte, 0, blockSize)
		g.blocks = append(g.blocks, last)
	}
	return last[len(last):cap(last)]
}

// add takes n bytes that were written into room.
func (g *log) add(at time.Duration, n int) {
	last := &g.blocks[len(g.blocks)-1]
	*last = (*last)[:len(*last)+n]
	times := &g.times[len(g.times)-1]
	if len(*times) == cap(*times) {
		g.times = append(g.times, make([]Read, 0, blockReads))
		times = &g.times[len(g.times)-1]
	}
	*times = append(*times, Read{At: at, Off: g.size, Len: n})
	g.size, g.reads, g.last = g.size+n, g.reads+1, at
}

func (g *log) full() bool { return g.size > MaxAnswer || g.reads > maxReads }

// bytes is the whole answer; nil if there is none.
func (g *log) bytes() []byte {
	if g.size == 0 {
		return nil
	}
	if len(g.blocks) == 1 {
		return g.blocks[0]
	}
	return bytes.Join(g.blocks, nil)
}

// all are the reads in their order.
func (g *log) all() []Read {
	if len(g.times) == 1 {
		return g.times[0]
	}
	return slices.Concat(g.times...)
}

// saidDone reports whether the stream so far ends with the [DONE] line. Only the last bytes are looked at, and a line
// that lies across two blocks is missed: then the end of the body is waited for like any other read.
func (g *log) saidDone() bool {
	last := g.blocks[len(g.blocks)-1]
	tail := bytes.TrimRight(last[max(0, len(last)-32):], "\r\n")
	rest, ok := bytes.CutSuffix(tail, []byte("[DONE]"))
	return ok && bytes.HasSuffix(bytes.TrimRight(rest, " "), []byte("data:"))
}
