package prompt

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"
)

// draw is a stream of numbers from a key. It is a generator of our own (splitmix64), because its numbers are part of
// what a version of a builder means, and those of a library may change.
type draw struct{ state uint64 }

// newDraw is the stream for a key and a purpose; other purposes have other streams.
func newDraw(k Key, purpose string) *draw {
	h := sha256.New()
	for _, part := range []string{purpose, k.Case, strconv.FormatInt(k.Seed, 10), strconv.Itoa(k.Repeat), strconv.Itoa(k.Stream)} {
		fmt.Fprintf(h, "%d:%s,", len(part), part)
	}
	return &draw{binary.LittleEndian.Uint64(h.Sum(nil))}
}

func (d *draw) next() uint64 {
	d.state += 0x9e3779b97f4a7c15
	z := d.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below is a number from 0 to n-1.
func (d *draw) below(n int) int { return int(d.next() % uint64(n)) }

// hex is 16 hexadecimal digits.
func (d *draw) hex() string { return fmt.Sprintf("%016x", d.next()) }

// of is one of some values.
func of[T any](d *draw, values []T) T { return values[d.below(len(values))] }

// walk visits the numbers below n, each once, in an order of its own.
type walk struct{ at, step, left, n int }

func newWalk(d *draw, n int) walk {
	if n == 0 {
		return walk{}
	}
	w := walk{at: d.below(n), step: 1 + d.below(n), left: n, n: n}
	for gcd(w.step, n) != 1 {
		w.step++
	}
	return w
}

func (w *walk) next() (i int, ok bool) {
	if w.left == 0 {
		return 0, false
	}
	i = w.at
	w.at, w.left = (w.at+w.step)%w.n, w.left-1
	return i, true
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
