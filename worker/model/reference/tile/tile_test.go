package tile_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"cpbench/worker/model/reference/tile"
)

// asChild makes the test binary a process that fills its budget; the address-space limit is the whole process's.
const asChild = "CPBENCH_TEST_TILE_BUDGET"

func TestMain(m *testing.M) {
	if text := os.Getenv(asChild); text != "" {
		budget, err := strconv.ParseInt(text, 10, 64)
		if err == nil {
			err = child(budget)
		}
		if err != nil {
			_, _ = os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		return
	}
	m.Run()
}

// child fills its budget again and again in tiles of many sizes, with garbage collections and new threads between,
// and checks that exactly the budget fits each time.
func child(budget int64) error {
	m, err := tile.Limited(budget)
	if err != nil {
		return err
	}
	page := int64(os.Getpagesize())
	for round := range int64(20) {
		size := page * (1 + round*round%97 + budget/page/64) // from a 64th of a large budget on
		tiles, err := fill(m, size)
		if err != nil {
			return err
		}
		strain(round)
		for _, t := range tiles {
			if err := m.Free(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// fill maps tiles of a size until the kernel refuses one, which must be the first above the budget.
func fill(m *tile.Memory, size int64) ([]*tile.Tile, error) {
	var tiles []*tile.Tile
	for {
		t, err := m.New(int(size / 4))
		var oom *tile.OutOfMemory
		if errors.As(err, &oom) {
			if oom.InUse+oom.Requested <= m.Budget() || oom.InUse != m.InUse() || oom.Budget != m.Budget() {
				return nil, fmt.Errorf("refused below the budget: %w", err)
			}
			return tiles, nil
		}
		if err != nil {
			return nil, err
		}
		t.Floats()[len(t.Floats())-1] = 1
		tiles = append(tiles, t)
		if m.InUse() > m.Budget() {
			return nil, fmt.Errorf("%d in use, above the budget", m.InUse())
		}
	}
}

// strain has the runtime want memory while the budget is full: a heap of another 80 MiB, threads and stacks.
func strain(round int64) {
	release := make(chan struct{})
	for range 6 {
		go func() {
			runtime.LockOSThread() // a thread of its own, which ends with the goroutine
			<-release
		}()
	}
	heap := make([]byte, (round%3)*40<<20)
	runtime.GC()
	runtime.KeepAlive(heap)
	close(release)
}

func TestTheKernelRefusesExactlyAboveTheBudget(t *testing.T) {
	t.Parallel()
	for _, budget := range []int64{64 << 10, 1 << 20, 8 << 20} {
		t.Run(strconv.FormatInt(budget, 10), func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), asChild+"="+strconv.FormatInt(budget, 10))
			if text, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
		})
	}
}

func TestPeaks(t *testing.T) {
	t.Parallel()
	m := tile.Unlimited()
	page := int64(os.Getpagesize())
	expect := func(when string, live, cold, warm int64) {
		t.Helper()
		if c, w := m.Peaks(); m.InUse() != live*page || c != cold*page || w != warm*page {
			t.Errorf("%s: %d in use, peaks %d and %d; want %d, %d, %d pages", when, m.InUse(), c, w, live, cold, warm)
		}
	}
	take := func(bytes int64) *tile.Tile {
		t.Helper()
		got, err := m.New(int(bytes / 4))
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	free := func(x *tile.Tile) {
		t.Helper()
		if err := m.Free(x); err != nil {
			t.Fatal(err)
		}
	}
	a, b := take(page), take(page+4)
	expect("one page and two", 3, 3, 3)
	free(b)
	expect("after the larger is gone", 1, 3, 3)
	m.Reset()
	expect("after the reset", 1, 3, 1)
	c := take(page)
	expect("after another", 2, 3, 2)
	free(a)
	free(c)
	free(nil)
	expect("at the end", 0, 3, 2)
}

func TestTileIsZeroAndOneMemory(t *testing.T) {
	t.Parallel()
	m := tile.Unlimited()
	x, err := m.New(1000)
	if err != nil {
		t.Fatal(err)
	}
	if len(x.Floats()) != 1000 || len(x.Bytes()) != 4000 {
		t.Errorf("%d values, %d bytes", len(x.Floats()), len(x.Bytes()))
	}
	for _, v := range x.Bytes() {
		if v != 0 {
			t.Fatal("a new tile is not zero")
		}
	}
	x.Floats()[999] = 1
	if x.Bytes()[3999] != 0x3f {
		t.Error("values and bytes are not the same memory")
	}
	if err := m.Free(x); err != nil {
		t.Fatal(err)
	}
}

func TestOutOfMemoryText(t *testing.T) {
	t.Parallel()
	text := (&tile.OutOfMemory{Requested: 11, InUse: 22, Budget: 33}).Error()
	for _, want := range []string{"out of memory", "requested 11 bytes", "22 in use", "budget of 33"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q lacks %q", text, want)
		}
	}
	if strings.Contains(strings.ToLower(text), "cannot allocate memory") {
		t.Errorf("%q reads as if the host were out of memory", text)
	}
}
