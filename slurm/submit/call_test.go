package submit

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestShare(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		parallel int
		tasks    []int
		want     []int
	}{
		{0, []int{5, 5}, []int{0, 0}},
		{4, []int{10, 10}, []int{2, 2}},
		{8, []int{100, 1, 100}, []int{3, 1, 4}},
		{5, []int{10, 10, 10}, []int{1, 2, 2}},
		{2, []int{9, 9, 9}, []int{1, 1, 1}},
		{9, []int{2, 3}, []int{2, 3}},
		{7, []int{50}, []int{7}},
	} {
		var wants []Want
		for i, n := range tt.tasks {
			wants = append(wants, Want{Array: i, Tasks: indices(n)})
		}
		got := share(tt.parallel, wants)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("share(%d, %v) (-want +got):\n%s", tt.parallel, tt.tasks, diff)
		}
	}
}

func TestRoom(t *testing.T) {
	t.Parallel()
	wants := []Want{{Array: 0, Tasks: []int{3, 4, 5}}, {Array: 2, Tasks: []int{0, 1}}}
	for n, want := range map[int][]Want{
		-1: nil, 0: nil,
		2: {{Array: 0, Tasks: []int{3, 4}}},
		4: {{Array: 0, Tasks: []int{3, 4, 5}}, {Array: 2, Tasks: []int{0}}},
		9: wants,
	} {
		got, rest := Room(wants, n)
		if diff := cmp.Diff(want, got); diff != "" || Count(got) > max(n, 0) {
			t.Errorf("Room(%d) (-want +got):\n%s", n, diff)
		}
		tasks := map[[2]int]bool{}
		for _, w := range append(got, rest...) {
			for _, task := range w.Tasks {
				tasks[[2]int{w.Array, task}] = true
			}
		}
		if Count(got)+Count(rest) != 5 || len(tasks) != 5 {
			t.Errorf("Room(%d) loses or repeats tasks: %v and %v", n, got, rest)
		}
	}
}

func TestTasksText(t *testing.T) {
	t.Parallel()
	text := TasksText([]Want{{Array: 0, Tasks: []int{3, 4, 5, 9}}, {Array: 12, Tasks: []int{0}}})
	if text != "0:3-5,9/12:0" {
		t.Error(text)
	}
	got, err := ParseTasks(text)
	want := map[[2]int]bool{{0, 3}: true, {0, 4}: true, {0, 5}: true, {0, 9}: true, {12, 0}: true}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, bad := range []string{"", "3-5", "a:1", "0:5-3", "0:1/", "0:x"} {
		if got, err := ParseTasks(bad); err == nil {
			t.Errorf("%q gives %v", bad, got)
		}
	}
}

func TestDryRun(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.must(s.submit(s.all()[:1], Options{}))
	session, err := Peek(t.Context(), s.slurm, s.run)
	s.must(err)
	before, err := os.ReadFile(s.run.JobsFile())
	s.must(err)
	got, err := session.DryRun(s.all()[:2], Options{})
	s.must(err)
	for i, line := range got {
		got[i] = strings.ReplaceAll(strings.ReplaceAll(line, strings.ReplaceAll(s.run.Dir, "'", `'\''`), "RUN"), s.run.Dir, "RUN")
	}
	joined := strings.Join(got, "\n")
	for _, want := range []string{"job0=$(sbatch --parsable ", "array-0.a2.sbatch", "array-1.sbatch", `afterany:"$job0":"$job1" `, "collect.a2.sbatch"} {
		if !strings.Contains(joined, want) {
			t.Errorf("no %s in:\n%s", want, joined)
		}
	}
	after, err := os.ReadFile(s.run.JobsFile())
	if s.must(err); string(before) != string(after) || len(s.calls()) != 2 {
		t.Error("something was written")
	}
}
