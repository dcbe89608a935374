// Package tile gives the reference model its memory: anonymous mappings under an address-space limit that the
// process sets on itself, so that a tile too many is refused by the kernel (ENOMEM) and not by a counter.
//
// The limit is RLIMIT_AS = everything else the process has mapped + the budget + slack. Each tile is asked for
// together with the slack, which is given back at once: a tile never lives in the slack, so the Go runtime, which
// dies when it is refused memory, always finds some. The limit is set anew before each tile, because the runtime's
// own mappings are not to be charged to the budget.
package tile

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// slack is the address space that is always left to the Go runtime: room for arenas of 64 MiB and, where cgo is
// linked in, for threads with 8 MiB of stack and 64 MiB for malloc each. It costs nothing, as none of it is mapped
// for longer than a system call.
const slack = 1 << 30

// attempts is how often a mapping is tried while the runtime's own mappings change.
const attempts = 100

// OutOfMemory is the error of New when the kernel refused the mapping. All fields are in bytes.
type OutOfMemory struct {
	Requested, InUse, Budget int64
}

// Error names the three numbers. It avoids the C library's text for ENOMEM, which stands for host memory.
func (e *OutOfMemory) Error() string {
	return fmt.Sprintf("out of memory: requested %d bytes with %d in use of a budget of %d (mmap refused: ENOMEM)",
		e.Requested, e.InUse, e.Budget)
}

// Memory hands out tiles and counts them. It is for one goroutine.
type Memory struct {
	budget           int64
	limited          bool
	live, cold, warm int64
}

// Limited returns the memory of a process that may map budget bytes of tiles. The limit is the whole process's,
// so there is one such Memory in a process. It fails when the hard limit is too low for the budget.
func Limited(budget int64) (*Memory, error) {
	m := &Memory{budget: budget, limited: true}
	mapped, err := addressSpace()
	if err != nil {
		return nil, err
	}
	if err := m.limit(mapped); err != nil {
		return nil, err
	}
	return m, nil
}

// Unlimited returns memory without a budget: it is counted, and refused only by the machine.
func Unlimited() *Memory { return &Memory{} }

// Budget returns the budget in bytes, 0 for none.
func (m *Memory) Budget() int64 { return m.budget }

// InUse returns the bytes of all tiles that are mapped now, in whole pages.
func (m *Memory) InUse() int64 { return m.live }

// Peaks returns the largest InUse since the start (cold) and since the last Reset (warm), in bytes.
func (m *Memory) Peaks() (cold, warm int64) { return m.cold, m.warm }

// Reset starts a new warm peak from what is mapped now.
func (m *Memory) Reset() { m.warm = m.live }

// Tile is a piece of memory outside the Go heap.
type Tile struct {
	bytes []byte // the whole mapping
	n     int    // float32 values in use
}

// New maps a tile of n values, all zero. The error is *OutOfMemory when the budget is used up.
func (m *Memory) New(n int) (*Tile, error) {
	size := pages(int64(n) * 4)
	var b []byte
	var err error
	if m.limited {
		b, err = m.mapLimited(size)
	} else {
		b, err = mapTile(size, 0)
	}
	if errors.Is(err, unix.ENOMEM) {
		return nil, &OutOfMemory{Requested: size, InUse: m.live, Budget: m.budget}
	}
	if err != nil {
		return nil, fmt.Errorf("tile of %d bytes: %w", size, err)
	}
	m.live += size
	m.cold, m.warm = max(m.cold, m.live), max(m.warm, m.live)
	return &Tile{bytes: b, n: n}, nil
}

// Free unmaps t, which must not be used any more. A nil t is nothing to free.
func (m *Memory) Free(t *Tile) error {
	if t == nil {
		return nil
	}
	if err := unmap(t.bytes); err != nil {
		return err
	}
	m.live -= int64(len(t.bytes))
	t.bytes, t.n = nil, 0
	return nil
}

// Floats returns the values of t, in place.
func (t *Tile) Floats() []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(&t.bytes[0])), t.n)
}

// Bytes returns the values of t in the machine's own byte order, in place, to be sent or received.
func (t *Tile) Bytes() []byte { return t.bytes[:t.n*4] }

