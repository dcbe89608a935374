package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"cpbench/worker/gpu"
)

// The limits of a request where Options gives none.
const (
	DefaultLimit      = 5 * time.Second
	DefaultStartLimit = 30 * time.Second // a driver without persistence wakes its GPUs one after the other
)

// Options say where readings may come from.
type Options struct {
	Helper     string        // path of cpbench-nvml; empty: it is not there
	Library    string        // NVML library for the helper; empty: the driver's own
	SMI        string        // nvidia-smi; empty: the one on PATH
	Limit      time.Duration // longest time of a request; 0: DefaultLimit
	StartLimit time.Duration // longest time until a source has named its devices; 0: DefaultStartLimit
	// Start starts a child and returns how to wait for it; nil: cmd.Start and cmd.Wait. A caller that kills its
	// process tree gives one here that has its children spared and not reaped.
	Start func(cmd *exec.Cmd) (wait func() error, err error)
	Log   io.Writer // gets every identity, reading and change of source as a line of JSON; nil: none
}

// ErrNone says that there is no source of readings (any more). Its text has the reasons.
var ErrNone = errors.New("no GPU readings")

// Change is a source that was left for the next one.
type Change struct {
	Time   time.Time  `json:"time"`
	From   gpu.Source `json:"from"`
	To     gpu.Source `json:"to"`
	Reason string     `json:"reason"` // what was wrong with From, and with what was tried after it
}

// backend is a source. An error means that the source is of no more use, unless it is a refusal.
type backend interface {
	source() gpu.Source
	identify(ctx context.Context) ([]gpu.Device, error)
	read(ctx context.Context) (gpu.Reading, error)
	processes(ctx context.Context) ([]gpu.Process, error)
	// watch calls take for each reading, one at a time, until stop; stop returns after the last call. The error of
	// stop says why readings are lacking.
	watch(ctx context.Context, pace gpu.Pace, take func(gpu.Reading)) (stop func(context.Context) error, err error)
	close()
}

// refusal is the answer of a source that works and cannot tell what it was asked.
type refusal struct{ text string }

func (r refusal) Error() string { return r.text }

// Sampler takes readings from the best source that works. Its methods may be called from several goroutines; one
// request is made at a time. The zero value is not useful; call Open.
type Sampler struct {
	opts Options

	mu       sync.Mutex   // held during a request
	now      backend      // nil: none
	rest     []gpu.Source // to be tried after now
	changes  []Change
	reasons  []string // what was wrong with the sources so far
	only     []string // UUIDs; nil: all
	watching bool

	logMu sync.Mutex
}

// Open finds the first source that can name its devices. There is always a Sampler; with the source None its
// requests return ErrNone. The reason says what was wrong with the better sources, and is empty for NVML. The end of
// ctx ends the search, not the Sampler.
func Open(ctx context.Context, opts Options) (*Sampler, gpu.Source, string) {
	if opts.Limit == 0 {
		opts.Limit = DefaultLimit
	}
	if opts.StartLimit == 0 {
		opts.StartLimit = DefaultStartLimit
	}
	if opts.Start == nil {
		opts.Start = func(cmd *exec.Cmd) (func() error, error) { return cmd.Wait, cmd.Start() }
	}
	s := &Sampler{opts: opts, rest: []gpu.Source{gpu.NVML, gpu.SMI}}
	s.mu.Lock()
	defer s.mu.Unlock()
	source := s.next(ctx)
	return s, source, strings.Join(s.reasons, "; ")
}

// next opens the first of the remaining sources that works.
func (s *Sampler) next(ctx context.Context) gpu.Source {
	for len(s.rest) > 0 {
		source := s.rest[0]
		s.rest = s.rest[1:]
		b, err := s.try(ctx, source)
		if err == nil {
			s.now = b
			return source
		}
		s.reasons = append(s.reasons, fmt.Sprintf("%s: %v", source, err))
	}
	return gpu.None
}

// try opens one source and lets it name its devices.
func (s *Sampler) try(ctx context.Context, source gpu.Source) (backend, error) {
	ctx, cancel := limited(ctx, s.opts.StartLimit)
	defer cancel()
	var b backend
	var err error
	if source == gpu.NVML {
		b, err = startHelper(s.opts)
	} else {
		b, err = findSMI(s.opts)
	}
	if err != nil {
		return nil, err
	}
	devices, err := b.identify(ctx)
	if err == nil && !slices.ContainsFunc(devices, func(d gpu.Device) bool { return d.UUID != "" }) {
		err = errors.New("no device that can be read")
	}
	if err != nil {
		b.close()
		return nil, err
	}
	s.log(line{Devices: devices})
	return b, nil
}

