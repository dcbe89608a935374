// Package telemetry reads hosts while an LLM server is measured: memory, GPUs, processes and network interfaces, of this
// machine and of others by the user's own ssh, and the text of further addresses of metrics. Begin starts to read, Over
// says what the samples tell about a group, Close takes the last sample; Once takes one sample of everything.
//
// Nothing here delays what is measured: every target is read by a goroutine of its own, and whatever goes wrong is in
// the samples. What is read is what is there: nothing is made up between two samples.
package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"cpbench/worker/llm/telemetry/link"
	"cpbench/worker/llm/telemetry/reading"
)

// Host is a machine that is read.
type Host struct {
	Name string
	SSH  string // destination of the user's ssh; empty: this machine
	reading.Host
}

// Options say what is read and how often.
type Options struct {
	Hosts       []Host
	Extra       []string      // addresses of metrics, whose text is kept
	Interval    time.Duration // between two samples of a target
	Timeout     time.Duration // of a sample
	MaxParallel int           // samples at the same time
	Lines       io.Writer     // a line for every sample; nil: none
	// Failed is told every error of a sample at once, by whichever goroutine meets it, one at a time; nil: nobody is.
	Failed func(target, text string)
}

// Watch reads targets until it is closed.
type Watch struct {
	o       Options
	dir     string // of the sockets of ssh; empty: no host is read by it
	began   time.Time
	targets []*target
	slots   chan struct{}
	halt    context.CancelCauseFunc // ends the samples that are under way
	stop    chan struct{}
	done    sync.WaitGroup

	mu  sync.Mutex // one line, and one error told, at a time
	bad error      // the first line that could not be written
}

// target is what is read by one goroutine.
type target struct {
	host, url string
	probe     func(ctx context.Context, s *Sample) // fills in what was read, and the errors
	close     func()
	kick      chan struct{} // asks for a sample now

	mu   sync.Mutex
	kept []seen        // what windows may still need, in the order of time
	gpus []string      // all that have been seen, by their UUIDs
	more chan struct{} // closed and made anew with every sample
}

// name is what a target is called in errors.
func (t *target) name() string {
	if t.url != "" {
		return t.url
	}
	return t.host
}

// Begin starts to read. The error is of this machine, which has no room for the sockets of ssh; that a host cannot be
// read is in its samples.
func Begin(o Options) (*Watch, error) {
	w, err := open(o)
	if err != nil {
		return nil, err
	}
	w.start()
	return w, nil
}

// start starts to read every target.
func (w *Watch) start() {
	ctx, halt := context.WithCancelCause(context.Background())
	w.halt = halt
	for _, t := range w.targets {
		w.done.Go(func() { w.follow(ctx, t) })
	}
}

// Once takes one sample of every target, in their order: the hosts, then the addresses. It returns soon after ctx ends.
func Once(ctx context.Context, o Options) ([]Sample, error) {
	w, err := open(o)
	if err != nil {
		return nil, err
	}
	samples := make([]Sample, len(w.targets))
	for i, t := range w.targets {
		w.done.Go(func() {
			samples[i] = w.take(ctx, t, w.began, false)
			t.close()
		})
	}
	w.done.Wait()
	return samples, errors.Join(w.bad, os.RemoveAll(w.dir))
}

// open makes the targets and reads nothing.
func open(o Options) (*Watch, error) {
	w := &Watch{o: o, began: time.Now(), slots: make(chan struct{}, max(o.MaxParallel, 1)), stop: make(chan struct{})}
	if slices.ContainsFunc(o.Hosts, func(h Host) bool { return h.SSH != "" }) {
		var err error
		if w.dir, err = socketDir(); err != nil {
			return nil, fmt.Errorf("a folder for the connections of ssh: %w", err)
		}
	}
	for i, h := range o.Hosts {
		l := link.New(h.SSH, filepath.Join(w.dir, fmt.Sprint(i)), o.Timeout)
		r := reading.New(h.Host, l)
		w.add(&target{host: h.Name, close: l.Close, probe: func(ctx context.Context, s *Sample) { s.Reading, s.Errors = r.Read(ctx) }})
	}
	client := newClient()
	for _, u := range o.Extra {
		w.add(&target{url: u, close: client.CloseIdleConnections, probe: func(ctx context.Context, s *Sample) { s.Text, s.Errors = fetch(ctx, client, u) }})
	}
	return w, nil
}

