package stream

import (
	"errors"
	"fmt"
	"strings"

	"cpbench/worker/llm/stream/chat"
)

// The errors of an Exchange, beside those of the transport. The four timeouts come with the bound that was passed.
var (
	ErrConnectTimeout   = errors.New("no connection in time")
	ErrFirstByteTimeout = errors.New("no first byte in time")
	ErrIdleTimeout      = errors.New("stream silent for too long")
	ErrTotalTimeout     = errors.New("request took too long")
	ErrConnect          = errors.New("no connection")
	ErrTooLarge         = errors.New("answer is too large")
	ErrEncoded          = errors.New("answer is compressed, although identity was asked for")
)

// MaxErrorBody is how much of an error's body is kept, in bytes.
const MaxErrorBody = 4 << 10

// StatusError is a response with another status than 2xx.
type StatusError struct {
	Status     int
	Body       []byte      // the first MaxErrorBody bytes, the key masked
	RetryAfter string      // the header, as it was
	Location   string      // of a redirect, which is not followed
	Detail     *chat.Error // what the body says, nil if it is not understood
}

// Error gives status, type and message of the server.
func (e *StatusError) Error() string {
	text := fmt.Sprintf("status %d", e.Status)
	switch {
	case e.Detail != nil && e.Detail.Type != "":
		text += fmt.Sprintf(": %s: %q", e.Detail.Type, e.Detail.Message)
	case e.Detail != nil:
		text += fmt.Sprintf(": %q", e.Detail.Message)
	case e.Location != "":
		text += fmt.Sprintf(": redirect to %q is not followed", e.Location)
	case len(e.Body) > 0:
		line, _, _ := strings.Cut(string(e.Body[:min(len(e.Body), 200)]), "\n")
		text += fmt.Sprintf(": %q", line)
	}
	return text
}
