package result

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"cpbench/plan/catalogue"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

func ptr[T any](v T) *T { return &v }

// full is a result with every field set; TestGolden checks that none was forgotten.
func full() *Result {
	return &Result{
		Schema: Schema, Plan: "d1g35t", Key: "k3y", Run: "it's a \"run\"", Point: "ab12cd34", Case: "max-fit",
		Params: []Param{{"cp", "4"}, {"tokens", "max-fit"}}, Repeat: 1, Start: 1, Attempt: 2, Restart: 1, Array: 1, Task: 3,
		Outcome: catalogue.OK, Reason: "bracket closed", Evidence: "rank 3: <out of memory> at 368\n",
		Metrics: map[string]*float64{catalogue.StepSeconds: ptr(0.842), catalogue.PeakReservedBytes: nil},
		Extra:   []Figure{{"comm_share", 0.25, "1"}},
		Steps: &Summary{
			N: 2, Seconds: []float64{0.84, 0.844}, Min: 0.84, Q1: 0.841, Median: 0.842, Q3: 0.843, Max: 0.844, Mean: 0.842,
			SD: ptr(0.0028), MAD: 0.002, Warmup: 3, Steady: "yes", Slowest: 2,
		},
		MaxFit: &MaxFit{
			Axis: "tokens", Fits: ptr[int64](352), OOM: ptr[int64](368), Limit: ptr[int64](512), Above: ptr[int64](400), Ended: "closed", Confirmed: 1, Confirms: 1,
			Verified: 1, Verifies: 2, PeakBytes: ptr(7.6e6), Capacity: ptr(8e6), Reserve: ptr[int64](336), Hint: ptr[int64](344),
			Trials: []Trial{{N: 368, Outcome: catalogue.OOMDevice, Peak: ptr(8e6), Seconds: 1.5, Fresh: true, Confirm: true, Verify: true}},
		},
		Group: &Group{
			Cache: "warm_repeat", Audit: "clean", Client: "client_ok", Streams: 3, Succeeded: 1, Truncated: 1, Failed: 1, Length: 1,
			Reasons: map[string]int{"cut": 1, "in_band": 1}, Counts: "server_usage", Prompts: "5a5a", Unique: 2, Overlap: ptr(true), PerPosition: []float64{0.9, 0.5},
		},
		Sizes:      Sizes{Tokens: ptr[int64](350), PaddedTokens: ptr[int64](352), Atoms: ptr[int64](2816), MSA: ptr[int64](64), Ranks: 4, Topology: "2d"},
		Warnings:   []Warning{{catalogue.Unsteady, "step times had not settled", "raise warmup"}},
		Provenance: map[string]string{"host": "n1", "go": "go1.26"},
		Missing:    []Missing{{[]string{"governor", "load"}, "/proc is not there"}},
		Started:    time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC), Ended: time.Date(2026, 1, 2, 3, 5, 5, 0, time.UTC),
		Unknown: map[string]json.RawMessage{"later": json.RawMessage(`{"a":[1,2]}`)},
	}
}

func TestGolden(t *testing.T) {
	t.Parallel()
	unset(t, "", reflect.ValueOf(full()))
	got, err := Encode(full())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", "full.json")
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("the format changed; raise Schema if old files would read wrongly (-want +got):\n%s", diff)
	}
	r, err := Decode(want)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(full(), r); diff != "" {
		t.Errorf("decoded (-want +got):\n%s", diff)
	}
}

// unset reports every field of the fixture that is zero, so that a new field cannot stay out of the golden file.
func unset(t *testing.T, path string, v reflect.Value) {
	t.Helper()
	if v.Kind() == reflect.Pointer {
		unset(t, path, v.Elem())
	}
	if v.Kind() == reflect.Slice {
		for i := range v.Len() {
			unset(t, path+"[]", v.Index(i))
		}
	}
	if v.Kind() != reflect.Struct {
		return
	}
	for i := range v.NumField() {
		name := path + "." + v.Type().Field(i).Name
		if !v.Type().Field(i).IsExported() {
			continue
		}
		if v.Field(i).IsZero() {
			t.Errorf("fixture leaves %s unset", name)
			continue
		}
		unset(t, name, v.Field(i))
	}
}
