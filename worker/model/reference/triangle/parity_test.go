package triangle

import (
	"errors"
	"fmt"
	"math"
	"os"
	"testing"

	"cpbench/worker/model/reference/peer"
	"cpbench/worker/model/reference/tile"

	"golang.org/x/sync/errgroup"
)

// naive computes output and gradient of the whole tensor, without tiles, padding or float32.
func naive(n, channels int) (out, grad []float64) {
	out, grad = make([]float64, channels*n*n), make([]float64, channels*n*n)
	for c := range channels {
		at := func(i, j int) int { return (c*n+i)*n + j }
		z := func(i, j int) float64 { return float64(input(c, i, j)) }
		a, b := float64(weightA(c)), float64(weightB(c))
		for i := range n {
			for j := range n {
				sum := 0.0
				for k := range n {
					sum += a * z(i, k) * b * z(j, k)
				}
				out[at(i, j)] = z(i, j) + sum/float64(n)
			}
		}
		for i := range n {
			for k := range n {
				da, db := 0.0, 0.0
				for j := range n {
					da += out[at(i, j)] * b * z(j, k)
					db += out[at(j, i)] * a * z(j, k)
				}
				grad[at(i, k)] = out[at(i, k)] + a*da/float64(n) + b*db/float64(n)
			}
		}
	}
	return out, grad
}

// answer is what one rank computed, copied out of its tiles.
type answer struct {
	shard
	out, grad []float32
	check     Check
	tiles     int64
}

// compute runs world ranks as goroutines: first another size, then two steps of n.
func compute(t *testing.T, cfg Config, world, n int) []answer {
	t.Helper()
	answers := make([]answer, world)
	var ranks errgroup.Group
	for r := range world {
		var l *peer.Listener
		if world > 1 {
			var err error
			if l, err = peer.Listen(t.Name(), r, world); err != nil {
				t.Fatal(err)
			}
		}
		ranks.Go(func() (err error) {
			answers[r], err = computeRank(t, cfg, l, n)
			return err
		})
	}
	if err := ranks.Wait(); err != nil {
		t.Fatal(err)
	}
	return answers
}

func computeRank(t *testing.T, cfg Config, l *peer.Listener, n int) (answer, error) {
	var peers *peer.Peers
	if l != nil {
		var err error
		if peers, err = l.Meet(t.Context()); err != nil {
			return answer{}, err
		}
		defer peers.Close()
	}
	mem := tile.Unlimited()
	m, err := New(cfg, mem, peers, func(string) {})
	if err != nil {
		return answer{}, err
	}
	defer func() {
		if err := m.drop(); err != nil || mem.InUse() != 0 {
			t.Errorf("%d bytes left, %v", mem.InUse(), err)
		}
	}()
	for _, size := range []int{n + 1, n} { // the tiles of a size before must leave no trace
		if _, err := m.Prepare(size); err != nil {
			return answer{}, err
		}
		for range 2 {
			if err := m.Barrier(); err != nil {
				return answer{}, err
			}
			if _, err := m.Step(); err != nil {
				return answer{}, err
			}
		}
	}
	a := answer{shard: m.shard, out: append([]float32(nil), m.Output()...), check: m.Check()}
	if cfg.Train {
		a.grad = append(a.grad, m.split.gradient(m).Floats()...)
	}
	page := int64(os.Getpagesize())
	a.tiles = mem.InUse() / ((int64(len(m.z.Bytes())) + page - 1) / page * page)
	return a, m.Barrier() // none closes its sockets while another still needs them
}

// whole puts the parts of all ranks together and checks that padding is zero and nothing is missing.
func whole(t *testing.T, answers []answer, n, channels int, part func(answer) []float32) []float32 {
	t.Helper()
	got := make([]float32, channels*n*n)
	for i := range got {
		got[i] = float32(math.NaN())
	}
	for r, a := range answers {
		values := part(a)
		for i := range values {
			c, at := i/a.plane(), i%a.plane()
			row, col := a.row+at/a.cols, a.col+at%a.cols
			if row < n && col < n {
				got[(c*n+row)*n+col] = values[i]
			} else if values[i] != 0 {
				t.Fatalf("rank %d: padding at (%d, %d, %d) is %v", r, c, row, col, values[i])
			}
		}
	}
	return got
}

func compare(t *testing.T, what string, got []float32, want []float64) {
	t.Helper()
	for i := range want {
		if d := math.Abs(float64(got[i]) - want[i]); !(d <= 2e-6*(1+math.Abs(want[i]))) {
			t.Fatalf("%s[%d] = %v, want %v", what, i, got[i], want[i])
		}
	}
}

