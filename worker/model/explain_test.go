package model

import (
	"strings"
	"testing"

	"cpbench/plan/catalogue"
)

// TestExplain: what the log of a rank says counts where the rank has not said it over the protocol.
func TestExplain(t *testing.T) {
	const oom = `torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.95 GiB. GPU 0 has a total capacity of 14.57 GiB of which 1.58 GiB is free.`
	for name, tt := range map[string]struct {
		script  string
		outcome catalogue.Outcome
		reason  string
		with    string
	}{
		"OOM in the log":      {"echo '" + oom + "' >&2; exit 1", catalogue.OOMDevice, "the log of rank", ""},
		"of another rank":     {`[ $RANK = 0 ] && exit 1; echo '` + oom + "' >&2; exit 1", catalogue.OOMDevice, "the log of rank 1 tells why", ""},
		"NCCL":                {"echo \"n1:1:2 NCCL WARN Cuda failure 'out of memory'\" >&2; exit 1", catalogue.OOMComm, "the log of rank", ""},
		"too big":             {"echo 'RuntimeError: nonzero is not supported for tensors with more than INT_MAX elements' >&2; exit 1", catalogue.TooBig, "the log of rank", ""},
		"killed, no witness":  {"kill -9 $$", catalogue.Error, "nothing shows that memory was the reason", ""},
		"hangs after it":      {"[ $RANK = 0 ] || echo '" + oom + "' >&2; exec sleep 60", catalogue.OOMDevice, "the log of rank 1 tells why", "timeout: 1s"},
		"hangs after a doubt": {"echo 'WARNING: CUDA out of memory, trying again' >&2; exec sleep 60", catalogue.Timeout, "one execution took longer", "timeout: 1s"},
		"nothing explains it": {"echo 'IndexError: list index out of range' >&2; exit 1", catalogue.Error, "exit code 1 before it said hello", ""},
	} {
		t.Run(name, func(t *testing.T) {
			st := newStage(t, spec(2, `[bash, -c, "`+strings.ReplaceAll(tt.script, `"`, `\"`)+`"]`, tt.with))
			r, _, _ := st.perform(t.Context(), 0)
			if r.Outcome != tt.outcome || !strings.Contains(r.Reason, tt.reason) {
				t.Errorf("%s (%s) %q", r.Outcome, r.Reason, r.Evidence)
			}
		})
	}
}
