package llm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/worker/llm/account"
	"cpbench/worker/llm/group"
	"cpbench/worker/llm/health"
	"cpbench/worker/llm/preflight"
	"cpbench/worker/llm/prompt"
	"cpbench/worker/llm/server"
	"cpbench/worker/result"
	"cpbench/worker/telemetry"
)

// measure carries out the group, writes its records and fills the result.
func (s *session) measure(ctx context.Context, l *living, load group.Load, pair plan.Pair, setting plan.Setting, r *result.Result) ending {
	var gpus telemetry.Span
	if l.process != nil {
		load.During = func(send func()) { gpus = l.process.During(ctx, send) }
	}
	rep, err := group.Run(ctx, load)
	end := judge(rep, err)
	if end.outcome == "" && setting.Serving.Group.Cache == warm {
		l.salts[pair.ID] = saltsOf(rep.Lines) // what the later repeats will find
	}
	fill(r, rep, setting)
	setGoodput(r, s.spec, rep)
	energy(r, gpus)
	samples := s.hosts.over(ctx, rep)
	s.hosts.into(r, samples)
	if bad := s.log.group(s.spec, l, pair.Start, rep, samples, r, end); bad != nil && end.outcome == "" {
		end = ending{catalogue.Infra, "the records could not be written", bad.Error()}
	}
	return end
}

// saltsOf are the salts of the streams, in their order.
func saltsOf(lines []group.Line) []string {
	salts := make([]string, len(lines))
	for i, line := range lines {
		salts[i] = line.Request.Salt
	}
	return salts
}

// judge is how a group ended. A failed stream fails it, because the load of the others was lighter; a reason why the
// numbers must not be used makes it invalid.
func judge(rep *group.Report, err error) ending {
	var dead *server.Dead
	g := rep.Group
	switch {
	case errors.As(err, &dead):
		return deadEnding(err)
	case err != nil:
		return failed("the group could not be carried out", err)
	case len(rep.Lines) > 0 && !g.Valid:
		reason, text := firstFailure(rep.Lines)
		return ending{catalogue.Error, fmt.Sprintf("%d of %d streams failed: %s", g.Failed+g.Truncated, g.Streams, reason), text}
	case len(rep.Invalid) > 0:
		var texts []string
		for _, why := range rep.Invalid {
			texts = append(texts, why.Text)
		}
		return ending{catalogue.Invalid, rep.Invalid[0].Word, strings.Join(texts, "; ")}
	}
	return ending{}
}

// firstFailure is why the first stream that failed did.
func firstFailure(lines []group.Line) (reason account.Reason, text string) {
	for _, line := range lines {
		if n := line.Record.Numbers; n.Outcome != account.Success {
			return n.Reason, line.Failure()
		}
	}
	return "", ""
}

// fill writes what is known of the group into the result.
func fill(r *result.Result, rep *group.Report, setting plan.Setting) {
	if len(rep.Lines) == 0 {
		return
	}
	g := rep.Group
	sum := &result.Group{
		Cache: string(rep.Cache.Label), Audit: string(rep.Audit.Verdict), Client: string(rep.Health.Verdict),
		Streams: g.Streams, Succeeded: g.Succeeded, Truncated: g.Truncated, Failed: g.Failed, Length: g.Length,
		Counts: sources(rep.Lines), Prompts: promptsHash(rep.Lines), Unique: prompts(rep.Lines), PerPosition: rep.Speculation.PositionPerRound,
	}
	for reason, n := range g.Reasons {
		if sum.Reasons == nil {
			sum.Reasons = map[string]int{}
		}
		sum.Reasons[string(reason)] = n
	}
	if setting.Serving.Group.Mixed != nil {
		met := rep.Overlap != nil && rep.Overlap.Proven
		sum.Overlap = &met
	}
	r.Group = sum
	if begun := rep.Before.Started(); begun != "" {
		r.Provenance["server_started"] = begun
	}
	numbers(r, rep)
	warn(r, rep)
	if sum.Unique < len(rep.Lines) {
		r.Warn(catalogue.PromptsRepeat, fmt.Sprintf("different prompts: %d, for %d streams", sum.Unique, len(rep.Lines)),
			"give the file of prompts more lines than the largest concurrency")
	}
}

// prompts is the number of different prompts that were sent.
func prompts(lines []group.Line) int {
	seen := map[string]bool{}
	for _, line := range lines {
		seen[line.Request.Prompt.SHA256] = true
	}
	return len(seen)
}

// sources are the sources of the counts, each once.
func sources(lines []group.Line) string {
	var list []string
	seen := map[account.Source]bool{}
	for _, line := range lines {
		if s := line.Record.Numbers.CountSource; !seen[s] {
			seen[s] = true
			list = append(list, string(s))
		}
	}
	return strings.Join(list, ",")
}

