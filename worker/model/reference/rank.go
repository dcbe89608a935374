package reference

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync/atomic"
	"time"

	"cpbench/plan/catalogue"
	"cpbench/worker/model/protocol"
	"cpbench/worker/model/reference/peer"
	"cpbench/worker/model/reference/tile"
	"cpbench/worker/model/reference/triangle"
)

const (
	// version is that of the computation: its times and memory compare only within one.
	version = "1"
	dtype   = "fp32"
)

// rank is the state of the program.
type rank struct {
	opts     options
	stderr   io.Writer
	conn     *protocol.Conn
	listener *peer.Listener // nil with one rank, and after start
	mem      *tile.Memory
	model    *triangle.Model // nil before start
	train    bool
	where    string // build, prepare or step: for messages
	tokens   int64  // of the point, 0 before
	poisoned bool   // by the fault nan
	pulse    pulse
	stopping atomic.Bool // stop has been received
}

// failure is an error that the worker is to put into a class of the catalogue.
type failure struct {
	class catalogue.Outcome
	error
}

// Unwrap returns the error without its class.
func (f failure) Unwrap() error { return f.error }

// quit is the error of the fault exit: end with this code and say nothing.
type quit int

// Error is never printed.
func (q quit) Error() string { return fmt.Sprintf("exit with %d", int(q)) }

// work answers one message after the other and returns the exit code.
func (r *rank) work(ctx context.Context, inbox <-chan protocol.Message, say func(error)) int {
	for {
		var m protocol.Message
		select {
		case <-ctx.Done():
			return exitInterrupted
		case m = <-inbox:
		}
		if _, ok := m.(*protocol.Stop); ok {
			return exitDone
		}
		if err := r.answer(ctx, m); err != nil {
			return r.report(ctx, err, say)
		}
	}
}

// report tells worker and log how the rank fails, and returns the exit code.
func (r *rank) report(ctx context.Context, err error, say func(error)) int {
	var code quit
	if errors.As(err, &code) {
		return int(code)
	}
	var gone *peer.Gone
	if errors.As(err, &gone) && r.opts.faults.has(oomRank) {
		<-ctx.Done() // as in a collective library, where nobody notices
		return exitInterrupted
	}
	say(err)
	var oom *tile.OutOfMemory
	var f failure
	var m protocol.Message
	switch {
	case errors.As(err, &oom):
		m = protocol.OOM{Text: err.Error(), Where: r.where}
	case errors.As(err, &f):
		m = protocol.Error{Class: string(f.class), Text: err.Error()}
	default:
		m = protocol.Error{Text: err.Error()}
	}
	if err := r.conn.Send(m); err != nil {
		say(err)
	}
	return exitFailed
}

// answer does what one message asks.
func (r *rank) answer(ctx context.Context, m protocol.Message) error {
	switch m := m.(type) {
	case *protocol.Start:
		return r.start(ctx, m)
	case *protocol.Point:
		return r.prepare(ctx, m)
	case *protocol.Step:
		return r.step(ctx, m)
	case *protocol.ResetPeak:
		r.mem.Reset()
		return nil
	}
	return fmt.Errorf("message %s is not for a rank", m.Type())
}

// start meets the other ranks and makes the model.
func (r *rank) start(ctx context.Context, m *protocol.Start) error {
	r.enter("build")
	if r.model != nil {
		return errors.New("start was sent twice")
	}
	every := aliveEvery
	if m.AliveSeconds > 0 {
		every = min(every, time.Duration(m.AliveSeconds*float64(time.Second)))
	}
	go r.pulse.beat(ctx, max(every, time.Millisecond))
	switch m.DType {
	case "", dtype, "float32":
	default:
		return fmt.Errorf("dtype %q: the reference model computes in %s: remove workload.dtype or say so", m.DType, dtype)
	}
	switch m.Mode {
	case "inference", "training":
		r.train = m.Mode == "training"
	default:
		return fmt.Errorf("mode %q: want inference or training", m.Mode)
	}
	var peers *peer.Peers
	if r.listener != nil {
		var err error
		if peers, err = r.listener.Meet(ctx); err != nil {
			return err
		}
	}
	cfg := triangle.Config{Topology: m.Topology, Channels: r.opts.channels, Train: r.train}
	model, err := triangle.New(cfg, r.mem, peers, r.pulse.at)
	if errors.Is(err, triangle.ErrMesh) {
		return failure{catalogue.Skipped, err}
	}
	if err != nil {
		return err
	}
	if err := r.suffer(ctx, atBuild, true); err != nil {
		return err
	}
	r.model = model
	return r.conn.Send(protocol.Ready{})
}