func TestEveryMeshComputesTheSame(t *testing.T) {
	t.Parallel()
	const channels = 6 // more than one period of wa
	meshes := []struct {
		topology string
		world    int
	}{{"", 1}, {"1d", 1}, {"1d", 2}, {"1d", 3}, {"1d", 4}, {"2d", 1}, {"2d", 4}, {"2d", 9}}
	for _, n := range []int{1, 4, 10, 13, 36} {
		wantOut, wantGrad := naive(n, channels)
		for _, mesh := range meshes {
			for _, train := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s P=%d N=%d train=%t", mesh.topology, mesh.world, n, train), func(t *testing.T) {
					t.Parallel()
					answers := compute(t, Config{Topology: mesh.topology, Channels: channels, Train: train}, mesh.world, n)
					compare(t, "out", whole(t, answers, n, channels, func(a answer) []float32 { return a.out }), wantOut)
					if train {
						compare(t, "grad", whole(t, answers, n, channels, func(a answer) []float32 { return a.grad }), wantGrad)
					}
					checkSums(t, answers, n, channels, wantOut, wantGrad)
					checkTiles(t, answers, mesh.topology, train)
				})
			}
		}
	}
}

// checkTiles holds the table of the package comment.
func checkTiles(t *testing.T, answers []answer, topology string, train bool) {
	t.Helper()
	want := int64(4)
	switch ring := topology == "1d" && len(answers) > 1; {
	case ring && train:
		want = 8
	case ring, train:
		want = 5
	}
	for r, a := range answers {
		if a.tiles != want {
			t.Errorf("rank %d holds %d tiles, want %d", r, a.tiles, want)
		}
	}
}

// checkSums compares the sum over the ranks with the one of the whole tensor.
func checkSums(t *testing.T, answers []answer, n, channels int, wantOut, wantGrad []float64) {
	t.Helper()
	var got, want Check
	for _, a := range answers {
		if !a.check.Finite {
			t.Error("not finite")
		}
		got.Output += a.check.Output
		got.Gradient += a.check.Gradient
	}
	all := shard{tokens: n, padded: n, channels: channels, rows: n, cols: n}
	want.Output = all.checksum(narrow(wantOut))
	if answers[0].grad != nil {
		want.Gradient = all.checksum(narrow(wantGrad))
	}
	if math.Abs(got.Output-want.Output) > 1e-6*math.Abs(want.Output) {
		t.Errorf("checksum %v, want %v", got.Output, want.Output)
	}
	if math.Abs(got.Gradient-want.Gradient) > 1e-6*math.Abs(want.Gradient) {
		t.Errorf("gradient checksum %v, want %v", got.Gradient, want.Gradient)
	}
}

func narrow(v []float64) []float32 {
	n := make([]float32, len(v))
	for i := range v {
		n[i] = float32(v[i])
	}
	return n
}

func TestChecksumSeesATransposedTensor(t *testing.T) {
	t.Parallel()
	s := shard{tokens: 5, padded: 5, channels: 1, rows: 5, cols: 5}
	z, zt := make([]float32, 25), make([]float32, 25)
	s.fill(z)
	for i := range 5 {
		for j := range 5 {
			zt[j*5+i] = z[i*5+j]
		}
	}
	if s.checksum(z) == s.checksum(zt) {
		t.Error("the same checksum for a tensor and its transpose")
	}
}

func TestFinite(t *testing.T) {
	t.Parallel()
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		v := []float32{0, 1, math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32}
		if !finite(v) {
			t.Errorf("%v is finite", v)
		}
		v[2] = float32(bad)
		if finite(v) {
			t.Errorf("%v is not finite", v)
		}
	}
}

func TestNewRefusesAnIllegalMesh(t *testing.T) {
	t.Parallel()
	for _, topology := range []string{"", "2d", "3d"} {
		t.Run(topology, func(t *testing.T) {
			t.Parallel()
			var ranks errgroup.Group
			for r := range 2 {
				l, err := peer.Listen(t.Name(), r, 2)
				if err != nil {
					t.Fatal(err)
				}
				ranks.Go(func() error {
					_, err := computeRank(t, Config{Topology: topology, Channels: 1}, l, 8)
					return err
				})
			}
			if err := ranks.Wait(); !errors.Is(err, ErrMesh) {
				t.Errorf("got %v, want ErrMesh", err)
			}
		})
	}
}

// BenchmarkStep is one step of one rank: N = 512, C = 4, half a billion multiplications and as many additions.
func BenchmarkStep(b *testing.B) {
	for _, train := range []bool{false, true} {
		b.Run(fmt.Sprintf("train=%t", train), func(b *testing.B) {
			m, err := New(Config{Channels: 4, Train: train}, tile.Unlimited(), nil, func(string) {})
			if err != nil {
				b.Fatal(err)
			}
			if _, err := m.Prepare(512); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, err := m.Step(); err != nil {
					b.Fatal(err)
				}
			}
			if err := m.drop(); err != nil {
				b.Fatal(err)
			}
		})
	}
}
