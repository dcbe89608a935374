// Package preflight looks at an LLM server before a sweep is measured on it, and says of everything that would spoil
// the numbers what it is and what to do about it. Look only reads; Try generates a few tokens as well.
package preflight

import (
	"context"
	"errors"
	"fmt"
	"os"

	"cpbench/worker/llm/dialect"
	"cpbench/worker/llm/prompt"
	"cpbench/worker/llm/scrape"
)

// Grade says how good a finding is.
type Grade string

// The grades. With a bad one a sweep is not measured; a warn is a doubt in every result.
const (
	OK   Grade = "ok"
	Warn Grade = "warn"
	Bad  Grade = "bad"
)

// The checks.
const (
	Models    = "models"
	Metrics   = "metrics"
	Limit     = "limit"
	Proxy     = "proxy"
	Tokenizer = "tokenizer"
	Parity    = "parity"
	Priority  = "priority"
	Usage     = "usage"
	Reasoning = "reasoning"
	Salt      = "salt"
	Cache     = "cache"
	Request   = "request"
	Telemetry = "telemetry"
	Warmup    = "warmup"
	Start     = "start"
)

// Finding is one thing that was looked at.
type Finding struct {
	Check  string `json:"check"`
	Grade  Grade  `json:"grade"`
	Text   string `json:"text"`             // what was seen
	Advice string `json:"advice,omitempty"` // what to do
}

// Findings are what was looked at, in order.
type Findings []Finding

// Worst returns the findings of a grade.
func (f Findings) Worst(g Grade) Findings {
	var out Findings
	for _, one := range f {
		if one.Grade == g {
			out = append(out, one)
		}
	}
	return out
}

func (f *Findings) add(check string, g Grade, advice, format string, args ...any) {
	*f = append(*f, Finding{check, g, fmt.Sprintf(format, args...), advice})
}

// Look reads the model list's outcome and the metrics: nothing is generated and nothing is tokenized. largest is the
// largest prompt of the sweep in tokens, reserve its output budget, and limit its own limit; 0 and nil are not known.
func Look(ctx context.Context, s *dialect.Server, m *scrape.Source, largest, reserve int, limit *int) Findings {
	var f Findings
	f.add(Models, OK, "", "%s %s serves %s (root %s)", s.Kind, orUnknown(s.Version), s.Model.ID, orUnknown(s.Model.Root))
	if s.Kind == dialect.None {
		f.add(Models, Warn, "name the server's metrics and expect no verified cache labels", "the software of the server is not known")
	}
	if set := proxies(); set != "" {
		f.add(Proxy, Warn, "unset it for the benchmark, to be sure", "%s is set; it is not used", set)
	}
	f.metrics(ctx, m)
	switch {
	case largest+reserve == 0 && s.ContextLimit != nil:
		f.add(Limit, OK, "", "prompt and output together have at most %d tokens", *s.ContextLimit)
	case largest+reserve > 0:
		if least, err := prompt.Fits(&largest, reserve, limit, s.ContextLimit); err != nil {
			f.add(Limit, Warn, "those groups are skipped", "the largest group does not fit: %v", err)
		} else if least == nil {
			f.add(Limit, Warn, "set workload.max_model_len", "the server does not tell its context limit")
		} else {
			f.add(Limit, OK, "", "the largest prompt and its output, %d tokens, are within %d", largest+reserve, *least)
		}
	}
	return f
}

// metrics checks that the counters are there which every group needs.
func (f *Findings) metrics(ctx context.Context, m *scrape.Source) {
	if len(m.URLs) == 0 {
		f.add(Metrics, Bad, "name them in workload.metrics_urls", "this kind of server has no metrics where they are looked for, so nothing shows that it is idle")
		return
	}
	shot, err := m.Fetch(ctx)
	if err != nil {
		f.add(Metrics, Bad, "start the server with its metrics on (SGLang: --enable-metrics, llama.cpp: --metrics), or set workload.metrics_urls", "%v", err)
		return
	}
	later := shot
	later.At = shot.At.Add(scrape.Apart) // the gauges, not the passing of time, are looked at here
	var busy *scrape.NotIdle
	if err := scrape.Idle(shot, later); errors.As(err, &busy) {
		f.add(Metrics, Warn, "groups wait for an idle server, and are refused if it does not come", "%v", busy)
		return
	}
	f.add(Metrics, OK, "", "the gauges are there, and show an idle server")
}

// proxies names the proxy variable that is set; empty if none is.
func proxies() string {
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"} {
		if os.Getenv(name) != "" {
			return name
		}
	}
	return ""
}

func orUnknown(text string) string {
	if text == "" {
		return "unknown"
	}
	return text
}
