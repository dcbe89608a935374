package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"strconv"
	"strings"
)

// Serving is what a setting of `kind: llm` has beside the rest: one group of requests, and the server to which it goes.
// What is the same for all points stands in Spec.Workload.LLM.
type Serving struct {
	Group  Group
	Target Target
	// Model is the name under which the server knows the model; empty: the only one in its list.
	Model string
	// MetricsURLs are empty where the server's own address is meant. `{port}` is still open in them.
	MetricsURLs []string
	// APIKeyFile, DataDir are absolute; APIKeyFile is empty without one.
	APIKeyFile, DataDir string
}

// Group is what one pair sends.
type Group struct {
	Label string
	Cache string // cold or warm
	Data  string // synth, legal or the path of a JSONL file, relative to Serving.DataDir
	Ctx   int    // tokens of the whole prompt; of the mixed case those of the long request
	// Concurrency is the number of streams behind the barrier; 0 in the mixed case, whose three streams have an order of
	// their own.
	Concurrency int
	Mixed       *Mixed // nil unless this is the mixed case
}

// Case names what is measured and never the variant, so that variants get the same prompts.
func (g Group) Case() string {
	streams := strconv.Itoa(g.Concurrency)
	if g.Mixed != nil {
		streams = fmt.Sprintf("%s short_ctx=%d", CaseMixed, g.Mixed.ShortCtx)
	}
	return fmt.Sprintf("data=%s ctx=%d concurrency=%s", g.Data, g.Ctx, streams)
}

// Target is a server: one with a URL, or one that is started by a command. `{port}` is still open in Command, Env and
// Ready; Bound closes it.
type Target struct {
	URL     string
	Command []string
	Env     map[string]string // of the sweep and of the server together; the server's own wins
	Ready   string
}

// Key is equal for targets that are one server: the pairs of a task with equal keys stand in a row and share a start.
func (t Target) Key() string {
	b, err := json.Marshal(t) // the keys of a map are sorted
	if err != nil {
		panic(err) // plain texts
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

// Bound is the target of a command with a port: `{port}` is filled, URL and Ready are addresses on this node.
func (t Target) Bound(port int) Target {
	t.URL = "http://127.0.0.1:" + strconv.Itoa(port)
	t.Ready = AtPort(t.Ready, port)
	if strings.HasPrefix(t.Ready, "/") {
		t.Ready = t.URL + t.Ready
	}
	args := make([]string, len(t.Command))
	for i, a := range t.Command {
		args[i] = AtPort(a, port)
	}
	t.Command = args
	t.Env = maps.Clone(t.Env)
	for name, v := range t.Env {
		t.Env[name] = AtPort(v, port)
	}
	return t
}

// Fixed are the variables of Env whose values are the same on every port.
func (t Target) Fixed() map[string]string {
	env := maps.Clone(t.Env)
	maps.DeleteFunc(env, func(_, v string) bool { return strings.Contains(v, portMark) })
	return env
}

// portMark stands for the port in evaluated texts: no text of a spec holds a NUL, so that a literal {{port}} of the
// user's stays what it is.
const portMark = "\x00port\x00"

// AtPort fills the port that is still open in an evaluated text, such as one of Serving.MetricsURLs.
func AtPort(text string, port int) string {
	return strings.ReplaceAll(text, portMark, strconv.Itoa(port))
}

// StartStride separates the numbers of repeats of different starts: start s has those from (s-1)*StartStride + 1 on. So
// neither more repeats nor more starts change the number of a repeat that has run.
const StartStride = 1000

// Nth is the repeat within its start, from 1.
func (p Pair) Nth() int { return (p.Repeat-1)%StartStride + 1 }

// serving evaluates what `kind: llm` has beside the rest.
func (e *evaluator) serving(p *Plan, pt Point, texts map[string]any) *Serving {
	w := p.Spec.Workload
	texts["port"] = portMark
	s := &Serving{Group: e.group(&w.LLM, pt), Model: e.llm.model.fill(texts), DataDir: inDir(p.Dir, w.DataDir)}
	if w.APIKeyFile != "" {
		s.APIKeyFile = inDir(p.Dir, w.APIKeyFile)
	}
	for _, t := range e.llm.metrics {
		s.MetricsURLs = append(s.MetricsURLs, t.fill(texts))
	}
	s.Target = Target{URL: e.llm.url.fill(texts)}
	if len(w.Server.Command) == 0 {
		return s
	}
	s.Target.Ready = e.llm.ready.fill(texts)
	for _, t := range e.llm.command {
		s.Target.Command = append(s.Target.Command, p.frozen(t.fill(texts)))
	}
	s.Target.Env = map[string]string{}
	for _, env := range []map[string]template{e.env, e.llm.env} {
		for name, t := range env {
			s.Target.Env[name] = t.fill(texts)
		}
	}
	return s
}

// group reads the values of the axes that decide what is sent. That they are of the right form was checked.
func (e *evaluator) group(w *LLM, pt Point) Group {
	var g Group
	for i, a := range e.axes {
		v := pt.Values[i]
		switch a.Name {
		case "label":
			g.Label = v
		case "cache":
			g.Cache = v
		case "data":
			g.Data = v
		case "ctx":
			g.Ctx, _ = strconv.Atoi(v)
		case "concurrency":
			g.Concurrency, _ = strconv.Atoi(v)
		}
	}
	if pt.Case == CaseMixed {
		g.Mixed, g.Concurrency = w.Mixed, 0
	}
	return g
}

func inDir(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}