// mapLimited maps size bytes if they are within the budget. The kernel's answer counts only when the runtime's own
// mappings were the same before and after; threads that come and go change them.
func (m *Memory) mapLimited(size int64) (b []byte, err error) {
	alone(func() {
		var before, after int64
		if after, err = addressSpace(); err != nil {
			return
		}
		for range attempts {
			before = after
			if err = m.limit(before); err != nil {
				return
			}
			b, err = mapTile(size, slack)
			if err != nil && !errors.Is(err, unix.ENOMEM) {
				return
			}
			now, errNow := addressSpace()
			if errNow != nil {
				err = errors.Join(errNow, unmap(b))
				return
			}
			if after = now - int64(len(b)); after == before {
				return
			}
			if errUnmap := unmap(b); errUnmap != nil {
				err = errUnmap
				return
			}
			b = nil
		}
		err = fmt.Errorf("the address space changed under %d attempts", attempts)
	})
	return b, err
}

// unmap gives a mapping back, if there is one.
func unmap(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if err := unix.MunmapPtr(unsafe.Pointer(&b[0]), uintptr(len(b))); err != nil {
		return fmt.Errorf("unmap tile: %w", err)
	}
	return nil
}

// limit sets RLIMIT_AS so that tiles of the budget fit and, beside them, the slack. Mapped is the address space in
// use.
func (m *Memory) limit(mapped int64) error {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_AS, &r); err != nil {
		return fmt.Errorf("read the address-space limit: %w", err)
	}
	r.Cur = uint64(mapped - m.live + m.budget + slack)
	if r.Cur > r.Max {
		return fmt.Errorf("the hard limit on address space is %d bytes: too low for a budget of %d", r.Max, m.budget)
	}
	if err := unix.Setrlimit(unix.RLIMIT_AS, &r); err != nil {
		return fmt.Errorf("set the address-space limit to %d bytes: %w", r.Cur, err)
	}
	return nil
}

// addressSpace returns the bytes that the process has mapped, as the kernel counts them for RLIMIT_AS.
func addressSpace() (int64, error) {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, fmt.Errorf("address space in use: %w", err)
	}
	size, _, _ := bytes.Cut(text, []byte(" "))
	n, err := strconv.ParseInt(string(size), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("address space in use: /proc/self/statm: %w", err)
	}
	return n * int64(os.Getpagesize()), nil
}

// mapTile maps size bytes while spare more are free. It never holds on to the spare ones.
func mapTile(size, spare int64) ([]byte, error) {
	p, err := mapTrimmed(uintptr(size), uintptr(spare))
	if err != nil {
		return nil, err
	}
	b := unsafe.Slice((*byte)(p), size)
	if err := unix.Mprotect(b, unix.PROT_READ|unix.PROT_WRITE); err != nil {
		return nil, errors.Join(err, unix.MunmapPtr(p, uintptr(size)))
	}
	return b, nil
}

// mapTrimmed maps size and spare bytes in one piece, untouchable as yet, and gives the spare ones back. Between the two
// the runtime could be refused memory, of which it dies ("fatal error: out of memory", exit code 2): so both calls are
// raw ones. An ordinary one lets another thread go on with goroutines when it takes longer than some 20 µs, as it does
// on a machine with much to do.
func mapTrimmed(size, spare uintptr) (unsafe.Pointer, error) {
	const flags = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS
	at, _, e := unix.RawSyscall6(unix.SYS_MMAP, 0, size+spare, unix.PROT_NONE, flags, ^uintptr(0), 0)
	if e != 0 {
		return nil, e
	}
	if spare > 0 {
		if _, _, e := unix.RawSyscall(unix.SYS_MUNMAP, at+size, spare, 0); e != 0 {
			return nil, e
		}
	}
	return *(*unsafe.Pointer)(unsafe.Pointer(&at)), nil // memory of the kernel's, which the collector does not move
}

// alone calls f while no other goroutine runs and no garbage collection is under way, for between mapping and
// trimming a tile the runtime could be refused memory.
func alone(f func()) {
	n := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(n)
	f()
}

// pages rounds bytes up to whole pages.
func pages(n int64) int64 {
	page := int64(os.Getpagesize())
	return (n + page - 1) / page * page
}
