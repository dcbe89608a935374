package plan

import (
	"bytes"
	"encoding/json"
	"reflect"

	"gopkg.in/yaml.v3"
)

// CaseMixed is the word that stands for the concurrency of the case in which a long request comes to two short ones.
const CaseMixed = "mixed"

// LLM are the keys of a workload of `kind: llm`, which sends groups of chat requests to a server.
type LLM struct {
	// Label names the variant that is measured, for example A and B. Required, here or as an axis: a list is one.
	Label Values `yaml:"label" json:"label,omitempty"`
	// Cache is what the prefix cache of the server shall be: `cold`, where every repeat has a fresh salt, or `warm`,
	// where the first repeat fills it and is labelled `cold`, and the others find their prompt in it. Required, here or
	// as an axis.
	Cache Values `yaml:"cache" json:"cache,omitempty"`
	// Data is where prompts come from: `synth` for records of fictional matters, `legal` for the public corpus in
	// `data_dir`, or the path of a JSONL file of your own, which is sent as it is and needs ctx 0. Required, here or as
	// an axis.
	Data Values `yaml:"data" json:"data,omitempty"`
	// Ctx is the size of the whole chat prompt in tokens, by the server's own count; 0 is the instruction alone.
	// Required, here or as an axis.
	Ctx Values `yaml:"ctx" json:"ctx,omitempty"`
	// Concurrency is the number of streams that are released together. Required, here or as an axis, unless there is
	// `mixed`.
	Concurrency Values `yaml:"concurrency" json:"concurrency,omitempty"`
	// Mixed adds one case for every combination of the other axes: a long request that comes to two short ones.
	Mixed *Mixed `yaml:"mixed" json:"mixed,omitempty"`
	// Server is what the requests go to: one that is there, or one that every task starts. Required.
	Server Server `yaml:"server" json:"server,omitzero"`
	// Starts is how often a server with a command is started anew, each time in a task of its own. It is the unit of a
	// claim: the repeats of one start have one server in common.
	Starts int `yaml:"starts" json:"starts,omitempty" jsonschema:"minimum=1,maximum=1000,default=1"`
	// Model is the name under which the server knows the model. Absent: the only one in its list. `{name}` stands for a
	// value of the point.
	Model string `yaml:"model" json:"model,omitempty"`
	// MetricsURLs are addresses of Prometheus metrics, one for each data-parallel rank. Absent: that of the server.
	// `{name}` stands for a value of the point, and `{port}` for the port of a server with a command.
	MetricsURLs []string `yaml:"metrics_urls" json:"metrics_urls,omitempty"`
	// APIKeyEnv is the variable that holds the API key. The key itself never stands in a spec.
	APIKeyEnv string `yaml:"api_key_env" json:"api_key_env,omitempty"`
	// APIKeyFile is a file whose only line is the API key, relative to the spec.
	APIKeyFile string `yaml:"api_key_file" json:"api_key_file,omitempty"`
	// DataDir is the folder of the corpus and of your own prompts, relative to the spec.
	DataDir string `yaml:"data_dir" json:"data_dir,omitempty"`
	// DataFiles names the files of the corpus.
	DataFiles DataFiles `yaml:"data_files" json:"data_files,omitzero"`
	// MaxTokens is the largest number of tokens to generate, and what is reserved for them in the context. Required.
	MaxTokens int `yaml:"max_tokens" json:"max_tokens,omitempty" jsonschema:"minimum=1"`
	// Thinking says whether the model shall think first. Absent: as its template has it.
	Thinking *bool `yaml:"thinking" json:"thinking,omitempty"`
	// ReasoningEffort is given to the template, for example `high`.
	ReasoningEffort string `yaml:"reasoning_effort" json:"reasoning_effort,omitempty"`
	// Priority of the requests at the server. Which of two is served first differs from server to server.
	Priority *int `yaml:"priority" json:"priority,omitempty"`
	// MaxModelLen is a limit of your own on prompt and output together; the smaller of it and the server's counts.
	MaxModelLen int `yaml:"max_model_len" json:"max_model_len,omitempty" jsonschema:"minimum=1"`
	// MetricsSettle is how long to wait after a group for counters that a server publishes now and then; `0s` is not.
	MetricsSettle Duration `yaml:"metrics_settle" json:"metrics_settle,omitempty" jsonschema:"default=2s"`
	// KeepText keeps the text of the answers, in a file of its own that nobody else can read.
	KeepText bool `yaml:"keep_text" json:"keep_text,omitempty"`
	// Sampling are fields of the request such as `temperature: 0`, sent as they are. What is not here is the server's
	// default.
	Sampling Arguments `yaml:"sampling" json:"sampling,omitempty"`
	// FrameUsage asks the server to count its tokens in every frame (vLLM, SGLang). Then the rate without the tokens of
	// the first text is known, and whether a frame is a token; frames become longer.
	FrameUsage bool `yaml:"frame_usage" json:"frame_usage,omitempty"`
	// TemplateKwargs are further arguments of the chat template.
	TemplateKwargs Arguments `yaml:"template_kwargs" json:"template_kwargs,omitempty"`
	// Timeouts bound each request.
	Timeouts Timeouts `yaml:"timeouts" json:"timeouts,omitzero"`
	// Goodput counts the requests that keep limits on their times. Absent: none are set, and nothing is counted.
	Goodput Goodput `yaml:"goodput" json:"goodput,omitzero"`
	// Telemetry reads hosts while groups are measured, this one or others by your own ssh. Absent: none.
	Telemetry *Telemetry `yaml:"telemetry" json:"telemetry,omitempty"`
	// ExtraMetrics are further addresses of metrics, such as those of a cache that offloads, whose text is kept with the
	// samples of the hosts, as it is. No key is sent to them.
	ExtraMetrics []string `yaml:"extra_metrics" json:"extra_metrics,omitempty"`
}

