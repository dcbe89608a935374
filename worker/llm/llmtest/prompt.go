package llmtest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"unicode/utf8"
)

// asked is a chat request, or a request to count one.
type asked struct {
	Model    string `json:"model"`
	Messages []struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	} `json:"messages"`
	Prompt        *string         `json:"prompt"` // /tokenize of a text
	AddSpecial    *bool           `json:"add_special_tokens"`
	Kwargs        map[string]any  `json:"chat_template_kwargs"`
	Stream        bool            `json:"stream"`
	StreamOptions map[string]bool `json:"stream_options"`
	MaxTokens     *int            `json:"max_tokens"`
	MaxCompletion *int            `json:"max_completion_tokens"`
	IgnoreEOS     bool            `json:"ignore_eos"`
	Stop          []string        `json:"stop"`
	Priority      int             `json:"priority"`
	Salt          string          `json:"cache_salt"`
}

// The template costs tokens of its own: some for each message, some for thinking, one for a text.
const (
	perMessage  = 5
	forThinking = 3
	special     = 1
)

// text is the whole prompt as the template makes it, at four characters a token.
func (a *asked) text() string {
	var t string
	for _, m := range a.Messages {
		t += pad("<|"+m.Role+"|>", perMessage) + m.Content
	}
	if on, _ := a.Kwargs["enable_thinking"].(bool); on {
		t += pad("<|think|>", forThinking)
	}
	return t
}

// pad makes a text of exactly so many tokens' length.
func pad(s string, tokens int) string {
	for len(s) < tokens*charsPerToken {
		s += "."
	}
	return s[:tokens*charsPerToken]
}

// Count is the number of tokens of a text.
func Count(text string) int {
	return (utf8.RuneCountInString(text) + charsPerToken - 1) / charsPerToken
}

func (s *Server) tokenize(w http.ResponseWriter, body []byte) {
	var a asked
	if s.config.NoTokenize {
		refuse(w, http.StatusNotFound, "NotFoundError", "Not Found")
		return
	}
	if err := json.Unmarshal(body, &a); err != nil {
		refuse(w, http.StatusBadRequest, "BadRequestError", "%v", err)
		return
	}
	count := Count(a.text())
	if a.Prompt != nil {
		count = Count(*a.Prompt)
		if a.AddSpecial == nil || *a.AddSpecial { // on unless it is sent as false
			count += special
		}
	}
	tokens := make([]int, count)
	for i := range tokens {
		tokens[i] = i
	}
	reply(w, map[string]any{"count": count, "max_model_len": s.config.MaxModelLen, "tokens": tokens})
}

// lookup tells how many tokens of a prompt are cached, in whole blocks, and remembers the prompt. The salt is part of
// the first block's hash, and each block's hash is part of the next one's.
func (s *Server) lookup(prompt, salt string) int {
	runes := []rune(prompt)
	tokens := Count(prompt)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counters.queries += tokens
	if s.config.NoCache {
		return 0
	}
	if s.config.IgnoreSalt {
		salt = ""
	}
	hash, cached, hit := "salt:"+salt, 0, true
	for at := 0; at+Block*charsPerToken <= len(runes); at += Block * charsPerToken {
		sum := sha256.Sum256([]byte(hash + string(runes[at:at+Block*charsPerToken])))
		hash = hex.EncodeToString(sum[:])
		// The last token is always computed, so a prompt that is cached whole misses its last block.
		if hit = hit && s.cache[hash] && cached+Block < tokens; hit {
			cached += Block
		}
		s.cache[hash] = true
	}
	s.counters.hits += cached
	return cached
}
