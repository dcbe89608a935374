package llm

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"time"

	"cpbench/plan"
	"cpbench/worker/llm/account"
	"cpbench/worker/llm/dialect"
	"cpbench/worker/llm/group"
	"cpbench/worker/llm/health"
	"cpbench/worker/llm/preflight"
	"cpbench/worker/llm/prompt"
	"cpbench/worker/llm/requestlog"
	"cpbench/worker/llm/scrape"
	"cpbench/worker/llm/telemetry"
	"cpbench/worker/llm/warmup"
	"cpbench/worker/result"
)

// records appends lines to the files of a task, in its log folder. Each line is one write, so a reader sees whole lines.
// Every process has files of its own: another one under the same attempt would leave two lines of one identity.
type records struct {
	lines, texts *os.File // texts is nil without keep_text
	take         int      // of the identities
	bad          error    // the first write that failed
}

func openRecords(dir string, keepText bool) (*records, error) {
	lines, take, err := requestlog.Create(dir)
	if err != nil {
		return nil, err
	}
	rs := &records{lines: lines, take: take}
	if keepText {
		if rs.texts, err = requestlog.CreateTexts(dir, take); err != nil {
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

// identify says of which group a line is.
func (rs *records) identify(kind requestlog.Kind, start int, r *result.Result) requestlog.Identity {
	label := ""
	for _, p := range r.Params {
		if p.Name == "label" {
			label = p.Value
		}
	}
	return requestlog.Identity{
		Schema: requestlog.Schema, Kind: kind, Run: r.Run, Plan: r.Plan, Label: label, Point: r.Point, Case: r.Case, Params: r.Params,
		Repeat: r.Repeat, Start: start, Attempt: r.Attempt, Restart: r.Restart, Take: rs.take,
	}
}

// requestLine is everything about one stream, text excepted.
type requestLine struct {
	requestlog.Identity
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
	requestlog.Identity
	Key         string              `json:"key"`     // measurement key
	Version     string              `json:"cpbench"` // of the client
	Begun       time.Time           `json:"begun"`
	Elapsed     float64             `json:"client_elapsed_s"` // post-processing included
	Outcome     string              `json:"outcome"`
	Reason      string              `json:"reason,omitempty"`
	Invalid     []group.Reason      `json:"invalid,omitempty"`
	Server      *dialect.Server     `json:"server"`
	Settings    settings            `json:"settings"`
	Group       account.Group       `json:"group"`
	Requests    []briefLine         `json:"requests"`
	Cache       group.CacheCheck    `json:"cache"`
	Delta       *scrape.Delta       `json:"counters"`
	Speculation *scrape.Speculation `json:"speculation"`
	Audit       *scrape.Audit       `json:"traffic"`
	Overlap     *account.Overlap    `json:"overlap,omitempty"`
	Goodput     *account.Goodput    `json:"goodput,omitempty"` // with limits in the spec
	Health      health.Health       `json:"client"`
	Telemetry   *telemetry.Window   `json:"telemetry,omitempty"` // where hosts are read
}

// briefLine is what the summary of a group says of a stream, whose own line has the rest.
type briefLine struct {
	Stream   int            `json:"stream"`
	Role     string         `json:"role"`
	Salt     string         `json:"cache_salt,omitempty"`
	Reserved int            `json:"max_tokens"`
	SHA256   string         `json:"prompt_sha256"`
	Target   int            `json:"target_tokens"`
	Measured *int           `json:"prompt_tokens_measured"`
	Usage    *account.Usage `json:"usage"`
}

func briefly(lines []group.Line) []briefLine {
	brief := make([]briefLine, len(lines))
	for i, l := range lines {
		q := l.Request
		brief[i] = briefLine{i, l.Role, q.Salt, q.MaxTokens, q.Prompt.SHA256, q.Prompt.Target, q.Prompt.Tokens, l.Record.Facts.Usage}
	}
	return brief
}

// settings are what the requests of a sweep have in common.
type settings struct {
	MaxTokens       int            `json:"max_tokens"`
	MaxModelLen     int            `json:"max_model_len,omitempty"`
	Thinking        *bool          `json:"thinking"` // null: the template's default
	ReasoningEffort string         `json:"reasoning_effort,omitempty"`
	Priority        *int           `json:"priority"`
	Sampling        plan.Arguments `json:"sampling"` // what is not here is the server's default
	FrameUsage      bool           `json:"frame_usage,omitempty"`
	TemplateKwargs  plan.Arguments `json:"template_kwargs"`
	Timeouts        plan.Timeouts  `json:"timeouts"`
	Settle          plan.Duration  `json:"metrics_settle"`
}

func settingsOf(w plan.Workload) settings {
	return settings{w.MaxTokens, w.MaxModelLen, w.Thinking, w.ReasoningEffort, w.Priority, w.Sampling, w.FrameUsage, w.TemplateKwargs, w.Timeouts, w.MetricsSettle}
}

// textLine is the text of one stream.
type textLine struct {
	requestlog.Identity
	Stream    int    `json:"stream"`
	Reasoning string `json:"reasoning,omitempty"`
	Content   string `json:"content,omitempty"`
	Tool      string `json:"tool,omitempty"`
}

// preflight writes what was found before the first group of a server.
func (rs *records) preflight(l *living, r *result.Result) {
	rs.add(rs.lines, struct {
		requestlog.Identity
		Server   *dialect.Server    `json:"server"`
		Findings preflight.Findings `json:"findings"`
	}{rs.identify(requestlog.Preflight, 0, r), l.seen, l.findings})
}

// warmup writes what was sent before the first group of a server.
func (rs *records) warmup(rep *warmup.Report, r *result.Result) {
	rs.add(rs.lines, struct {
		requestlog.Identity
		*warmup.Report
	}{rs.identify(requestlog.Warmup, 0, r), rep})
}

// group writes the streams of a group and its summary.
func (rs *records) group(w plan.Workload, l *living, start int, rep *group.Report, samples *telemetry.Window, r *result.Result, end ending) error {
	for i, line := range rep.Lines {
		rs.add(rs.lines, requestLine{
			Identity: rs.identify(requestlog.OfRequest, start, r), Stream: i, Role: line.Role, Cache: rep.Cache.Label, Salt: line.Request.Salt,
			Reserved: line.Request.MaxTokens, Prompt: line.Request.Prompt, Record: line.Record,
		})
		if rs.texts != nil {
			rs.add(rs.texts, textLine{rs.identify(requestlog.OfText, start, r), i, line.Texts.Reasoning, line.Texts.Content, line.Texts.Tool})
		}
	}
	sum := groupLine{
		Identity: rs.identify(requestlog.OfGroup, start, r), Key: r.Key, Version: r.Provenance["cpbench"], Requests: briefly(rep.Lines), Begun: rep.Begun.UTC(), Elapsed: rep.Elapsed, Outcome: string(end.outcome), Reason: end.reason,
		Invalid: rep.Invalid, Server: l.seen, Settings: settingsOf(w), Group: rep.Group, Cache: rep.Cache, Delta: rep.Delta,
		Overlap: rep.Overlap, Goodput: goodput(w, rep), Health: rep.Health, Telemetry: samples,
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