// Server is an LLM server: either one with an address, or one that is started by a command.
type Server struct {
	// URL is the address of a server that runs already, for example `http://127.0.0.1:8000`. `{name}` stands for a value
	// of the point.
	URL string `yaml:"url" json:"url,omitempty"`
	// Command starts a server in the task: a list of arguments, in which `{name}` stands for a value of the point and
	// `{port}` for a free port on which it has to listen.
	Command []string `yaml:"command" json:"command,omitempty"`
	// Ready is a path, below the address of a server with a command, that answers with 200 when it can be used, or a
	// whole address.
	Ready string `yaml:"ready" json:"ready,omitempty" jsonschema:"default=/health"`
	// ReadyTimeout is how long a server with a command may take until it is ready.
	ReadyTimeout Duration `yaml:"ready_timeout" json:"ready_timeout,omitempty" jsonschema:"default=15m"`
	// Env sets environment variables of a server with a command, beside those of the sweep. Leave secrets to the
	// environment in which the sweep is started, which the server inherits.
	Env map[string]string `yaml:"env" json:"env,omitempty"`
	// StopGrace is how long a server with a command may take to end before it is killed.
	StopGrace Duration `yaml:"stop_grace" json:"stop_grace,omitempty" jsonschema:"default=30s"`
}

// Mixed is the case of mixed arrivals: two short requests start together, and a long one is sent when both have brought
// text and a delay has passed.
type Mixed struct {
	// ShortCtx is the size of the prompts of the two short requests, in tokens. Required.
	ShortCtx int `yaml:"short_ctx" json:"short_ctx" jsonschema:"required,minimum=1"`
	// Delay is counted from the later first text of the two; `0s` is none.
	Delay Duration `yaml:"delay" json:"delay,omitempty" jsonschema:"default=1s"`
}

// DataFiles are the names of the files of the public corpus.
type DataFiles struct {
	// Opinions is the file of court opinions.
	Opinions string `yaml:"opinions" json:"opinions,omitempty" jsonschema:"default=opinions_cl.jsonl"`
	// Filings is the file of court filings.
	Filings string `yaml:"filings" json:"filings,omitempty" jsonschema:"default=filings_recap.jsonl"`
}

// Timeouts bound the phases of each request; `0s` sets no bound.
type Timeouts struct {
	// Connect is the time until there is a connection.
	Connect Duration `yaml:"connect" json:"connect,omitempty" jsonschema:"default=10s"`
	// FirstByte is the time from the connection to the first byte of the answer, the prefill included.
	FirstByte Duration `yaml:"first_byte" json:"first_byte,omitempty" jsonschema:"default=10m"`
	// Idle is the longest silence within an answer.
	Idle Duration `yaml:"idle" json:"idle,omitempty" jsonschema:"default=2m"`
	// Total is the time of a whole request.
	Total Duration `yaml:"total" json:"total,omitempty" jsonschema:"default=30m"`
}

// Values are one value or a list of them, in the user's text.
type Values []string

func (v *Values) decodeNode(d *decoder, n *yaml.Node, path string) {
	if n.Kind == yaml.SequenceNode {
		var list []string
		d.sequence(n, reflect.ValueOf(&list).Elem(), path)
		*v = list
		return
	}
	if text, ok := d.scalar(n, path); ok {
		*v = Values{text}
	}
}

// Arguments are named values for a request: texts, booleans, nil, numbers as json.Number in the user's own digits, and
// lists and mappings of these.
type Arguments map[string]any

// UnmarshalJSON keeps the digits of numbers.
func (a *Arguments) UnmarshalJSON(b []byte) error {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	return dec.Decode((*map[string]any)(a))
}

func (a *Arguments) decodeNode(d *decoder, n *yaml.Node, path string) {
	*a = Arguments{}
	d.pairs(n, path, func(key, val *yaml.Node, at string) {
		if v, ok := d.argument(val, at, 0); ok {
			(*a)[key.Value] = v
		}
	})
}

// maxDepth bounds how deep a value may lie in others, since an alias may stand within what it names.
const maxDepth = 32

// argument is a value of any form, as it can be sent in JSON.
func (d *decoder) argument(n *yaml.Node, path string, depth int) (any, bool) {
	if d.nodes++; d.nodes > maxNodes || depth > maxDepth {
		d.nodes = maxNodes + 1 // nothing further is looked at
		d.once.Do(func() { d.at(path, "", "%s lies too deep", path) })
		return nil, false
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	d.pos[path] = Pos{n.Line, n.Column}
	switch n.Kind {
	case yaml.SequenceNode:
		list := []any{}
		for i, c := range n.Content {
			v, ok := d.argument(c, indexed(path, i), depth+1)
			if !ok {
				return nil, false
			}
			list = append(list, v)
		}
		return list, true
	case yaml.MappingNode:
		m := map[string]any{}
		d.pairs(n, path, func(key, val *yaml.Node, at string) {
			if v, ok := d.argument(val, at, depth+1); ok {
				m[key.Value] = v
			}
		})
		return m, true
	case yaml.ScalarNode, yaml.DocumentNode, yaml.AliasNode:
	}
	switch n.ShortTag() {
	case "!!null":
		return nil, true
	case "!!bool":
		return n.Value == "true" || n.Value == "True" || n.Value == "TRUE", true
	case "!!int", "!!float":
		if !json.Valid([]byte(n.Value)) {
			d.at(path, "write it as 0.5, 7 or 1e-3, or put a text into quotes", "%s: %q is no number that can be sent", path, n.Value)
			return nil, false
		}
		return json.Number(n.Value), true
	}
	return n.Value, true
}
