package cell

// bounds hold the largest size that fits: at least lo, and below hi, which is 0 if no size was seen not to fit.
type bounds struct {
	lo, hi int64
	n      int // searches
}

// bracketOf joins the brackets of some searches.
func bracketOf(units []Unit) (bounds, bool) {
	var b bounds
	for i := range units {
		for _, x := range units[i] {
			s := x.Search
			if s == nil || s.Fits == nil {
				continue
			}
			if b.n++; b.n == 1 || *s.Fits < b.lo {
				b.lo = *s.Fits
			}
			switch {
			case s.OOM == nil:
				b.hi = -1
			case b.hi >= 0:
				b.hi = max(b.hi, *s.OOM)
			}
		}
	}
	b.hi = max(b.hi, 0)
	return b, b.n > 0
}

func (b bounds) stat() *Stat {
	s := &Stat{Mean: float64(b.lo), Min: float64(b.lo), N: b.n}
	if b.hi > 0 {
		most := float64(b.hi)
		s.Max = &most
	}
	return s
}

// brackets compares the answers of searches by the ends of their brackets. False: no side has one.
func (cell *Cell) brackets(own [2][]Unit) bool {
	a, okA := bracketOf(own[0])
	b, okB := bracketOf(own[1])
	cell.Method = ByBracket
	if okA {
		cell.A = a.stat()
	}
	if okB {
		cell.B = b.stat()
	}
	if okA && okB {
		ratio := float64(b.lo) / float64(a.lo)
		cell.Ratio, cell.Estimate = true, &ratio
		if a.hi > 0 {
			lo := float64(b.lo) / float64(a.hi)
			cell.Lo = &lo
		}
		if b.hi > 0 {
			hi := float64(b.hi) / float64(a.lo)
			cell.Hi = &hi
		}
	}
	return okA || okB
}