// promptsHash is equal for groups that sent the same prompts in the same order.
func promptsHash(lines []group.Line) string {
	h := sha256.New()
	for _, line := range lines {
		fmt.Fprintln(h, line.Request.Prompt.SHA256)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// clientCodes are the warnings of a client that was not ok.
var clientCodes = map[health.Verdict]catalogue.Code{health.Suspect: catalogue.ClientSuspect, health.Bound: catalogue.ClientBound}

// warn writes down every doubt.
func warn(r *result.Result, rep *group.Report) {
	if code, ok := clientCodes[rep.Health.Verdict]; ok {
		r.Warn(code, strings.Join(rep.Health.Reasons, "; "), "run the client where it has processors of its own; cpbench llm selftest tells its floor")
	}
	for _, w := range rep.Group.Warnings {
		r.Warn(catalogue.Code(w.Code), w.Text, "") // the words are those of the catalogue
	}
	for _, text := range rep.Client {
		r.Warn(catalogue.ProxySet, text, "")
	}
	if n, longest := connectedLate(rep.Lines); n > 0 {
		r.Warn(catalogue.ConnectedLate, fmt.Sprintf("connections of %d of %d streams were opened behind the barrier, in up to %.1f ms each", n, len(rep.Lines), longest*1e3),
			"that is part of their TTFT: look whether the server takes so many connections at once")
	}
	if rep.Delta != nil {
		warnCounters(r, rep)
	}
	if n := rep.Group.Nulls; n > 0 {
		r.Warn(catalogue.NullTTFT, fmt.Sprintf("%d of %d successful streams had no text", n, rep.Group.Succeeded), "")
	}
	if rep.Group.Degraded {
		r.Warn(catalogue.ScheduleDegraded, fmt.Sprintf("streams began up to %.1f ms after the barrier", *rep.Group.Lag.Max*1e3), "")
	}
	warnCounts(r, rep)
}

// connectedLate is how many streams opened a connection of their own after the barrier, because those that were opened
// ahead of it had failed or become old, and the longest time in seconds that it took.
func connectedLate(lines []group.Line) (n int, longest float64) {
	for _, line := range lines {
		if c := line.Record.Facts.Conn; c.Count > 0 && !c.Ahead && !c.Reused {
			n, longest = n+1, max(longest, float64(c.ConnectNS)/1e9)
		}
	}
	return n, longest
}

// warnCounts are the doubts about counts of tokens.
func warnCounts(r *result.Result, rep *group.Report) {
	counted, differ := 0, 0
	var example error
	for _, line := range rep.Lines {
		if _, err := prompt.CheckParity(line.Request.Prompt.Tokens, line.Record.Numbers.PromptTokens); err != nil {
			differ++
			example = err
		}
		if line.Record.Facts.Retokenized != nil {
			counted++
		}
	}
	if differ > 0 {
		r.Warn(catalogue.PromptMismatch, fmt.Sprintf("%v (%d of %d streams)", example, differ, len(rep.Lines)), "put every argument of the template into workload.template_kwargs")
	}
	if counted > 0 {
		r.Warn(catalogue.Retokenized, fmt.Sprintf("the tokens of each channel are those of its text (%d of %d streams)", counted, len(rep.Lines)), "")
	}
}

// warnCounters are the doubts that the server's counters raise.
func warnCounters(r *result.Result, rep *group.Report) {
	if rep.Cache.Doubt != "" {
		r.Warn(catalogue.CacheUnverified, rep.Cache.Doubt, "")
	}
	if rep.Audit.Verdict == "unaudited" {
		r.Warn(catalogue.Unaudited, "the server counts nothing by which foreign traffic would show", "")
	}
	if n := rep.Delta.Preempted; n != nil && *n > 0 {
		r.Warn(catalogue.Preempted, fmt.Sprintf("%v requests were interrupted for others", *n), "such a run compares with none: lower the concurrency, or give the cache more memory")
	}
	if rep.Speculation.Lifetime != nil {
		r.Warn(catalogue.Speculation, "the server tells of its speculation only averages since its start, which are no result of a group", "")
	}
}

// doubt puts a doubt of the preflight into a result, under the code that fits.
func doubt(r *result.Result, f preflight.Finding) {
	code, ok := map[string]catalogue.Code{
		preflight.Proxy: catalogue.ProxySet, preflight.Parity: catalogue.PromptMismatch, preflight.Salt: catalogue.CacheUnverified,
		preflight.Metrics: catalogue.IdleUnverified,
	}[f.Check]
	if !ok {
		code = catalogue.Preflight
	}
	r.Warn(code, f.Text, f.Advice)
}
