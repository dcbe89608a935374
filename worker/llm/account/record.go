// Package account makes the numbers of an LLM request and of a group of requests out of what was recorded. Observe
// turns an exchange into Facts, which are kept whole in a line of JSON; Judge makes the Numbers out of Facts alone, so
// that every number can be made again, or differently, long after the run. Sum does the same for a group.
//
// A nil pointer is a number that could not be had, and Numbers.Nulls says why. It is never 0.
package account

// Schema is the version of Record that this package writes.
const Schema = 1

// Record is the line of JSON about one request. Whoever writes it embeds it beside the request's identity.
type Record struct {
	Facts   Facts   `json:"facts"`
	Numbers Numbers `json:"numbers"` // Judge(Facts)
}

// Facts are what was seen of one request. Times are nanoseconds on one monotonic clock. Names that end in _ns count
// from t0, the moment just before the request was given to the connection pool; null is "never came to this".
type Facts struct {
	Schema int   `json:"schema"`
	Rules  Rules `json:"rules"`

	StartNS     int64  `json:"start_since_epoch_ns"` // t0, counted from the client's epoch
	ScheduledNS *int64 `json:"scheduled_ns"`         // intended start; of a group the moment when the barrier opened, so 0 or less
	ConnNS      *int64 `json:"conn_ns"`              // a connection was had
	WroteNS     *int64 `json:"wrote_ns"`             // the whole request was written
	FirstByteNS *int64 `json:"first_byte_ns"`        // first byte of the response
	HeadersNS   *int64 `json:"headers_ns"`           // the response's header was read
	EndNS       int64  `json:"end_ns"`               // end of the body, or the error

	Conn     Conn     `json:"conn"`
	Status   int      `json:"status"` // 0: no response
	Type     string   `json:"content_type,omitempty"`
	Protocol string   `json:"protocol,omitempty"`
	Failure  *Failure `json:"failure"`           // what ended the exchange, null if the body came to its end
	InBand   *Failure `json:"in_band,omitempty"` // the error that a frame told of

	Undrained    bool `json:"undrained,omitempty"`         // [DONE] came and the body did not end
	Unterminated bool `json:"unterminated_tail,omitempty"` // the last frame had no blank line behind it

	// The raw log. Read i came ReadNS[i] after the read before it (the first: after t0), brought ReadBytes[i] bytes and
	// completed ReadFrames[i] frames. Frames stand in order: frame k has FrameBytes[k] bytes and the kind Kinds[k].
	ReadNS     []int64 `json:"read_ns"`
	ReadBytes  []int   `json:"read_bytes"`
	ReadFrames []int   `json:"read_frames"`
	FrameBytes []int   `json:"frame_bytes"`
	Kinds      string  `json:"kinds"` // one letter for each frame, see Kind

	// Usage that stood in frame UsageFrames[i] counted UsageTokens[i] completion tokens until then.
	UsageFrames []int   `json:"usage_frames"`
	UsageTokens []int64 `json:"usage_tokens"`
	Usage       *Usage  `json:"usage"` // the last one

	Finish        string             `json:"finish,omitempty"`
	ReasoningName string             `json:"reasoning_name,omitempty"` // field that held the reasoning
	Server        map[string]float64 `json:"server,omitempty"`         // what the server itself tells of the request
	TextBytes     [3]int             `json:"text_bytes"`               // reasoning, content, tool calls
	Retokenized   *Retokenized       `json:"retokenized,omitempty"`    // filled in after the group, by whoever has /tokenize
}

// Rules are the choices that Judge depends on. They are kept with the facts.
type Rules struct {
	// NeedDone makes a missing [DONE] a failure, for servers that always send it, as vLLM does.
	NeedDone bool `json:"need_done,omitempty"`
	// Target is the number of tokens that a fixed-length test wants; 0 if it is none.
	Target int64 `json:"target,omitempty"`
	// StallFactor is how many times the median gap a gap must be to count as a stall; 0 is DefaultStallFactor.
	StallFactor float64 `json:"stall_factor,omitempty"`
}

// DefaultStallFactor is the factor above the median gap from which on a gap is a stall.
const DefaultStallFactor = 5

// Conn tells of the connection of a request.
type Conn struct {
	Reused    bool   `json:"reused"`
	Ahead     bool   `json:"ahead"`      // opened before the barrier
	ConnectNS int64  `json:"connect_ns"` // what opening it took
	Count     int    `json:"count"`      // above 1 the transport has tried again by itself
	Remote    string `json:"remote,omitempty"`
	Local     string `json:"local,omitempty"`
}

// Failure is an error of an exchange or in a frame.
type Failure struct {
	Reason     Reason `json:"reason"`
	Text       string `json:"text"`
	Type       string `json:"type,omitempty"` // the server's word
	Code       string `json:"code,omitempty"` // the server's word
	Body       string `json:"body,omitempty"` // first 4 KiB of an error's body
	RetryAfter string `json:"retry_after,omitempty"`
}

// Usage is the server's count; null is "not said".
type Usage struct {
	Prompt     *int64 `json:"prompt_tokens"`
	Completion *int64 `json:"completion_tokens"`
	Reasoning  *int64 `json:"reasoning_tokens"`
	Cached     *int64 `json:"cached_tokens"`
}

// Retokenized are counts of the concatenated text of each channel by the server's /tokenize, which need not equal the
// tokens that were generated. Null: not counted.
type Retokenized struct {
	Reasoning *int64 `json:"reasoning"`
	Content   *int64 `json:"content"`
	Tool      *int64 `json:"tool"`
}

// The kinds of frames in Facts.Kinds, beside the digits 0 to 7 of a frame with a choice, which are the sum of the
// channels that it brings text on: 1 reasoning, 2 content, 4 tool calls. 0 is a role or a finish reason without text.
const (
	KindComment = ':'
	KindUsage   = 'u' // usage without a choice
	KindDone    = 'd'
	KindError   = 'e'
	KindBroken  = 'x' // not understood
	KindOther   = 'o' // progress and the like
)
