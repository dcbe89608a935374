package record

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"cpbench/slurm"
)

// The columns that are asked for. All are older than 21.08: one column that a version does not know fails the whole
// call. The name comes last, because it is the one text that its owner chooses.
const (
	queueFormat       = "tres-alloc:|,ArrayJobID:|,ArrayTaskID:|,JobID:|,State:|,exit_code:|,RestartCnt:|,SubmitTime:|,StartTime:|,EndTime:|,TimeLimit:|,NodeList:|,Partition:|,MinMemory:|,Reason:|,Name:|"
	queueColumns      = 16
	accountingFormat  = "AllocTRES,JobID,JobIDRaw,State,ExitCode,Submit,Start,End,Timelimit,NodeList,Partition,ReqMem,Reason,JobName"
	accountingColumns = 14
)

// timeForm is how Slurm writes times unless it is told otherwise; see slurm.Query for the zone.
const timeForm = "2006-01-02T15:04:05"

// row is a line of either command: a task, or one record that several tasks share.
type row struct {
	Task
	shared Indices // nil: of this task alone
}

var errColumns = errors.New("it does not have the columns that were asked for")

// parseQueueRow reads a line of squeue in queueFormat.
func parseQueueRow(line string) (row, error) {
	f := strings.SplitN(line, "|", queueColumns)
	if len(f) != queueColumns || f[4] == "" {
		return row{}, errColumns
	}
	granted, f := f[0], f[1:]
	r := row{Task: Task{
		Array: f[0], Index: -1, Raw: f[2], State: slurm.State(f[3]), Node: f[10], Partition: f[11], Memory: memory(f[12], granted),
		Reason: reason(f[13]), Name: strings.TrimSuffix(f[14], "|"), Live: true,
	}}
	if r.Array == "" || r.Array == "N/A" {
		r.Array = r.Raw
	}
	if _, err := number(r.Array); err != nil {
		return row{}, err
	}
	var err error
	if f[1] != "" && f[1] != "N/A" {
		if r.Index, err = taskIndex(f[1]); err != nil {
			r.Index = -1
			if r.shared, err = ParseIndices(f[1]); err != nil {
				return row{}, err
			}
		}
	}
	if r.Restarts, err = strconv.Atoi(f[5]); err != nil {
		return row{}, fmt.Errorf("%q is no count of restarts", f[5])
	}
	if err := r.times(f[6], f[7], f[8], f[9]); err != nil {
		return row{}, err
	}
	if r.Ended() {
		r.Exit = slurm.ExitText(f[4])
	} else {
		r.End = time.Time{} // squeue's guess
	}
	if r.Waits() {
		r.Start = time.Time{} // squeue's guess, or the start of an earlier run
	}
	r.unstarted()
	return r, nil
}

// parseAccountingRow reads a line of sacct in accountingFormat.
func parseAccountingRow(line string) (row, error) {
	f := strings.SplitN(line, "|", accountingColumns)
	if len(f) != accountingColumns || f[3] == "" {
		return row{}, errColumns
	}
	granted, f := f[0], f[1:]
	id, err := ParseJobID(f[0])
	if err != nil {
		return row{}, err
	}
	r := row{shared: id.Indices, Task: Task{
		Array: id.Job, Index: id.Index, Raw: f[1], State: slurm.State(f[2]), Partition: f[9], Memory: memory(f[10], granted),
		Reason: reason(f[11]), Name: f[12], Restarts: -1,
	}}
	if f[8] != "None assigned" {
		r.Node = f[8]
	}
	if err := r.times(f[4], f[5], f[6], f[7]); err != nil {
		return row{}, err
	}
	if r.Ended() {
		r.Exit = f[3]
	}
	r.unstarted()
	return r, nil
}

// unstarted takes away the start of a task that was cancelled before it: both commands may print its end there.
func (t *Task) unstarted() {
	if t.Ended() && t.Node == "" && t.Start.Equal(t.End) {
		t.Start = time.Time{}
	}
}

// times reads the four columns of time of either command.
func (t *Task) times(submit, start, end, limit string) error {
	for _, c := range []struct {
		text string
		to   *time.Time
	}{{submit, &t.Submit}, {start, &t.Start}, {end, &t.End}} {
		switch c.text {
		case "", "N/A", "Unknown", "None", "NONE", "INVALID":
			continue
		}
		at, err := time.Parse(timeForm, c.text)
		if err != nil {
			return fmt.Errorf("%q is no time", c.text)
		}
		*c.to = at
	}
	var err error
	t.Limit, err = limitOf(limit)
	return err
}

// limitOf reads a time limit: 5:00 is minutes and seconds, 1-02:00:00 has days before it.
func limitOf(text string) (time.Duration, error) {
	switch text {
	case "", "N/A", "UNLIMITED", "Partition_Limit", "NOT_SET", "INVALID", "None":
		return 0, nil
	}
	days, clock, hasDays := strings.Cut(text, "-")
	if !hasDays {
		days, clock = "0", text
	}
	d, err := number(days)
	parts := strings.Split(clock, ":")
	if err != nil || len(parts) < 2 || len(parts) > 3 {
		return 0, fmt.Errorf("%q is no time limit", text)
	}
	seconds := 0
	for _, part := range parts {
		n, err := number(part)
		if err != nil || n > maxIndex {
			return 0, fmt.Errorf("%q is no time limit", text)
		}
		seconds = seconds*60 + n
	}
	const most = 100_000 // days; more does not fit into a duration
	if d > most {
		return 0, fmt.Errorf("%q is no time limit", text)
	}
	return time.Duration(d)*24*time.Hour + time.Duration(seconds)*time.Second, nil
}

// reason is empty where Slurm has none.
func reason(text string) string {
	if text == "None" {
		return ""
	}
	return text
}

// memory is that of the whole job, as it was granted. What was asked for may be told for each CPU, as a site's default is,
// or for each node, and squeue does not say which; so that is only second best, and empty where it is all of a node's.
func memory(asked, granted string) string {
	for part := range strings.SplitSeq(granted, ",") {
		if sum, ok := strings.CutPrefix(part, "mem="); ok {
			return sum
		}
	}
	switch asked {
	case "0", "0n", "0c", "N/A":
		return ""
	}
	switch unit := asked[max(0, len(asked)-1):]; unit { // by sacct before 21.08
	case "c":
		return strings.TrimSuffix(asked, unit) + " per CPU"
	case "n":
		return strings.TrimSuffix(asked, unit) + " on each node"
	}
	return asked
}
