package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"

	"cpbench/worker/evidence"
	"cpbench/worker/gpu"
	"cpbench/worker/gpu/source"
	"cpbench/worker/tree"
)

// Options say what a node has to do its work with.
type Options struct {
	Helper string // path of cpbench-nvml; empty: it is not there
	Log    string // file for the readings; empty: none
	Root   string // of the file system in which the kernel counts its kills; empty: /
	// Start starts a child and returns how to wait for it; nil: cmd.Start and cmd.Wait. See source.Options.
	Start func(cmd *exec.Cmd) (wait func() error, err error)
}

// Local does on this machine what a node is asked. The agent on another node is one behind a connection.
type Local struct {
	opts Options

	mu       sync.Mutex // held during a request
	sampler  *source.Sampler
	identity Identity
	log      *os.File
	before   *gpu.Reading
	watch    *source.Watcher
	kills    func() (int64, bool, string)
	marks    []string // of executions that have begun and were not cleaned up
}

// NewLocal returns a node that has done nothing yet. Close has to be called.
func NewLocal(opts Options) *Local {
	if opts.Root == "" {
		opts.Root = "/"
	}
	return &Local{opts: opts}
}

// Do does what is asked. Every answer takes less than the limit of its verb.
func (l *Local) Do(ctx context.Context, r Request) Answer {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := Answer{ID: r.ID}
	var err error
	switch r.Do {
	case Identify:
		a.Identity = l.identify(ctx)
	case Look:
		err = l.look(ctx, &a)
	case Before:
		err = l.edge(ctx, &l.before)
	case Watch:
		err = l.background(r.Pace)
	case After:
		a.Usage, err = l.after(ctx)
	case Begin:
		l.kills = evidence.Delta(l.opts.Root)
		if r.Mark != "" && !slices.Contains(l.marks, r.Mark) {
			l.marks = append(l.marks, r.Mark)
		}
	case Kills:
		a.Witness = l.witness()
	case Clean:
		a.Cleaned = l.clean(r.Mark)
	default:
		err = fmt.Errorf("unknown request %q", r.Do)
	}
	if err != nil {
		a.Error = err.Error()
	}
	return a
}

// Close ends what is left of executions and the readings.
func (l *Local) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, mark := range slices.Clone(l.marks) {
		l.clean(mark)
	}
	if l.watch != nil {
		l.watch.Stop()
	}
	if l.sampler != nil {
		l.sampler.Close()
	}
	if l.log != nil {
		l.log.Close() // each line was written at once
	}
}

// identify finds a source of readings and the devices that a job may use. What is wrong is a doubt.
func (l *Local) identify(ctx context.Context) *Identity {
	if l.sampler != nil {
		return &l.identity
	}
	opts := source.Options{Helper: l.opts.Helper, Start: l.opts.Start}
	if l.opts.Log != "" {
		if log, err := os.OpenFile(l.opts.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err == nil {
			l.log, opts.Log = log, io.Writer(log)
		}
	}
	l.sampler, l.identity.Source, l.identity.Doubt = source.Open(ctx, opts)
	all, err := l.sampler.Identify(ctx)
	if err == nil {
		all, err = gpu.Visible(all, os.LookupEnv)
		if err != nil {
			l.identity.Doubt = err.Error()
		}
	}
	if err == nil {
		l.identity.Devices = all
		var uuids []string
		for _, d := range all {
			uuids = append(uuids, d.UUID)
		}
		l.sampler.Select(uuids)
	}
	return &l.identity
}

var errNotIdentified = errors.New("the node was not asked for its GPUs before")

// edge takes a full reading.
func (l *Local) edge(ctx context.Context, into **gpu.Reading) error {
	*into = nil
	if l.sampler == nil {
		return errNotIdentified
	}
	r, err := l.sampler.Edge(ctx)
	if err == nil {
		*into = &r
	}
	return err
}

// look reads the state of the GPUs and who computes on them. Not every source can tell the processes.
func (l *Local) look(ctx context.Context, a *Answer) error {
	if err := l.edge(ctx, &a.Reading); err != nil {
		return err
	}
	if found, err := l.sampler.Processes(ctx); err == nil {
		a.Processes = found
	}
	return nil
}

// background begins to look at the GPUs. It goes on after the request that asked for it.
func (l *Local) background(pace gpu.Pace) error {
	if l.sampler == nil {
		return errNotIdentified
	}
	if l.watch == nil {
		l.watch = l.sampler.Watch(context.Background(), pace)
	}
	return nil
}

// after tells what happened since before.
func (l *Local) after(ctx context.Context) (*gpu.Usage, error) {
	var seen gpu.Seen
	if l.watch != nil {
		seen = l.watch.Stop()
		l.watch = nil
	}
	before := l.before
	l.before = nil
	if before == nil {
		return nil, errors.New("there is no reading from before")
	}
	var now *gpu.Reading
	if err := l.edge(ctx, &now); err != nil {
		return nil, err
	}
	u := gpu.Delta(*before, *now, seen)
	return &u, nil
}

func (l *Local) witness() *Witness {
	if l.kills == nil {
		return &Witness{}
	}
	w := &Witness{}
	w.Kills, w.Counted, w.Where = l.kills()
	return w
}

// clean ends what carries a mark, whoever has started it here.
func (l *Local) clean(mark string) *Cleaned {
	l.marks = slices.DeleteFunc(l.marks, func(m string) bool { return m == mark })
	rep, err := tree.KillMarked(context.Background(), tree.DefaultGrace, mark) // also when nobody waits for the answer
	c := &Cleaned{Told: rep.Told, Killed: rep.Killed}
	if err != nil {
		c.Error = err.Error()
	}
	return c
}
