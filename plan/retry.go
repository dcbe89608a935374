package plan

import (
	"slices"
	"strings"
)

// Retry says which endings are tried again without being asked for.
type Retry struct {
	// Max is how often a task is tried again; 0 never does.
	Max int `yaml:"max" json:"max" jsonschema:"minimum=0,maximum=10,default=1"`
	// On lists the endings: `node_fail` and `preempted`, after which Slurm itself runs the task again, and outcomes
	// such as `infra`, `dirty_gpu`, `cancelled`, `timeout`, `hang` or `error`, which `submit --run` and the job that
	// collects submit again. What ran out of memory is an answer and is never tried again.
	On []string `yaml:"on" json:"on,omitempty"`
}

// The endings after which Slurm itself runs a task again.
const (
	RetryNodeFail  = "node_fail"
	RetryPreempted = "preempted"
)

// retryWords are what retry.on may hold. An out-of-memory, a size beyond a limit and a time above the wall budget are
// answers: another try would give the same.
var retryWords = []string{
	RetryNodeFail, RetryPreempted, "infra", "dirty_gpu", "cancelled", "timeout", "hang", "error", "error_kernel",
	"error_collective", "wrong_output", "no_artifact", "invalid",
}

// answerWords are endings that another try would only repeat.
var answerWords = []string{"oom_device", "oom_comm", "oom_host", "oom_suspect", "too_big", "slow", "skipped", "ok"}

// Requeues reports whether Slurm is to run a task again by itself, at most Max times.
func (r Retry) Requeues() bool {
	return r.Max > 0 && (slices.Contains(r.On, RetryNodeFail) || slices.Contains(r.On, RetryPreempted))
}

// Outcomes are the outcomes that are submitted again; nil: none.
func (r Retry) Outcomes() []string {
	if r.Max == 0 {
		return nil
	}
	var out []string
	for _, word := range r.On {
		if word != RetryNodeFail && word != RetryPreempted {
			out = append(out, word)
		}
	}
	return out
}

// checkRetry finds what is wrong with the endings.
func (s *Spec) checkRetry(ps *problems) {
	for i, word := range s.Retry.On {
		path := indexed("retry.on", i)
		switch {
		case slices.Contains(answerWords, word):
			ps.at(path, "choose from "+strings.Join(retryWords, ", "), "retry.on: %q is an answer, which another try would only repeat", word)
		case !slices.Contains(retryWords, word):
			ps.at(path, didYouMean(word, retryWords), "retry.on: unknown ending %q", word)
		case slices.Contains(s.Retry.On[:i], word):
			ps.at(path, "", "retry.on: %s stands twice", word)
		}
	}
}
