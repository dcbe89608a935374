package slurm_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cpbench/slurm"
	"cpbench/slurm/slurmtest"
)

func TestMain(m *testing.M) { os.Exit(slurmtest.Main(m)) }

func onFakes(t *testing.T) *slurm.Slurm {
	t.Helper()
	fake := slurmtest.Fakes(t)
	return &slurm.Slurm{Bin: fake.Bin, Dir: t.TempDir(), Env: fake.Env()}
}

func onSlurm(t *testing.T) *slurm.Slurm {
	t.Helper()
	cluster := slurmtest.Shared(t)
	return &slurm.Slurm{Bin: cluster.Bin, Dir: t.TempDir(), Env: cluster.Env()}
}

func TestExecutorOnFakes(t *testing.T) {
	t.Parallel()
	slurmtest.TestExecutor(t, func(t *testing.T) slurm.Executor { return onFakes(t) })
}

func TestExecutorOnSlurm(t *testing.T) {
	t.Parallel()
	slurmtest.Require(t) // once, and not in each subtest
	slurmtest.TestExecutor(t, func(t *testing.T) slurm.Executor { return onSlurm(t) })
}

// A module that sets SBATCH_* variables would otherwise win against the script, and a job that submits would pass its
// own variables on.
func TestSubmitStripsVariables(t *testing.T) {
	t.Parallel()
	for name, executor := range map[string]func(t *testing.T) *slurm.Slurm{"fakes": onFakes, "real": onSlurm} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			slurm := executor(t)
			slurm.Env = append(slurm.Env, "SBATCH_ARRAY_INX=7", "SBATCH_JOB_NAME=stray", "SLURM_GPUS_PER_NODE=64", "SQUEUE_USERS=nobody")
			script := "#!/bin/bash\n#SBATCH --array=0-1\n#SBATCH --output=%A_%a.out\necho \"gpus=$SLURM_GPUS_PER_NODE\"\n"
			id, err := slurm.Submit(t.Context(), []byte(script))
			if err != nil {
				t.Fatal(err)
			}
			awaitEnd(t, slurm, id, 2)
			for _, index := range []string{"0", "1"} {
				got, err := os.ReadFile(filepath.Join(slurm.Dir, id+"_"+index+".out"))
				if err != nil || string(got) != "gpus=\n" {
					t.Errorf("task %s: %q, %v", index, got, err)
				}
			}
		})
	}
}

// A job that is no array counts as index 0.
func TestPlainJob(t *testing.T) {
	t.Parallel()
	for name, executor := range map[string]func(t *testing.T) *slurm.Slurm{"fakes": onFakes, "real": onSlurm} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			slurm := executor(t)
			id, err := slurm.Submit(t.Context(), []byte("#!/bin/bash\n#SBATCH --output=\"%j %A %a\"\necho \"${SLURM_ARRAY_TASK_ID-unset} $SLURM_JOB_ID\"\nexit 3\n"))
			if err != nil {
				t.Fatal(err)
			}
			if got := awaitEnd(t, slurm, id, 1)[0].Exit; got != "3:0" {
				t.Errorf("exit %q", got)
			}
			got, err := os.ReadFile(filepath.Join(slurm.Dir, id+" "+id+" 4294967294"))
			if err != nil || string(got) != "unset "+id+"\n" {
				t.Errorf("output %q, %v", got, err)
			}
		})
	}
}

