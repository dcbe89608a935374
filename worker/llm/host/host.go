// Package host is where a task runs the servers that it starts by itself: in the container of the spec if there is one,
// on GPUs that nobody else uses, one server at a time, until nothing of it is left on any node. Use one Host for a task,
// Start for each server, and During around what is timed on it.
package host

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"cpbench/plan"
	"cpbench/worker"
	"cpbench/worker/container"
	"cpbench/worker/gpu"
	"cpbench/worker/inside"
	"cpbench/worker/llm/server"
	"cpbench/worker/node"
	"cpbench/worker/result"
	"cpbench/worker/telemetry"
	"cpbench/worker/tree"
)

// Host runs the servers of one task.
type Host struct {
	job    worker.Job
	box    container.Box
	nodes  *node.Fleet
	gpus   *telemetry.Telemetry
	mark   string // in the environment of every process of a server, on whichever node
	starts int    // so far, for the names of the logs
}

// Open makes this process the reaper of everything that the servers will start, and looks for a source of readings of
// the GPUs. It fails if the container cannot be started on this node. Close has to be called.
func Open(ctx context.Context, job worker.Job) (*Host, error) {
	h := &Host{job: job, box: container.Of(job.Run), mark: newMark()}
	if err := h.box.Check(); err != nil {
		return nil, err
	}
	if err := tree.Adopt(); err != nil {
		return nil, err
	}
	h.nodes = node.ForJob(job)
	h.gpus = telemetry.Open(ctx, h.nodes, h.shape().GPUsPerNode, job.Log)
	return h, nil
}

// newMark is an entry of an environment by which processes are known on every node, as the ranks of a model are.
func newMark() string {
	secret := make([]byte, 16)
	rand.Read(secret) // crypto/rand never fails
	return "CPBENCH_TOKEN=" + hex.EncodeToString(secret)
}

func (h *Host) shape() plan.Shape { return h.job.Run.Plan.Arrays[h.job.Task.Array].Shape }

// Close ends the readings and the agents on other nodes. A server has to be stopped before.
func (h *Host) Close() { h.nodes.Close() }

// Running is a server that has answered.
type Running struct {
	*server.Server
	inside map[string]string // what arrived in the container, as facts of a result
	host   *Host
	nodes  int           // that it may use, this one first
	before time.Duration // how long the work before took, which is what is expected of the next one
}

// Unfit is the error of GPUs on which nothing must be started now. Another attempt may find them free.
type Unfit struct{ telemetry.Problem }

func (u *Unfit) Error() string { return u.Reason }

// Start starts the server of a setting and returns when it is ready. The error is an *Unfit if the GPUs are not free, a
// *server.Dead if server or container are to blame, or the cause of ctx; nothing of the server is left then. No other
// server of the host may live.
func (h *Host) Start(ctx context.Context, setting plan.Setting) (*Running, error) {
	r := &Running{host: h, nodes: setting.Resources.Nodes}
	if p := h.gpus.Ready(ctx, r.nodes, 0); p != nil { // how many GPUs a server uses is its own affair
		return nil, &Unfit{*p}
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	h.nodes.Begin(ctx, r.nodes, h.mark)
	if err := h.look(ctx, setting, r); err != nil {
		h.cleanUp(r.nodes)
		return nil, err
	}
	h.starts++
	w := h.job.Run.Plan.Spec.Workload
	log := filepath.Join(h.job.LogDir, "server-"+strconv.Itoa(h.starts)+".log")
	h.job.Log.Info("server starts", "target", setting.Serving.Target.Key(), "log", filepath.Base(log))
	var err error
	r.Server, err = server.Start(ctx, server.Options{
		On: func(port int) server.Program {
			t := setting.Serving.Target.Bound(port)
			argv, env := h.program(t.Command, t.Env, setting)
			return server.Program{Command: argv, Env: env, Ready: t.Ready}
		},
		Dir: h.dir(), Log: log, Limit: time.Duration(w.Server.ReadyTimeout),
	})
	if err != nil {
		h.cleanUp(r.nodes)
		return nil, err
	}
	h.job.Log.Info("server ready", "port", r.Port, "seconds", r.Took.Seconds())
	return r, nil
}

// dir is the folder in which servers start.
func (h *Host) dir() string {
	p := h.job.Run.Plan
	switch w := p.Spec.Workload.Workdir; {
	case w == "":
		return p.Dir
	case filepath.IsAbs(w):
		return w
	default:
		return filepath.Join(p.Dir, w)
	}
}

// program is argv as it is started, in the container of the spec if there is one.
func (h *Host) program(argv []string, own map[string]string, setting plan.Setting) (wrapped, environ []string) {
	setting.Env = own
	env := append(worker.OutsideStep(h.job.Environ(setting)), h.mark)
	return h.box.Alone(argv, env, h.dir(), setting.Resources.GPUsPerNode > 0, h.shape().CPUsPerTask, h.job.Hosts)
}

// look asks the container which values of the variables arrive in it: a server does not tell.
func (h *Host) look(ctx context.Context, setting plan.Setting, r *Running) error {
	if h.box.None() {
		return nil
	}
	limit := time.Duration(h.job.Run.Plan.Spec.Workload.Server.ReadyTimeout)
	limited, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it was not there after %v", limit))
	defer cancel()
	swept := setting.Serving.Target.Fixed()
	argv, env := h.program([]string{"env"}, swept, setting)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = h.dir(), env
	var err error
	if r.inside, err = inside.Look(limited, cmd, swept); err != nil && ctx.Err() == nil {
		return &server.Dead{What: "the container could not be started", Tail: err.Error()}
	}
	return err
}

// cleanUp ends what job steps of a server have left.
func (h *Host) cleanUp(nodes int) { h.nodes.CleanUp(context.Background(), nodes, h.mark) }

// Stop ends the server with everything that it has started: TERM, and KILL after the grace. It returns what was not as it
// should be; empty if all was well.
func (r *Running) Stop(grace time.Duration) (doubt string) {
	report, err := r.Server.Stop(grace)
	switch {
	case err != nil:
		doubt = err.Error()
	case report.Killed > 0:
		doubt = fmt.Sprintf("%d processes of the server ignored TERM and had to be killed", report.Killed)
	}
	r.host.job.Log.Info("server stopped", "told", report.Told, "killed", report.Killed, "seconds", report.Duration.Seconds(), "doubt", doubt)
	r.host.cleanUp(r.nodes)
	return doubt
}

// Enter writes what is known of the GPUs of the first nodes of the task into a result, and what arrived in the container
// if a server runs.
func (h *Host) Enter(res *result.Result, nodes int, r *Running) {
	h.gpus.Enter(res, nodes)
	if r == nil {
		return
	}
	for name, value := range r.inside {
		res.Provenance[name] = value
	}
}

// During carries out work on the server and tells what happened to the GPUs meanwhile: readings before and after, and at
// most one a second in between. Memory counts from before the start of the server.
func (r *Running) During(ctx context.Context, work func()) telemetry.Span {
	w := telemetry.Work{Nodes: r.nodes, Pace: gpu.Timed}
	if r.before > telemetry.WatchFrom {
		w.Expected = r.before
	}
	return r.host.gpus.During(ctx, w, func() {
		began := time.Now()
		work()
		r.before = time.Since(began)
	})
}
