package account

import "fmt"

// Judge makes the numbers out of the facts. It is a pure function.
func Judge(f Facts) Numbers {
	t := f.timeline()
	n := Numbers{Nulls: map[string]Null{}, Finish: f.Finish, CountSource: MissingCount}
	n.Outcome, n.Reason = f.outcome(t)
	n.times(f, t)
	n.counts(f)
	n.rates(f, t)
	n.gaps(f, t)
	n.channels(f, t)
	n.warn(f, t)
	if len(n.Nulls) == 0 {
		n.Nulls = nil
	}
	return n
}

// badFinish are finish reasons that end an answer before it is one.
var badFinish = map[string]bool{"abort": true, "error": true, "content_filter": true, "repetition": true}

// outcome: a success has a 2xx, no error, a finish reason, and after it [DONE] or the usage and a clean end.
func (f *Facts) outcome(t timeline) (Outcome, Reason) {
	hasText := len(t.text) > 0
	switch {
	case f.InBand != nil:
		return Failed, InBand
	case f.Failure != nil && t.done >= 0 && f.Failure.Reason != TooLarge:
		// The answer was whole before it broke off.
	case f.Failure != nil && hasText && f.Failure.Reason != TooLarge:
		return Truncated, f.Failure.Reason
	case f.Failure != nil:
		return Failed, f.Failure.Reason
	}
	for i, k := range f.Kinds {
		if k == KindDone {
			break // what comes later is no part of the answer
		}
		if k != KindBroken {
			continue
		}
		if f.Unterminated && i == len(f.Kinds)-1 && hasText {
			return Truncated, Cut
		}
		return Failed, BadFrame
	}
	switch {
	case t.last < 0:
		return Failed, NoEvents
	case f.Finish == "":
		return Truncated, NoFinish
	case badFinish[f.Finish]:
		return Failed, BadFinish
	case t.done >= 0:
		return Success, ""
	case f.Rules.NeedDone:
		return Failed, NoDone
	case f.Usage == nil:
		return Truncated, NoEnd
	}
	return Success, ""
}

func (n *Numbers) times(f Facts, t timeline) {
	if f.ScheduledNS != nil {
		lag := -*f.ScheduledNS
		n.Lag = seconds(&lag)
	}
	n.QueueWait = n.orNull("queue_wait_s", seconds(f.ConnNS), NoResponse)
	n.Headers = n.orNull("t_headers", seconds(f.HeadersNS), NoResponse)
	n.FirstFrame = n.orNull("t_first_frame", t.first(f, func(kind byte) bool { return kind != KindDone }), NoFrames)
	n.TTFT = n.orNull("ttft_s", t.first(f, func(kind byte) bool { return channels(kind) != 0 }), NoText)
	n.Visible = n.orNull("first_visible_s", t.first(f, func(kind byte) bool { return channels(kind)&2 != 0 }), NoText)
	if len(t.text) > 0 {
		n.LastText = seconds(&t.at[t.text[len(t.text)-1]])
	}
	n.orNull("last_text_s", n.LastText, NoText)
	if t.last >= 0 {
		n.Total = seconds(&t.at[t.last])
		if f.ScheduledNS != nil {
			scheduled := t.at[t.last] - *f.ScheduledNS
			n.Scheduled = seconds(&scheduled)
		}
	}
	n.orNull("total_s", n.Total, NoFrames)
}

// first is when the first event of some kind came; nil if none did. Comments are no events.
func (t timeline) first(f Facts, want func(kind byte) bool) *float64 {
	for k := 0; k <= t.last; k++ {
		if kind := f.Kinds[k]; kind != KindComment && want(kind) {
			return seconds(&t.at[k])
		}
	}
	return nil
}

// orNull notes why a number is null and returns it.
func (n *Numbers) orNull(name string, v *float64, why Null) *float64 {
	if v == nil {
		n.Nulls[name] = why
	}
	return v
}

func (n *Numbers) counts(f Facts) {
	if f.Usage == nil {
		return
	}
	n.PromptTokens, n.CompletionTokens, n.CachedTokens = f.Usage.Prompt, f.Usage.Completion, f.Usage.Cached
	if n.CompletionTokens != nil {
		n.CountSource = ServerUsage
	}
}

func (n *Numbers) warn(f Facts, t timeline) {
	add := func(when bool, code WarningCode, format string, args ...any) {
		if when {
			n.Warnings = append(n.Warnings, Warning{code, fmt.Sprintf(format, args...)})
		}
	}
	ended := n.Outcome == Success
	add(ended && t.done < 0, WarnNoDone, "the server sent no [DONE]")
	add(f.Unterminated, WarnUnterminated, "the last frame had no blank line behind it, and was read all the same")
	add(f.Undrained, WarnUndrained, "the server did not end the body after [DONE]")
	add(ended && f.Failure != nil, WarnUncleanEnd, "the exchange broke off after [DONE]")
	add(f.Conn.Count > 1, WarnRetried, "the transport went through %d connections by itself", f.Conn.Count)
	if u := f.Usage; u != nil && u.Completion != nil {
		add(u.Reasoning != nil && *u.Reasoning > *u.Completion, WarnReasoning,
			"the server counts %d reasoning tokens of %d in all", deref(u.Reasoning), *u.Completion)
		add(ended && f.Rules.Target > 0 && *u.Completion < f.Rules.Target, WarnShort,
			"%d of %d tokens, finish reason %q", *u.Completion, f.Rules.Target, f.Finish)
		add(ended && *u.Completion == 0, WarnNoAnswer, "the server generated nothing")
	}
	add(ended && f.Usage == nil && len(t.text) == 0, WarnNoAnswer, "neither text nor a count came")
	if n.DecodeTPS != nil {
		why := f.coarse(t, *n.CompletionTokens)
		add(why != "", WarnCoalesced, "%s", why)
	}
	for i := 1; i < len(f.UsageTokens); i++ {
		if f.UsageTokens[i] < f.UsageTokens[i-1] {
			add(true, WarnFalling, "the completion count fell from %d to %d; the last one counts", f.UsageTokens[i-1], f.UsageTokens[i])
			break
		}
	}
}

func deref(v *int64) int64 {
	if v == nil {
		return 0
	}
	return *v
}
