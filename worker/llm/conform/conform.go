// Package conform tests whether what an LLM server sends can be measured rightly: a battery of real requests, and checks
// of what came back, each with the public fault that it comes from and what it means for a number. Use Run on a server
// that nobody else uses; it generates tokens. That our own client reads every shape of answer rightly is no matter of a
// server, and tested with the client.
package conform

import (
	"context"
	"net"
	"strings"

	"cpbench/worker/llm/dialect"
	"cpbench/worker/llm/scrape"
)

// Verdict is how a check ended.
type Verdict string

// The verdicts. A number that rests on what failed is wrong; of what warns it is known how the number is affected.
const (
	Pass       Verdict = "pass"
	Warn       Verdict = "warn"
	Fail       Verdict = "fail"
	NotOffered Verdict = "not offered" // the server has nothing that could be looked at
)

// Check is one thing that is looked at.
type Check struct {
	Name   string `json:"check"`
	Source string `json:"source"` // the standard, or the public faults, that it comes from
	Why    string `json:"why"`    // what it means for a measurement
}

// Finding is a check with what was seen.
type Finding struct {
	Check
	Verdict Verdict `json:"verdict"`
	Seen    string  `json:"seen"`
}

// Report is what was found at a server.
type Report struct {
	Server   *dialect.Server `json:"server"`
	Requests int             `json:"requests"` // that were sent
	Findings []Finding       `json:"findings"` // in the order of Checks; the first alone if it failed
}

// Failed reports whether any check failed.
func (r *Report) Failed() bool {
	for _, f := range r.Findings {
		if f.Verdict == Fail {
			return true
		}
	}
	return false
}

// Software names what serves, with its version if it tells one.
func (r *Report) Software() string {
	return strings.TrimSpace(kindOf(r.Server) + " " + r.Server.Version)
}

func kindOf(s *dialect.Server) string {
	if s.Kind == dialect.None {
		return "a server of an unknown kind"
	}
	return string(s.Kind)
}

// check is a check with its judgement, a pure function of what was seen.
type check struct {
	Check
	judge func(e *evidence) (Verdict, string)
}

// checks are all checks in their order. Without an answer to the first nothing else can be said.
func checks() []check {
	var all []check
	for _, list := range [][]check{answerChecks, countChecks, loadChecks, refusalChecks} {
		all = append(all, list...)
	}
	return all
}

// Checks lists what Run looks at.
func Checks() []Check {
	var list []Check
	for _, c := range checks() {
		list = append(list, c.Check)
	}
	return list
}

// Run sends the battery, at most MaxRequests requests for at most MaxTokens tokens in all, and judges what came. The
// error is that of a server that is busy, or of ctx: everything else is a finding.
func Run(ctx context.Context, s *dialect.Server, m *scrape.Source) (*Report, error) {
	return run(ctx, s, m, nil)
}

// dialer opens a connection; nil is TCP.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

func run(ctx context.Context, s *dialect.Server, m *scrape.Source, dial dialer) (*Report, error) {
	e, err := gather(ctx, s, m, dial)
	if err != nil {
		return nil, err
	}
	r := &Report{Server: s, Requests: e.sent}
	for _, c := range checks() {
		v, seen := c.judge(e)
		r.Findings = append(r.Findings, Finding{c.Check, v, s.Key().Redact(seen)})
		if !e.plain.ok() {
			break
		}
	}
	return r, nil
}
