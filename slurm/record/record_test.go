package record

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"cpbench/slurm"
	"cpbench/slurm/slurmtest"

	"github.com/google/go-cmp/cmp"
)

// commands puts a squeue and a sacct into a folder, as bodies of sh. Each call leaves its arguments in calls.
func commands(t *testing.T, squeue, sacct string) (*slurm.Slurm, func() []string) {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "it's a bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string]string{"squeue": squeue, "sacct": sacct} {
		script := "#!/bin/sh\necho " + name + ` "$@" TZ=$TZ BITSTR=$SLURM_BITSTR_LEN FORMAT=$SACCT_FORMAT >>"${0%/*}/calls"` + "\n" + body + "\n"
		slurmtest.Executable(t, filepath.Join(bin, name), script)
	}
	env := append(os.Environ(), "TZ=America/New_York", "SACCT_FORMAT=JobID", "SLURM_TIME_FORMAT=relative")
	return &slurm.Slurm{Bin: bin, Env: env}, func() []string {
		text, err := os.ReadFile(filepath.Join(bin, "calls"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	}
}

// prints is the body of a command that prints a file of testdata as it was captured.
func prints(t *testing.T, name string) string {
	t.Helper()
	return "cat <<'EOF'\n" + strings.Join(captured(t, name), "\n") + "\nEOF"
}

// captured are the rows of a file of testdata. Those that are older than the first column, which tells what was granted,
// get it empty.
func captured(tb testing.TB, name string) []string {
	tb.Helper()
	rows := fixture(tb, name)
	for i := range rows {
		if !strings.HasSuffix(name, ".memory") {
			rows[i] = "|" + rows[i]
		}
	}
	return rows
}

const (
	noAccounting = "echo 'Slurm accounting storage is disabled' >&2; exit 1"
	dbdDown      = "echo 'sacct: error: Problem talking to the database: Connection refused' >&2; exit 1"
	ctldDown     = "echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; exit 1"
)

var names = []string{"ends.0.a1", "limit.0.a1", "waits.0.a1", "held.0.a1", "toolong.0.a1", "nodes.0.a1", "dep.0.a1", "begin.0.a1", "again.0.a1", "noout.0.a1", "drained.0.a1"}

func ask(t *testing.T, s *slurm.Slurm, q Query) *Snapshot {
	t.Helper()
	snap, err := Ask(t.Context(), s, q)
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

// short writes what is found about a task.
func short(snap *Snapshot, name string, index int) string {
	task, ok := snap.Find(name, index)
	if !ok {
		return "unknown"
	}
	text := string(task.State)
	for _, more := range []string{task.Exit, task.Reason, task.Node} {
		if more != "" {
			text += " " + more
		}
	}
	if task.Start.IsZero() {
		text += " not started"
	}
	if !task.Live {
		text += " (booked)"
	}
	return text
}

// look is a row of a table over Find.
type look struct {
	name  string
	index int
	want  string
}

func compare(t *testing.T, snap *Snapshot, looks []look) {
	t.Helper()
	for _, l := range looks {
		if got := short(snap, l.name, l.index); got != l.want {
			t.Errorf("%s[%d]: %s, want %s", l.name, l.index, got, l.want)
		}
	}
}

func TestAsk(t *testing.T) {
	t.Parallel()
	s, calls := commands(t, prints(t, "22.05/squeue.running"), prints(t, "22.05/sacct.running"))
	snap := ask(t, s, Query{Names: names, Since: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)})
	if !snap.Queue || !snap.Accounting || snap.NoAccounting || snap.Notes != nil {
		t.Errorf("queue %v, accounting %v, %v, notes %q", snap.Queue, snap.Accounting, snap.NoAccounting, snap.Notes)
	}
	compare(t, snap, []look{
		{"ends.0.a1", 0, "COMPLETED 0:0 n1"},
		{"ends.0.a1", 1, "FAILED 200:0 NonZeroExitCode n1"}, // accounting says 72:0
		{"ends.0.a1", 2, "FAILED 0:9 JobLaunchFailure n1"},
		{"ends.0.a1", 4, "FAILED 7:0 NonZeroExitCode n1"},
		{"ends.0.a1", 7, "unknown"},
		{"limit.0.a1", -1, "RUNNING n1"},
		{"waits.0.a1", 0, "CANCELLED 0:15 n1"},
		{"waits.0.a1", 2, "RUNNING n1"},
		{"waits.0.a1", 3, "PENDING JobArrayTaskLimit not started"},
		{"waits.0.a1", 7, "unknown"}, // cancelled while it waited: Slurm has no record of it
		{"held.0.a1", 3, "CANCELLED 0:0 JobHeldUser not started"},
		{"toolong.0.a1", 4, "PENDING PartitionTimeLimit not started"},
		{"toolong.0.a1", 100, "unknown"}, // accounting has it waiting, the controller (of this text) does not
		{"toolong.0.a1", 3, "unknown"},
		{"nodes.0.a1", -1, "PENDING PartitionNodeLimit not started"},
		{"dep.0.a1", -1, "PENDING DependencyNeverSatisfied not started"},
		{"begin.0.a1", -1, "PENDING BeginTime not started"},
		{"again.0.a1", 1, "PENDING BeginTime not started"},
		{"noout.0.a1", -1, "FAILED 0:53 JobLaunchFailure n1"},
		{"drained.0.a1", -1, "PENDING ReqNodeNotAvail, UnavailableNodes:n2 not started"},
		{"odd name|x.0.a1", -1, "unknown"}, // not asked for
	})
	task, _ := snap.Find("again.0.a1", 1)
	want := Task{
		Array: "25", Index: 1, Raw: "25", Name: "again.0.a1", State: "PENDING", Reason: "BeginTime", Partition: "gpu", Memory: "100M",
		Submit: time.Date(2026, 11, 30, 12, 39, 26, 0, time.UTC), Restarts: 1, Limit: 5 * time.Minute, Live: true,
	}
	if diff := cmp.Diff(want, task); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := waiting(snap, "waits.0.a1"); got != 5 {
		t.Errorf("%d tasks wait, want 5", got)
	}
	if diff := cmp.Diff([]string{
		"sacct --noheader --allocations --parsable2 --format=" + accountingFormat + " --allusers --starttime=2026-11-29T12:00:00 --name=" + strings.Join(names, ",") + " TZ=UTC BITSTR=0 FORMAT=",
		"squeue --noheader --all --array --states=all --Format=" + queueFormat + " --name=" + strings.Join(names, ",") + " TZ=UTC BITSTR=0 FORMAT=",
	}, calls()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestAskAfterTheEnd(t *testing.T) {
	t.Parallel()
	s, _ := commands(t, prints(t, "22.05/squeue.ended"), prints(t, "22.05/sacct.ended"))
	snap := ask(t, s, Query{Names: names})
	compare(t, snap, []look{
		{"waits.0.a1", 1, "CANCELLED 0:15 n1"},
		{"waits.0.a1", 9, "CANCELLED 0:0 JobArrayTaskLimit not started"}, // the record of the rest names no index
		{"toolong.0.a1", 2, "CANCELLED 0:0 PartitionTimeLimit not started"},
		{"toolong.0.a1", 100, "CANCELLED by 0 0:0 PartitionTimeLimit not started (booked)"},
		{"toolong.0.a1", 3, "unknown"},
		{"again.0.a1", 1, "CANCELLED 0:15 n1"},
	})
	for name, indices := range map[string][]int{"ends.0.a1": {0, 1, 2, 3, 4, 5, 6}, "waits.0.a1": {0, 1, 2, 3, 4, 5, 6, 9}, "nodes.0.a1": nil} {
		if !settled(snap, name, indices) {
			t.Errorf("%s is not settled", name)
		}
	}
	if settled(snap, "ends.0.a1", []int{0, 7}) || settled(snap, "nothing", nil) || settled(snap, "odd name|x.0.a1", nil) {
		t.Error("what is not known is settled")
	}
}

func TestAskTimeLimit(t *testing.T) {
	t.Parallel()
	s, _ := commands(t, prints(t, "22.05/squeue.timelimit"), prints(t, "22.05/sacct.timelimit"))
	snap := ask(t, s, Query{IDs: []string{"1"}})
	compare(t, snap, []look{{"timelimit.1.a1", 0, "TIMEOUT 0:15 TimeLimit n1"}, {"1", 1, "TIMEOUT 0:15 TimeLimit n1"}})
	s, _ = commands(t, "", prints(t, "22.05/sacct.timelimit"))
	snap = ask(t, s, Query{IDs: []string{"1"}})
	compare(t, snap, []look{{"timelimit.1.a1", 0, "TIMEOUT 0:0 n1 (booked)"}})
}

// TestAskAccountingAlone is what is left when the controller is away, or has forgotten.
func TestAskAccountingAlone(t *testing.T) {
	t.Parallel()
	s, _ := commands(t, ctldDown, prints(t, "22.05/sacct.running"))
	snap := ask(t, s, Query{Names: names})
	if snap.Queue || len(snap.Notes) != 1 || !strings.Contains(snap.Notes[0], "Unable to contact slurm controller") {
		t.Errorf("notes %q", snap.Notes)
	}
	compare(t, snap, []look{
		{"ends.0.a1", 1, "FAILED 72:0 n1 (booked)"},
		{"waits.0.a1", 5, "PENDING JobArrayTaskLimit not started (booked)"},
		{"waits.0.a1", 7, "unknown"},
		{"again.0.a1", 1, "REQUEUED n1 (booked)"},
	})
	s, _ = commands(t, "", prints(t, "22.05/sacct.running"))
	snap = ask(t, s, Query{Names: names})
	// The controller has answered and knows nothing: what stands in the books as waiting does not wait.
	compare(t, snap, []look{
		{"waits.0.a1", 5, "unknown"},
		{"waits.0.a1", 1, "RUNNING n1 (booked)"},
		{"ends.0.a1", 0, "COMPLETED 0:0 n1 (booked)"},
	})
	if settled(snap, "waits.0.a1", []int{1}) {
		t.Error("a task that stands in the books as running is settled")
	}
}

func TestAskWithoutAccounting(t *testing.T) {
	t.Parallel()
	s, calls := commands(t, prints(t, "22.05/squeue.running"), noAccounting)
	snap := ask(t, s, Query{Names: names})
	if !snap.NoAccounting || snap.Accounting || len(snap.Notes) != 0 || len(calls()) != 2 {
		t.Errorf("%+v, calls %q", snap, calls())
	}
	compare(t, snap, []look{{"ends.0.a1", 1, "FAILED 200:0 NonZeroExitCode n1"}, {"waits.0.a1", 3, "PENDING JobArrayTaskLimit not started"}})
}

func TestAskNobodyAnswers(t *testing.T) {
	t.Parallel()
	for _, sacct := range []string{noAccounting, dbdDown} {
		s, _ := commands(t, ctldDown, sacct)
		_, err := Ask(t.Context(), s, Query{Names: names})
		if !errors.Is(err, ErrNotAsked) || !strings.Contains(err.Error(), "Unable to contact slurm controller") {
			t.Errorf("%v", err)
		}
	}
	s, _ := commands(t, "exit 1", "exit 1")
	if snap, err := Ask(t.Context(), s, Query{}); err != nil || snap.Known("") {
		t.Errorf("nothing was asked for: %v, %v", snap, err)
	}
}

// TestLag has the stages of sacct's answer about an array of three tasks that fail at once.
func TestLag(t *testing.T) {
	t.Parallel()
	rows := func(lines ...string) *Snapshot {
		s, _ := commands(t, "", "cat <<'EOF'\n"+strings.Join(lines, "\n")+"\nEOF")
		return ask(t, s, Query{Names: []string{"lag.1.a1"}})
	}
	row := func(id, state, start string) string {
		return "|" + id + "|1|" + state + "|1:0|2026-11-30T12:00:00|" + start + "|Unknown|00:10:00|n1|gpu|100M|None|lag.1.a1"
	}
	all := []int{0, 1, 2}
	const at = "2026-11-30T12:00:01"
	for _, stage := range []struct {
		name string
		snap *Snapshot
		want bool
	}{
		{"waits", rows(row("1", "PENDING", "Unknown")), false},
		{"the end of the last task under the array's id", rows(row("1", "FAILED", at)), false},
		{"two of three", rows(row("1_0", "FAILED", at), row("1_1", "FAILED", at)), false},
		{"all", rows(row("1_0", "FAILED", at), row("1_1", "FAILED", at), row("1_2", "FAILED", at)), true},
		{"a held array that was cancelled", rows(row("1", "CANCELLED by 0", "None")), true},
		{"one that waited", rows("|1|1|CANCELLED by 0|0:0|2026-11-30T13:07:31|2026-11-30T13:07:32|2026-11-30T13:07:32|02:00:00|None assigned|short|100M|PartitionTimeLimit|lag.1.a1"), true},
		{"cancelled behind one that has run", rows(row("1_0", "FAILED", at), row("1_[0-2%1]", "CANCELLED by 0", "None")), true},
	} {
		if got := settled(stage.snap, "lag.1.a1", all); got != stage.want {
			t.Errorf("%s: settled %v", stage.name, got)
		}
	}
}

// TestReusedID: after a crash of the controller another job has the id.
func TestReusedID(t *testing.T) {
	t.Parallel()
	queue := `printf '|70|0|70|RUNNING|0|0|2026-11-30T12:00:00|2026-11-30T12:00:01|N/A|5:00|n1|gpu|100M|None|other.0.a1|\n'
printf '|71|0|71|PENDING|0|0|2026-11-30T12:00:09|N/A|N/A|5:00||gpu|100M|Priority|mine.0.a1|\n'`
	books := `printf '|70_0|70|FAILED|1:0|2026-11-30T11:00:00|2026-11-30T11:00:01|2026-11-30T11:00:02|00:05:00|n1|gpu|100M|None|mine.0.a1\n'`
	s, _ := commands(t, queue, books)
	snap := ask(t, s, Query{Names: []string{"mine.0.a1"}})
	compare(t, snap, []look{{"mine.0.a1", 0, "PENDING Priority not started"}, {"70", 0, "FAILED 1:0 n1 (booked)"}})
	ids, err := ByName(t.Context(), s, []string{"mine.0.a1", "nobody.0.a1"}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string][]string{"mine.0.a1": {"70", "71"}}, ids); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	both := ask(t, s, Query{Names: []string{"mine.0.a1"}, IDs: []string{"71"}})
	if both.Known("70") || !both.Known("71") {
		t.Error("name and id have to match")
	}
}

// TestByNameDoubts: whoever cannot look everywhere must not say that there is no such job.
func TestByNameDoubts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ squeue, sacct, want string }{
		{ctldDown, "", "Unable to contact slurm controller"},
		{"", dbdDown, "Problem talking to the database"},
	} {
		s, _ := commands(t, tt.squeue, tt.sacct)
		if ids, err := ByName(t.Context(), s, []string{"mine.0.a1"}, time.Time{}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, %v", ids, err)
		}
	}
	s, _ := commands(t, "", noAccounting)
	if ids, err := ByName(t.Context(), s, []string{"mine.0.a1"}, time.Time{}); err != nil || len(ids) != 0 {
		t.Errorf("%v, %v", ids, err)
	}
	s, _ = commands(t, "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1", noAccounting)
	if snap, err := Ask(t.Context(), s, Query{IDs: []string{"70"}}); err != nil || snap.Known("70") {
		t.Errorf("%v, %v", snap, err)
	}
}

