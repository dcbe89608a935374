package reference_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"cpbench/worker/model/protocol"
	"cpbench/worker/model/reference"
)

func TestRefusals(t *testing.T) {
	t.Parallel()
	start := protocol.Start{Mode: "inference"}
	tests := map[string]struct {
		world int
		say   []protocol.Message
		class string
		text  string
	}{
		"data":             {1, []protocol.Message{start, protocol.Point{Params: map[string]any{"tokens": 8, "data": "a b.npz"}}}, "", "the reference model synthesizes its input: remove point.data"},
		"no tokens":        {1, []protocol.Message{start, protocol.Point{}}, "", "point.tokens"},
		"half a token":     {1, []protocol.Message{start, protocol.Point{Params: map[string]any{"tokens": 8.5}}}, "", "want a whole number, not 8.5"},
		"atoms as text":    {1, []protocol.Message{start, protocol.Point{Params: map[string]any{"tokens": 8, "atoms": "x"}}}, "", "point.atoms"},
		"astronomic":       {1, []protocol.Message{start, protocol.Point{Params: map[string]any{"tokens": 1 << 40}}}, "too_big", "is above"},
		"mode":             {1, []protocol.Message{protocol.Start{Mode: "sampling"}}, "", `mode "sampling"`},
		"dtype":            {1, []protocol.Message{protocol.Start{Mode: "inference", DType: "bf16"}}, "", "computes in fp32"},
		"mesh":             {3, []protocol.Message{protocol.Start{Mode: "inference", Topology: "2d"}}, "skipped", "square number of ranks"},
		"no topology":      {2, []protocol.Message{start}, "skipped", "need a topology"},
		"point first":      {1, []protocol.Message{point(8)}, "", "before start"},
		"step first":       {1, []protocol.Message{start, protocol.Step{Phase: "timed", Count: 1}}, "", "before point"},
		"start twice":      {1, []protocol.Message{start, start}, "", "twice"},
		"no steps":         {1, []protocol.Message{start, point(8), protocol.Step{Phase: "timed"}}, "", "step count 0"},
		"not for the rank": {1, []protocol.Message{protocol.Alive{}}, "", "not for a rank"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			children := launch(t, tt.world)
			for _, m := range tt.say { // only the last is refused
				send(t, children, m)
			}
			for range (len(tt.say) - 1) * tt.world {
				if _, err := children[0].receive(); err != nil {
					t.Fatal(err)
				}
			}
			checkRefused(t, children, tt.class, tt.text)
		})
	}
}

// checkRefused holds that every rank reports an error and ends.
func checkRefused(t *testing.T, children []*child, class, text string) {
	t.Helper()
	for r, got := range expect[protocol.Error](t, children) {
		if got.Class != class || !strings.Contains(got.Text, text) {
			t.Errorf("rank %d: class %q, text %q; want %q and %q", r, got.Class, got.Text, class, text)
		}
		if code := children[r].exit(t); code != 1 {
			t.Errorf("rank %d: exit status %d, want 1", r, code)
		}
	}
}

// TestUsage calls Main in this process: it must return before it touches the process's limits.
func TestUsage(t *testing.T) {
	for name, tt := range map[string]struct {
		args []string
		env  map[string]string
		code int
		text string
	}{
		"no environment":   {nil, map[string]string{"RANK": ""}, 2, `RANK=""`},
		"no token":         {nil, map[string]string{protocol.EnvToken: ""}, 2, protocol.EnvToken},
		"no worker":        {nil, map[string]string{protocol.EnvToken: ""}, 2, "is not set"},
		"rank of world":    {nil, map[string]string{"RANK": "2", "LOCAL_RANK": "2"}, 2, "RANK=2 is not within WORLD_SIZE=2"},
		"two nodes":        {nil, map[string]string{"RANK": "1"}, 2, "runs on one node"},
		"unknown flag":     {[]string{"--nodes=2"}, nil, 2, "-nodes"},
		"argument":         {[]string{"2d"}, nil, 2, `argument "2d"`},
		"channels":         {[]string{"--channels=0"}, nil, 2, "--channels 0"},
		"memory":           {[]string{"--memory=8 apples"}, nil, 2, `memory "8 apples"`},
		"memory overflows": {[]string{"--memory=9999999999999GiB"}, nil, 2, "memory"},
		"too little":       {[]string{"--memory=4"}, nil, 2, "at least 4KiB"},
		"fault":            {[]string{"--fault=flood"}, nil, 2, "no such fault"},
		"fault's rank":     {[]string{"--fault=oom-rank"}, nil, 2, "oom-rank"},
		"fault's place":    {[]string{"--fault=nan@night"}, nil, 2, `place "night"`},
		"exit's code":      {[]string{"--fault=exit=1"}, nil, 2, "exit"},
		"help":             {[]string{"--help"}, nil, 0, "-memory"},
	} {
		t.Run(name, func(t *testing.T) {
			for k, v := range map[string]string{
				"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2", protocol.EnvToken: "t", protocol.EnvConnect: "127.0.0.1:1",
			} {
				t.Setenv(k, v)
			}
			for k, v := range tt.env {
				t.Setenv(k, v)
			}
			var stderr bytes.Buffer
			if code := reference.Main(t.Context(), tt.args, &stderr); code != tt.code || !strings.Contains(stderr.String(), tt.text) {
				t.Errorf("exit status %d, stderr %q; want %d and %q", code, stderr.String(), tt.code, tt.text)
			}
		})
	}
	if os.Getenv(asRank) != "" {
		t.Error("the test process took itself for a rank")
	}
}
