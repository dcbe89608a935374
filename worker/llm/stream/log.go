package stream

import (
	"bytes"
	"time"
)

const (
	// MaxAnswer is the largest answer that is kept, in bytes; a longer one is ended with ErrTooLarge.
	MaxAnswer = 256 << 20
	maxReads  = 4 << 20
	blockSize = 1 << 20
	leastRoom = 16 << 10
)

// log holds the bytes of an answer and their times. It grows by whole blocks, so that no read waits for the bytes
// before it to be copied, however long the answer is.
type log struct {
	blocks [][]byte // the last one is being filled
	size   int
	reads  []Read
}

func newLog(room int) log {
	if room <= 0 {
		room = blockSize
	}
	return log{blocks: [][]byte{make([]byte, 0, room+leastRoom)}, reads: make([]Read, 0, 4096)}
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
	g.reads = append(g.reads, Read{At: at, Off: g.size, Len: n})
	g.size += n
}

func (g *log) full() bool { return g.size > MaxAnswer || len(g.reads) > maxReads }

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

// saidDone reports whether the stream so far ends with the [DONE] line. Only the last bytes are looked at, and a line
// that lies across two blocks is missed: then the end of the body is waited for like any other read.
func (g *log) saidDone() bool {
	last := g.blocks[len(g.blocks)-1]
	tail := bytes.TrimRight(last[max(0, len(last)-32):], "\r\n")
	rest, ok := bytes.CutSuffix(tail, []byte("[DONE]"))
	return ok && bytes.HasSuffix(bytes.TrimRight(rest, " "), []byte("data:"))
}
