package peer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"cpbench/worker/llm/account"
	"cpbench/worker/llm/account/peer"
	"cpbench/worker/llm/llmtest"
	"cpbench/worker/llm/llmtest/visit"
	"cpbench/worker/llm/stream"
)

// The schedule of the comparison: steps so long that no machine's load can make one of a role frame look like that of a
// text. The margin is half a step.
const (
	step   = 400 * time.Millisecond
	margin = step / 2
)

// fixed answers by the schedule: a role frame, a text, two texts in one packet, a finish frame, usage and the end, five
// tokens in all.
func fixed() llmtest.Script {
	return llmtest.Frames(step, step, llmtest.Role(), llmtest.Content("a"), llmtest.Content(" b")+llmtest.Content(" c"),
		llmtest.Finish("stop"), llmtest.UsageFrame(7, 5)+llmtest.Done)
}

// TestVLLMClient asks one server with vLLM's own client and with ours, and compares what vLLM's says with what the log
// of ours gives by its definitions: times of a schedule, and of every shape of an answer whether it is a success, how
// many frames with choices it has and how many tokens.
func TestVLLMClient(t *testing.T) {
	t.Parallel()
	root := visit.Real(t)
	python := filepath.Join(root, "vllm/bin/python")
	scripts := map[string]llmtest.Script{"fixed": fixed()}
	var names []string
	for _, shape := range llmtest.Shapes() {
		s := shape.Script
		forever := s.Hang || s.Silent || shape.Name == "pings_forever" // it waits for hours
		if !forever && s.Status/100 != 3 && !slices.Contains(byPackets, shape.Name) {
			scripts[shape.Name] = s
			names = append(names, shape.Name)
		}
	}
	live, err := llmtest.Listen(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		if s, ok := scripts[name]; ok && rest == "v1/chat/completions" {
			s.ServeHTTP(w, r)
			return
		}
		http.NotFound(w, r)
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(live.Close)
	const prompts = 3
	theirs := ask(t, python, live.URL, filepath.Join(root, "model"), prompts, names)
	t.Run("schedule", func(t *testing.T) { compareSchedule(t, live.URL, prompts, theirs["fixed"]) })
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			compareShape(t, one(t, live.URL+"/"+name), theirs[name], slices.Contains(misread, name))
		})
	}
}

// misread are the shapes of an answer that the parser of this client gets wrong: it knows only data lines with a blank
// behind the colon, takes no other field, byte order mark, comment or second line in a message.
var misread = []string{"no_space", "other_fields", "comment_within", "byte_order_mark", "two_data_lines"}

// byPackets are those that it gets wrong if a packet ends behind a comment or in the midst of a line, which a busy
// machine may prevent.
var byPackets = []string{"comments", "content_null", "split_after_data"}

// said is what vLLM's client has said of one server.
type said struct {
	Name    string
	Success bool
	Tokens  *float64 `json:"output_tokens"` // 0: it has found none, and its tokenizer would count
	Frames  int
	Error   string
	Result  map[string]any
}

func ask(t *testing.T, python, url, tokenizer string, prompts int, names []string) map[string]said {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, append([]string{"testdata/vllm_client.py", url, tokenizer, strconv.Itoa(prompts)}, names...)...)
	cmd.Env = append(os.Environ(), "HF_HUB_OFFLINE=1", "TRANSFORMERS_OFFLINE=1", "VLLM_NO_USAGE_STATS=1", "DO_NOT_TRACK=1", "no_proxy=*")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, errs.Bytes())
	}
	answers := map[string]said{}
	for line := range bytes.Lines(out) {
		var s said
		if err := json.Unmarshal(line, &s); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		answers[s.Name] = s
	}
	if len(answers) != len(names)+1 {
		t.Fatalf("%d answers to %d questions\n%s", len(answers), len(names)+1, errs.Bytes())
	}
	return answers
}

// one sends a request with our own client.
func one(t *testing.T, url string) account.Record {
	t.Helper()
	c, err := stream.New(url, stream.Options{Timeouts: stream.Timeouts{FirstByte: time.Minute, Idle: time.Minute, Total: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	x := c.Do(t.Context(), stream.Request{Path: "/v1/chat/completions", Body: []byte(`{"stream":true}`)})
	f, _ := account.Observe(x, c.Epoch(), account.Rules{})
	return account.Record{Facts: f, Numbers: account.Judge(f)}
}

func compareSchedule(t *testing.T, url string, prompts int, theirs said) {
	var records []account.Record
	for range prompts {
		r := one(t, url+"/fixed")
		if n := len(records); n > 0 { // on one clock, one after the other
			before := records[n-1].Facts
			r.Facts.StartNS = before.StartNS + before.EndNS
		}
		records = append(records, r)
	}
	for name, key := range map[peer.Name]string{
		peer.TTFT: "mean_ttft_ms", peer.TTFTP50: "median_ttft_ms", peer.TTFTP99: "p99_ttft_ms", peer.TPOT: "mean_tpot_ms",
		peer.Gap: "mean_itl_ms", peer.GapP50: "median_itl_ms", peer.Latency: "mean_e2el_ms",
		peer.Requests: "completed", peer.Tokens: "total_output_tokens", peer.Rate: "output_throughput",
	} {
		there, ok := theirs.Result[key].(float64)
		if !ok && key == "mean_e2el_ms" {
			continue // this version tells it on demand only
		}
		var here *float64
		for _, f := range peer.Compare(peer.VLLM, records) {
			if f.Name == name {
				here = f.Other
			}
		}
		if !ok || here == nil {
			t.Errorf("%s: %v there, %v here", name, theirs.Result[key], here)
			continue
		}
		most, v := 0.0, *here
		switch {
		case strings.HasSuffix(key, "_ms"):
			v *= 1e3
			if most = float64(margin.Milliseconds()); name == peer.TPOT {
				most /= 4 // it is by tokens
			}
		case name == peer.Rate:
			most = v / 8
		}
		t.Logf("%-28s %10.3f there, %10.3f here", key, there, v)
		if math.Abs(there-v) > most {
			t.Errorf("%s is %v there and %v here", key, there, v)
		}
	}
}

func compareShape(t *testing.T, r account.Record, theirs said, misread bool) {
	figures := map[peer.Name]peer.Figure{}
	for _, f := range peer.Compare(peer.VLLM, []account.Record{r}) {
		figures[f.Name] = f
	}
	requests, tokens := figures[peer.Requests].Other, figures[peer.Tokens].Other
	switch {
	case requests == nil: // what happens depends on more than the log has
		if why := figures[peer.Requests].Why; why == "" {
			t.Error("not judged, and no reason")
		}
		return
	case misread:
		if theirs.Success && theirs.Frames == choices(r) {
			t.Error("this client reads it right by now")
		}
		return
	case (*requests == 1) != theirs.Success:
		t.Fatalf("a success there: %v (%s), here: %v", theirs.Success, theirs.Error, *requests == 1)
	}
	if !theirs.Success {
		return
	}
	if found := theirs.Tokens != nil && *theirs.Tokens > 0; found != (tokens != nil) || found && *theirs.Tokens != *tokens {
		t.Errorf("tokens: %+v there, %+v here", theirs, figures[peer.Tokens])
	}
	if n := choices(r); n != theirs.Frames {
		t.Errorf("%d frames with choices there, %d here", theirs.Frames, n)
	}
}

// choices counts the frames with choices.
func choices(r account.Record) (n int) {
	for _, x := range r.Facts.Frames() {
		if x.Choice() {
			n++
		}
	}
	return n
}
