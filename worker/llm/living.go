package llm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/worker/llm/dialect"
	"cpbench/worker/llm/host"
	"cpbench/worker/llm/preflight"
	"cpbench/worker/llm/scrape"
	"cpbench/worker/llm/server"
	"cpbench/worker/result"
	"cpbench/worker/tree"
)

// living is a server that answers.
type living struct {
	target   string        // key of the target
	asked    string        // model and addresses of metrics that were asked for
	process  *host.Running // nil: it was there already
	seen     *dialect.Server
	metrics  *scrape.Source
	woken    bool // it was sent a request for the sake of its gauges
	looked   bool // the preflight is done
	findings preflight.Findings
	salts    map[string][]string // of warm groups that have filled the cache, by the id of their point
}

// asked are the model and the addresses of metrics that a group asks for.
func asked(sv *plan.Serving) string { return fmt.Sprintf("%q %q", sv.Model, sv.MetricsURLs) }

// is reports whether a group goes to this server.
func (l *living) is(sv *plan.Serving) bool {
	return l.target == sv.Target.Key() && l.asked == asked(sv)
}

// live gives the server of a setting: the one of the last group if it is the same and lives, else another one, after
// that one has been stopped.
func (s *session) live(ctx context.Context, setting plan.Setting) (*living, ending) {
	sv := setting.Serving
	target := sv.Target.Key()
	if end, bad := s.refused[target]; bad {
		return nil, end
	}
	if l := s.living; l != nil && l.is(sv) && (l.process == nil || l.process.Dead() == nil) {
		return l, ending{}
	}
	l := &living{target: target, asked: asked(sv), salts: map[string][]string{}}
	if old := s.living; old != nil && old.target == target && old.process != nil && old.process.Dead() == nil {
		l.process = old.process // another model of the same server
	} else if s.stop(nil); len(sv.Target.Command) > 0 {
		var err error
		if l.process, err = s.host.Start(ctx, setting); err != nil {
			return nil, s.notStarted(target, err)
		}
	}
	s.living = l
	return l, s.meet(ctx, l, sv)
}

// notStarted is the ending of a group whose server could not be started. One that is to blame itself is not tried again.
func (s *session) notStarted(target string, err error) ending {
	s.job.Log.Warn("no server", "error", s.key.Redact(err.Error()))
	if unfit := new(host.Unfit); errors.As(err, &unfit) {
		return ending{unfit.Outcome, unfit.Reason, unfit.Evidence}
	}
	dead := deadEnding(err)
	if dead.outcome == "" {
		return failed("the server could not be started", err)
	}
	s.deaths++
	s.refused[target] = ending{dead.outcome, dead.reason + ", and was not tried again", dead.evidence}
	return dead
}

// deadEnding is the ending that the death of a server is; none if the error tells of no death.
func deadEnding(err error) ending {
	var dead *server.Dead
	if !errors.As(err, &dead) {
		return ending{}
	}
	return ending{catalogue.Error, dead.What, dead.Tail}
}

// stop ends the server that the task has started, if one is there. What was not as it should be is a warning of the
// result, or a line in the log where no result is at hand.
func (s *session) stop(r *result.Result) {
	l := s.living
	if s.living = nil; l == nil || l.process == nil {
		return
	}
	grace := time.Duration(s.spec.Server.StopGrace)
	if s.hurried {
		grace = min(grace, tree.DefaultGrace) // whoever told us to stop does not wait for long
	}
	if doubt := l.process.Stop(grace); doubt != "" && r != nil {
		r.Warn(catalogue.LateKill, doubt, "")
	}
}

// meet finds out what the server is.
func (s *session) meet(ctx context.Context, l *living, sv *plan.Serving) ending {
	address, port := sv.Target.URL, 0
	if l.process != nil {
		port = l.process.Port
		address = sv.Target.Bound(port).URL
	}
	seen, err := dialect.Detect(ctx, dialect.Options{URL: address, Model: sv.Model, Key: s.key})
	if err != nil {
		end := s.explain(l, failed("the server cannot be used: "+dialect.Advice(err), err), nil)
		s.stop(nil)
		return end
	}
	l.seen = seen
	setMetrics(seen, sv, port)
	l.metrics = Source(seen, s.key)
	s.job.Log.Info("server", "kind", seen.Kind, "version", seen.Version, "model", seen.Model.ID, "root", seen.Model.Root)
	return ending{}
}

// Source reads the metrics of a server. The key goes to the server's own host alone.
func Source(seen *dialect.Server, key dialect.Key) *scrape.Source {
	return &scrape.Source{Client: dialect.NewClient(), URLs: seen.MetricsURLs, Redact: key.Redact, Authorize: func(r *http.Request) {
		if u, err := url.Parse(seen.URL); err == nil && u.Host == r.URL.Host {
			key.Authorize(r)
		}
	}}
}

// during ends the context when the server of the task ends: nobody waits for answers of a server that is gone.
func (l *living) during(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	if l.process == nil {
		return ctx, func() { cancel(nil) }
	}
	go func() {
		select {
		case <-l.process.Gone():
			cancel(l.process.Dead())
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// introduce writes down who answers.
func (l *living) introduce(r *result.Result) {
	facts := map[string]string{
		"server": string(l.seen.Kind), "server_version": l.seen.Version, "served_model": l.seen.Model.ID, "served_root": l.seen.Model.Root,
	}
	if n := l.seen.ContextLimit; n != nil {
		facts["served_limit_tokens"] = strconv.Itoa(*n)
	}
	maps.DeleteFunc(facts, func(_, v string) bool { return v == "" })
	maps.Copy(r.Provenance, facts)
}

// trial is the preflight with the settings of the sweep.
func trial(w plan.Workload, seen *dialect.Server, metrics *scrape.Source, isWarm bool) preflight.Trial {
	return preflight.Trial{
		Server: seen, Metrics: metrics, Template: template(w), Sampling: w.Sampling, Priority: w.Priority, Timeouts: timeouts(w),
		Thinks: w.Thinking != nil && *w.Thinking || w.ReasoningEffort != "" && w.ReasoningEffort != "none", Warm: isWarm,
		FrameUsage: w.FrameUsage,
	}
}
