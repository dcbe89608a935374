package peer

import (
	"math"
	"slices"

	"cpbench/worker/llm/account"
)

// foldNumpy makes the figures of a group as vLLM's client and AIPerf do: a mean over requests, percentiles interpolated
// as numpy does, all gaps in one list, tokens over the time from the first start to the last end.
func foldNumpy(requests []request) map[Name]*float64 {
	m := map[Name]*float64{}
	good := counted(requests)
	m[Requests] = number(float64(len(good)))
	ttfts := pick(good, func(q request) *float64 { return q.ttft })
	m[TTFT], m[TTFTP50], m[TTFTP99] = mean(ttfts), interpolated(ttfts, 50), interpolated(ttfts, 99)
	m[Visible] = mean(pick(good, func(q request) *float64 { return q.visible }))
	m[Latency] = mean(pick(good, func(q request) *float64 { return q.latency }))
	var gaps []float64
	for _, q := range good {
		gaps = append(gaps, q.gaps...)
	}
	m[Gap], m[GapP50] = mean(gaps), interpolated(gaps, 50)
	if len(gaps) > 0 {
		m[GapMax] = number(slices.Max(gaps))
	}
	if n, ok := tokensOf(good); ok {
		m[TPOT] = mean(pick(good, func(q request) *float64 { return q.tpot }))
		m[Tokens], m[Rate] = number(n), rate(n, requests)
	}
	return m
}

// counted are the successes.
func counted(requests []request) []request {
	var good []request
	for _, q := range requests {
		if q.counted {
			good = append(good, q)
		}
	}
	return good
}

// tokensOf is the sum of the counts; false if there are none or one is missing.
func tokensOf(good []request) (float64, bool) {
	var n int64
	for _, q := range good {
		if q.tokens == nil {
			return 0, false
		}
		n += *q.tokens
	}
	return float64(n), len(good) > 0
}

// rate is tokens by the time from the first start to the last end of those requests that have both.
func rate(tokens float64, requests []request) *float64 {
	var first, last int64
	for _, q := range requests {
		switch {
		case q.ended <= q.started:
		case last <= first:
			first, last = q.started, q.ended
		default:
			first, last = min(first, q.started), max(last, q.ended)
		}
	}
	if last <= first {
		return nil
	}
	return number(tokens / (float64(last-first) / 1e9))
}

func pick(requests []request, of func(request) *float64) []float64 {
	var values []float64
	for _, q := range requests {
		if v := of(q); v != nil {
			values = append(values, *v)
		}
	}
	return values
}

func mean(values []float64) *float64 {
	if len(values) == 0 {
		return nil
	}
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return number(sum / float64(len(values)))
}

// interpolated is a percentile between the two nearest values: the usual one of numpy.
func interpolated(values []float64, p float64) *float64 {
	if len(values) == 0 {
		return nil
	}
	sorted := slices.Sorted(slices.Values(values))
	at := p / 100 * float64(len(sorted)-1)
	low := int(math.Floor(at))
	high := min(low+1, len(sorted)-1)
	return number(sorted[low] + (at-float64(low))*(sorted[high]-sorted[low]))
}

// nearestRank is the smallest value that at least p per cent do not exceed.
func nearestRank(values []float64, p float64) *float64 {
	if len(values) == 0 {
		return nil
	}
	sorted := slices.Sorted(slices.Values(values))
	return number(sorted[max(int(math.Ceil(p/100*float64(len(sorted)))), 1)-1])
}

func number(v float64) *float64 { return &v }

// since is a time in seconds between two instants in ns.
func since(from, to int64) *float64 { return number(float64(to-from) / 1e9) }

// The reasons why a log cannot tell what another client would have seen.
const (
	impatient = "a timeout of cpbench ended a request, and this tool would have gone on waiting"
	endless   = "a body did not end after [DONE], and this tool waits for its end"
	refused   = "cpbench gave up an answer (cancelled, too large or compressed), and this tool might not have"
	redirects = "a request was redirected, which cpbench does not follow"
)

// unknowable says why the log of a request cannot tell what a tool would have seen; empty if it can. Tools that stop
// reading at [DONE] are not concerned by what comes after it.
func unknowable(f *account.Facts, stopsAtDone bool) string {
	if f.Status >= 300 && f.Status < 400 {
		return redirects
	}
	done := slices.ContainsFunc(f.Frames(), func(x account.Frame) bool { return x.Kind == account.KindDone })
	if done && stopsAtDone {
		return ""
	}
	if f.Undrained {
		return endless
	}
	if f.Failure == nil {
		return ""
	}
	switch f.Failure.Reason {
	case account.ConnectTimeout, account.FirstByteTimeout, account.IdleTimeout, account.TotalTimeout:
		return impatient
	case account.Cancelled, account.TooLarge, account.Encoded:
		return refused
	case account.NoConnection, account.Cut, account.HTTPStatus, account.InBand, account.BadFrame, account.BadFinish,
		account.NoEvents, account.NoFinish, account.NoEnd, account.NoDone:
	}
	return ""
}
