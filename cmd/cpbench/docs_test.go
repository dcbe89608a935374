package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/template"

	"cpbench/plan/catalogue"
	"cpbench/worker/model/protocol"

	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v2"
)

var update = flag.Bool("update", false, "write the generated references and the golden parts of the scripts")

// generated makes a page of docs from its template in testdata/docs and compares it with the one that is there, or
// writes it.
func generated(t *testing.T, name string, data any) {
	t.Helper()
	page, err := template.ParseFiles("testdata/docs/" + name + ".tmpl")
	if err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	if err := page.Execute(&want, data); err != nil {
		t.Fatal(err)
	}
	path := "../../docs/" + name
	if *update {
		if err := os.WriteFile(path, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.String(), string(have)); diff != "" {
		t.Errorf("%s is stale, run make docs (-code +file):\n%s", path, diff)
	}
}

// commandDoc is a command in docs/cli.md.
type commandDoc struct {
	Name, Usage, Examples, Description string
	Flags                              []flagDoc
}

type flagDoc struct{ Names, Default, Help string }

// exitHelp says what the exit codes mean.
var exitHelp = map[string]string{
	"exitDone":        "done; every point has a good result, or an answer such as not fitting",
	"exitError":       "an error, for example a file that cannot be written or a run that is damaged",
	"exitUsage":       "a mistake on the command line or in the spec",
	"exitIncomplete":  "the command did its work, but some points have no good result: they failed, are missing, wait or run",
	"exitInterrupted": "interrupted",
}

// TestDocsCLI holds docs/cli.md to the commands and flags of the program.
func TestDocsCLI(t *testing.T) {
	app := newApp(&streams{out: io.Discard, err: io.Discard, voice: voice{io.Discard}})
	type exit struct{ Code, Help string }
	var data struct {
		Commands []commandDoc
		Exits    []exit
	}
	for _, c := range app.Commands {
		if !c.Hidden {
			data.Commands = append(data.Commands, documented(t, c))
		}
	}
	for _, c := range constants(t, "say.go", "exit") {
		if exitHelp[c.name] == "" {
			t.Errorf("docs/cli.md says nothing about %s", c.name)
		}
		data.Exits = append(data.Exits, exit{c.value, exitHelp[c.name]})
	}
	generated(t, "cli.md", data)
}

func documented(t *testing.T, c *cli.Command) commandDoc {
	t.Helper()
	if c.Usage == "" || c.UsageText == "" {
		t.Errorf("%s has no usage or no examples", c.Name)
	}
	d := commandDoc{Name: c.Name, Usage: c.Usage, Examples: c.UsageText, Description: strings.ReplaceAll(c.Description, "\n", " ")}
	for _, f := range c.VisibleFlags() {
		doc, ok := f.(cli.DocGenerationFlag)
		if !ok || doc.GetUsage() == "" {
			t.Errorf("%s: --%s has no usage", c.Name, f.Names()[0])
			continue
		}
		d.Flags = append(d.Flags, documentedFlag(f.Names(), doc))
	}
	return d
}

var placeholder = regexp.MustCompile("`([^`]+)`")

func documentedFlag(names []string, f cli.DocGenerationFlag) flagDoc {
	value, usage := "", f.GetUsage()
	if f.TakesValue() {
		value = " value"
		if m := placeholder.FindStringSubmatch(usage); m != nil {
			value = " " + m[1]
			usage = placeholder.ReplaceAllString(usage, "$1")
		}
	}
	var forms []string
	for _, n := range names {
		switch dashed := "--" + n; {
		case len(n) == 1:
			forms = append(forms, "`-"+n+value+"`")
		case dashed == onlyFailed:
			forms = append(forms, "`"+dashed+"[="+strings.TrimSpace(value)+"]`")
		default:
			forms = append(forms, "`"+dashed+value+"`")
		}
	}
	d := flagDoc{Names: strings.Join(forms, ", "), Help: usage}
	// Numbers that stand for "not given" are no defaults to tell.
	if text := strings.Trim(f.GetDefaultText(), `"`); f.TakesValue() && text != "" && text != "0" && text != "-1" {
		d.Default = "`" + text + "`"
	}
	return d
}

// constant is a constant of a Go file, with the comment on its line.
type constant struct{ name, value, comment string }

// constants lists the constants of a file whose names begin with prefix.
func constants(t *testing.T, path, prefix string) []constant {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var list []constant
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, prefix) || len(spec.Values) != 1 {
			return true
		}
		if lit, ok := spec.Values[0].(*ast.BasicLit); ok {
			c := constant{name: spec.Names[0].Name, value: lit.Value, comment: strings.TrimSpace(spec.Comment.Text())}
			if text, err := strconv.Unquote(lit.Value); err == nil {
				c.value = text
			}
			list = append(list, c)
		}
		return true
	})
	if len(list) == 0 {
		t.Fatalf("%s has no constants %s*", path, prefix)
	}
	return list
}

