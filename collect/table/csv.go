package table

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"cpbench/collect"
	"cpbench/plan/catalogue"

	"github.com/gocarina/gocsv"
)

// pointLine is the fixed part of a line of table.csv. Values are in base units; an empty field was not measured.
type pointLine struct {
	Point        string   `csv:"point"`
	Case         string   `csv:"case"`
	Tokens       *int64   `csv:"n_tokens"`
	PaddedTokens *int64   `csv:"n_tokens_padded"`
	Atoms        *int64   `csv:"n_atoms"`
	MSA          *int64   `csv:"msa_seq"`
	CP           string   `csv:"cp"`
	Topology     string   `csv:"topology"`
	Outcome      string   `csv:"outcome"`
	Repeats      int      `csv:"n"`
	Asked        int      `csv:"n_asked"`
	Lo           *float64 `csv:"step_seconds_lo"`
	Hi           *float64 `csv:"step_seconds_hi"`
	Coverage     *float64 `csv:"interval_coverage"`
	Kind         string   `csv:"interval_kind"`
	Spread       *float64 `csv:"spread_over_repeats"`
	Fits         *int64   `csv:"fits"`
	OOM          *int64   `csv:"oom"`
	Ended        string   `csv:"search_ended"`
	Confirmed    string   `csv:"confirmed"`
	FitPeak      *float64 `csv:"fits_peak_bytes"`
	Warnings     string   `csv:"warnings"`
}

// WriteCSV writes one line for each row of the table: the fixed columns, every axis, every metric of the catalogue
// and the user's columns.
func (t *Table) WriteCSV(w io.Writer) error {
	if t.serves() {
		return t.servingCSV(w)
	}
	lines := make([]pointLine, len(t.Rows))
	extra := make([][]string, len(t.Rows))
	for i := range t.Rows {
		r := &t.Rows[i]
		lines[i] = r.csv(t)
		extra[i] = slices.Clone(r.Values)
		for _, m := range catalogue.StepMetrics() {
			extra[i] = append(extra[i], optional(r.Metrics, m.Name))
		}
		for _, v := range r.User {
			extra[i] = append(extra[i], plainText(v))
		}
	}
	titles := append(t.axisNames(), metricNames()...)
	return splice(w, lines, append(titles, t.Columns...), extra)
}

func (r *Row) csv(t *Table) pointLine {
	l := pointLine{
		Point: r.Point, Case: r.Case, Tokens: r.Tokens, PaddedTokens: r.Padded, Atoms: r.Atoms, MSA: r.MSA, Topology: r.Topology,
		Outcome: r.Outcome, Repeats: r.Good, Asked: r.Asked, Kind: r.Interval.Kind, Spread: r.Spread,
	}
	if r.Ranks > 0 {
		l.CP = strconv.Itoa(r.Ranks)
	}
	if r.Interval.Kind != "" {
		l.Lo, l.Hi, l.Coverage = &r.Interval.Lo, &r.Interval.Hi, &r.Interval.Confidence
	}
	if m := r.Search; m != nil {
		l.Fits, l.OOM, l.Ended, l.FitPeak = m.Fits, m.OOM, m.Ended, m.PeakBytes
		l.Confirmed = fmt.Sprintf("%d/%d", m.Confirmed, m.Confirms)
	}
	l.Warnings = t.codes(r)
	return l
}

// codes lists the warnings of a row, each once.
func (t *Table) codes(r *Row) string {
	var codes []string
	for _, i := range r.Notes {
		if c := string(t.Notes[i].Code); c != "" && !slices.Contains(codes, c) {
			codes = append(codes, c)
		}
	}
	return strings.Join(codes, " ")
}

// resultLine is the fixed part of a line of raw.csv.
type resultLine struct {
	Run          string `csv:"run"`
	Point        string `csv:"point"`
	Case         string `csv:"case"`
	Repeat       int    `csv:"repeat"`
	Attempt      string `csv:"attempt"`
	Outcome      string `csv:"outcome"`
	Reason       string `csv:"reason"`
	Tokens       *int64 `csv:"n_tokens"`
	PaddedTokens *int64 `csv:"n_tokens_padded"`
	Atoms        *int64 `csv:"n_atoms"`
	MSA          *int64 `csv:"msa_seq"`
	Ranks        string `csv:"ranks"`
	Topology     string `csv:"topology"`
	Iterations   string `csv:"iterations"`
	Seconds      string `csv:"iteration_seconds"`
	Fits         *int64 `csv:"fits"`
	OOM          *int64 `csv:"oom"`
	Ended        string `csv:"search_ended"`
	Host         string `csv:"host"`
	Started      string `csv:"started"`
	Finished     string `csv:"finished"`
	File         string `csv:"file"`
}

