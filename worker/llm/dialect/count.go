package dialect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"cpbench/worker/llm/prompt"
)

// Counter counts the tokens of whole chat prompts with the arguments of a template; nil if the server has no way to.
func (s *Server) Counter(t Template) prompt.Counter {
	var count func(ctx context.Context, chat map[string]any) (int, error)
	switch s.Kind {
	case VLLM:
		count = s.countVLLM
	case SGLang:
		count = func(ctx context.Context, chat map[string]any) (int, error) {
			n, err := s.tokenize(ctx, "/v1/tokenize", chat)
			if wantsPrompt(err) {
				err = fmt.Errorf("%w: %w; SGLang counts chats since April 2026", prompt.ErrNoCounter, err)
			}
			return n, err
		}
	case LlamaCPP:
		count = s.countLlama
	case TGI:
		count = s.countTGI
	case TRTLLM, None:
		return nil
	}
	return func(ctx context.Context, messages []prompt.Message) (int, error) {
		chat, err := s.chat(messages, t)
		if err != nil {
			return 0, err
		}
		n, err := count(ctx, chat)
		if lacks(err) {
			err = fmt.Errorf("%w: %w", prompt.ErrNoCounter, err)
		}
		return n, err
	}
}

// wantsPrompt reports whether an endpoint misses the text in a request that has messages: it knows no chats.
func wantsPrompt(err error) bool {
	var status *StatusError
	return errors.As(err, &status) && (status.Code == http.StatusBadRequest || status.Code == http.StatusUnprocessableEntity) &&
		strings.Contains(status.Body, "prompt") && strings.Contains(strings.ToLower(status.Body), "required")
}

// Identity names everything that a count of this server with these arguments depends on.
func (s *Server) Identity(t Template) string {
	args, err := t.arguments()
	facts := []any{s.Kind, s.Version, s.Model.ID, s.Model.Root, args}
	if s.Renders {
		facts = append(facts, renderPath)
	}
	id, encErr := json.Marshal(facts)
	if err != nil || encErr != nil {
		return "" // such arguments cannot be sent either, so nothing is ever counted with them
	}
	return string(id)
}

// CountText counts the tokens of a text that the server has generated, without those that mark its begin or end. The
// error wraps ErrUnsupported if the server has no way to.
func (s *Server) CountText(ctx context.Context, text string) (int, error) {
	switch s.Kind {
	case VLLM:
		return s.tokenize(ctx, "/tokenize", map[string]any{"model": s.Model.ID, "prompt": text, "add_special_tokens": false})
	case SGLang:
		return s.tokenize(ctx, "/v1/tokenize", map[string]any{"model": s.Model.ID, "prompt": text, "add_special_tokens": false})
	case LlamaCPP:
		return s.tokensOf(ctx, map[string]any{"content": text, "add_special": false, "parse_special": false, "model": s.Model.ID})
	case TGI, TRTLLM, None:
	}
	return 0, fmt.Errorf("counting a text: %w: %s", ErrUnsupported, s.Kind)
}

// tokenize asks an endpoint that answers with a count. Its max_model_len is ignored: that of SGLang is the tokenizer's.
func (s *Server) tokenize(ctx context.Context, path string, body map[string]any) (int, error) {
	var answer struct{ Count *int }
	if err := s.post(ctx, path, body, &answer); err != nil {
		return 0, err
	}
	if answer.Count == nil || *answer.Count < 0 {
		return 0, fmt.Errorf("%s: the answer has no count", path)
	}
	return *answer.Count, nil
}

// renderPath is where newer versions of vLLM tell the tokens of a chat.
const renderPath = "/v1/chat/completions/render"

// countVLLM counts a chat by what generation would see, where the server tells that, else by its tokenizer, which is told
// the same. It renders no prompt above its limit, and one above the target is asked for in the search for a size.
func (s *Server) countVLLM(ctx context.Context, chat map[string]any) (int, error) {
	var answer struct {
		Tokens []json.RawMessage `json:"token_ids"`
	}
	if s.Renders && s.post(ctx, renderPath, chat, &answer) == nil && len(answer.Tokens) > 0 {
		return len(answer.Tokens), nil
	}
	return s.tokenize(ctx, "/tokenize", chat)
}

// countLlama counts a chat. Versions without the endpoint for it apply the template and tokenize the outcome.
func (s *Server) countLlama(ctx context.Context, chat map[string]any) (int, error) {
	var answer struct {
		InputTokens *int `json:"input_tokens"`
	}
	err := s.post(ctx, "/v1/chat/completions/input_tokens", chat, &answer)
	switch {
	case err == nil && answer.InputTokens == nil:
		return 0, fmt.Errorf("the answer of /v1/chat/completions/input_tokens has no count")
	case err == nil:
		return *answer.InputTokens, nil
	case !lacks(err):
		return 0, err
	}
	var applied struct{ Prompt *string }
	if err := s.post(ctx, "/apply-template", chat, &applied); err != nil {
		return 0, err
	}
	if applied.Prompt == nil {
		return 0, fmt.Errorf("the answer of /apply-template has no prompt")
	}
	return s.tokensOf(ctx, map[string]any{"content": *applied.Prompt, "add_special": true, "parse_special": true, "model": s.Model.ID})
}

// tokensOf asks llama.cpp for the tokens of a text.
func (s *Server) tokensOf(ctx context.Context, body map[string]any) (int, error) {
	var answer struct{ Tokens []json.RawMessage }
	if err := s.post(ctx, "/tokenize", body, &answer); err != nil {
		return 0, err
	}
	if answer.Tokens == nil {
		return 0, fmt.Errorf("the answer of /tokenize has no tokens")
	}
	return len(answer.Tokens), nil
}

// countTGI counts a chat; its endpoint takes the body of a generation request.
func (s *Server) countTGI(ctx context.Context, chat map[string]any) (int, error) {
	var answer struct {
		Tokens []json.RawMessage `json:"tokenize_response"`
	}
	if err := s.post(ctx, "/chat_tokenize", chat, &answer); err != nil {
		return 0, err
	}
	if answer.Tokens == nil {
		return 0, fmt.Errorf("the answer of /chat_tokenize has no tokens")
	}
	return len(answer.Tokens), nil
}