// TestDocsMetrics holds docs/metrics.md to the catalogue.
func TestDocsMetrics(t *testing.T) {
	type outcome struct{ Name, Help, Fits, Done, Failed string }
	type code struct{ Name, Help string }
	type fact struct{ Name, Group, When, Needed, Brief, Unit, Help string }
	var data struct {
		Metrics  []catalogue.Metric
		Outcomes []outcome
		Codes    []code
		Facts    []fact

		NotApplicable string
	}
	data.NotApplicable = catalogue.NotApplicable
	data.Metrics = catalogue.Metrics()
	yes := func(b bool) string {
		if b {
			return "yes"
		}
		return "no"
	}
	for _, m := range catalogue.Outcomes() {
		fits := ""
		switch {
		case m.Outcome.Fits():
			fits = "fits"
		case m.Outcome.OutOfMemory():
			fits = "does not fit"
		}
		data.Outcomes = append(data.Outcomes, outcome{string(m.Outcome), m.Help, fits, yes(m.Outcome.Done()), yes(m.Outcome.Failed())})
	}
	for _, c := range constants(t, "../../plan/catalogue/warning.go", "") {
		if c.comment == "" {
			t.Errorf("warning %s has no comment", c.value)
		}
		data.Codes = append(data.Codes, code{c.value, c.comment})
	}
	for _, f := range catalogue.Facts() {
		needed, where := "", "file"
		if f.Needed {
			needed = "★"
		}
		if f.Brief {
			where = "result"
		}
		data.Facts = append(data.Facts, fact{f.Name, string(f.Group), string(f.When), needed, where, f.Unit, f.Help})
	}
	generated(t, "metrics.md", data)
}

// TestDocsProtocol decodes every example of docs/protocol.md. Nothing in one may be unknown to the protocol, and every
// message has one.
func TestDocsProtocol(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	var missing []string
	for _, c := range constants(t, "../../worker/model/protocol/wire.go", "type") {
		missing = append(missing, c.value)
	}
	for _, block := range regexp.MustCompile("(?s)```json\n(.*?)```").FindAllSubmatch(page, -1) {
		for line := range strings.Lines(string(block[1])) {
			m, err := protocol.Decode([]byte(line))
			if err != nil {
				t.Errorf("%s: %v", line, err)
				continue
			}
			again, err := protocol.Encode(m)
			if err != nil {
				t.Errorf("%s: %v", line, err)
			}
			if diff := cmp.Diff(asJSON(t, again), asJSON(t, []byte(line))); diff != "" {
				t.Errorf("%s is read as something else (-read +page):\n%s", line, diff)
			}
			missing = slices.DeleteFunc(missing, func(name string) bool { return name == m.Type() })
		}
	}
	if len(missing) > 0 {
		t.Errorf("no example of %v", missing)
	}
	for _, name := range []string{protocol.EnvConnect, protocol.EnvToken, fmt.Sprintf("protocol %d", protocol.Version)} {
		if !bytes.Contains(page, []byte(name)) {
			t.Errorf("nothing about %s", name)
		}
	}
}

func asJSON(t *testing.T, line []byte) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(line, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// anchors are the headings of a page as links name them.
func anchors(page []byte) []string {
	var all []string
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllSubmatch(page, -1) {
		name := regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(string(m[1])), "")
		all = append(all, "#"+strings.ReplaceAll(name, " ", "-"))
	}
	return all
}

// TestDocsLinks: what a page points to is there, and so is the heading in it.
func TestDocsLinks(t *testing.T) {
	t.Parallel()
	checked := 0
	for _, dir := range []string{"../..", "../../docs", "../../docs/changes"} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if !strings.HasSuffix(e.Name(), ".md") {
				continue
			}
			page, err := os.ReadFile(dir + "/" + e.Name())
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range regexp.MustCompile(`\]\(([^)#:]*)(#[^)]*)?\)`).FindAllSubmatch(page, -1) {
				checked++
				target := page
				if len(m[1]) > 0 {
					path := dir + "/" + string(m[1])
					if target, err = os.ReadFile(path); err != nil && !isDir(path) {
						t.Errorf("%s points to %s: %v", e.Name(), m[1], err)
					}
				}
				if anchor := string(m[2]); anchor != "" && !slices.Contains(anchors(target), anchor) {
					t.Errorf("%s points to %s%s, and there is no such heading", e.Name(), m[1], anchor)
				}
			}
		}
	}
	if checked == 0 {
		t.Error("no links found")
	}
}
