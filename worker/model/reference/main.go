package reference

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"time"

	"cpbench/worker/model/protocol"
	"cpbench/worker/model/reference/peer"
	"cpbench/worker/model/reference/tile"
)

// The exit codes of Main.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

const (
	// threads is one that computes and one that moves tiles meanwhile.
	threads = 2
	// grace is how long a rank that was told to stop may take when the worker does not wait for it.
	grace = 5 * time.Second
	// stubborn is how long the fault ignore-term outlives the worker: long enough for every test, but not for ever.
	stubborn = 30 * time.Second
)

// Main is the program of one rank. It returns the exit status and expects the process to end with it: work that is
// under way when the worker goes away or ctx ends is left standing. It limits the address space of the process.
func Main(ctx context.Context, args []string, stderr io.Writer) int {
	opts, err := parse(args, os.Getenv, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return exitDone
	}
	say := func(err error) {
		_, _ = fmt.Fprintf(stderr, "cpbench: error: reference: rank %d: %v\n", opts.rank, err)
	}
	if err != nil {
		say(err)
		return exitUsage
	}
	runtime.GOMAXPROCS(threads)
	r, err := open(ctx, opts, stderr)
	if err != nil {
		say(err)
		return exitFailed
	}
	code := r.serve(ctx, say)
	if err := r.conn.Close(); err != nil {
		say(err)
	}
	return code
}

// open limits the memory, opens the socket for the other ranks, connects to the worker and says hello. In this
// order: who is told to start finds every rank listening.
func open(ctx context.Context, opts options, stderr io.Writer) (*rank, error) {
	r := &rank{opts: opts, stderr: stderr}
	r.pulse.done.Store(-1)
	r.enter(atBuild)
	var err error
	if r.mem, err = tile.Limited(opts.memory); err != nil {
		return nil, err
	}
	if opts.world > 1 {
		if r.listener, err = peer.Listen(opts.token, opts.rank, opts.world); err != nil {
			return nil, err
		}
	}
	if r.conn, err = protocol.Dial(ctx); err != nil {
		return nil, err
	}
	r.pulse.conn = r.conn
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	hello := protocol.Hello{
		Protocol: protocol.Version, Token: opts.token, Rank: opts.rank, World: opts.world, Host: host, PID: os.Getpid(),
		Device:   protocol.Device{Name: "reference model (CPU)", TotalBytes: &opts.memory},
		Versions: map[string]string{"reference": version, "go": runtime.Version()},
		Settings: map[string]string{
			"channels": strconv.Itoa(opts.channels), "memory": strconv.FormatInt(opts.memory, 10),
			"dtype": dtype, "exchange": "unix sockets", "threads": strconv.Itoa(threads),
		},
	}
	return r, r.conn.Send(hello)
}

// serve does what the worker asks until it says stop, something fails, the worker goes away or ctx ends.
func (r *rank) serve(ctx context.Context, say func(error)) int {
	inbox := make(chan protocol.Message, 16)
	lost := make(chan error, 1)
	go r.listen(ctx, inbox, lost)
	done := make(chan int, 1)
	go func() { done <- r.work(ctx, inbox, say) }()
	for {
		select {
		case code := <-done:
			return code
		case <-ctx.Done():
			return exitInterrupted
		case err := <-lost:
			return r.orphaned(done, err, say)
		}
	}
}

// orphaned ends a rank whose worker has gone.
func (r *rank) orphaned(done <-chan int, err error, say func(error)) int {
	wait := time.Duration(0)
	if r.stopping.Load() {
		wait = grace
	}
	if r.opts.faults.has(ignoreTerm) {
		wait, done = stubborn, nil
	}
	if wait > 0 {
		select {
		case code := <-done:
			return code
		case <-time.After(wait):
		}
	}
	say(fmt.Errorf("the worker went away: %w", err))
	return exitFailed
}

// listen passes on what the worker says. It reads on while the rank works, so that the end of the connection is
// seen at once.
func (r *rank) listen(ctx context.Context, inbox chan<- protocol.Message, lost chan<- error) {
	for {
		m, err := r.conn.Receive()
		if errors.Is(err, protocol.ErrUnknownType) {
			continue
		}
		if err != nil {
			lost <- err
			return
		}
		if _, ok := m.(*protocol.Stop); ok {
			r.stopping.Store(true)
		}
		select {
		case inbox <- m:
		case <-ctx.Done():
			return
		}
	}
}
