package table

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"cpbench/plan"
	"cpbench/plan/catalogue"
	"cpbench/worker/result"
)

// full is a sweep with every kind of row: searches, repeats that differ, failures, axes and columns of the user's
// with bars in them.
const full = `version: 1
name: cp_sweep
matrix: {cp: [1, 4], tokens: [128, 256, 512], data: ["a|b", "*plain*"]}
exclude: [{where: "cp == 1 && data == '*plain*'"}]
repeats: 3
order: as-written
pack: [tokens]
workload:
  kind: model
  mode: inference
  command: ["true"]
  ranks: cp
  topology: 2d
  dtype: bf16
  point: {tokens: tokens, atoms: tokens * 8, msa: "64", data: data}
  iterations: 10
  max_fit: {axis: tokens, from: 64, to: 1024, step: 16}
columns:
  - {name: "tokens|s", value: "tokens / step_seconds"}
  - {name: label, value: "data + '|' + string(cp)"}
`

func fillFull(t *testing.T) *Table {
	t.Helper()
	run := newRun(t, full)
	measure(t, run, func(pair plan.Pair, st plan.Setting, r *result.Result) bool {
		for k, v := range map[string]string{
			"gpu": "H200", "device": "H200", "torch": "2.9.1", "cuda": "12.8", "cpbench": "v0-test", "clocks_locked": "no, they varied", "slurm_partition": "gpu|x",
			"driver": "580.1", "nccl": "2.27.5", "kernel": "6.1", "cpu": "A CPU", "cpus_allowed": "64", "slurm_job": "17_4", "slurm_nodes": "n1",
			"position": "1 of 1", "telemetry": "nvml", "setting model": "its_model 1.0", "sm_clock_observed": "1410 to 1980 MHz",
		} {
			r.Provenance[k] = v
		}
		r.Missing = []result.Missing{
			{Keys: []string{"node_shared"}, Reason: "ask for whole nodes with resources.exclusive, or declare site.node_shared"},
			{Keys: []string{"governor", "setting weights"}, Reason: "not known"},
		}
		data := pair.Values[2]
		if pair.Case != "" {
			fits := int64(352)
			if st.Ranks == 4 {
				fits = 688
			}
			r.MaxFit = &result.MaxFit{Axis: "tokens", Fits: ptr(fits), OOM: ptr(fits + 16), Ended: "closed", Confirmed: 1, Confirms: 1, PeakBytes: ptr(7.6 * (1 << 30))}
			if data == "*plain*" {
				r.MaxFit.Ended, r.MaxFit.OOM = "ceiling", nil
				r.Warn(catalogue.Unconfirmed, "no time for 1 of 1 confirmations", "raise max_fit.time")
			}
			return true
		}
		n := *r.Sizes.Tokens
		r.Sizes.Atoms, r.Sizes.MSA = ptr(n*8), ptr[int64](64)
		if n == 128 && st.Ranks == 4 {
			r.Sizes.PaddedTokens = ptr[int64](144)
		}
		switch {
		case n == 512 && st.Ranks == 1:
			r.Outcome, r.Reason = catalogue.Skipped, "above_bracket"
		case n == 512 && data == "a|b" && pair.Repeat == 2:
			r.Outcome, r.Reason = catalogue.OOMDevice, "rank 3: tried to allocate 2 GiB\n<here> | there"
		case n == 256 && data == "*plain*":
			r.Outcome, r.Reason = catalogue.OOMDevice, "rank 1"
		case n == 512 && data == "*plain*":
			return false
		default:
			timed(r, float64(n*n)/float64(st.Ranks)*1e-7*(1+0.01*float64(pair.Repeat)), 10, float64(n*n)*64/float64(st.Ranks))
			r.Warn(catalogue.Unsteady, "step times had not settled | at all", "raise warmup")
		}
		return true
	})
	strange := filepath.Join(run.ResultsDir(), "00", "a|b `c`.json")
	if err := os.MkdirAll(filepath.Dir(strange), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(strange, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	return build(t, run)
}

func TestGolden(t *testing.T) {
	t.Parallel()
	table := fillFull(t)
	golden(t, "full.md", table.WriteMarkdown)
	golden(t, "full.csv", table.WriteCSV)
	golden(t, "full-raw.csv", table.WriteRaw)
}

func TestMarkdownCellsHold(t *testing.T) {
	t.Parallel()
	table := fillFull(t)
	var b strings.Builder
	if err := table.WriteMarkdown(&b); err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(b.String()) {
		if !strings.HasPrefix(line, "|") {
			continue
		}
		rows++
		bars := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|")
		if want := len(table.columns()) + 1; bars != want {
			t.Errorf("%d bars, want %d: %s", bars, want, line)
		}
	}
	if want := len(table.Rows) + 2; rows != want {
		t.Errorf("%d lines of table, want %d", rows, want)
	}
	const contract = "| N_tokens | N_atoms | MSA_seq | CP config | peak_mem (GiB) | walltime (ms) | tokens\\|s | label | data |"
	blanks := regexp.MustCompile(` +`) // the columns are as wide as their widest cell
	if !strings.Contains(blanks.ReplaceAllString(b.String(), " "), "\n"+contract) {
		t.Errorf("header is not %q", contract)
	}
	if strings.Contains(b.String(), table.Set.Runs[0].Dir) {
		t.Error("the page names the folder of the run")
	}
}

func TestCSVIsRectangular(t *testing.T) {
	t.Parallel()
	table := fillFull(t)
	for name, lines := range map[string]int{"table": len(table.Rows) + 1, "raw": len(table.Set.Pairs) + 1} {
		var b strings.Builder
		write := table.WriteCSV
		if name == "raw" {
			write = table.WriteRaw
		}
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		all, err := csv.NewReader(strings.NewReader(b.String())).ReadAll() // fails on lines of different length
		if err != nil || len(all) != lines {
			t.Errorf("%s: %d lines, want %d: %v", name, len(all), lines, err)
		}
	}
}

func TestSave(t *testing.T) {
	t.Parallel()
	table := fillFull(t)
	run := table.Set.Runs[0]
	if err := table.Save(run); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"table.csv", "table.md", "raw.csv"} {
		if info, err := os.Stat(run.Table(name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNothingMeasured(t *testing.T) {
	t.Parallel()
	golden(t, "empty.md", build(t, newRun(t, full)).WriteMarkdown)
}
