// Package llm is the workload `kind: llm`: it sends groups of chat requests to an LLM server, one that is there or one
// that the task starts, and leaves for each group what it measured and whether that may be believed.
//
// Every stream is a line of requests.jsonl in the task's log folder, every group another one; the result has the sums.
package llm

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/worker"
	"cpbench/worker/llm/dialect"
	"cpbench/worker/llm/host"
	"cpbench/worker/llm/prompt"
	"cpbench/worker/result"
)

// Open is the worker.Workload of this package. It reads the API key and starts nothing: a server is started when the
// first group that wants it comes.
func Open(ctx context.Context, job worker.Job) (worker.Session, error) {
	s := &session{job: job, spec: job.Run.Plan.Spec.Workload, sources: map[string]*prompt.Source{}, refused: map[string]ending{}}
	var err error
	switch w := s.spec; {
	case w.APIKeyEnv != "":
		s.key, err = dialect.KeyFromEnv(w.APIKeyEnv)
	case w.APIKeyFile != "":
		s.key, err = dialect.KeyFromFile(s.path(w.APIKeyFile))
	}
	if err != nil {
		return nil, err
	}
	if s.log, err = openRecords(job.LogDir, s.spec.KeepText); err != nil {
		return nil, err
	}
	if len(s.spec.Server.Command) > 0 {
		if s.host, err = host.Open(ctx, job); err != nil {
			return nil, errors.Join(err, s.log.Close())
		}
	}
	if s.hosts, err = watchHosts(s.spec, s.log.lines.Name(), job.Log); err != nil {
		if s.host != nil {
			s.host.Close()
		}
		return nil, errors.Join(err, s.log.Close())
	}
	return s, nil
}

type session struct {
	job     worker.Job
	spec    plan.Workload
	key     dialect.Key
	log     *records
	sources map[string]*prompt.Source // by their name in the spec
	host    *host.Host                // of the servers that this task starts; nil: they are there already
	hosts   *hosts                    // that are read meanwhile; nil: none
	living  *living                   // the server of the last group; nil: none
	refused map[string]ending         // servers that could not be started, by the key of their target
	deaths  int                       // of servers, so far
	hurried bool                      // the task was told to stop: no long grace any more
}

// path is a path of the spec, which is relative to the spec.
func (s *session) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(s.job.Run.Plan.Dir, name)
}

// ending is how a group ended. Without an outcome it went well.
type ending struct {
	outcome          catalogue.Outcome
	reason, evidence string
}

func failed(reason string, err error) ending {
	return ending{catalogue.Error, reason, err.Error()}
}

// Run carries out one group. There are no samples: the streams are in requests.jsonl.
func (s *session) Run(ctx context.Context, pair plan.Pair, r *result.Result) []result.Sample {
	deaths := s.deaths
	end := s.run(ctx, pair, r)
	if s.deaths > deaths {
		soon(ctx, lateGrace) // what ends a server may be meant for the whole task, and reaches both at the same moment
	}
	if ctx.Err() != nil {
		s.hurried = true
		if end.outcome != "" {
			end = ending{catalogue.Cancelled, context.Cause(ctx).Error(), ""}
		}
	}
	if end.outcome == "" {
		end.outcome = catalogue.OK
	}
	r.Outcome, r.Reason, r.Evidence = end.outcome, s.key.Redact(end.reason), s.key.Redact(end.evidence)
	return nil
}

// run goes through the steps of a group.
func (s *session) run(ctx context.Context, pair plan.Pair, r *result.Result) ending {
	setting, err := s.job.Run.Plan.At(pair.Point, 0)
	if err != nil {
		return failed("the point cannot be evaluated", err)
	}
	server, end := s.live(ctx, setting)
	s.enter(r, setting)
	if end.outcome != "" {
		return end
	}
	server.introduce(r)
	ctx, release := server.during(ctx)
	defer release()
	if end := server.examine(ctx, s, r); end.outcome != "" {
		return s.explain(server, end, r)
	}
	load, end := s.prepare(ctx, server, pair, setting, r)
	if end.outcome != "" {
		return s.explain(server, end, r)
	}
	return s.explain(server, s.measure(ctx, server, load, pair, setting, r), r)
}

// lateGrace is how long a failure waits for the end of the server that may explain it: its connections break a moment
// before its process has ended.
const lateGrace = time.Second

// soon waits for the end of ctx, for at most the grace.
func soon(ctx context.Context, grace time.Duration) {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// explain replaces a failure by the death of the server, if that is what it was. The next group gets another one.
func (s *session) explain(l *living, end ending, r *result.Result) ending {
	if l.process == nil || end.outcome == "" || end.outcome == catalogue.Skipped {
		return end
	}
	timer := time.NewTimer(lateGrace)
	defer timer.Stop()
	select {
	case <-l.process.Gone():
	case <-timer.C:
		return end
	}
	s.deaths++
	dead := deadEnding(l.process.Dead())
	dead.reason += " during the group"
	s.stop(r)
	return dead
}

// Close ends the readings of hosts, the server that this task has started, and the files.
func (s *session) Close() error {
	errs := []error{s.hosts.Close()} // with the server still there, whose processes it reads
	s.stop(nil)
	if s.host != nil {
		s.host.Close()
	}
	for _, src := range s.sources {
		errs = append(errs, src.Close())
	}
	return errors.Join(append(errs, s.log.Close())...)
}
