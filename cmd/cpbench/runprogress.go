package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"cpbench/slurm"

	"github.com/schollz/progressbar/v3"
)

// progress shows how far a run is: a bar on a terminal, else a line for each task.
type progress struct {
	voice
	bar                 *progressbar.ProgressBar
	total, done, failed int
}

func newProgress(s *streams, total int) *progress {
	p := &progress{voice: s.voice, total: total}
	if isTerminal(s.err) && total > 0 {
		p.bar = progressbar.NewOptions(total, progressbar.OptionSetWriter(s.err), progressbar.OptionSetDescription("cpbench: tasks"),
			progressbar.OptionShowCount(), progressbar.OptionSetWidth(30), progressbar.OptionSetElapsedTime(true), progressbar.OptionSetPredictTime(false), progressbar.OptionClearOnFinish())
		p.bar.RenderBlank() //nolint:errcheck // a bar that cannot be drawn is no reason to stop
	}
	return p
}

// task is told of every change of a task, one at a time.
func (p *progress) task(index int, st slurm.TaskState) {
	if !st.State.Ended() {
		return
	}
	p.done++
	if st.State == slurm.Failed {
		p.failed++
	}
	if p.bar != nil {
		p.bar.Add(1) //nolint:errcheck // see above
		return
	}
	p.sayf("task %d: %s (%d of %d)", index, st.State, p.done, p.total)
}

// glance is how often a bar looks for results. A look costs a few calls of the file system.
const glance = 2 * time.Second

// watch has the bar tell how many results have come, until the returned function is called, once or more often: a task may hold all of a
// sweep, and then its end alone is no sign of life for hours.
func (p *progress) watch(results string) (stop func()) {
	if p.bar == nil {
		return func() {}
	}
	before := countResults(results)
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(glance)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				p.bar.Describe(fmt.Sprintf("cpbench: %s, tasks", countText(countResults(results)-before, "result")))
			}
		}
	})
	return sync.OnceFunc(func() {
		close(done)
		watching.Wait()
	})
}

// countResults is the number of results in the folder of a run's results; 0 where there is none yet.
func countResults(dir string) int {
	shards, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	n := 0
	for _, shard := range shards {
		files, err := os.ReadDir(filepath.Join(dir, shard.Name()))
		if err != nil {
			continue
		}
		for _, f := range files {
			if name := f.Name(); strings.HasSuffix(name, ".json") && name[0] != '.' {
				n++
			}
		}
	}
	return n
}

func (p *progress) end() {
	if p.bar != nil {
		p.bar.Finish() //nolint:errcheck // see above
	}
}
