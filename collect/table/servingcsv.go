package table

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"cpbench/collect"
	"cpbench/plan"
	"cpbench/plan/catalogue"
)

// servingLine is the fixed part of a line of table.csv of `kind: llm`. Values are in base units; an empty field was not
// measured.
type servingLine struct {
	Point     string `csv:"point"`
	Case      string `csv:"case"`
	Cache     string `csv:"cache_label"`
	Outcome   string `csv:"outcome"`
	Repeats   int    `csv:"n"`
	Asked     int    `csv:"n_asked"`
	Units     int    `csv:"n_independent"`
	Unit      string `csv:"unit"`
	Streams   int    `csv:"streams"`
	Succeeded int    `csv:"streams_succeeded"`
	Truncated int    `csv:"streams_truncated"`
	Failed    int    `csv:"streams_failed"`
	Length    int    `csv:"finish_length"`
	Warnings  string `csv:"warnings"`
}

// servingCSV writes one line for each row: the fixed columns, every axis, of every metric the mean, the standard
// deviation and the ends of the 95 % interval, and the user's columns.
func (t *Table) servingCSV(w io.Writer) error {
	unit := "repeat"
	if t.byStart() {
		unit = "start"
	}
	lines := make([]servingLine, len(t.Rows))
	extra := make([][]string, len(t.Rows))
	for i := range t.Rows {
		r := &t.Rows[i]
		s := r.Serving
		lines[i] = servingLine{
			Point: r.Point, Case: r.Case, Cache: s.Cache, Outcome: r.Outcome, Repeats: r.Good, Asked: r.Asked, Units: s.Units, Unit: unit,
			Streams: s.Streams, Succeeded: s.Succeeded, Truncated: s.Truncated, Failed: s.Failed, Length: s.Length, Warnings: t.codes(r),
		}
		extra[i] = slices.Clone(r.Values)
		for _, m := range catalogue.ServingMetrics() {
			extra[i] = append(extra[i], optional(r.Metrics, m.Name), optional(s.SD, m.Name))
			extra[i] = append(extra[i], r.ends(m.Name)...)
		}
		for _, v := range r.User {
			extra[i] = append(extra[i], plainText(v))
		}
	}
	titles := t.axisNames()
	for _, m := range catalogue.ServingMetrics() {
		titles = append(titles, m.Name, "sd "+m.Name, "lo "+m.Name, "hi "+m.Name)
	}
	return splice(w, lines, append(titles, t.Columns...), extra)
}

// groupLine is the fixed part of a line of raw.csv of `kind: llm`.
type groupLine struct {
	Run       string `csv:"run"`
	Point     string `csv:"point"`
	Case      string `csv:"case"`
	Repeat    int    `csv:"repeat"`
	Start     string `csv:"start"`
	Nth       int    `csv:"repeat_of_start"`
	Attempt   string `csv:"attempt"`
	Outcome   string `csv:"outcome"`
	Reason    string `csv:"reason"`
	Cache     string `csv:"cache_label"`
	Audit     string `csv:"audit"`
	Client    string `csv:"client"`
	Streams   string `csv:"streams"`
	Succeeded string `csv:"streams_succeeded"`
	Truncated string `csv:"streams_truncated"`
	Failed    string `csv:"streams_failed"`
	Length    string `csv:"finish_length"`
	Counts    string `csv:"count_source"`
	Prompts   string `csv:"prompts_sha256"`
	Overlap   string `csv:"overlap"`
	Host      string `csv:"host"`
	Started   string `csv:"started"`
	Finished  string `csv:"finished"`
	File      string `csv:"file"`
}

// servingRaw writes one line for each planned group of requests, with the attempt that is used.
func (t *Table) servingRaw(w io.Writer) error {
	var lines []groupLine
	var extra [][]string
	titles := t.axisNames()
	for _, m := range catalogue.ServingMetrics() {
		titles = append(titles, m.Name)
	}
	for i := range t.Rows {
		for _, p := range t.Rows[i].pairs {
			lines = append(lines, t.groupLine(p))
			fields := slices.Clone(p.Point.Values)
			for _, m := range catalogue.ServingMetrics() {
				text := ""
				if p.Result != nil {
					if v, ok := p.Result.Metric(m.Name); ok {
						text = strconv.FormatFloat(v, 'g', -1, 64)
					}
				}
				fields = append(fields, text)
			}
			extra = append(extra, fields)
		}
	}
	return splice(w, lines, titles, extra)
}

func (t *Table) groupLine(p *collect.Pair) groupLine {
	l := groupLine{
		Run: p.Run.Name(), Point: p.Point.ID, Case: p.Point.Case, Repeat: p.Repeat, Nth: (plan.Pair{Repeat: p.Repeat}).Nth(),
		Outcome: string(p.Outcome), Reason: p.Reason, Cache: p.CacheLabel(),
	}
	x := p.Result
	if x == nil {
		return l
	}
	if x.Start > 0 {
		l.Start = strconv.Itoa(x.Start)
	}
	l.Attempt = fmt.Sprintf("%d.%d", x.Attempt, x.Restart)
	l.Host, l.File = x.Host, p.Path()
	l.Started, l.Finished = x.Started.UTC().Format(time.RFC3339), x.Ended.UTC().Format(time.RFC3339)
	g := x.Group
	if g == nil {
		return l
	}
	l.Audit, l.Client, l.Counts, l.Prompts = g.Audit, g.Client, g.Counts, g.Prompts
	l.Streams, l.Succeeded, l.Truncated = strconv.Itoa(g.Streams), strconv.Itoa(g.Succeeded), strconv.Itoa(g.Truncated)
	l.Failed, l.Length = strconv.Itoa(g.Failed), strconv.Itoa(g.Length)
	if g.Overlap != nil {
		l.Overlap = strconv.FormatBool(*g.Overlap)
	}
	return l
}
