package llm

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"

	"cpbench/plan"
	"cpbench/worker/llm/account"
	"cpbench/worker/llm/dialect"
	"cpbench/worker/llm/group"
	"cpbench/worker/llm/health"
	"cpbench/worker/llm/preflight"
	"cpbench/worker/llm/prompt"
	"cpbench/worker/llm/scrape"
	"cpbench/worker/result"
)

// The files of a task, in its log folder. That of the texts is there with keep_text alone, and nobody else can read it.
const (
	recordsFile = "requests.jsonl"
	textsFile   = "texts.jsonl"
)

// records appends lines to the files. Each line is one write, so a reader sees whole lines.
type records struct {
	lines, texts *os.File // texts is nil without keep_text
	bad          error    // the first write that failed
}

func openRecords(dir string, keepText bool) (*records, error) {
	const flags = os.O_CREATE | os.O_APPEND | os.O_WRONLY
	lines, err := os.OpenFile(filepath.Join(dir, recordsFile), flags, 0o644)
	if err != nil {
		return nil, err
	}
	rs := &records{lines: lines}
	if keepText {
		if rs.texts, err = os.OpenFile(filepath.Join(dir, textsFile), flags, 0o600); err != nil {
			return nil, errors.Join(err, lines.Close())
		}
	}
	return rs, nil
}

// Close closes the files.
func (rs *records) Close() error {
	err := rs.lines.Close()
	if rs.texts != nil {
		err = errors.Join(err, rs.texts.Close())
	}
	return err
}

// identity says of which group a line is.
type identity struct {
	Kind    string         `json:"kind"` // preflight, request or group
	Run     string         `json:"run"`
	Point   string         `json:"point"`
	Case    string         `json:"case,omitempty"`
	Params  []result.Param `json:"params"`
	Repeat  int            `json:"repeat"`
	Start   int            `json:"start,omitempty"`
	Attempt int            `json:"attempt"`
	Restart int            `json:"restart"`
}

func identify(kind string, start int, r *result.Result) identity {
	return identity{kind, r.Run, r.Point, r.Case, r.Params, r.Repeat, start, r.Attempt, r.Restart}
}

// requestLine is everything about one stream, text excepted.
type requestLine struct {
	identity
	Stream int         `json:"stream"`
	Role   string      `json:"role"`
	Cache  group.Label `json:"cache_label"`
	Salt   string      `json:"cache_salt,omitempty"`
	// Reserved are the tokens that were set aside for the output.
	Reserved int `json:"max_tokens"`
	prompt.Prompt
	account.Record
}

// groupLine is the summary of a group, with the settings that two groups must share to be compared.
type groupLine struct {
	identity
	Begun       time.Time           `json:"begun"`
	Elapsed     float64             `json:"client_elapsed_s"` // post-processing included
	Outcome     string              `json:"outcome"`
	Reason      string              `json:"reason,omitempty"`
	Invalid     []group.Reason      `json:"invalid,omitempty"`
	Server      *dialect.Server     `json:"server"`
	Settings    settings            `json:"settings"`
	Group       account.Group       `json:"group"`
	Cache       group.CacheCheck    `json:"cache"`
	Delta       *scrape.Delta       `json:"counters"`
	Speculation *scrape.Speculation `json:"speculation"`
	Audit       *scrape.Audit       `json:"traffic"`
	Overlap     *account.Overlap    `json:"overlap,omitempty"`
	Health      health.Health       `json:"client"`
}

// settings are what the requests of a sweep have in common.
type settings struct {
	MaxTokens       int            `json:"max_tokens"`
	MaxModelLen     int            `json:"max_model_len,omitempty"`
	Thinking        *bool          `json:"thinking"` // null: the template's default
	ReasoningEffort string         `json:"reasoning_effort,omitempty"`
	Priority        *int           `json:"priority"`
	Sampling        plan.Arguments `json:"sampling"` // what is not here is the server's default
	TemplateKwargs  plan.Arguments `json:"template_kwargs"`
	Timeouts        plan.Timeouts  `json:"timeouts"`
	Settle          plan.Duration  `json:"metrics_settle"`
}

func settingsOf(w plan.Workload) settings {
	return settings{w.MaxTokens, w.MaxModelLen, w.Thinking, w.ReasoningEffort, w.Priority, w.Sampling, w.TemplateKwargs, w.Timeouts, w.MetricsSettle}
}

// textLine is the text of one stream.
type textLine struct {
	identity
	Stream    int    `json:"stream"`
	Reasoning string `json:"reasoning,omitempty"`
	Content   string `json:"content,omitempty"`
	Tool      string `json:"tool,omitempty"`
}

// preflight writes what was found before the first group of a server.
func (rs *records) preflight(l *living, r *result.Result) {
	rs.add(rs.lines, struct {
		identity
		Server   *dialect.Server    `json:"server"`
		Findings preflight.Findings `json:"findings"`
	}{identify("preflight", 0, r), l.seen, l.findings})
}

// group writes the streams of a group and its summary.
func (rs *records) group(w plan.Workload, l *living, start int, rep *group.Report, r *result.Result, end ending) error {
	for i, line := range rep.Lines {
		rs.add(rs.lines, requestLine{
			identity: identify("request", start, r), Stream: i, Role: line.Role, Cache: rep.Cache.Label, Salt: line.Request.Salt,
			Reserved: line.Request.MaxTokens, Prompt: line.Request.Prompt, Record: line.Record,
		})
		if rs.texts != nil {
			rs.add(rs.texts, textLine{identify("text", start, r), i, line.Texts.Reasoning, line.Texts.Content, line.Texts.Tool})
		}
	}
	sum := groupLine{
		identity: identify("group", start, r), Begun: rep.Begun.UTC(), Elapsed: rep.Elapsed, Outcome: string(end.outcome), Reason: end.reason,
		Invalid: rep.Invalid, Server: l.seen, Settings: settingsOf(w), Group: rep.Group, Cache: rep.Cache, Delta: rep.Delta,
		Overlap: rep.Overlap, Health: rep.Health,
	}
	if rep.Delta != nil {
		sum.Speculation, sum.Audit = &rep.Speculation, &rep.Audit
	}
	rs.add(rs.lines, sum)
	if rs.bad == nil {
		rs.bad = rs.lines.Sync()
	}
	return rs.bad
}

// add writes one line.
func (rs *records) add(f *os.File, v any) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	if err == nil {
		_, err = f.Write(b.Bytes())
	}
	if err != nil && rs.bad == nil {
		rs.bad = err
	}
}
