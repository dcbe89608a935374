package account

// Overlap is the proof of the mixed case: short streams that were generating when the long one came, and what the long
// one's prefill did to them.
type Overlap struct {
	// Proven says that every short stream had brought text before the long one's t0 and brought more after it.
	Proven bool    `json:"proven"`
	Shorts []Short `json:"shorts"`
}

// Short is one of the short streams. Before, during and after count its gaps by where they end: before the long
// request's t0, between it and the long one's first text, and after that. A long one without text has no after.
type Short struct {
	Generating bool     `json:"generating"`   // at the long request's t0
	FirstText  *float64 `json:"first_text_s"` // against the long request's t0, so negative when it came before
	LastText   *float64 `json:"last_text_s"`
	Before     Stat     `json:"gap_before_s"`
	During     Stat     `json:"gap_during_s"`
	After      Stat     `json:"gap_after_s"`
}

// NewOverlap compares the log of a long request with those of the short ones. All must have the same epoch.
func NewOverlap(long Facts, shorts ...Facts) Overlap {
	o := Overlap{Proven: len(shorts) > 0}
	lt := long.timeline()
	for _, f := range shorts {
		t := f.timeline()
		shift := f.StartNS - long.StartNS
		var s Short
		if n := len(t.text); n > 0 {
			first, last := t.at[t.text[0]]+shift, t.at[t.text[n-1]]+shift
			s.FirstText, s.LastText = seconds(&first), seconds(&last)
			s.Generating = first <= 0 && last > 0
		}
		var parts [3][]float64
		for _, g := range f.frameGaps(t) {
			switch end := g.end + shift; {
			case end <= 0:
				parts[0] = append(parts[0], g.length)
			case len(lt.text) == 0 || end <= lt.at[lt.text[0]]:
				parts[1] = append(parts[1], g.length)
			default:
				parts[2] = append(parts[2], g.length)
			}
		}
		s.Before, s.During, s.After = NewStat(parts[0]), NewStat(parts[1]), NewStat(parts[2])
		o.Proven = o.Proven && s.Generating
		o.Shorts = append(o.Shorts, s)
	}
	return o
}