func awaitEnd(t *testing.T, executor slurm.Executor, id string, n int) map[int]slurm.TaskState {
	t.Helper()
	tick := time.NewTicker(30 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for {
		tasks, err := executor.Tasks(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		ended := 0
		for _, task := range tasks {
			if task.State.Ended() {
				ended++
			}
		}
		if ended == n {
			return tasks
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("array %s: %v", id, tasks)
		}
	}
}

func TestSubmitAnswers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, sbatch string
		want         string
		wantErr      string // empty: none
		noAnswer     bool
	}{
		{name: "plain", sbatch: "echo 17", want: "17"},
		{name: "cluster", sbatch: "echo '17;main'", want: "17"},
		{name: "banner around it", sbatch: "echo '*** maintenance on 12 May ***'; echo 5; echo 17; echo 'have a nice day'", want: "17"},
		{name: "banner alone", sbatch: "echo 'have a nice day'", wantErr: `no job id in its output "have a nice day"`, noAnswer: true},
		{
			name: "refused", sbatch: "echo 'sbatch: error: QOSMaxSubmitJobPerUserLimit' >&2; echo 'sbatch: error: Batch job submission failed: policy' >&2; exit 1",
			wantErr: "sbatch --parsable: exit status 1: sbatch: error: QOSMaxSubmitJobPerUserLimit; sbatch: error: Batch job submission failed: policy",
		},
		{name: "long words", sbatch: "printf 'x%.0s' {1..5000} >&2; echo end >&2; exit 255", wantErr: "exit status 255: ...xxx"},
		{name: "late reply", sbatch: "echo 'sbatch: error: Batch job submission failed: Socket timed out on send/recv operation' >&2; exit 1", wantErr: "Socket timed out", noAnswer: true},
		{name: "killed", sbatch: "kill -KILL $$", wantErr: "signal: killed", noAnswer: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			executor := &slurm.Slurm{Bin: stubs(t, map[string]string{"sbatch": test.sbatch})}
			got, err := executor.Submit(t.Context(), []byte("#!/bin/bash\n"))
			if got != test.want || (err == nil) != (test.wantErr == "") || err != nil && !strings.Contains(err.Error(), test.wantErr) {
				t.Errorf("Submit() = %q, %v; want %q, %q", got, err, test.want, test.wantErr)
			}
			if got := errors.Is(err, slurm.ErrNoAnswer); got != test.noAnswer {
				t.Errorf("ErrNoAnswer: %v, want %v, in %v", got, test.noAnswer, err)
			}
			if err != nil && len(err.Error()) > 2300 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

func TestSubmitWithoutSbatch(t *testing.T) {
	t.Parallel()
	_, err := (&slurm.Slurm{Bin: t.TempDir()}).Submit(t.Context(), []byte("#!/bin/bash\n"))
	if err == nil || errors.Is(err, slurm.ErrNoAnswer) || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("Submit: %v", err)
	}
}

// The limit of a caller ends a command that hangs, and a child of it that holds its pipes does not keep the caller.
func TestSubmitGivesUp(t *testing.T) {
	t.Parallel()
	bin := stubs(t, map[string]string{"sbatch": "sleep 8"})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	begin := time.Now()
	_, err := (&slurm.Slurm{Bin: bin}).Submit(ctx, []byte("#!/bin/bash\n"))
	if !errors.Is(err, slurm.ErrNoAnswer) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Submit: %v", err)
	}
	if took := time.Since(begin); took > 6*time.Second {
		t.Errorf("Submit took %v", took)
	}
}

func TestTasksAnswers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, squeue string
		want         map[int]slurm.TaskState
		wantErr      string // empty: none
	}{
		// As squeue of 22.05.8 printed it for tasks that exit 0, exit 7, exit 255, kill themselves, and run.
		{"observed", `echo '0|COMPLETED|0|n1|
3|FAILED|9|n1|
2|FAILED|65280|n1|
1|FAILED|1792|n1|
5|RUNNING|0|n[1-2,4]|
4|COMPLETING|15|n1|
6|PENDING|0||
7|FAILED|4021|n1|
8|TIMEOUT|0|n1|
9|NODE_FAIL|139|n1|'`, map[int]slurm.TaskState{
			0: {State: slurm.Completed, Exit: "0:0", Node: "n1"},
			1: {State: slurm.Failed, Exit: "7:0", Node: "n1"},
			2: {State: slurm.Failed, Exit: "255:0", Node: "n1"},
			3: {State: slurm.Failed, Exit: "0:9", Node: "n1"},
			4: {State: "COMPLETING", Node: "n1"},
			5: {State: slurm.Running, Node: "n[1-2,4]"},
			6: {State: slurm.Pending},
			7: {State: slurm.Failed, Exit: "0:53", Node: "n1"},
			8: {State: slurm.TimedOut, Exit: "0:0", Node: "n1"},
			9: {State: "NODE_FAIL", Exit: "0:11", Node: "n1"},
		}, ""},
		{"plain job", "echo 'N/A|FAILED|256|n1|'", map[int]slurm.TaskState{0: {State: slurm.Failed, Exit: "1:0", Node: "n1"}}, ""},
		{"exit as text", "echo '0|FAILED|7:0|n1|'", map[int]slurm.TaskState{0: {State: slurm.Failed, Exit: "7:0", Node: "n1"}}, ""},
		{"forgotten", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1", map[int]slurm.TaskState{}, ""},
		{"none", "true", map[int]slurm.TaskState{}, ""},
		{"no controller", "echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; exit 1", nil, "tasks of array 5: squeue"},
		{"grouped tasks", "echo '4-6%1|PENDING|0||'", nil, `"4-6%1" is no task index`},
		{"columns missing", "echo '4|PENDING'", nil, "four columns"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			executor := &slurm.Slurm{Bin: stubs(t, map[string]string{"squeue": test.squeue})}
			got, err := executor.Tasks(t.Context(), "5")
			if (err == nil) != (test.wantErr == "") || err != nil && !strings.Contains(err.Error(), test.wantErr) {
				t.Errorf("Tasks: %v; want %q", err, test.wantErr)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("Tasks (-want +got):\n%s", diff)
			}
		})
	}
}

// An id that is no number was never one of ours, whatever squeue thinks of it.
func TestStrangeID(t *testing.T) {
	t.Parallel()
	for name, executor := range map[string]func(t *testing.T) *slurm.Slurm{"fakes": onFakes, "real": onSlurm} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			slurm := executor(t)
			if got, err := slurm.Tasks(t.Context(), "abc"); err == nil {
				t.Errorf("Tasks(abc) = %v", got)
			}
			if err := slurm.Cancel(t.Context(), "abc"); err == nil {
				t.Error("Cancel(abc) succeeded")
			}
		})
	}
}

func TestCancelAnswers(t *testing.T) {
	t.Parallel()
	for words, fails := range map[string]bool{
		"scancel: error: Kill job error on job id 5: Invalid job id specified":                             false,
		"scancel: error: Kill job error on job id 5: Job/step already completing or completed":             false,
		"scancel: error: Kill job error on job id 5: Access/permission denied":                             true,
		"scancel: error: Kill job error on job id 5: Unable to contact slurm controller (connect failure)": true,
	} {
		bin := stubs(t, map[string]string{"scancel": "echo '" + words + "' >&2; exit 1"})
		if err := (&slurm.Slurm{Bin: bin}).Cancel(t.Context(), "5"); (err != nil) != fails {
			t.Errorf("%s: Cancel: %v", words, err)
		}
	}
}
