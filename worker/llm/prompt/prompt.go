// Package prompt makes the prompts of the llm workload: from the public legal corpus, from fictional records, or from a
// user's own file. Use Open for a source of texts and a Sizer to cut a text so that the whole chat prompt, template
// and instruction included, has the asked number of tokens by the server's own count.
//
// Everything is a function of source, key and count: the same key and the same tokenizer give the same bytes on every
// machine and in every order, which is what two variants need to be compared.
package prompt

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
)

// Message is one message of a chat, as it is sent.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Key says which text of a source is meant. Equal keys give equal texts.
type Key struct {
	Seed int64 `json:"seed"`
	// Case names what is measured (data, ctx, concurrency) and never the variant under test, else two variants would
	// get different prompts.
	Case string `json:"case"`
	// Repeat is the same number for repeats that shall have the same text, which is the rule for cold and warm
	// groups; another number gives a text that shares no prefix, as warm-up requests and servers without salts need.
	Repeat int `json:"repeat"`
	Stream int `json:"stream"`
}

// Counter counts the tokens of a whole chat prompt by the server's own tokenizer, with the same messages and template
// arguments as the generation request.
// An error that wraps ErrNoCounter says that the server has none.
type Counter func(ctx context.Context, messages []Message) (int, error)

// ErrNoCounter is the error of a Counter of a server that turns out to have no endpoint for it. A prompt that is not cut
// to a size needs none.
var ErrNoCounter = errors.New("this server has no endpoint that counts the tokens of a chat")

// Prompt is a prompt that is ready to be sent, and what a record has to say about it.
type Prompt struct {
	Messages    []Message   `json:"-"`
	SHA256      string      `json:"prompt_sha256"` // of Hash
	Target      int         `json:"target_tokens"` // 0: the instruction alone, or a user's prompt as it is
	Tokens      *int        `json:"prompt_tokens_measured"`
	Probes      int         `json:"probes"` // requests to the tokenizer; 0: the count was kept, or there is none
	Source      string      `json:"source"`
	Builder     string      `json:"builder"`                 // name and version of what made the text
	Corpus      string      `json:"corpus_sha256,omitempty"` // of the files that the text comes from
	Instruction Instruction `json:"instruction"`             // zero for a user's own prompts
}

// Hash is the SHA-256 of messages as JSON, in hex.
func Hash(messages []Message) string {
	data, err := json.Marshal(messages)
	if err != nil {
		panic(fmt.Sprintf("messages are plain strings: %v", err))
	}
	return digest(data)
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// ErrNoFit is the error of a request that would not fit into the context of the server.
var ErrNoFit = errors.New("prompt and output do not fit into the context")

// Fits checks that prompt and reserved output stay within the smallest of the limits, each in tokens; a nil limit is
// not known and does not count. It returns that limit, nil if none is known. The error wraps ErrNoFit. A prompt
// without a count is checked by its reserve alone.
func Fits(tokens *int, reserve int, limits ...*int) (*int, error) {
	var limit *int
	for _, l := range limits {
		if l != nil && (limit == nil || *l < *limit) {
			limit = l
		}
	}
	n := 0
	if tokens != nil {
		n = *tokens
	}
	if limit != nil && n+reserve > *limit {
		return limit, fmt.Errorf("%w: %d tokens of prompt and %d of output are more than the limit of %d; lower ctx or max_tokens", ErrNoFit, n, reserve, *limit)
	}
	return limit, nil
}

// Mismatch is the error of CheckParity: the tokenizer endpoint and the generation endpoint saw different prompts.
type Mismatch struct {
	Measured int64 // by the tokenizer endpoint
	Used     int64 // usage.prompt_tokens of the answer
}

func (m *Mismatch) Error() string {
	return fmt.Sprintf("the tokenizer endpoint counted %d tokens and the answer %d: the chat template had other arguments, so sizes are not those that were asked for", m.Measured, m.Used)
}

// CheckParity compares the count of the tokenizer endpoint with usage.prompt_tokens of the first answer. The error is
// a *Mismatch. If either is not known there is nothing to compare, and checked is false.
func CheckParity(measured *int, used *int64) (checked bool, err error) {
	if measured == nil || used == nil {
		return false, nil
	}
	if m := int64(*measured); m != *used {
		return true, &Mismatch{Measured: m, Used: *used}
	}
	return true, nil
}
