package record

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fixture returns the lines of a file of testdata without the first, which says where the others come from.
func fixture(tb testing.TB, name string) []string {
	tb.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		tb.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if len(lines) < 2 || !strings.HasPrefix(lines[0], "# ") {
		tb.Fatalf("%s: no line that says where it comes from, or nothing after it", name)
	}
	return lines[1:]
}

// brief writes what an id comes to.
func brief(id JobID) string {
	text := id.Job
	if id.Het >= 0 {
		text += fmt.Sprintf(" +%d", id.Het)
	}
	if id.Index >= 0 {
		text += fmt.Sprintf(" %d", id.Index)
	}
	if id.Indices != nil {
		text += " [" + id.Indices.String() + "]"
	}
	if id.Step != "" {
		text += " ." + id.Step
	}
	return text
}

func TestParseJobID(t *testing.T) {
	t.Parallel()
	tests := [][2]string{
		{"121", "121"},
		{"121_3", "121 3"},
		{"121_3.extern", "121 3 .extern"},
		{"121_[5-6,8-9%1]", "121 [5-6,8-9]"},
		{"121_[1-9:2]", "121 [1-9:2]"},
		{"121_[1-8:3,12]", "121 [1-7:3,12]"}, // 8 is not reached
		{"121+2", "121 +2"},
		{"121+2.batch", "121 +2 .batch"},
		{"121_[4000000]", "121 [4000000]"},
	}
	for _, line := range fixture(t, "jobids") {
		f := strings.Split(line, "\t")
		tests = append(tests, [2]string{f[0], f[1]})
	}
	for _, tt := range tests {
		id, err := ParseJobID(tt[0])
		if err != nil {
			t.Errorf("%s: %v", tt[0], err)
			continue
		}
		if diff := cmp.Diff(tt[1], brief(id)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt[0], diff)
		}
	}
}

func TestParseJobIDRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "abc", "12a", "_3", "121_", "121_x", "121_-1", "121_[", "121_[]", "121_[1-2", "121_[3-1]", "121_[1-9:0]", "121_[3:2]", "121_[1,,2]",
		"121_[1%]", "121_[1%x]", "121+", "121+a", "121.", "+1", " 121", "121_4000001", "121_[0-99999999999]", "121;cluster",
	} {
		if id, err := ParseJobID(text); err == nil {
			t.Errorf("%q is taken for %s", text, brief(id))
		}
	}
	for _, text := range []string{"121_[1,3,5,7,...]", "121_[1,3,1...]", "121_[1,3,..."} {
		if _, err := ParseJobID(text); !errors.Is(err, ErrCut) {
			t.Errorf("%q: %v, want ErrCut", text, err)
		}
	}
}

func TestIndices(t *testing.T) {
	t.Parallel()
	list, err := ParseIndices("5-6,10-20:5%1")
	if err != nil {
		t.Fatal(err)
	}
	var got []int
	for i := range 30 {
		if list.Contains(i) {
			got = append(got, i)
		}
	}
	if diff := cmp.Diff([]int{5, 6, 10, 15, 20}, got); diff != "" || size(list) != len(got) {
		t.Errorf("%d indices (-want +got):\n%s", size(list), diff)
	}
}

// FuzzJobID has as its oracle what a list means, written out index by index, and that what is printed reads the same.
func FuzzJobID(f *testing.F) {
	for _, line := range fixture(f, "jobids") {
		f.Add(strings.Split(line, "\t")[0])
	}
	f.Add("121_[5-6,8-9%1]")
	f.Add("121+1.batch")
	f.Add("121_[1,3,...]")
	f.Fuzz(func(t *testing.T, text string) {
		id, err := ParseJobID(text)
		if err != nil {
			return
		}
		if _, err := strconv.ParseUint(id.Job, 10, 32); err != nil || !strings.HasPrefix(text, id.Job) {
			t.Errorf("%q: job %q", text, id.Job)
		}
		if id.Indices == nil {
			return
		}
		again, err := ParseIndices(id.Indices.String())
		if err != nil || !cmp.Equal(again, id.Indices) {
			t.Errorf("%q: %s is read as %v (%v)", text, id.Indices, again, err)
		}
		if size(id.Indices) > 5000 {
			return
		}
		meant := map[int]bool{}
		for _, r := range id.Indices {
			for i := r.First; i <= r.Last; i += r.Step {
				meant[i] = true
			}
			for _, i := range []int{r.First - 1, r.First, r.Last, r.Last + 1, r.First + 1} {
				if _, named := meant[i]; named != id.Indices.Contains(i) && len(id.Indices) == 1 {
					t.Errorf("%q contains %d: %v", text, i, id.Indices.Contains(i))
				}
			}
		}
		for i := range meant {
			if !id.Indices.Contains(i) {
				t.Errorf("%q lacks %d", text, i)
			}
		}
	})
}