// limited bounds a request.
func limited(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %v", limit))
}

// do makes a request, and makes it again with the next source if the present one fails.
func (s *Sampler) do(ctx context.Context, request func(context.Context, backend) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.now != nil {
		within, cancel := limited(ctx, s.opts.Limit)
		err := request(within, s.now)
		cancel()
		var no refusal
		switch {
		case err == nil, errors.As(err, &no):
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx) // the caller's haste is no fault of the source
		}
		s.leave(ctx, err)
	}
	return fmt.Errorf("%w: %s", ErrNone, strings.Join(s.reasons, "; "))
}

// leave gives up the present source.
func (s *Sampler) leave(ctx context.Context, why error) {
	c := Change{Time: time.Now().UTC(), From: s.now.source()}
	s.now.close()
	s.now = nil
	known := len(s.reasons)
	s.reasons = append(s.reasons, fmt.Sprintf("%s: %v", c.From, why))
	c.To = s.next(ctx)
	c.Reason = strings.Join(s.reasons[known:], "; ")
	s.changes = append(s.changes, c)
	s.log(line{Change: &c})
}

// Changes lists the sources that were left since Open.
func (s *Sampler) Changes() []Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.changes)
}

// Select limits later readings and processes to the GPUs with the given UUIDs, which are those of the job.
func (s *Sampler) Select(uuids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.only = slices.Clone(uuids)
}

// selected reports whether a GPU is one of the job's. The caller holds mu.
func (s *Sampler) selected(uuid string) bool { return s.only == nil || slices.Contains(s.only, uuid) }

// Identify lists all devices of the machine that the source sees, whatever was selected.
func (s *Sampler) Identify(ctx context.Context) ([]gpu.Device, error) {
	var devices []gpu.Device
	err := s.do(ctx, func(ctx context.Context, b backend) (err error) {
		devices, err = b.identify(ctx)
		return err
	})
	return devices, err
}

// Edge takes a full reading, for before and after a point.
func (s *Sampler) Edge(ctx context.Context) (gpu.Reading, error) {
	var r gpu.Reading
	err := s.do(ctx, func(ctx context.Context, b backend) (err error) {
		r, err = b.read(ctx)
		r.GPUs = slices.DeleteFunc(r.GPUs, func(g gpu.State) bool { return !s.selected(g.UUID) })
		return err
	})
	if err == nil {
		s.log(line{Reading: &r})
	}
	return r, err
}

// Processes lists the processes that compute on the selected GPUs.
func (s *Sampler) Processes(ctx context.Context) ([]gpu.Process, error) {
	var found []gpu.Process
	err := s.do(ctx, func(ctx context.Context, b backend) (err error) {
		found, err = b.processes(ctx)
		found = slices.DeleteFunc(found, func(p gpu.Process) bool { return !s.selected(p.UUID) })
		return err
	})
	if err == nil {
		s.log(line{Processes: &found})
	}
	return found, err
}

// Close ends the source and its process, within a few seconds even if that hangs. Later requests return ErrNone.
func (s *Sampler) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now != nil {
		s.now.close()
		s.reasons = append(s.reasons, "closed")
	}
	s.now, s.rest = nil, nil
}

// line is one line of the log. Exactly one field is set, beside the time.
type line struct {
	Time      time.Time      `json:"time"`
	Devices   []gpu.Device   `json:"devices,omitempty"`
	Reading   *gpu.Reading   `json:"reading,omitempty"`
	Processes *[]gpu.Process `json:"processes,omitempty"`
	Change    *Change        `json:"change,omitempty"`
}

// log writes a line. A log that cannot be written is no reason to lose the reading, which the caller has too.
func (s *Sampler) log(l line) {
	if s.opts.Log == nil {
		return
	}
	l.Time = time.Now().UTC()
	if l.Reading != nil {
		r := *l.Reading
		r.Time = r.Time.UTC() // which would cost the caller's own the monotonic part that Delta needs
		l.Reading = &r
	}
	data, err := json.Marshal(l)
	if err != nil {
		return
	}
	s.logMu.Lock()
	defer s.logMu.Unlock()
	s.opts.Log.Write(append(data, '\n')) //nolint:errcheck // see above
}
