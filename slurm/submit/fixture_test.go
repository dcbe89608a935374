package submit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"cpbench/plan/folder"
	"cpbench/plan/folder/foldertest"
	"cpbench/slurm"
	"cpbench/slurm/slurmtest"
)

func TestMain(m *testing.M) { os.Exit(slurmtest.Main(m)) }

// sweep has three arrays, of four, two and one tasks.
const sweep = `version: 1
name: s
matrix: {n: [1, 2, 3, 4, 5, 6, 7]}
derive: {gpus: "n < 5 ? 1 : n < 7 ? 2 : 4"}
order: as-written
workload: {kind: model, mode: inference, command: ["true"]}
resources: {gpus_per_node: gpus}
`

// site is a run on a fake cluster. The run's cpbench is a script, so that its tasks do what a test wants.
type site struct {
	*testing.T
	fake  *slurmtest.Fake
	slurm *slurm.Slurm
	run   *folder.Run
	mu    sync.Mutex
	told  []string
}

func newSite(t *testing.T, worker string) *site {
	t.Helper()
	run := foldertest.New(t, sweep+"slurm: {multi_shape: error, parallel: 4, exclude: n9}\n", foldertest.Options{Script: "#!/bin/bash\n" + worker + "\n"})
	for i := range run.Plan.Arrays {
		_, _, err := run.AddScript(i, func(n int) ([]byte, error) { return slurm.Script(slurm.Job{Run: run, Array: i, Attempt: n}) })
		if err != nil {
			t.Fatal(err)
		}
	}
	fake := slurmtest.Fakes(t)
	return &site{T: t, fake: fake, slurm: &slurm.Slurm{Bin: fake.Bin, Dir: t.TempDir(), Env: fake.Env()}, run: run}
}

// trouble lets the fake sbatch misbehave from now on; see slurmtest.Commands.
func (s *site) trouble(what string) {
	s.slurm.Env = append(s.fake.Env(), "CPBENCH_FAKE_SBATCH="+what)
}

func (s *site) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = append(s.told, fmt.Sprintf(format, args...))
}

// heard tells whether something with that text was said.
func (s *site) heard(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(strings.Join(s.told, "\n"), text)
}

// with opens the run, looks unless fresh, and does something.
func (s *site) with(do func(*Session) error) error {
	s.Helper()
	session, err := Open(s.Context(), s.slurm, s.run, s.say)
	if err != nil {
		s.Fatal(err)
	}
	session.settle = 50 * time.Millisecond
	err = session.Look(s.Context())
	if err == nil {
		err = do(session)
	}
	return errors.Join(err, session.Close())
}

// submit submits wants and is content with the error that the test expects.
func (s *site) submit(wants []Want, opt Options) error {
	s.Helper()
	return s.with(func(session *Session) error { return session.Submit(s.Context(), wants, opt) })
}

func (s *site) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// all wants everything.
func (s *site) all() []Want {
	var wants []Want
	for i := range s.run.Plan.Arrays {
		wants = append(wants, Want{Array: i, Tasks: indices(len(s.run.Plan.Arrays[i].Lengths))})
	}
	return wants
}

// calls are the calls of sbatch so far, without the folder of the scripts.
func (s *site) calls() []string {
	s.Helper()
	text, err := os.ReadFile(filepath.Join(s.fake.State, "calls"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.Fatal(err)
	}
	clean := strings.ReplaceAll(string(text), s.run.Dir+"/", "")
	return strings.Split(strings.TrimSuffix(strings.ReplaceAll(clean, "sbatch --parsable ", ""), "\n"), "\n")
}

// ended waits until nothing of the run is in the queue.
func (s *site) ended() {
	s.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		left, err := Left(s.Context(), s.slurm, s.run)
		if err != nil {
			s.Fatal(err)
		}
		if left == 0 {
			return
		}
		<-tick.C
	}
}

// stub replaces a command of the fake cluster by a bash script; $REAL is the folder with the fakes.
func (s *site) stub(name, body string) {
	s.Helper()
	dir := s.TempDir()
	for _, other := range []string{"sbatch", "squeue", "scancel", "scontrol", "sacct"} {
		if other == name {
			continue
		}
		if err := os.Symlink(filepath.Join(s.fake.Bin, other), filepath.Join(dir, other)); err != nil {
			s.Fatal(err)
		}
	}
	slurmtest.Executable(s, filepath.Join(dir, name), "#!/bin/bash\n"+body+"\n")
	s.slurm.Bin = dir
	s.slurm.Env = append(s.fake.Env(), "REAL="+s.fake.Bin, "MARKS="+s.TempDir())
}
