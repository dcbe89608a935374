package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"cpbench/collect"
	"cpbench/collect/table"
	"cpbench/plan/catalogue"
	"cpbench/plan/folder"
	"cpbench/worker/llm/account/peer"
	"cpbench/worker/llm/rejudge"
	"cpbench/worker/llm/requestlog"

	"github.com/urfave/cli/v2"
)

// rejudgeOptions are the flags of rejudge.
type rejudgeOptions struct {
	as, runs      string
	asJSON, asCSV bool
}

func rejudgeCommand(s *streams) *cli.Command {
	o := &rejudgeOptions{}
	return &cli.Command{
		Name:  "rejudge",
		Usage: "make the numbers of an LLM sweep again, by our definitions or another tool's",
		UsageText: "cpbench rejudge RUN --as vllm        # what vLLM's own client would have shown, and why it differs\n" +
			"cpbench rejudge RUN --as cpbench     # whether the log gives the numbers that are stored",
		Description: "Reads the logs of the requests and nothing else: no server, no Slurm, and nothing is written. The definitions are\n" +
			"those of " + versions() + ". A figure that a log cannot give is\nmissing, with its reason. Exit code 3: some groups have no log, a line could not be read, or --as cpbench made another number.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "as", Usage: "definitions of `TOOL`: " + strings.Join(definitionNames(), ", "), Value: rejudge.Ours, Destination: &o.as},
			&cli.StringFlag{Name: "runs", Usage: "look for the newest run in `DIR`", Value: runsDir, Destination: &o.runs},
			&cli.BoolFlag{Name: "json", DisableDefaultText: true, Usage: "JSON for programs, in base units", Destination: &o.asJSON},
			&cli.BoolFlag{Name: "csv", DisableDefaultText: true, Usage: "CSV, in base units", Destination: &o.asCSV},
		},
		OnUsageError: usageFault,
		Action: func(c *cli.Context) error {
			switch {
			case !slices.Contains(definitionNames(), o.as):
				return &usageError{fmt.Sprintf("unknown definitions %q", o.as), "choose from " + strings.Join(definitionNames(), ", ")}
			case o.asJSON && o.asCSV:
				return &usageError{"--json and --csv are two answers", "take one of them"}
			}
			runs, err := openRuns(s, &collectOptions{runs: o.runs}, c.Args().Slice())
			if err != nil {
				return err
			}
			return runRejudge(s, runs, o)
		},
	}
}

// definitionNames are the values of --as.
func definitionNames() []string {
	names := []string{rejudge.Ours}
	for _, t := range peer.Tools() {
		names = append(names, string(t))
	}
	return names
}

func versions() string {
	var list []string
	for _, t := range peer.Tools() {
		list = append(list, t.Version())
	}
	return strings.Join(list, ", ")
}

// runRejudge makes the numbers of all rows again and prints them.
func runRejudge(s *streams, runs []*folder.Run, o *rejudgeOptions) error {
	if err := onlyServing(runs, "rejudge"); err != nil {
		return err
	}
	set, err := collect.Load(runs)
	if err != nil {
		return err
	}
	l := &logReader{s: s, groups: map[string][]requestlog.Group{}}
	t := rejudge.Table{As: o.as, Tool: peer.Tool(o.as).Version(), Rows: l.rows(table.New(set))}
	if o.as == rejudge.Ours {
		t.Tool = "cpbench " + version().Version
		rejudge.Again(t.Rows)
	} else {
		rejudge.Beside(peer.Tool(o.as), t.Rows)
	}
	write := t.WriteText
	switch {
	case o.asJSON:
		write = func(io.Writer) error { return writeJSON(s, t) }
	case o.asCSV:
		write = t.WriteCSV
	}
	if err := write(s.out); err != nil {
		return err
	}
	changed := 0
	for _, r := range t.Rows {
		for _, p := range r.Changed {
			changed++
			p.File = shortPath(p.File)
			s.warnf("%s", p)
		}
	}
	if changed > 0 {
		s.hintf("another version of cpbench has made the stored numbers, or the file was changed; the log itself is what was measured")
	}
	if changed > 0 || l.bad {
		return errIncomplete
	}
	return nil
}

// onlyServing refuses runs that have no requests.
func onlyServing(runs []*folder.Run, verb string) error {
	for _, run := range runs {
		if kind := run.Plan.Spec.Workload.Kind; kind != "llm" {
			return &usageError{fmt.Sprintf("run %s is a sweep of `kind: %s`", run.Name(), kind), verb + " reads the requests of a sweep of `kind: llm`"}
		}
	}
	return nil
}

// logReader reads the request logs of runs, each file once, and says what it could not read.
type logReader struct {
	s      *streams
	groups map[string][]requestlog.Group // by log folder
	bad    bool
}

// rows are the rows of a table with the groups that their results came from. Groups that do not count have rows of
// their own.
func (l *logReader) rows(t *table.Table) []rejudge.Row {
	var rows []rejudge.Row
	for i := range t.Rows {
		var counted, others rejudge.Row
		var why []string
		for _, p := range t.Rows[i].Executions() {
			g := l.find(p)
			if g == nil {
				continue
			}
			if p.Outcome.Fits() {
				counted.Groups = append(counted.Groups, g)
				continue
			}
			others.Groups = append(others.Groups, g)
			if text := string(p.Outcome) + ": " + p.Reason; !slices.Contains(why, text) {
				why = append(why, text)
			}
		}
		counted.Counted, others.Outcome = true, strings.Join(why, "; ")
		for _, r := range []rejudge.Row{counted, others} {
			if len(r.Groups) > 0 {
				p := t.Rows[i].Executions()[0]
				r.Point, r.Cache = p.Run.Plan.PointName(p.Point), t.Rows[i].Serving.Cache
				rows = append(rows, r)
			}
		}
	}
	return rows
}

// find is the group that a result came from; nil if nothing was sent for it, or the log is gone, which it says.
func (l *logReader) find(p *collect.Pair) *requestlog.Group {
	x := p.Result
	if x == nil || x.Group == nil && p.Outcome != catalogue.OK {
		return nil // it never came to requests
	}
	dir := p.Run.LogDir(p.Array, p.Task, x.Attempt, x.Restart)
	groups, ok := l.groups[dir]
	if !ok {
		groups = l.read(dir)
		l.groups[dir] = groups
	}
	g := requestlog.Find(groups, p.Point.ID, p.Repeat, x.Attempt, x.Restart, x.Started, x.Ended)
	if g == nil {
		l.bad = true
		l.s.warnf("repeat %d of %s has no group in %s", p.Repeat, p.Run.Plan.PointName(p.Point), shortPath(filepath.Join(dir, requestlog.Name)))
	}
	return g
}

func (l *logReader) read(dir string) []requestlog.Group {
	var all []requestlog.Group
	for _, file := range requestlog.Files(dir) {
		groups, problems, err := requestlog.Read(file)
		for _, p := range problems {
			p.File = shortPath(p.File)
			l.s.warnf("%s", p)
		}
		if err != nil {
			l.s.warnf("%s cannot be read to its end: %v", shortPath(file), err)
		}
		l.bad = l.bad || err != nil || len(problems) > 0
		all = append(all, groups...)
	}
	return all
}
