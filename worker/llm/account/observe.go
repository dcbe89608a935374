package account

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"cpbench/worker/llm/stream"
	"cpbench/worker/llm/stream/chat"
	"cpbench/worker/llm/stream/sse"
)

// Texts are the concatenated texts of a request by channel, for counting with /tokenize. They are not in the record.
type Texts struct {
	Reasoning, Content, Tool string
}

// Observe reads what an exchange recorded. epoch is that of its client.
func Observe(x *stream.Exchange, epoch time.Time, rules Rules) (Facts, Texts) {
	f := Facts{
		Schema: Schema, Rules: rules,
		StartNS: x.Start.Sub(epoch).Nanoseconds(), ScheduledNS: since(x.Start, x.Open),
		ConnNS: since(x.Start, x.Conn.Got), WroteNS: since(x.Start, x.Wrote),
		FirstByteNS: since(x.Start, x.FirstByte), HeadersNS: since(x.Start, x.Headers),
		EndNS:  x.End.Sub(x.Start).Nanoseconds(),
		Status: x.Status, Type: x.Type, Protocol: x.Protocol, Undrained: x.Undrained,
		Conn: Conn{
			Reused: x.Conn.Reused, Ahead: x.Conn.Ahead, ConnectNS: x.Conn.Connect.Nanoseconds(), Count: x.Conn.Count,
			Remote: x.Conn.Remote, Local: x.Conn.Local,
		},
		Failure: explain(x.Err),
	}
	frames, err := sse.Parse(x.Raw)
	if err != nil {
		f.Failure = &Failure{Reason: TooLarge, Text: err.Error()}
	}
	f.log(x.Reads, frames)
	var t texts
	kinds := make([]byte, len(frames))
	done := false
	for i, frame := range frames {
		if frame.Comment {
			kinds[i] = KindComment
			continue
		}
		c := chat.Decode(frame.Data)
		kinds[i] = kindOf(c)
		if done {
			continue // no part of the answer, whatever it is
		}
		done, f.Unterminated = c.Kind == chat.Done, frame.Unterminated
		f.take(i, c)
		t.add(c)
	}
	f.Kinds = string(kinds)
	if len(frames) == 0 && f.Failure == nil && len(x.Raw) > 0 {
		f.Failure = noStream(x)
	}
	f.TextBytes = [3]int{len(t.reasoning), len(t.content), len(t.tool)}
	return f, Texts{string(t.reasoning), string(t.content), string(t.tool)}
}

// noStream is the failure of a success that is no event stream, such as the JSON of a gateway. JSON without an error may
// be a whole answer, whose text is not for the record.
func noStream(x *stream.Exchange) *Failure {
	f := &Failure{Reason: NoEvents, Text: fmt.Sprintf("no event stream but %q", x.Type)}
	body := bytes.TrimSpace(x.Raw)
	e := chat.ParseError(body)
	if e != nil {
		f.Text, f.Type, f.Code = f.Text+": "+e.Message, e.Type, e.Code
	}
	if e != nil || !bytes.HasPrefix(body, []byte{'{'}) {
		f.Body = string(body[:min(len(body), stream.MaxErrorBody)])
	}
	return f
}

// since is a time counted from t0; nil for one that never was.
func since(start, t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	ns := t.Sub(start).Nanoseconds()
	return &ns
}

// log writes down reads and frames. A frame belongs to the read that brought the byte which completed it.
func (f *Facts) log(reads []stream.Read, frames []sse.Frame) {
	f.ReadNS, f.ReadBytes = make([]int64, len(reads)), make([]int, len(reads))
	f.ReadFrames, f.FrameBytes = make([]int, len(reads)), make([]int, len(frames))
	var before time.Duration
	k := 0
	for i, r := range reads {
		f.ReadNS[i], f.ReadBytes[i] = (r.At - before).Nanoseconds(), r.Len
		before = r.At
		for ; k < len(frames) && frames[k].End <= r.Off+r.Len; k++ {
			f.ReadFrames[i]++
			f.FrameBytes[k] = frames[k].End - frames[k].Begin
		}
	}
}

// take adds what frame i says beside its text.
func (f *Facts) take(i int, c chat.Chunk) {
	if c.Usage != nil {
		f.count(i, c.Usage)
	}
	if c.Finish != "" {
		f.Finish = c.Finish
	}
	if c.ReasoningName != "" {
		f.ReasoningName = c.ReasoningName
	}
	if c.Server != nil {
		f.Server = c.Server
	}
	if c.Err != nil && f.InBand == nil {
		f.InBand = &Failure{Reason: InBand, Text: c.Err.Message, Type: c.Err.Type, Code: c.Err.Code}
	}
}

// count takes the usage of frame i. The last one that counts the completion is the answer's; one that does not adds what
// else it tells.
func (f *Facts) count(i int, u *chat.Usage) {
	last := Usage{Prompt: u.Prompt, Completion: u.Completion, Reasoning: u.Reasoning, Cached: u.Cached}
	if before := f.Usage; before != nil {
		last.Prompt, last.Cached = cmp.Or(last.Prompt, before.Prompt), cmp.Or(last.Cached, before.Cached)
		if u.Completion == nil {
			last.Completion, last.Reasoning = before.Completion, before.Reasoning
		}
	}
	if f.Usage = &last; u.Completion != nil {
		f.UsageFrames, f.UsageTokens = append(f.UsageFrames, i), append(f.UsageTokens, *u.Completion)
	}
}

func kindOf(c chat.Chunk) byte {
	switch c.Kind {
	case chat.Choice:
		kind := byte('0')
		for i, text := range []string{c.Reasoning, c.Content, c.Tool} {
			if text != "" {
				kind += 1 << i
			}
		}
		return kind
	case chat.Only:
		return KindUsage
	case chat.Done:
		return KindDone
	case chat.Failed:
		return KindError
	case chat.Broken:
		return KindBroken
	case chat.Other:
	}
	return KindOther
}

// texts gathers text without copying what is there already at every frame.
type texts struct{ reasoning, content, tool []byte }

func (t *texts) add(c chat.Chunk) {
	t.reasoning = append(t.reasoning, c.Reasoning...)
	t.content = append(t.content, c.Content...)
	t.tool = append(t.tool, c.Tool...)
}

// reasons are the errors of an exchange in our words.
var reasons = []struct {
	err    error
	reason Reason
}{
	{stream.ErrConnectTimeout, ConnectTimeout},
	{stream.ErrFirstByteTimeout, FirstByteTimeout},
	{stream.ErrIdleTimeout, IdleTimeout},
	{stream.ErrTotalTimeout, TotalTimeout},
	{stream.ErrConnect, NoConnection},
	{stream.ErrTooLarge, TooLarge},
	{stream.ErrEncoded, Encoded},
	{context.Canceled, Cancelled},
	{context.DeadlineExceeded, Cancelled},
}

// explain names the error of an exchange; nil for none.
func explain(err error) *Failure {
	if err == nil {
		return nil
	}
	var status *stream.StatusError
	if errors.As(err, &status) {
		f := &Failure{Reason: HTTPStatus, Text: err.Error(), Body: string(status.Body), RetryAfter: status.RetryAfter}
		if status.Detail != nil {
			f.Text, f.Type, f.Code = status.Detail.Message, status.Detail.Type, status.Detail.Code
		}
		return f
	}
	for _, r := range reasons {
		if errors.Is(err, r.err) {
			return &Failure{Reason: r.reason, Text: err.Error()}
		}
	}
	return &Failure{Reason: Cut, Text: err.Error()}
}