// TestMemory is that of the whole job, where squeue tells that of one CPU or of a node, and does not say which.
func TestMemory(t *testing.T) {
	t.Parallel()
	of := []string{"default.0.a1", "given.0.a1", "percpu.0.a1", "whole.0.a1", "held.0.a1"}
	want := map[string]string{"default.0.a1": "200M", "given.0.a1": "150M", "percpu.0.a1": "240M", "whole.0.a1": "16000M", "held.0.a1": "200M"}
	queue, books := prints(t, "22.05/squeue.memory"), prints(t, "22.05/sacct.memory")
	for name, commandsOf := range map[string][2]string{"both": {queue, books}, "the queue": {queue, noAccounting}, "the books": {"", books}} {
		s, _ := commands(t, commandsOf[0], commandsOf[1])
		snap := ask(t, s, Query{Names: of})
		got := map[string]string{}
		for _, name := range of {
			if task, ok := snap.Find(name, -1); ok {
				got[name] = task.Memory
			}
		}
		if name == "the books" {
			got["held.0.a1"] = "200M" // which have not heard of it
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	for asked, want := range map[string]string{"100Mc": "100M per CPU", "4Gn": "4G on each node", "0n": "", "0": "", "N/A": "", "": "", "64G": "64G"} {
		if got := memory(asked, "cpu=2,node=1"); got != want {
			t.Errorf("%s without what was granted: %q, want %q", asked, got, want)
		}
	}
}

func TestBadRows(t *testing.T) {
	t.Parallel()
	const good = `|1_0|1|FAILED|1:0|2026-11-30T12:00:00|Unknown|Unknown|00:10:00|n1|gpu|100M|None|a.b`
	s, _ := commands(t, "echo 'a banner of the site'", "printf '%s\\n' '"+good+"' '|1_[1,3,5,...]"+strings.TrimPrefix(good, "|1_0")+"'")
	snap := ask(t, s, Query{Names: []string{"a.b"}})
	compare(t, snap, []look{{"a.b", 0, "FAILED 1:0 n1 not started (booked)"}, {"a.b", 1, "unknown"}})
	if len(snap.Notes) != 2 || !strings.Contains(snap.Notes[0], "sacct: 1 lines cannot be read") || !strings.Contains(snap.Notes[1], "squeue: 1 lines") {
		t.Errorf("notes %q", snap.Notes)
	}
}

func TestLimit(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"5:00": 5 * time.Minute, "2:00:00": 2 * time.Hour, "1-02:03:04": 26*time.Hour + 3*time.Minute + 4*time.Second, "00:05:00": 5 * time.Minute,
		"UNLIMITED": 0, "Partition_Limit": 0, "": 0,
	} {
		if got, err := limitOf(text); err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"5", "a:b", "1:2:3:4", "x-1:00", "999999999-0:00:00"} {
		if got, err := limitOf(text); err == nil {
			t.Errorf("%s is taken for %v", text, got)
		}
	}
}

// FuzzRows has as its oracle that a row which was read holds the texts of the line, and that no row is ever taken for
// another one's.
func FuzzRows(f *testing.F) {
	for _, name := range []string{"squeue.running", "squeue.ended", "squeue.timelimit", "squeue.memory", "sacct.running", "sacct.ended", "sacct.timelimit", "sacct.memory"} {
		for _, line := range captured(f, "22.05/"+name) {
			f.Add(line, strings.HasPrefix(name, "squeue"))
		}
	}
	f.Fuzz(func(t *testing.T, line string, queue bool) {
		columns, parse := accountingColumns, parseAccountingRow
		if queue {
			columns, parse = queueColumns, parseQueueRow
		}
		r, err := parse(line)
		if err != nil {
			return
		}
		fields := strings.SplitN(line, "|", columns)
		state, name := fields[3], fields[columns-1]
		if queue {
			state, name = fields[4], strings.TrimSuffix(name, "|")
		}
		if string(r.State) != state || r.Name != name {
			t.Errorf("%q: state %q, name %q", line, r.State, r.Name)
		}
		index := fields[2]
		if !queue {
			_, index, _ = strings.Cut(fields[1], "_")
		}
		if n, err := strconv.Atoi(strings.SplitN(index, ".", 2)[0]); err == nil != (r.Index >= 0) || err == nil && n != r.Index {
			t.Errorf("%q: index %d", line, r.Index)
		}
		if r.Live != queue || !r.Ended() && r.Exit != "" || r.Waits() && queue && !r.Start.IsZero() {
			t.Errorf("%q: %+v", line, r)
		}
	})
}
