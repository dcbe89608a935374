package contrast

import "math"

// tail is the probability that Student's t with df degrees of freedom, which need not be whole, lies further from 0 than
// x > 0 on either side.
func tail(x, df float64) float64 { return incompleteBeta(df/(df+x*x), df/2, 0.5) }

// density is that of Student's t.
func density(x, df float64) float64 {
	a, _ := math.Lgamma((df + 1) / 2)
	b, _ := math.Lgamma(df / 2)
	return math.Exp(a-b-(df+1)/2*math.Log1p(x*x/df)) / math.Sqrt(df*math.Pi)
}

// critical is the x beyond which, on both sides together, Student's t lies with probability alpha. Newton's method from
// the normal distribution's value, which is too small: the tail is convex, so every step comes nearer from below.
func critical(alpha, df float64) float64 {
	x := math.Sqrt2 * math.Erfinv(1-alpha)
	for range 100 {
		step := (tail(x, df) - alpha) / (2 * density(x, df))
		x += step
		if math.Abs(step) <= 1e-12*x {
			break
		}
	}
	return x
}

// incompleteBeta is the regularised incomplete beta function I_x(a, b), by its continued fraction (NIST DLMF 8.17.22) on
// the side where that converges quickly.
func incompleteBeta(x, a, b float64) float64 {
	switch {
	case x <= 0:
		return 0
	case x >= 1:
		return 1
	case x > (a+1)/(a+b+2):
		return 1 - incompleteBeta(1-x, b, a)
	}
	ab, _ := math.Lgamma(a + b)
	la, _ := math.Lgamma(a)
	lb, _ := math.Lgamma(b)
	front := math.Exp(ab-la-lb+a*math.Log(x)+b*math.Log1p(-x)) / a
	return front / fraction(x, a, b)
}

// fraction evaluates 1 + d1/(1 + d2/(1 + ...)) from the front, with the ratios of successive convergents, so that it is
// known when enough terms have been taken.
func fraction(x, a, b float64) float64 {
	const tiny = 1e-300 // in place of a zero that would be divided by
	value, up, down := 1.0, 1.0, 0.0
	for i := 1; i <= 10_000; i++ {
		m := float64(i / 2)
		d := m * (b - m) * x / ((a + 2*m - 1) * (a + 2*m))
		if i%2 == 1 {
			d = -(a + m) * (a + b + m) * x / ((a + 2*m) * (a + 2*m + 1))
		}
		if down = 1 + d*down; down == 0 {
			down = tiny
		}
		if up = 1 + d/up; up == 0 {
			up = tiny
		}
		down = 1 / down
		value *= up * down
		if math.Abs(up*down-1) < 1e-15 {
			break
		}
	}
	return value
}
