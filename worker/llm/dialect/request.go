package dialect

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cpbench/worker/llm/prompt"
)

// Template is what the chat template is told, in counting and in generating alike.
type Template struct {
	Thinking        *bool // nil: the template's default
	ReasoningEffort string
	Arguments       map[string]any // further ones
}

// arguments are all arguments as they are sent. Newer servers take from an effort that the model shall think, in
// generating alone (vllm#43401); so it is said in both.
func (t Template) arguments() (map[string]any, error) {
	args := maps.Clone(t.Arguments)
	if args == nil {
		args = map[string]any{}
	}
	set := func(name string, value any) error {
		if old, ok := args[name]; ok && old != value {
			return fmt.Errorf("the template argument %q is given twice, as %v and as %v", name, old, value)
		}
		args[name] = value
		return nil
	}
	thinks := t.Thinking
	if t.ReasoningEffort != "" {
		does := t.ReasoningEffort != "none"
		if thinks != nil && *thinks != does {
			return nil, fmt.Errorf("thinking: %v contradicts reasoning_effort: %s", *thinks, t.ReasoningEffort)
		}
		thinks = &does
		if err := set("reasoning_effort", t.ReasoningEffort); err != nil {
			return nil, err
		}
	}
	if thinks != nil {
		if err := set("enable_thinking", *thinks); err != nil {
			return nil, err
		}
	}
	return args, nil
}

// Request is one generation request.
type Request struct {
	Messages  []prompt.Message
	MaxTokens int // to generate
	Template  Template
	Sampling  map[string]any // sent as they are; what is not sent is the server's default
	Salt      string         // of the prefix cache; empty: none
	Fresh     bool           // the prompt shall not come from the cache; servers with salts need one as well
	Priority  *int
	// FrameUsage asks for the usage so far in every frame.
	FrameUsage bool
}

// ErrUnsupported is the error of a wish that this kind of server has no field for. It is told before anything is sent,
// because a server ignores a field that it does not know.
var ErrUnsupported = errors.New("the server does not support this")

// ours are the fields that Body sets itself.
var ours = []string{
	"model", "messages", "stream", "stream_options", "max_tokens", "max_completion_tokens", "cache_salt", "cache_prompt",
	"chat_template_kwargs", "reasoning_effort", "priority", "n",
}

// Body is the body of a streaming chat request, in JSON with the fields in alphabetical order.
func (s *Server) Body(r Request) ([]byte, error) {
	t := s.Kind.Traits()
	if r.MaxTokens < 1 {
		return nil, fmt.Errorf("max_tokens is %d", r.MaxTokens)
	}
	body, err := s.chat(r.Messages, r.Template)
	if err != nil {
		return nil, err
	}
	for name, value := range r.Sampling {
		switch {
		case slices.Contains(ours, name):
			return nil, fmt.Errorf("sampling: %q is set by another key of the spec", name)
		case name == "chat_template":
			return nil, errors.New("sampling: a chat template is never sent: servers refuse those that they do not trust")
		}
		body[name] = value
	}
	usage := map[string]any{"include_usage": true}
	if r.FrameUsage {
		if !t.FrameUsage {
			return nil, fmt.Errorf("usage in every frame: %w: %s", ErrUnsupported, s.Kind)
		}
		usage["continuous_usage_stats"] = true
	}
	body["stream"], body["stream_options"] = true, usage
	body[t.budget] = r.MaxTokens
	if r.Priority != nil {
		if t.Priority == NoPriority {
			return nil, fmt.Errorf("priority: %w: %s", ErrUnsupported, s.Kind)
		}
		body["priority"] = *r.Priority
	}
	if r.Salt != "" {
		if !t.Salt {
			return nil, fmt.Errorf("cache salt: %w: %s", ErrUnsupported, s.Kind)
		}
		body["cache_salt"] = r.Salt
	}
	if t.FreshFlag {
		body["cache_prompt"] = !r.Fresh
	}
	return encode(body)
}

// chat are the fields that decide which tokens the prompt has: the same for counting and for generating.
func (s *Server) chat(messages []prompt.Message, t Template) (map[string]any, error) {
	if len(messages) == 0 {
		return nil, errors.New("a chat without messages")
	}
	args, err := t.arguments()
	if err != nil {
		return nil, err
	}
	if len(args) > 0 && !s.Kind.Traits().Template {
		return nil, fmt.Errorf("arguments of the chat template (%s): %w: %s", strings.Join(slices.Sorted(maps.Keys(args)), ", "), ErrUnsupported, s.Kind)
	}
	body := map[string]any{"model": s.Model.ID, "messages": messages}
	if len(args) > 0 {
		body["chat_template_kwargs"] = args
	}
	if t.ReasoningEffort != "" {
		body["reasoning_effort"] = t.ReasoningEffort
	}
	return body, nil
}

// ChatPath is where Body is sent to, below the address of the server.
const ChatPath = "/v1/chat/completions"

// Key is the key that measured requests need.
func (s *Server) Key() Key { return s.key }
