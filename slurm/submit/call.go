package submit

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"cpbench/slurm"
	"cpbench/slurm/ledger"
)

// Want is what is to be submitted of one array.
type Want struct {
	Array int
	Tasks []int    // sorted indices, at least one
	Again []string // outcomes to run again although they are done
}

// Room splits the wants into the first n tasks and the rest.
func Room(wants []Want, n int) (now, rest []Want) {
	for _, w := range wants {
		first, later := w, w
		k := max(0, min(n, len(w.Tasks)))
		first.Tasks, later.Tasks = w.Tasks[:k], w.Tasks[k:]
		n -= k
		if len(first.Tasks) > 0 {
			now = append(now, first)
		}
		if len(later.Tasks) > 0 {
			rest = append(rest, later)
		}
	}
	return now, rest
}

// TasksText writes the tasks of wants as one word, such as 0:4-9,12/1:0-3; empty for none.
func TasksText(wants []Want) string {
	var words []string
	for _, w := range wants {
		words = append(words, strconv.Itoa(w.Array)+":"+slurm.IndexList(w.Tasks))
	}
	return strings.Join(words, "/")
}

// ParseTasks reads the word of TasksText, as pairs of array and task.
func ParseTasks(text string) (map[[2]int]bool, error) {
	all := map[[2]int]bool{}
	for word := range strings.SplitSeq(text, "/") {
		number, ranges, _ := strings.Cut(word, ":")
		array, err := strconv.Atoi(number)
		tasks, errRanges := ledger.ParseRanges(ranges)
		if err := errors.Join(err, errRanges); err != nil {
			return nil, fmt.Errorf("tasks %q: %w", text, err)
		}
		for _, task := range tasks {
			all[[2]int{array, task}] = true
		}
	}
	return all, nil
}

// Count is the number of tasks in the wants.
func Count(wants []Want) int {
	n := 0
	for _, w := range wants {
		n += len(w.Tasks)
	}
	return n
}

// share divides the largest number of tasks that run at once among arrays: equal parts, of which an array that has
// fewer tasks gives the rest to the others, and at least one each. 0 sets no limit.
func share(parallel int, wants []Want) []int {
	out := make([]int, len(wants))
	if parallel == 0 {
		return out
	}
	order := make([]int, len(wants)) // the smallest array first: what it leaves is shared among the others
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return len(wants[a].Tasks) - len(wants[b].Tasks) })
	for done, i := range order {
		rest := len(order) - done
		out[i] = max(1, min(len(wants[i].Tasks), parallel/rest))
		parallel -= out[i]
	}
	return out
}

// options are what a call of sbatch says beside the script: its tasks and its share of the throttle, and the nodes to
// leave out beside those of the spec.
func options(w Want, throttle int, exclude string) []string {
	array := slurm.IndexList(w.Tasks)
	if throttle > 0 && throttle < len(w.Tasks) {
		array += "%" + strconv.Itoa(throttle)
	}
	out := []string{"--array=" + array}
	if exclude != "" {
		out = append(out, "--exclude="+exclude)
	}
	return out
}

// excluded joins the nodes of the spec and others: on the command line the option stands in place of the script's.
func excluded(spec string, nodes []string) string {
	if len(nodes) == 0 {
		return "" // the script says it
	}
	return strings.Join(append(slices.DeleteFunc([]string{spec}, func(n string) bool { return n == "" }), nodes...), ",")
}

// begin makes a job wait for a time from now.
func begin(after time.Duration) []string {
	return []string{fmt.Sprintf("--begin=now+%d", int(after.Seconds()))}
}

// dependency makes the job that collects wait for the end of all tasks of the arrays. afterok would wait for ever after
// one failure; the flag removes a job whose arrays are unknown.
func dependency(ids []string) []string {
	return []string{"--dependency=afterany:" + strings.Join(ids, ":"), "--kill-on-invalid-dep=yes"}
}
