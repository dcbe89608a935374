package triangle

import "math"

// shard is the part of the pair tensor that one rank holds: rows × cols positions from (row, col) on, in each of
// channels planes. Every tile of a rank has this shape.
type shard struct {
	tokens, padded int // N as asked for and as run
	channels       int
	row, col       int
	rows, cols     int
}

// plane returns the number of values of one channel.
func (s shard) plane() int { return s.rows * s.cols }

// size returns the number of values of a tile.
func (s shard) size() int { return s.channels * s.plane() }

// at returns the plane of channel c in a tile.
func (s shard) at(tile []float32, c int) []float32 { return tile[c*s.plane() : (c+1)*s.plane()] }

// each calls f for every position that is not padding, in the order of memory.
func (s shard) each(f func(c, i, j, index int)) {
	index := 0
	for c := range s.channels {
		for i := s.row; i < s.row+s.rows; i++ {
			for j := s.col; j < s.col+s.cols; j++ {
				if i < s.tokens && j < s.tokens {
					f(c, i, j, index)
				}
				index++
			}
		}
	}
}

// fill writes the input. Padding stays zero, and thereby adds nothing to any product.
func (s shard) fill(z []float32) {
	s.each(func(c, i, j, index int) { z[index] = input(c, i, j) })
}

// checksum returns the sum of the values, each weighted by its place in the whole tensor, so that values that
// changed places are seen. The sum over all ranks is that of the whole tensor, up to rounding.
func (s shard) checksum(tile []float32) float64 {
	var sum float64
	s.each(func(c, i, j, index int) {
		sum += float64(tile[index]) * float64(1+(5*c+31*i+17*j)%64) / 64
	})
	return sum
}

// finite reports whether no value is NaN or infinite.
func finite(tile []float32) bool {
	for _, v := range tile {
		if math.Float32bits(v)&0x7f800000 == 0x7f800000 {
			return false
		}
	}
	return true
}

// input returns the value of the input tensor at a place of the whole tensor, in [-0.25, 0.75): the same for
// every number of ranks.
func input(c, i, j int) float32 {
	h := uint64(c)<<48 ^ uint64(i)<<24 ^ uint64(j)
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9 // the mixer of SplitMix64
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return float32((h^h>>31)>>40)/(1<<24) - 0.25
}

// weightA returns the weight that projects channel c to the left factor.
func weightA(c int) float32 { return 1 - 0.125*float32(c%5) }

// weightB returns the weight that projects channel c to the right factor.
func weightB(c int) float32 { return 0.75 + 0.0625*float32(c%7) }