// WriteRaw writes one line for each planned execution, with the attempt that is used: enough to plot and to compute
// everything anew. An execution without a result has its verdict and no numbers. Iterations stand in one field, with
// blanks between them.
func (t *Table) WriteRaw(w io.Writer) error {
	if t.serves() {
		return t.servingRaw(w)
	}
	var lines []resultLine
	var extra [][]string
	figures := t.figures()
	for i := range t.Rows {
		for _, p := range t.Rows[i].pairs {
			lines = append(lines, rawLine(p))
			fields := slices.Clone(p.Point.Values)
			values := map[string]float64{}
			if p.Result != nil {
				for _, f := range p.Result.Extra {
					values["figure "+f.Name] = f.Value
				}
				for name, v := range p.Result.Metrics() {
					values[name] = v
				}
			}
			for _, name := range append(metricNames(), figures...) {
				fields = append(fields, optional(values, name))
			}
			extra = append(extra, fields)
		}
	}
	return splice(w, lines, append(append(t.axisNames(), metricNames()...), figures...), extra)
}

func rawLine(p *collect.Pair) resultLine {
	l := resultLine{
		Run: p.Run.Name(), Point: p.Point.ID, Case: p.Point.Case, Repeat: p.Repeat,
		Outcome: string(p.Outcome), Reason: p.Reason,
	}
	x := p.Result
	if x == nil {
		return l
	}
	l.Attempt = fmt.Sprintf("%d.%d", x.Attempt, x.Restart)
	l.Tokens, l.PaddedTokens, l.Atoms, l.MSA = x.Sizes.Tokens, x.Sizes.PaddedTokens, x.Sizes.Atoms, x.Sizes.MSA
	l.Topology, l.Host, l.File = x.Sizes.Topology, x.Host, p.Path()
	l.Started, l.Finished = x.Started.UTC().Format(time.RFC3339), x.Ended.UTC().Format(time.RFC3339)
	if x.Sizes.Ranks > 0 {
		l.Ranks = strconv.Itoa(x.Sizes.Ranks)
	}
	if s := x.Steps; s != nil {
		l.Iterations = strconv.Itoa(s.N)
		texts := make([]string, len(s.Seconds))
		for i, v := range s.Seconds {
			texts[i] = strconv.FormatFloat(v, 'g', -1, 64)
		}
		l.Seconds = strings.Join(texts, " ")
	}
	if m := x.Search; m != nil {
		l.Fits, l.OOM, l.Ended = m.Fits, m.OOM, m.Ended
	}
	return l
}

// figures lists the programs' own figures as column titles.
func (t *Table) figures() []string {
	var names []string
	for _, p := range t.Set.Pairs {
		if p.Result == nil {
			continue
		}
		for _, f := range p.Result.Extra {
			if name := "figure " + f.Name; !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

func (t *Table) axisNames() []string {
	names := make([]string, len(t.Plan.Axes))
	for i, a := range t.Plan.Axes {
		names[i] = "axis " + a.Name // an axis may be called like a fixed column
	}
	return names
}

func metricNames() []string {
	var names []string
	for _, m := range catalogue.StepMetrics() {
		names = append(names, m.Name)
	}
	return names
}

func optional(values map[string]float64, name string) string {
	if v, ok := values[name]; ok {
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return ""
}

func plainText(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return fmt.Sprint(v)
}

// splice writes lines of structs with further columns behind the fixed ones. gocsv leaves a map empty without an
// error, so what differs from sweep to sweep comes in here.
func splice[T pointLine | resultLine | servingLine | groupLine](w io.Writer, lines []T, titles []string, extra [][]string) error {
	s := &splicer{Writer: csv.NewWriter(w), rows: append([][]string{titles}, extra...)}
	if err := gocsv.MarshalCSV(lines, s); err != nil {
		return err
	}
	s.Flush()
	return s.Error()
}

// splicer is a gocsv.CSVWriter that appends the n-th of its rows to the n-th line.
type splicer struct {
	*csv.Writer
	rows [][]string
	n    int
}

func (s *splicer) Write(fields []string) error {
	line := append(slices.Clone(fields), s.rows[s.n]...)
	s.n++
	return s.Writer.Write(line)
}
