package triangle

// jBlock is the number of rows of b that products keeps in cache while all rows of a pass by.
const jBlock = 32

// products adds to out[i*ldo+j] the dot product of row i of a and row j of b, for m rows of a and n rows of b, all
// of length k and contiguous. It works on blocks of 2 by 4 rows: eight sums in registers for six loads.
func products(out []float32, ldo int, a []float32, m int, b []float32, n, k int) {
	for j0 := 0; j0 < n; j0 += jBlock {
		j1 := min(j0+jBlock, n)
		i := 0
		for ; i+2 <= m; i += 2 {
			a0, a1 := a[i*k:(i+1)*k], a[(i+1)*k:(i+2)*k]
			o0, o1 := out[i*ldo:i*ldo+n], out[(i+1)*ldo:(i+1)*ldo+n]
			j := j0
			for ; j+4 <= j1; j += 4 {
				dot2x4(o0[j:j+4], o1[j:j+4], a0, a1, b[j*k:(j+1)*k], b[(j+1)*k:(j+2)*k], b[(j+2)*k:(j+3)*k], b[(j+3)*k:(j+4)*k])
			}
			for ; j < j1; j++ {
				o0[j] += dot(a0, b[j*k:(j+1)*k])
				o1[j] += dot(a1, b[j*k:(j+1)*k])
			}
		}
		for ; i < m; i++ {
			for j := j0; j < j1; j++ {
				out[i*ldo+j] += dot(a[i*k:(i+1)*k], b[j*k:(j+1)*k])
			}
		}
	}
}

// dot2x4 adds the eight dot products of two rows with four.
func dot2x4(o0, o1, a0, a1, b0, b1, b2, b3 []float32) {
	n := len(a0)
	a1, b0, b1, b2, b3 = a1[:n], b0[:n], b1[:n], b2[:n], b3[:n]
	var s00, s01, s02, s03, s10, s11, s12, s13 float32
	for k, x := range a0 {
		y := a1[k]
		b := b0[k]
		s00 += x * b
		s10 += y * b
		b = b1[k]
		s01 += x * b
		s11 += y * b
		b = b2[k]
		s02 += x * b
		s12 += y * b
		b = b3[k]
		s03 += x * b
		s13 += y * b
	}
	o0, o1 = o0[:4], o1[:4]
	o0[0] += s00
	o0[1] += s01
	o0[2] += s02
	o0[3] += s03
	o1[0] += s10
	o1[1] += s11
	o1[2] += s12
	o1[3] += s13
}

// dot returns the dot product of two rows of equal length, with eight sums.
func dot(a, b []float32) float32 {
	b = b[:len(a)]
	var s [8]float32
	k := 0
	for ; k+8 <= len(a); k += 8 {
		x, y := a[k:k+8:k+8], b[k:k+8:k+8]
		s[0] += x[0] * y[0]
		s[1] += x[1] * y[1]
		s[2] += x[2] * y[2]
		s[3] += x[3] * y[3]
		s[4] += x[4] * y[4]
		s[5] += x[5] * y[5]
		s[6] += x[6] * y[6]
		s[7] += x[7] * y[7]
	}
	for ; k < len(a); k++ {
		s[0] += a[k] * b[k]
	}
	return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]))
}

// matrix is a view of x in which element (i, j) is x[i*row+j*col]: a block of a plane, or its transpose.
type matrix struct {
	x        []float32
	row, col int
}

// at returns element (i, j).
func (m matrix) at(i, j int) float32 { return m.x[i*m.row+j*m.col] }

// combine adds scale * x * y to g: row i of g, of rows rows of length k, gets the inner rows of y weighted by row i
// of x. Four rows of y are taken at a time.
func combine(g []float32, rows int, x matrix, y []float32, inner, k int, scale float32) {
	for i := range rows {
		gi := g[i*k : (i+1)*k]
		j := 0
		for ; j+4 <= inner; j += 4 {
			x0, x1, x2, x3 := scale*x.at(i, j), scale*x.at(i, j+1), scale*x.at(i, j+2), scale*x.at(i, j+3)
			y0, y1, y2, y3 := y[j*k:(j+1)*k], y[(j+1)*k:(j+2)*k], y[(j+2)*k:(j+3)*k], y[(j+3)*k:(j+4)*k]
			y0, y1, y2, y3 = y0[:len(gi)], y1[:len(gi)], y2[:len(gi)], y3[:len(gi)]
			for n := range gi {
				gi[n] += (x0*y0[n] + x1*y1[n]) + (x2*y2[n] + x3*y3[n])
			}
		}
		for ; j < inner; j++ {
			w, yj := scale*x.at(i, j), y[j*k:(j+1)*k]
			for n := range gi {
				gi[n] += w * yj[n]
			}
		}
	}
}

// scaled sets dst to w * src, which may be the same.
func scaled(dst, src []float32, w float32) {
	dst = dst[:len(src)]
	for i, v := range src {
		dst[i] = w * v
	}
}
