package llmtest

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// counters are what /metrics tells.
type counters struct {
	started            time.Time
	running, waiting   int
	prompt, generated  int
	queries, hits      int
	finished           map[string]int
	drafts, draftCount int
	accepted           int
	perPosition        []int
}

// round counts one round of speculation.
func (c *counters) round(proposed, accepted int) {
	accepted = min(accepted, proposed)
	c.drafts++
	c.draftCount += proposed
	c.accepted += accepted
	for i := range accepted {
		c.perPosition[i]++
	}
}

func (s *Server) add(change func(*counters)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.counters)
}

func (s *Server) gauge(g *int, by int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*g += by
}

// metrics writes the counters as vLLM does, with all that misleads readers: times of creation, a histogram whose name
// ends like a counter's, braces and names of metrics in labels.
func (s *Server) metrics() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counters
	var b strings.Builder
	labels := fmt.Sprintf(`engine="0",model_name=%q`, s.config.Model)
	created := float64(c.started.UnixNano()) / 1e9
	write := func(kind, name, more string, v int) {
		fmt.Fprintf(&b, "%s{%s%s} %d.0\n", name, labels, more, v)
		if kind == "counter" {
			fmt.Fprintf(&b, "%s_created{%s%s} %.9e\n", strings.TrimSuffix(name, "_total"), labels, more, created)
		}
	}
	head := func(kind, name string) {
		fmt.Fprintf(&b, "# HELP %s See {the manual} of vllm:prompt_tokens_total.\n# TYPE %s %s\n", name, name, kind)
	}
	one := func(kind, name string, v int) {
		head(kind, name)
		write(kind, name, "", v)
	}
	fmt.Fprintf(&b, "# HELP process_start_time_seconds Start.\n# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds %.2f\n", created)
	if s.config.Lazy && c.prompt == 0 {
		return b.String()
	}
	one("gauge", "vllm:num_requests_running", c.running+s.stale[0])
	one("gauge", "vllm:num_requests_waiting", c.waiting+s.stale[1])
	one("gauge", "vllm:kv_cache_usage_perc", 0)
	one("counter", "vllm:prompt_tokens_total", c.prompt)
	one("counter", "vllm:generation_tokens_total", c.generated)
	one("counter", "vllm:prefix_cache_queries_total", c.queries)
	one("counter", "vllm:prefix_cache_hits_total", c.hits)
	one("counter", "vllm:num_preemptions_total", 0)
	head("counter", "vllm:request_success_total")
	for _, reason := range []string{"stop", "length", "abort", "error"} {
		write("counter", "vllm:request_success_total", fmt.Sprintf(`,finished_reason=%q`, reason), c.finished[reason])
	}
	head("histogram", "vllm:iteration_tokens_total")
	fmt.Fprintf(&b, "vllm:iteration_tokens_total_bucket{%s,le=\"+Inf\"} 7.0\nvllm:iteration_tokens_total_count{%s} 7.0\nvllm:iteration_tokens_total_sum{%s} 99.0\n",
		labels, labels, labels)
	if s.config.DraftTokens > 0 {
		one("counter", "vllm:spec_decode_num_drafts_total", c.drafts)
		one("counter", "vllm:spec_decode_num_draft_tokens_total", c.draftCount)
		one("counter", "vllm:spec_decode_num_accepted_tokens_total", c.accepted)
		head("counter", "vllm:spec_decode_num_accepted_tokens_per_pos_total")
		for i, n := range slices.All(c.perPosition) {
			write("counter", "vllm:spec_decode_num_accepted_tokens_per_pos_total", fmt.Sprintf(`,position="%d"`, i), n)
		}
	}
	return b.String()
}
