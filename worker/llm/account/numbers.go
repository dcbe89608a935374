package account

// Numbers are what one request measured. Times are seconds from t0. A null has its reason in Nulls, under its JSON
// name. Numbers of a request that was no success are for reading only: Sum leaves them out.
type Numbers struct {
	Outcome Outcome `json:"outcome"`
	Reason  Reason  `json:"reason,omitempty"` // why it is no success

	Lag        *float64 `json:"lag_s"`           // t0 after the intended start
	QueueWait  *float64 `json:"queue_wait_s"`    // until a connection was had; part of every other time
	Headers    *float64 `json:"t_headers"`       // response header read
	FirstFrame *float64 `json:"t_first_frame"`   // first event, the role frame included
	TTFT       *float64 `json:"ttft_s"`          // first reasoning, content or tool-call text
	Visible    *float64 `json:"first_visible_s"` // first content text
	LastText   *float64 `json:"last_text_s"`
	Total      *float64 `json:"total_s"`           // until [DONE] or the last event
	Scheduled  *float64 `json:"scheduled_total_s"` // the same from the intended start

	PromptTokens     *int64 `json:"prompt_tokens"`
	CompletionTokens *int64 `json:"completion_tokens"` // the server's count, the only one that is delivered
	CachedTokens     *int64 `json:"cached_tokens"`
	CountSource      Source `json:"count_source"`
	Finish           string `json:"finish,omitempty"`

	DecodeTPS   *float64 `json:"decode_tps"`          // completion / (last - first text)
	UnbiasedTPS *float64 `json:"decode_unbiased_tps"` // (completion - tokens until the first text frame) / (last - first text)
	TPOT        *float64 `json:"tpot_s"`              // (last - first text) / (completion - 1)

	FrameGap Stat   `json:"frame_gap_s"` // between text frames of different reads
	GapIsITL bool   `json:"gap_is_itl"`  // every text frame is known to hold one token, and came alone
	Frames   int    `json:"text_frames"`
	Together int    `json:"coalesced"` // text frames that came in one read with the one before, and so have no gap
	Comments int    `json:"comments"`
	Stalls   Stalls `json:"stalls"`

	Reasoning Channel `json:"reasoning"`
	Content   Channel `json:"content"`
	Tool      Channel `json:"tool"`

	Nulls    map[string]Null `json:"nulls,omitempty"`
	Warnings []Warning       `json:"warnings,omitempty"`
}

// Channel is what one channel of a request measured.
type Channel struct {
	Frames int      `json:"frames"`
	First  *float64 `json:"first_s"`
	Last   *float64 `json:"last_s"`
	Tokens *int64   `json:"tokens"`
	Source Source   `json:"count_source"`
	Note   string   `json:"note,omitempty"` // what the count includes
	TPS    *float64 `json:"tps"`            // (tokens - 1) / (last - first)
}

// Stalls tells of the long gaps of a request.
type Stalls struct {
	Longest *float64 `json:"longest_s"`
	Count   int      `json:"count"`  // gaps above the factor times the median
	Factor  float64  `json:"factor"` // that was used
}

// Outcome is how a request ended.
type Outcome string

// The outcomes of a request. Only Success is in any average; Truncated has text and an end that is missing.
const (
	Success   Outcome = "success"
	Truncated Outcome = "truncated"
	Failed    Outcome = "failed"
)

// Reason is why a request was no success.
type Reason string

// The reasons.
const (
	ConnectTimeout   Reason = "connect_timeout"
	FirstByteTimeout Reason = "first_byte_timeout"
	IdleTimeout      Reason = "idle_timeout"
	TotalTimeout     Reason = "total_timeout"
	NoConnection     Reason = "no_connection"
	Cut              Reason = "cut"         // the connection broke
	Cancelled        Reason = "cancelled"   // by the caller
	HTTPStatus       Reason = "http_status" // another status than 2xx
	Encoded          Reason = "encoded"     // compressed although identity was asked for
	TooLarge         Reason = "too_large"   // answer or line above the limit
	InBand           Reason = "in_band"     // a frame told of an error
	BadFrame         Reason = "bad_frame"   // an event that is not understood
	BadFinish        Reason = "bad_finish"  // finish reason abort, error, content_filter or repetition
	NoEvents         Reason = "no_events"   // the body held none
	NoFinish         Reason = "no_finish"   // no finish reason
	NoEnd            Reason = "no_end"      // a finish reason, and then neither [DONE] nor usage
	NoDone           Reason = "no_done"     // no [DONE] from a server that always sends it
)

// Null is why a number could not be had.
type Null string

// The reasons of a null.
const (
	NoText       Null = "no_text"             // no text came (on this channel)
	NoUsage      Null = "no_usage"            // the server told no count
	SingleToken  Null = "single_token"        // a rate needs two
	SingleRead   Null = "single_read"         // all text came at one instant
	NoResponse   Null = "no_response"         // it never came to this
	NoFrames     Null = "no_frames"           // no event came
	NoContinuous Null = "no_continuous_usage" // the tokens of the first text frame are not known
	NoCount      Null = "no_count"            // neither the server nor /tokenize counted the channel
	Above        Null = "above_completion"    // the server counts more reasoning than completion
)

// Source is where a count comes from.
type Source string

// The sources of a count.
const (
	ServerUsage     Source = "server_usage"
	RetokenizedText Source = "retokenized_text"
	MissingCount    Source = "missing"
)

// Warning is a doubt about a number.
type Warning struct {
	Code WarningCode `json:"code"`
	Text string      `json:"text"`
}

// WarningCode is a word of a closed list.
type WarningCode string

// The warnings.
const (
	WarnNoDone       WarningCode = "no_done"
	WarnUnterminated WarningCode = "unterminated_tail"
	WarnUndrained    WarningCode = "undrained"
	WarnUncleanEnd   WarningCode = "unclean_end"
	WarnReasoning    WarningCode = "reasoning_above_completion"
	WarnShort        WarningCode = "short_of_target"
	WarnRetried      WarningCode = "retried"
	WarnNoAnswer     WarningCode = "no_answer"
	WarnFalling      WarningCode = "usage_fell"
	WarnCoalesced    WarningCode = "coalesced"
)
