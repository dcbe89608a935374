package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"cpbench/plan/folder"
	"cpbench/slurm"
	"cpbench/worker"
	"cpbench/worker/command"
	"cpbench/worker/llm"
	"cpbench/worker/model"
	"cpbench/worker/model/reference"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"
)

// workloads names the package of each kind.
var workloads = map[string]worker.Workload{
	"command": command.Open,
	"llm":     llm.Open,
	"model":   model.Open,
}

// workerOptions are what the script gives a worker.
type workerOptions struct {
	plan, digest, setup, again string
	array, attempt, task       int
}

func workerCommand(s *streams) *cli.Command {
	o := &workerOptions{}
	return &cli.Command{
		Name:   "worker",
		Usage:  "run one task of a plan; the scripts call it",
		Hidden: true,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "plan", Usage: "the run's plan.json", Required: true, Destination: &o.plan},
			&cli.StringFlag{Name: "digest", Usage: "of the plan that the script was written for", Required: true, Destination: &o.digest},
			&cli.IntFlag{Name: "array", Required: true, Destination: &o.array},
			&cli.IntFlag{Name: "attempt", Required: true, Destination: &o.attempt},
			&cli.IntFlag{Name: "task", Required: true, Destination: &o.task},
			&cli.StringFlag{Name: "again", Usage: "outcomes to run again although they are done, separated by commas", Destination: &o.again},
			&cli.StringFlag{Name: "setup-failed", Usage: "LINE:RC of the set-up line that failed", Destination: &o.setup},
		},
		OnUsageError: usageFault,
		Action: func(c *cli.Context) error {
			ctx, stop := untilSignalled(c.Context)
			defer stop()
			return runWorker(ctx, s, o)
		},
	}
}

func runWorker(ctx context.Context, s *streams, o *workerOptions) error {
	run, err := folder.Open(filepath.Dir(o.plan))
	if err != nil {
		return err
	}
	kind := run.Plan.Spec.Workload.Kind
	cfg := worker.Config{
		Run: run, Digest: o.digest, Array: o.array, Index: o.task, Attempt: o.attempt, Setup: o.setup,
		Workload: workloads[kind], Version: version().Version,
	}
	if o.again != "" {
		cfg.Again = strings.Split(o.again, ",")
	}
	if o.array >= 0 && o.array < len(run.Plan.Arrays) {
		a := run.Plan.Arrays[o.array]
		cfg.Alloc = allocation(os.Getenv, time.Duration(a.Seconds)*time.Second)
		if a.Shape.Nodes > 1 && cfg.Alloc.Nodes != "" {
			if cfg.Alloc.Hosts, err = slurm.Hostnames(ctx, cfg.Alloc.Nodes); err != nil {
				return err
			}
		}
	}
	s.sayf("run %s, array %d, task %d, attempt %d", run.Name(), o.array, o.task, o.attempt)
	return worker.Run(ctx, cfg)
}

// untilSignalled ends the context at the first TERM or INT, with worker.ErrSignal as its cause, or USR2, with
// worker.ErrWarned. Slurm sends USR2 some time before the limit; it is not USR1 because NCCL takes that. Later signals
// change nothing: the worker is on its way out already.
func untilSignalled(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGUSR2)
	go func() {
		select {
		case sig := <-signals:
			if sig == unix.SIGUSR2 {
				cancel(worker.ErrWarned)
			}
			cancel(worker.ErrSignal) // unless that was it
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// allocation maps Slurm's environment to what a worker knows of its allocation. limit is the time that was asked for;
// older Slurms do not tell when the job will end, so it is that after the start of this process, which was the job's script.
func allocation(getenv func(string) string, limit time.Duration) worker.Allocation {
	number := func(name string) int {
		n, err := strconv.Atoi(getenv(name))
		if err != nil {
			return 0
		}
		return n
	}
	a := worker.Allocation{
		Restart: number("SLURM_RESTART_COUNT"), Partition: getenv("SLURM_JOB_PARTITION"), Nodes: getenv("SLURM_JOB_NODELIST"),
		Count: number("SLURM_ARRAY_TASK_COUNT"),
	}
	if getenv("SLURM_JOB_ID") == "" {
		return a // not under Slurm
	}
	a.Job, a.Name = getenv("SLURM_JOB_ID"), getenv("SLURM_JOB_NAME")
	if array := getenv("SLURM_ARRAY_JOB_ID"); array != "" {
		a.Job = array + "_" + getenv("SLURM_ARRAY_TASK_ID") // of a task, always this form: the last one has the array's own id
	}
	if end := number("SLURM_JOB_END_TIME"); end > 0 {
		a.End = time.Unix(int64(end), 0)
	} else {
		a.End = scriptStart().Add((limit + time.Minute - 1).Truncate(time.Minute)) // Slurm rounds up to minutes
	}
	return a
}

// scriptStart is when this process began: before it became the worker, it was the script, with its set-up lines.
func scriptStart() time.Time {
	now := time.Now()
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return now
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // from the third on, see proc(5)
	const startTime = 22 - 3
	if len(fields) <= startTime {
		return now
	}
	ticks, err := strconv.ParseInt(fields[startTime], 10, 64)
	var up unix.Timespec
	if err != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &up) != nil {
		return now
	}
	const tick = time.Second / 100 // USER_HZ, the same on all of Linux
	return now.Add(time.Duration(ticks)*tick - time.Duration(up.Nano()))
}

// referenceRank is one rank of the built-in reference model.
func referenceRank(ctx context.Context, args []string, errs io.Writer) int {
	return reference.Main(ctx, args, errs)
}
