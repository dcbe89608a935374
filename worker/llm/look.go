package llm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"cpbench/plan"
	"cpbench/plan/folder"
	"cpbench/worker"
	"cpbench/worker/llm/dialect"
	"cpbench/worker/llm/host"
	"cpbench/worker/llm/preflight"
	"cpbench/worker/llm/server"
	"cpbench/worker/llm/telemetry"
)

// Looked is what a preflight has found at one server of a sweep, or at one host that is read while it is measured.
type Looked struct {
	Target   string             `json:"target"`
	Server   *dialect.Server    `json:"server"` // null: it does not answer, or was not started
	Findings preflight.Findings `json:"findings"`
	Sample   *telemetry.Sample  `json:"sample,omitempty"` // of a host, or of further metrics, in place of a server
}

// Wish says how far a preflight goes.
type Wish struct {
	// Try generates a few tokens on each server; without, nothing is generated and nothing is tokenized.
	Try bool
	// Start is a run of the sweep in a place of its own, which takes the logs of servers that are started for a look and
	// ended after it. Nil: those with a command are not looked at.
	Start *folder.Run
}

// Preflight looks at every server of a sweep, and takes a sample of every host. An error is one of the sweep; what is wrong with a server is a finding.
func Preflight(ctx context.Context, p *plan.Plan, wish Wish) ([]Looked, error) {
	e := &examiner{wish: wish, spec: p.Spec.Workload}
	defer e.close()
	frozen := p
	if wish.Start != nil {
		frozen = wish.Start.Plan // whose commands name frozen files
	}
	var err error
	if e.spec.APIKeyEnv != "" {
		if e.key, err = dialect.KeyFromEnv(e.spec.APIKeyEnv); err != nil {
			return nil, err
		}
	}
	servers, err := surveys(p, frozen)
	if err != nil {
		return nil, err
	}
	var all []Looked
	for _, v := range servers {
		if f := v.setting.Serving.APIKeyFile; f != "" && e.spec.APIKeyEnv == "" {
			if e.key, err = dialect.KeyFromFile(f); err != nil {
				return nil, err
			}
		}
		out := e.look(ctx, v)
		for i := range out.Findings {
			out.Findings[i].Text = e.key.Redact(cmp.Or(out.Findings[i].Text, "nothing"))
		}
		all = append(all, out)
	}
	sampled, err := lookAtHosts(ctx, e.spec)
	if err != nil {
		return nil, err
	}
	return append(all, sampled...), ctx.Err()
}

// surveys are the servers of a sweep, each once, in the order of its tasks, as another plan of it evaluates them.
func surveys(p, at *plan.Plan) ([]*survey, error) {
	var pairs []plan.Pair
	for i := range p.Arrays {
		for _, task := range p.Arrays[i].Tasks {
			pairs = append(pairs, task.Pairs...)
		}
	}
	seen := map[string]*survey{}
	var order []*survey
	for _, pair := range pairs {
		setting, err := at.At(pair.Point, 0)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.PointName(pair.Point), err)
		}
		id := setting.Serving.Target.Key() + asked(setting.Serving)
		if seen[id] == nil {
			seen[id] = &survey{setting: setting}
			order = append(order, seen[id])
		}
		seen[id].add(setting.Serving.Group)
	}
	return order, nil
}

// survey is one server and what the sweep asks of it.
type survey struct {
	setting plan.Setting // of its first group
	largest int
	warm    bool
}

func (v *survey) add(g plan.Group) {
	v.largest, v.warm = max(v.largest, g.Ctx), v.warm || g.Cache == warm
	if g.Mixed != nil {
		v.largest = max(v.largest, g.Mixed.ShortCtx)
	}
}

// examiner looks at the servers of a sweep, one after the other.
type examiner struct {
	wish Wish
	spec plan.Workload
	key  dialect.Key
	host *host.Host // of servers that are started; nil: none was
}

func (e *examiner) close() {
	if e.host != nil {
		e.host.Close()
	}
}

