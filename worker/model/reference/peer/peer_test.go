package peer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// mesh returns the connected ranks of a world.
func mesh(t *testing.T, world int) []*Peers {
	t.Helper()
	peers := make([]*Peers, world)
	var g errgroup.Group
	for r := range world {
		l, err := Listen(t.Name(), r, world)
		if err != nil {
			t.Fatal(err)
		}
		g.Go(func() (err error) {
			peers[r], err = l.Meet(t.Context())
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, p := range peers {
			p.Close()
		}
	})
	return peers
}

func TestEveryRankReachesEveryOther(t *testing.T) {
	t.Parallel()
	const world = 5
	peers := mesh(t, world)
	var g errgroup.Group
	for r, p := range peers {
		g.Go(func() error { return greetAll(p, r, world) })
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
}

// greetAll sends every other rank both numbers and checks what they send.
func greetAll(p *Peers, r, world int) error {
	others := slices.DeleteFunc([]int{0, 1, 2, 3, 4}[:world], func(o int) bool { return o == r })
	for _, to := range others {
		if err := p.Send(to, []byte{byte(r), byte(to)}); err != nil {
			return err
		}
	}
	for _, from := range others {
		got := make([]byte, 2)
		if err := p.Receive(from, got); err != nil {
			return err
		}
		if want := []byte{byte(from), byte(r)}; !bytes.Equal(got, want) {
			return fmt.Errorf("rank %d received %v, want %v", r, got, want)
		}
	}
	return p.Barrier()
}

func TestBarrierHoldsUntilTheLastRank(t *testing.T) {
	t.Parallel()
	peers := mesh(t, 3)
	passed := make(chan int, 3)
	for _, r := range []int{0, 1} {
		go func() {
			if err := peers[r].Barrier(); err != nil {
				t.Error(err)
			}
			passed <- r
		}()
	}
	// Rank 0 releases the others only after rank 2's byte, so this read must time out.
	if err := peers[2].conns[0].SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if err := peers[2].Receive(0, make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v, want a time-out", err)
	}
	select {
	case r := <-passed:
		t.Fatalf("rank %d passed before rank 2 came", r)
	default:
	}
	if err := peers[2].conns[0].SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	if err := peers[2].Barrier(); err != nil {
		t.Fatal(err)
	}
	<-passed
	<-passed
}

func TestAnEndedPeerIsNamed(t *testing.T) {
	t.Parallel()
	peers := mesh(t, 3)
	peers[1].Close()
	for name, f := range map[string]func() error{
		"receive": func() error { return peers[2].Receive(1, make([]byte, 8)) },
		"send":    func() error { return peers[0].Send(1, make([]byte, 8<<20)) },
		"barrier": peers[0].Barrier,
	} {
		err := f()
		var gone *Gone
		if !errors.As(err, &gone) || gone.Rank != 1 {
			t.Errorf("%s: %v, want rank 1 gone", name, err)
		} else if !strings.Contains(err.Error(), "rank 1 went away") || strings.Contains(err.Error(), "@") {
			t.Errorf("%s: text %q", name, err)
		}
	}
}

func TestCloseWakesTheOwnReceive(t *testing.T) {
	t.Parallel()
	peers := mesh(t, 2)
	ended := make(chan error, 1)
	go func() { ended <- peers[0].Receive(1, make([]byte, 1)) }()
	peers[0].Close()
	var gone *Gone
	if err := <-ended; !errors.As(err, &gone) {
		t.Errorf("got %v", err)
	}
}

func TestTheTokenIsNotInTheName(t *testing.T) {
	t.Parallel()
	const token = "s3cret token"
	name := address([]byte(token), 0).Name
	if strings.Contains(name, token) || name == address([]byte("other"), 0).Name || name == address([]byte(token), 1).Name {
		t.Errorf("name %q", name)
	}
	if !strings.HasPrefix(name, "@") {
		t.Errorf("name %q is not in the abstract namespace", name)
	}
}

// TestStrangersAreTurnedAway lets callers without the token in before the right rank comes.
func TestStrangersAreTurnedAway(t *testing.T) {
	t.Parallel()
	token := []byte(t.Name())
	l, err := Listen(t.Name(), 0, 2)
	if err != nil {
		t.Fatal(err)
	}
	met := make(chan error, 1)
	var p *Peers
	go func() {
		var err error
		p, err = l.Meet(t.Context())
		met <- err
	}()
	silent, err := net.Dial("unix", address(token, 0).Name) // says nothing and must keep nobody waiting
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for name, said := range map[string][]byte{
		"wrong token": card([]byte("other"), 1, 0, 2),
		"wrong rank":  card(token, 0, 0, 2),
		"no rank":     card(token, 7, 0, 2),
		"wrong world": card(token, 1, 0, 3),
		"replayed":    card(token, 0, 1, 2),
		"noise":       bytes.Repeat([]byte{'x'}, cardSize),
	} {
		c, err := net.Dial("unix", address(token, 0).Name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write(said); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("%s: got %v, want the connection closed", name, err)
		}
		c.Close()
	}
	other, err := Listen(t.Name(), 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	q, err := other.Meet(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	if err := <-met; err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := q.Send(0, []byte{42}); err != nil {
		t.Fatal(err)
	}
	got := []byte{0}
	if err := p.Receive(1, got); err != nil || got[0] != 42 {
		t.Errorf("got %v, %v", got, err)
	}
}

// TestAFalseListenerIsFound has a process with the right name and the wrong token.
func TestAFalseListenerIsFound(t *testing.T) {
	t.Parallel()
	false0, err := net.ListenUnix("unix", address([]byte(t.Name()), 0))
	if err != nil {
		t.Fatal(err)
	}
	defer false0.Close()
	go func() {
		c, err := false0.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = io.ReadFull(c, make([]byte, cardSize))
		_, _ = c.Write(card([]byte("guess"), 0, 1, 2))
	}()
	l, err := Listen(t.Name(), 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Meet(t.Context()); err == nil || !strings.Contains(err.Error(), "does not belong to this execution") {
		t.Errorf("got %v", err)
	}
}

func TestMeetEndsWithItsContext(t *testing.T) {
	t.Parallel()
	for _, rank := range []int{0, 1, 2} {
		l, err := Listen(t.Name(), rank, 3)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { _, err := l.Meet(ctx); ended <- err }()
		cancel()
		if err := <-ended; err == nil {
			t.Errorf("rank %d met nobody and is content", rank)
		}
	}
}
