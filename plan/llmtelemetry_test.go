package plan_test

import (
	"strings"
	"testing"
	"time"

	"cpbench/plan"

	"github.com/google/go-cmp/cmp"
)

// reading is byURL with hosts to read.
func reading(keys string) string { return byURL + keys }

func TestTelemetryKeys(t *testing.T) {
	t.Parallel()
	plain, _ := newPlan(t, byURL, plan.Options{})
	if _, ok := plain.Spec.Workload.Reads(); ok {
		t.Error("something is read that nobody has asked for")
	}
	for name, c := range map[string]struct {
		keys string
		want plan.Telemetry
	}{
		"defaults": {"  telemetry: {hosts: [{name: here}]}\n", plan.Telemetry{
			Interval: plan.Duration(2 * time.Second), Timeout: plan.Duration(5 * time.Second), MaxParallel: 8, Hosts: []plan.Host{{Name: "here"}},
		}},
		"all": {`  telemetry:
    interval: 500ms
    timeout: 1m
    max_parallel: 2
    hosts:
      - {name: spark-1, ssh: "me@spark.example.org", gpu_uuid_prefixes: [GPU-8f], nics: [enp1s0f0np0, ib0.8001], process_names: ["VLLM::EngineCor", "it's"]}
      - {name: v6, ssh: "ssh://me@[fe80::1%eth0]:2222"}
`, plan.Telemetry{
			Interval: plan.Duration(500 * time.Millisecond), Timeout: plan.Duration(time.Minute), MaxParallel: 2,
			Hosts: []plan.Host{
				{Name: "spark-1", SSH: "me@spark.example.org", GPUUUIDPrefixes: []string{"GPU-8f"}, NICs: []string{"enp1s0f0np0", "ib0.8001"}, ProcessNames: []string{"VLLM::EngineCor", "it's"}},
				{Name: "v6", SSH: "ssh://me@[fe80::1%eth0]:2222"},
			},
		}},
		"addresses alone": {"  extra_metrics: [\"http://127.0.0.1:9400/metrics\"]\n", plan.Telemetry{
			Interval: plan.Duration(2 * time.Second), Timeout: plan.Duration(5 * time.Second), MaxParallel: 8,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, _ := newPlan(t, reading(c.keys), plan.Options{})
			got, ok := p.Spec.Workload.Reads()
			if d := cmp.Diff(c.want, got); d != "" || !ok {
				t.Errorf("%v (-want +got):\n%s", ok, d)
			}
			if p.Key != plain.Key || p.CaseKey != plain.CaseKey {
				t.Error("reading hosts makes the results another thing")
			}
			if p.Digest == plain.Digest {
				t.Error("the digest does not tell that hosts are read")
			}
		})
	}
}

// A look needs a server and hosts alone; what is there is checked, and a sweep needs all the rest.
func TestLoadLook(t *testing.T) {
	t.Parallel()
	const least = "workload: {kind: llm, server: {url: \"http://host:8000\"}, telemetry: {hosts: [{name: here}]}}\n"
	s, err := plan.LoadLook("look.yaml", []byte(least))
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := plan.New(s, plan.Options{Source: "/look.yaml"})
	if err != nil || len(p.Arrays) != 1 || len(p.Arrays[0].Tasks) != 1 || p.Spec.Workload.Server.URL != "http://host:8000" {
		t.Fatalf("%v %+v", err, p)
	}
	if _, err := plan.Load("look.yaml", []byte(least)); err == nil || !strings.Contains(err.Error(), "workload.max_tokens is missing") {
		t.Errorf("a sweep: %v", err)
	}
	for text, want := range map[string]string{
		strings.Replace(least, "llm", "model", 1):                                   "workload.mode is missing",
		strings.Replace(least, "{url", "{uri", 1):                                   `unknown key "uri"`,
		strings.Replace(least, "telemetry", "ctx: [-1], telemetry", 1):              `ctx: "-1" is no number of tokens`,
		strings.Replace(least, "telemetry", "cache: hot, telemetry", 1):             `cache: unknown value "hot"`,
		"version: 3\n" + least:                                                      "version: 3 is not known",
		strings.Replace(least, ", server: {url: \"http://host:8000\"}", "", 1):      "workload.server needs a url or a command",
		"matrix: {label: [A, B]}\n" + strings.Replace(least, "host:", "{labe}:", 1): "unknown name {labe}",
	} {
		if _, err := plan.LoadLook("look.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	with := "matrix: {label: [A, B]}\n" + strings.Replace(least, "http://host:", "http://{label}:", 1)
	if s, err := plan.LoadLook("look.yaml", []byte(with)); err != nil || len(s.Workload.Label) != 0 {
		t.Errorf("an axis of the matrix: %v", err)
	}
}
