package conform

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cpbench/worker/llm/llmtest"
)

// faults are public faults of load clients, and where our client is tested for each of them: shapes of llmtest, which
// account.TestShapes plays, and tests. With the name of a check, a server is tested for it as well.
var faults = []struct {
	name   string
	source string
	shapes []string
	tests  []string // PACKAGE.Test below worker/llm, or cmd/cpbench.Test; behind a slash how the name of a case begins
	check  string
}{
	{"a packet split before a space, or behind data:, or inside a character", "vllm#51172", []string{"split_before_space", "split_after_data", "split_character", "split_blank_line"}, []string{"account.TestSplits"}, "characters"},
	{"data: without a space, event: and id: lines", "vllm#27412", []string{"no_space", "other_fields"}, []string{"stream/sse.TestParse"}, "framing"},
	{"a comment swallows the stream", "ollama#16443, llama.cpp#25241", []string{"comments", "comment_within", "content_null"}, nil, "framing"},
	{"CR LF, and a last frame without its blank line", "inference-perf", []string{"crlf", "cr", "unterminated_usage", "unterminated_done"}, nil, "framing"},
	{"usage in the finish frame, and a frame with choices: []", "sglang#5451", []string{"usage_in_finish", "usage_twice", "plain"}, nil, "usage"},
	{"a line too long for the reader", "vllm#24373", []string{"long_line"}, []string{"stream/sse.TestLongLines"}, ""},
	{"an error in the stream is a success", "vllm#57519", []string{"error_in_band", "error_flat", "error_text"}, nil, "answer"},
	{"a stream that was cut is a success; [DONE] alone as well", "vllm#54708", []string{"cut", "no_finish", "no_done_no_usage", "only_done", "only_comments"}, nil, "done"},
	{"an error before the first token credits the length that was asked for", "sglang#38868", []string{"bad_request", "too_many"}, []string{"account.TestGroupRules/12, 22 tokens of failed streams"}, "budget"},
	{"the role frame makes the TTFT", "vllm#3759, vllm#3768", []string{"early_role"}, nil, "role frame"},
	{"an empty answer has a TTFT of 0", "vllm#6064, vllm#5895, guidellm#216", []string{"no_text"}, []string{"account.TestGroupRules/8 nulls are counted", "account.TestRules/8 no text is a success"}, ""},
	{"reasoning is ignored, or all of it is the TTFT", "sglang#23949, inference-perf#559, sglang#39826", []string{"reasoning", "reasoning_content", "reasoning_only", "same_frame", "reasoning_above"}, []string{"account.TestRules/15 more reasoning than completion"}, "reasoning"},
	{"a frame is a token", "llama-benchy#11, inference-perf#364, vllm#50677, aiperf#1279", []string{"many_tokens"}, []string{"account.TestCoalesced", "account.TestGroupRules/11 the peak counts frames"}, "tokens per frame"},
	{"frames of one packet have gaps of 0 ms", "three clients", []string{"coalesced", "one_packet"}, []string{"account.TestRules/3, 10 frames of one read"}, "coalescing"},
	{"the wait for a slot is left out", "vllm#54101", nil, []string{"account.TestScheduled", "llmtest.TestTimes"}, "streams at once"},
	{"the client collapses with long prompts and answers", "vllm#39963", nil, []string{"stream.TestLog", "health.TestVerdict"}, ""},
	{"fixed prompts on a living server are a warm cache", "vllm#54227, vllm#52884, sglang#13934", nil, []string{"group.TestCacheLabels", "dialect.TestGroup"}, "cold"},
	{"times of creation and texts of labels are summed as counters", "vllm#41916, speculators#1095, vllm#29928", nil, []string{"scrape.TestNamesOfServersAndVersions", "scrape.TestLabelsAreText", "scrape.TestIdle"}, "metrics"},
	{"failed requests count in the throughput, and lighten the load", "guidellm#444, vllm#28493, guidellm#487", nil, []string{"account.TestGroupRules/12, 22 tokens of failed streams", "stream.TestBarrier", "cmd/cpbench.TestServingRefusals/a stream that fails"}, "streams at once"},
	{"a hang without an end, a sweep that cannot go on, a half-written file", "guidellm#431, vllm#42226, vllm#57305", []string{"hang", "silent", "headers_only", "pings_forever"}, []string{"stream.TestFourTimeouts", "cmd/cpbench.TestServing"}, ""},
	{"the client was late itself", "inference-perf#188, inference-perf#648", nil, []string{"health.TestVerdict", "account.TestGroupRules/4 behind a barrier"}, ""},
	{"the size that was asked for is not the one that was sent", "vllm#10847, sglang#15732, vllm#42532", nil, []string{"prompt.TestSizeIsHit", "prompt.TestParity"}, "tokenizer"},
	{"connections break by keep-alive, and handshakes are part of TTFT", "llm-d#1564, vllm#21981", nil, []string{"stream.TestOldConnections", "stream.TestTLS", "stream.TestOnePostOnly"}, "keep-alive"},
	{"the body of a 429 is lost, and results after 60 s", "vLLM's Python client; sample-apj-sup-sa#181", []string{"too_many"}, []string{"account.TestFailureIsKept", "stream.TestFourTimeouts"}, "too many requests"},
	{"two clients, two answers", "aiperf#339, guidellm#470, srt-slurm#275", nil, []string{"account.TestAgain", "cmd/cpbench.TestDocsMetrics"}, ""},
}

// TestEveryFaultIsTested: a public fault that is listed has a test of ours, which is there.
func TestEveryFaultIsTested(t *testing.T) {
	t.Parallel()
	shapes := map[string]bool{}
	for _, s := range llmtest.Shapes() {
		shapes[s.Name] = true
	}
	known := map[string]bool{}
	for _, c := range Checks() {
		known[c.Name] = true
	}
	if len(faults) != 25 {
		t.Errorf("%d faults", len(faults))
	}
	for i, f := range faults {
		if len(f.shapes)+len(f.tests) == 0 {
			t.Errorf("%d (%s): nothing tests it", i+1, f.name)
		}
		for _, s := range f.shapes {
			if !shapes[s] {
				t.Errorf("%d (%s): there is no shape %q", i+1, f.name, s)
			}
		}
		if f.check != "" && !known[f.check] {
			t.Errorf("%d (%s): there is no check %q", i+1, f.name, f.check)
		}
		for _, test := range f.tests {
			if why := missing(t, test); why != "" {
				t.Errorf("%d (%s): %s: %s", i+1, f.name, test, why)
			}
		}
	}
}

// missing says what is not there of a test.
func missing(t *testing.T, test string) string {
	t.Helper()
	dir, name, _ := strings.Cut(test, ".")
	name, part, _ := strings.Cut(name, "/")
	if !strings.HasPrefix(dir, "cmd/") {
		dir = "worker/llm/" + dir
	}
	files, err := filepath.Glob(filepath.Join("../../..", dir, "*_test.go"))
	if err != nil || len(files) == 0 {
		return "no such package"
	}
	found, cased := false, part == ""
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
		if err != nil {
			return err.Error()
		}
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == name {
				found = true
				cased = cased || strings.Contains(string(text), `"`+part)
			}
		}
	}
	switch {
	case !found:
		return "no such test"
	case !cased:
		return "no such case"
	}
	return ""
}