// look looks at one server.
func (e *examiner) look(ctx context.Context, v *survey) Looked {
	target := v.setting.Serving.Target
	if len(target.Command) == 0 {
		return e.examine(ctx, v, target.URL, 0)
	}
	out := Looked{Target: filepath.Base(target.Command[0])}
	if e.wish.Start == nil {
		out.Findings = preflight.Findings{{
			Check: preflight.Models, Grade: preflight.OK,
			Text:   "the tasks start this server, and look at it before their first group; whether it starts, what it serves and what it supports is not known until then",
			Advice: "--start starts it here, as a task would, and ends it after the look",
		}}
		return out
	}
	running, found := e.start(ctx, v.setting)
	if running != nil {
		seen := e.examine(ctx, v, target.Bound(running.Port).URL, running.Port)
		out.Server, found = seen.Server, append(found, seen.Findings...)
		if doubt := running.Stop(time.Duration(e.spec.Server.StopGrace)); doubt != "" {
			found = append(found, preflight.Finding{Check: preflight.Start, Grade: preflight.Warn, Text: doubt})
		}
	}
	out.Findings = found
	return out
}

// start starts a server as a task would, but for the set-up lines, which are those of a script.
func (e *examiner) start(ctx context.Context, setting plan.Setting) (*host.Running, preflight.Findings) {
	var found preflight.Findings
	if n := len(e.wish.Start.Plan.Spec.Setup); n > 0 {
		found = append(found, preflight.Finding{
			Check: preflight.Start, Grade: preflight.Warn, Text: "setup: its lines are not run for this look", Advice: "run them in this shell before",
		})
	}
	running, err := e.begin(ctx, setting)
	if err == nil {
		return running, append(found, preflight.Finding{Check: preflight.Start, Grade: preflight.OK, Text: fmt.Sprintf("it was ready after %.1f s", running.Took.Seconds())})
	}
	text := err.Error()
	if dead := new(server.Dead); errors.As(err, &dead) && dead.Tail != "" {
		text += "; the end of its log:\n" + dead.Tail
	}
	return nil, append(found, preflight.Finding{Check: preflight.Start, Grade: preflight.Bad, Text: text, Advice: "every task would meet the same"})
}

func (e *examiner) begin(ctx context.Context, setting plan.Setting) (*host.Running, error) {
	run := e.wish.Start
	if e.host == nil {
		task, err := run.Task(0, 0)
		if err != nil {
			return nil, err
		}
		job := worker.Job{Run: run, Task: task, LogDir: run.LogsDir(), Log: slog.New(slog.DiscardHandler)}
		if e.host, err = host.Open(ctx, job); err != nil {
			return nil, err
		}
	}
	return e.host.Start(ctx, setting)
}

// examine looks at a server that answers at an address. port is that of a server that was started; 0: none.
func (e *examiner) examine(ctx context.Context, v *survey, address string, port int) Looked {
	sv, w := v.setting.Serving, e.spec
	out := Looked{Target: address}
	found, err := dialect.Detect(ctx, dialect.Options{URL: address, Model: sv.Model, Key: e.key})
	if err != nil {
		out.Findings = preflight.Findings{{
			Check: preflight.Models, Grade: preflight.Bad, Text: err.Error(), Advice: dialect.Advice(err),
		}}
		return out
	}
	setMetrics(found, sv, port)
	var own *int
	if w.MaxModelLen > 0 {
		own = &w.MaxModelLen
	}
	metrics := Source(found, e.key)
	reserve := w.MaxTokens
	if v.largest == 0 && reserve == 1 {
		reserve = 0 // what a look fills in: nothing is asked for
	}
	out.Server, out.Findings = found, preflight.Look(ctx, found, metrics, v.largest, reserve, own)
	if e.wish.Try {
		out.Findings = append(out.Findings, preflight.Try(ctx, trial(w, found, metrics, v.warm))...)
	}
	return out
}

// setMetrics puts the addresses of the spec, if it has some, in place of the server's own.
func setMetrics(seen *dialect.Server, sv *plan.Serving, port int) {
	if len(sv.MetricsURLs) == 0 {
		return
	}
	seen.MetricsURLs = nil
	for _, u := range sv.MetricsURLs {
		seen.MetricsURLs = append(seen.MetricsURLs, plan.AtPort(u, port))
	}
}