// prepare builds the input of a point.
func (r *rank) prepare(ctx context.Context, m *protocol.Point) error {
	r.enter("prepare")
	if r.model == nil {
		return errors.New("point was sent before start")
	}
	if data := m.Params["data"]; data != nil && data != "" {
		return errors.New("the reference model synthesizes its input: remove point.data")
	}
	var sizes [3]*int64
	for i, name := range []string{"tokens", "atoms", "msa"} {
		var err error
		if sizes[i], err = whole(m.Params, name); err != nil {
			return err
		}
	}
	tokens := sizes[0]
	if tokens == nil || *tokens < 1 {
		return errors.New("point.tokens: want a size of at least 1")
	}
	if *tokens > triangle.MaxTokens {
		return failure{catalogue.TooBig, fmt.Errorf("point.tokens: %d is above %d, the most this program computes", *tokens, triangle.MaxTokens)}
	}
	r.tokens = *tokens
	if err := r.suffer(ctx, atPrepare, true); err != nil {
		return err
	}
	start := time.Now()
	n, err := r.model.Prepare(int(*tokens))
	if err != nil {
		return err
	}
	padded := int64(n)
	return r.conn.Send(protocol.Prepared{
		Tokens: tokens, PaddedTokens: &padded, Atoms: sizes[1], MSA: sizes[2], Seconds: time.Since(start).Seconds(),
	})
}

// whole returns a whole number of the parameters, nil where it is absent.
func whole(params map[string]any, name string) (*int64, error) {
	v, ok := params[name]
	if !ok || v == nil {
		return nil, nil
	}
	f, ok := v.(float64)
	if !ok || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return nil, fmt.Errorf("point.%s: want a whole number, not %v", name, v)
	}
	n := int64(f)
	return &n, nil
}

// step runs the steps of one request and reports on them.
func (r *rank) step(ctx context.Context, m *protocol.Step) error {
	r.enter("step")
	if r.model == nil || r.tokens == 0 {
		return errors.New("step was sent before point")
	}
	if m.Count < 1 {
		return fmt.Errorf("step count %d: want at least 1", m.Count)
	}
	steps := protocol.Steps{}
	var waited time.Duration
	defer r.pulse.done.Store(-1)
	for i := range m.Count {
		r.pulse.done.Store(int64(i))
		r.pulse.at("barrier")
		if err := r.model.Barrier(); err != nil {
			return err
		}
		r.pulse.at("step")
		start := time.Now()
		if err := r.suffer(ctx, m.Phase, i == 0); err != nil {
			return err
		}
		w, err := r.model.Step()
		if err != nil {
			return err
		}
		steps.Seconds = append(steps.Seconds, time.Since(start).Seconds())
		waited += w
	}
	r.pulse.done.Store(-1) // before the answer: a later sign would speak of the next request
	if r.poisoned {
		r.model.Output()[0], r.poisoned = float32(math.NaN()), false
	}
	check := r.model.Check()
	steps.Finite = &check.Finite
	figures := []protocol.Figure{{Name: "exchange_seconds", Value: waited.Seconds() / float64(m.Count), Unit: "seconds"}}
	if check.Finite {
		figures = append(figures, protocol.Figure{Name: "checksum", Value: check.Output, Unit: "1"})
		if r.train {
			figures = append(figures, protocol.Figure{Name: "gradient_checksum", Value: check.Gradient, Unit: "1"})
		}
	}
	cold, warm := r.mem.Peaks()
	for _, m := range []protocol.Message{
		protocol.Metrics{Metrics: figures},
		protocol.Memory{Cold: protocol.Peak{Allocated: &cold}, Warm: protocol.Peak{Allocated: &warm}},
		steps,
	} {
		if err := r.conn.Send(m); err != nil {
			return err
		}
	}
	return nil
}

// enter notes which part of the work begins.
func (r *rank) enter(part string) {
	r.where = part
	r.pulse.at(part)
}
