package search

import "math"

// sample is one measured peak.
type sample struct{ n, y float64 }

// curve is y = a + b n + c n², with n in units of scale.
type curve struct{ a, b, c, scale float64 }

func (f curve) at(n float64) float64 {
	x := n / f.scale
	return f.a + x*(f.b+x*f.c)
}

// solve gives the n > 0 with f(n) = y; +Inf if the curve never gets there.
func (f curve) solve(y float64) float64 {
	d := y - f.a
	switch {
	case d <= 0:
		return 0
	case f.c > 0:
		// The root in the form that does not cancel when c is small.
		return f.scale * 2 * d / (f.b + math.Sqrt(f.b*f.b+4*f.c*d))
	case f.b > 0:
		return f.scale * d / f.b
	}
	return math.Inf(1)
}

// The shapes that a curve may take, as powers of its terms.
var (
	memoryShapes = [][]int{{0, 1, 2}, {0, 1}, {0, 2}, {0}, {1, 2}, {1}, {2}}
	linearShapes = [][]int{{0, 1}, {0}, {1}}
	nearShapes   = [][]int{{0, 2}, {1, 2}, {2}, {0, 1}, {0}}
)

// fit lays a curve without negative coefficients through the samples by least squares on the relative residuals.
// Of the given shapes it takes the first with the least residual; a memory that falls with n gives the constant.
func fit(samples []sample, shapes [][]int) curve {
	scale := samples[len(samples)-1].n
	best, least := curve{scale: scale}, math.Inf(1)
	for _, terms := range shapes {
		if len(terms) > len(samples) {
			continue
		}
		k, ok := leastSquares(samples, terms, scale)
		if !ok || k[0] < 0 || k[1] < 0 || k[2] < 0 {
			continue
		}
		f := curve{k[0], k[1], k[2], scale}
		var r float64
		for _, s := range samples {
			e := (f.at(s.n) - s.y) / s.y
			r += e * e
		}
		if r < least-1e-18 { // not by rounding alone: two samples lie on a line and on a parabola
			best, least = f, r
		}
	}
	return best
}

// leastSquares fits the terms with the given powers of n; the others have coefficient 0. It is not ok when the
// samples do not determine them.
func leastSquares(samples []sample, terms []int, scale float64) (k [3]float64, ok bool) {
	unit := samples[len(samples)-1].y
	var m [3][4]float64 // the normal equations in that unit, right side last
	for _, s := range samples {
		x, weight := s.n/scale, unit/s.y
		pow := [3]float64{1, x, x * x}
		for i, ti := range terms {
			for j, tj := range terms {
				m[i][j] += pow[ti] * pow[tj] * weight * weight
			}
			m[i][3] += pow[ti] * weight
		}
	}
	if !eliminate(m[:len(terms)]) {
		return k, false
	}
	for i, t := range terms {
		k[t] = m[i][3] * unit
	}
	return k, true
}

// eliminate solves the equations in place (Gauss and Jordan) and leaves the solution on the right side.
func eliminate(m [][4]float64) bool {
	for i := range m {
		pivot := i
		for r := i + 1; r < len(m); r++ {
			if math.Abs(m[r][i]) > math.Abs(m[pivot][i]) {
				pivot = r
			}
		}
		m[i], m[pivot] = m[pivot], m[i]
		if !(math.Abs(m[i][i]) > 1e-13) {
			return false
		}
		for c := 3; c >= i; c-- {
			m[i][c] /= m[i][i]
		}
		for r := range m {
			if r == i {
				continue
			}
			for c := 3; c >= i; c-- {
				m[r][c] -= m[r][i] * m[i][c]
			}
		}
	}
	return true
}
