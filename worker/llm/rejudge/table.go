package rejudge

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"cpbench/worker/llm/account/peer"
)

// Table is rows by two definitions.
type Table struct {
	As   string `json:"as"`   // the other definitions: cpbench or a tool of package peer
	Tool string `json:"tool"` // program and version whose definitions these are
	Rows []Row  `json:"rows"`
}

// shown is how figures are printed: title, factor and unit.
var shown = map[peer.Name]struct {
	title  string
	factor float64
	unit   string
}{
	peer.Requests: {"successful requests", 1, ""}, peer.TTFT: {"TTFT", 1e3, "ms"}, peer.TTFTP50: {"TTFT p50", 1e3, "ms"},
	peer.TTFTP99: {"TTFT p99", 1e3, "ms"}, peer.Visible: {"first visible", 1e3, "ms"}, peer.TPOT: {"TPOT", 1e3, "ms"},
	peer.FromStart: {"TPOT from start", 1e3, "ms"}, peer.Gap: {"frame gap", 1e3, "ms"}, peer.GapP50: {"frame gap p50", 1e3, "ms"},
	peer.GapMax: {"frame gap max", 1e3, "ms"}, peer.Latency: {"request", 1e3, "ms"}, peer.Tokens: {"output tokens", 1, ""},
	peer.Rate: {"aggregate", 1, "tok/s"},
}

// WriteText prints a block for each row, and the reasons of all differences once, below.
func (t *Table) WriteText(w io.Writer) error {
	var notes footnotes
	var text bytes.Buffer
	out := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	left, right := Ours, t.Tool
	if t.As == Ours {
		left, right = "stored", "made again"
	}
	for i := range t.Rows {
		r := &t.Rows[i]
		if i > 0 {
			fmt.Fprintln(out)
		}
		fmt.Fprintf(out, "%s, %s, %s%s\n", r.Point, r.Cache, plural(r.N, "group"), r.standing())
		fmt.Fprintf(out, "  figure\t%s\t%s\tname there\twhy they differ\n", left, right)
		for _, f := range r.Figures {
			s := shown[f.Name]
			title := s.title
			if s.unit != "" {
				title += ", " + s.unit
			}
			fmt.Fprintf(out, "  %s\t%s\t%s\t%s\t%s\n", title, cell(f.Ours, s.factor, f.OursN, r.N), cell(f.Other, s.factor, f.OtherN, r.N), f.Theirs, notes.marks(f.Why))
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	for i, reason := range notes {
		if i == 0 {
			fmt.Fprintln(&text)
		}
		fmt.Fprintf(&text, "[%d] %s\n", i+1, reason)
	}
	for line := range strings.Lines(text.String()) { // an empty last cell leaves blanks
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// footnotes are texts that stand below a table once each.
type footnotes []string

// marks are the marks of some texts.
func (n *footnotes) marks(texts []string) string {
	var marks []string
	for _, text := range texts {
		i := slices.Index(*n, text)
		if i < 0 {
			i = len(*n)
			*n = append(*n, text)
		}
		marks = append(marks, fmt.Sprintf("[%d]", i+1))
	}
	return strings.Join(marks, " ")
}

// standing says why groups are none of ours.
func (r *Row) standing() string {
	if r.Counted {
		return ""
	}
	return " that cpbench does not count (" + r.Outcome + ")"
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// cell is a number with four significant digits, and of how many groups it is where not all have it.
func cell(v *float64, factor float64, n, all int) string {
	if v == nil {
		return "–"
	}
	text := strconv.FormatFloat(*v*factor, 'g', 5, 64)
	if n < all {
		text += fmt.Sprintf(" (n=%d)", n)
	}
	return text
}

// WriteCSV writes one line for each figure of each row, in base units. An empty field could not be had.
func (t *Table) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	lines := [][]string{{"point", "cache_label", "counted", "outcome", "groups", "figure", "as", "name_there", "cpbench", "cpbench_n", "other", "other_n", "why"}}
	for _, r := range t.Rows {
		for _, f := range r.Figures {
			lines = append(lines, []string{
				r.Point, r.Cache, strconv.FormatBool(r.Counted), r.Outcome, strconv.Itoa(r.N), string(f.Name), t.As, f.Theirs,
				plain(f.Ours), strconv.Itoa(f.OursN), plain(f.Other), strconv.Itoa(f.OtherN), strings.Join(f.Why, "; "),
			})
		}
	}
	return out.WriteAll(lines)
}

func plain(v *float64) string {
	if v == nil {
		return ""
	}
	return strconv.FormatFloat(*v, 'g', -1, 64)
}
