package account

// Limits are what a request has to keep to count as good, in seconds. Nil sets no limit.
type Limits struct {
	TTFT *float64 `json:"ttft_s"` // from the intended start to the first text
	TPOT *float64 `json:"tpot_s"` // for each token after the first
}

// Goodput is what became of the requests of a group under limits. Requests that were no success, and those without any
// text, keep no limit.
type Goodput struct {
	Limits
	Good   int `json:"good"`      // requests that kept every limit
	Late   int `json:"late"`      // requests that did not keep that of TTFT
	Slow   int `json:"slow"`      // requests that did not keep that of TPOT
	Single int `json:"single"`    // good ones that have no TPOT: one token, or all text in one read
	Blind  int `json:"uncounted"` // successes whose tokens nobody has counted, so that their TPOT is not known
	// Fraction is Good over all requests and PerSecond Good over the group's wall time; null with Blind requests.
	Fraction  *float64 `json:"fraction"`
	PerSecond *float64 `json:"requests_per_second"`
	// Met says whether the Statistic of both times over all requests kept the limits: p99 from LeastForP99 requests on,
	// below it max. Null with Blind requests.
	Met       *bool  `json:"met"`
	Statistic string `json:"statistic"`
}

// Judge counts the requests of a group that keep the limits. TTFT is counted from the intended start, so that a request
// that was sent late does not flatter the server. An answer of one token has no TPOT, and keeps its limit; so does one
// whose text came in one read, since its last text was there with its first.
func (l Limits) Judge(g Group, records []Record) Goodput {
	out := Goodput{Limits: l, Statistic: "max"}
	n := len(records)
	for _, r := range records {
		out.count(r.Numbers)
	}
	if n == 0 || out.Blind > 0 {
		return out
	}
	fraction := float64(out.Good) / float64(n)
	out.Fraction = &fraction
	if g.Wall > 0 {
		rate := float64(out.Good) / g.Wall
		out.PerSecond = &rate
	}
	if n >= LeastForP99 {
		out.Statistic = "p99"
	}
	// By nearest rank the 99th percentile of n values is kept if at most n/100 of them, rounded down, are above the limit:
	// below 100 values none.
	met := out.Late <= n/100 && out.Slow <= n/100
	out.Met = &met
	return out
}

func (out *Goodput) count(n Numbers) {
	if n.Outcome != Success || n.TTFT == nil {
		out.Late, out.Slow = out.Late+1, out.Slow+1
		return
	}
	first := *n.TTFT
	if n.Lag != nil {
		first += *n.Lag
	}
	late := out.TTFT != nil && first > *out.TTFT
	slow := out.TPOT != nil && n.TPOT != nil && *n.TPOT > *out.TPOT
	why := n.Nulls["tpot_s"]
	switch {
	case out.TPOT != nil && n.TPOT == nil && why != SingleToken && why != SingleRead:
		out.Blind++
	case !late && !slow:
		out.Good++
		if out.TPOT != nil && n.TPOT == nil {
			out.Single++
		}
	}
	if late {
		out.Late++
	}
	if slow {
		out.Slow++
	}
}