func (w *Watch) add(t *target) {
	t.kick, t.more = make(chan struct{}, 1), make(chan struct{})
	w.targets = append(w.targets, t)
}

// socketDir is a private folder with a name so short that the path of a socket in it is a valid one: 108 bytes at most,
// of which ssh takes 17 for a name of its own. A job may name a TMPDIR that is not there.
func socketDir() (string, error) {
	const most = 60
	parent := os.TempDir()
	if _, err := os.Stat(parent); err != nil || len(parent) > most {
		parent = "/tmp"
	}
	return os.MkdirTemp(parent, "cpbench-")
}

// follow reads a target until the watch is closed, and then once more.
func (w *Watch) follow(ctx context.Context, t *target) {
	defer t.close()
	tick := time.NewTicker(w.o.Interval)
	defer tick.Stop()
	for due := w.began; !w.stopped(); {
		w.take(ctx, t, due, false)
		select {
		case <-w.stop:
		case due = <-tick.C:
		case <-t.kick:
			due = time.Now()
		}
	}
	last, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), w.grace(), noAnswer(w.grace()))
	defer cancel()
	w.take(last, t, time.Now(), true)
}

// stopped reports whether the watch is being closed, which goes before whatever else is due.
func (w *Watch) stopped() bool {
	select {
	case <-w.stop:
		return true
	default:
		return false
	}
}

// take takes one sample, when a slot is free.
func (w *Watch) take(ctx context.Context, t *target, due time.Time, terminal bool) Sample {
	select {
	case w.slots <- struct{}{}:
		defer func() { <-w.slots }()
	case <-ctx.Done():
	}
	began := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, w.o.Timeout, noAnswer(w.o.Timeout))
	defer cancel()
	s := Sample{
		Host: t.host, URL: t.url, Terminal: terminal,
		At: began.UTC(), Offset: began.Sub(w.began).Seconds(), Late: max(began.Sub(due), 0).Seconds(),
	}
	if t.probe(ctx, &s); s.Errors == nil {
		s.Errors = []string{} // not null in the line
	}
	s.Duration = time.Since(began).Seconds()
	w.tell(t, s)
	t.keep(s)
	return s
}

func noAnswer(limit time.Duration) error { return fmt.Errorf("no answer within %v", limit) }

// tell writes a sample down, and says its errors.
func (w *Watch) tell(t *target, s Sample) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.o.Failed != nil {
		for _, text := range s.Errors {
			w.o.Failed(t.name(), text)
		}
	}
	if w.o.Lines == nil {
		return
	}
	line, err := json.Marshal(s)
	if err == nil {
		_, err = w.o.Lines.Write(append(line, '\n'))
	}
	if err != nil && w.bad == nil {
		w.bad = fmt.Errorf("a sample of %s: %w", t.name(), err)
		if w.o.Failed != nil {
			w.o.Failed(t.name(), w.bad.Error())
		}
	}
}

// mostGrace bounds how long the end waits for a sample: a host that hangs must not keep a task from ending.
const mostGrace = 5 * time.Second

func (w *Watch) grace() time.Duration { return min(w.o.Timeout, mostGrace) }

// errClosed ends a sample that was under way for too long when the watch was closed.
var errClosed = errors.New("cut off at the end of the task")

// Close waits for the samples that are under way, takes a last one of every target, which closes the intervals of its
// counters, and ends the connections. It takes no longer than the timeout twice, 5 seconds each time at most, and a
// moment. The error is of the first sample that could not be written. Call it once.
func (w *Watch) Close() error {
	close(w.stop)
	late := time.AfterFunc(w.grace(), func() { w.halt(errClosed) })
	w.done.Wait()
	late.Stop()
	w.halt(nil)
	return errors.Join(w.bad, os.RemoveAll(w.dir))
}
