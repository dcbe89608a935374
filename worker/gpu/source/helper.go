package source

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"cpbench/worker/gpu"
)

// farewell is how long a helper has to end after its input has, and again after it was killed.
const farewell = time.Second

// helper is the source NVML: a living process of cpbench-nvml.
type helper struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	stderr tail
	gone   chan struct{} // closed when the process has been waited for
	why    error         // how it ended; to be read after gone

	mu      sync.Mutex
	last    int // id of the last request
	pending map[int]chan gpu.Answer
	garbage error // the last line that made no sense

	takeMu sync.Mutex // held while take is called
	take   func(gpu.Reading)
}

// startHelper starts the helper.
func startHelper(opts Options) (backend, error) {
	if opts.Helper == "" {
		return nil, errors.New("there is no helper cpbench-nvml")
	}
	var args []string
	if opts.Library != "" {
		args = []string{"-library", opts.Library}
	}
	h := &helper{cmd: exec.Command(opts.Helper, args...), gone: make(chan struct{}), pending: map[int]chan gpu.Answer{}}
	h.cmd.Env = childEnv(os.Environ())
	h.cmd.Stderr = &h.stderr
	h.cmd.WaitDelay = farewell
	var err error
	if h.in, err = h.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	wait, err := opts.Start(h.cmd)
	if err != nil {
		return nil, err
	}
	go h.listen(out, wait)
	return h, nil
}

// childEnv is the environment without what kills or changes a child: with LD_BIND_NOW a program that links NVML
// lazily does not even start, and a library that is preloaded for the benchmark is not meant for the instrument.
func childEnv(env []string) []string {
	clean := make([]string, 0, len(env)+1)
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		if name != "LD_BIND_NOW" && name != "LD_PRELOAD" && name != "LC_ALL" {
			clean = append(clean, e)
		}
	}
	return append(clean, "LC_ALL=C") // numbers with points
}

func (h *helper) source() gpu.Source { return gpu.NVML }

// listen takes the helper's lines until it ends.
func (h *helper) listen(out io.Reader, wait func() error) {
	scanner := bufio.NewScanner(out)
	scanner.Buffer(nil, maxLine)
	for scanner.Scan() {
		h.hear(scanner.Bytes())
	}
	if scanner.Err() != nil {
		h.kill() // it talks, but not to us
	}
	h.why = ended(wait(), scanner.Err(), h.stderr.String())
	close(h.gone)
}

// hear takes one line. Nonsense is kept as a reason and passed over, as a driver may print what it likes.
func (h *helper) hear(text []byte) {
	a, err := decodeAnswer(text)
	if err != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.garbage = err
		return
	}
	if a.Sample {
		h.takeMu.Lock()
		defer h.takeMu.Unlock()
		if h.take != nil {
			h.take(*stamp(a.Reading, time.Now()))
		}
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if to := h.pending[a.ID]; to != nil { // else nobody waits for it any more
		delete(h.pending, a.ID)
		to <- a
	}
}

// stamp gives a reading the time of the middle of its taking, on this process's clock.
func stamp(r *gpu.Reading, end time.Time) *gpu.Reading {
	r.Source = gpu.NVML
	r.Time = end.Add(-time.Duration(r.Seconds / 2 * float64(time.Second)))
	return r
}

// ended says how the helper ended.
func ended(exit, read error, stderr string) error {
	text := "the helper ended"
	var status *exec.ExitError
	switch {
	case errors.As(exit, &status) && status.ExitCode() == 127:
		text = "the helper ended: exit status 127, a function that its library lacks"
	case exit != nil:
		text += ": " + exit.Error()
	}
	if read != nil {
		text += ": " + read.Error()
	}
	if stderr != "" {
		text += ": " + stderr
	}
	return errors.New(text)
}

// request sends a request and waits for its answer.
func (h *helper) request(ctx context.Context, r gpu.Request) (gpu.Answer, error) {
	to := make(chan gpu.Answer, 1)
	h.mu.Lock()
	h.last++
	r.ID = h.last
	h.pending[r.ID] = to
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.pending, r.ID)
	}()
	text, err := json.Marshal(r)
	if err != nil {
		return gpu.Answer{}, err
	}
	_, writeErr := h.in.Write(append(text, '\n'))
	if writeErr != nil {
		h.in.Close() // should it live, it ends now
	}
	select {
	case a := <-to:
		if a.Error != "" {
			return a, refusal{a.Error}
		}
		return a, nil
	case <-h.gone:
		return gpu.Answer{}, h.why
	case <-ctx.Done():
		h.mu.Lock()
		defer h.mu.Unlock()
		return gpu.Answer{}, errors.Join(fmt.Errorf("%s: %w", r.Cmd, context.Cause(ctx)), writeErr, h.garbage)
	}
}

func (h *helper) identify(ctx context.Context) ([]gpu.Device, error) {
	a, err := h.request(ctx, gpu.Request{Cmd: gpu.CmdIdentify})
	return a.Devices, err
}

func (h *helper) read(ctx context.Context) (gpu.Reading, error) {
	a, err := h.request(ctx, gpu.Request{Cmd: gpu.CmdRead})
	if err != nil {
		return gpu.Reading{}, err
	}
	if a.Reading == nil {
		return gpu.Reading{}, errors.New("the helper answered without a reading")
	}
	return *stamp(a.Reading, time.Now()), nil
}

func (h *helper) processes(ctx context.Context) ([]gpu.Process, error) {
	a, err := h.request(ctx, gpu.Request{Cmd: gpu.CmdProcesses})
	return a.Processes, err
}

func (h *helper) watch(ctx context.Context, pace gpu.Pace, take func(gpu.Reading)) (func(context.Context) error, error) {
	h.takeMu.Lock()
	h.take = take
	h.takeMu.Unlock()
	kind, hz := helperPace(pace)
	if _, err := h.request(ctx, gpu.Request{Cmd: gpu.CmdSample, HZ: hz, Kind: kind}); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		_, err := h.request(ctx, gpu.Request{Cmd: gpu.CmdStop})
		h.takeMu.Lock()
		defer h.takeMu.Unlock()
		h.take = nil
		return err
	}, nil
}

// close ends the helper: kindly, then by force. A process that hangs in the kernel outlives that and is left.
func (h *helper) close() {
	h.in.Close()
	timer := time.NewTimer(farewell)
	defer timer.Stop()
	select {
	case <-h.gone:
		return
	case <-timer.C:
	}
	h.kill()
	timer.Reset(farewell)
	select {
	case <-h.gone:
	case <-timer.C:
	}
}

// kill ends the helper's process, if it is still there.
func (h *helper) kill() { h.cmd.Process.Kill() } //nolint:errcheck // that it has ended already is the only error

// tail keeps the first and the last bytes that are written to it: a crash begins with its cause and ends with
// registers, while a driver that is talkative ends with it.
type tail struct {
	mu          sync.Mutex
	first, last []byte
	cut         bool // something between them is lost
}

// headSize and tailSize are how much of a child's output is worth keeping.
const (
	headSize = 200
	tailSize = 300
)

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(p)
	room := min(headSize-len(t.first), n)
	t.first = append(t.first, p[:room]...)
	t.last = append(t.last, p[room:]...)
	if over := len(t.last) - tailSize; over > 0 {
		t.last, t.cut = append([]byte(nil), t.last[over:]...), true
	}
	return n, nil
}

// String is the kept text on one line.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := string(t.first)
	if t.cut {
		text += " ... "
	}
	return strings.Join(strings.Fields(strings.ToValidUTF8(text+string(t.last), "?")), " ")
}
