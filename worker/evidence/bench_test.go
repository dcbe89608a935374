package evidence

import (
	"strings"
	"testing"
)

// BenchmarkClassify is the tail of a log in which the same warning stands again and again.
func BenchmarkClassify(b *testing.B) {
	text := strings.Repeat("[rank0]: "+torchNew+"\nMemoryError\n", 1+(256<<10)/len(torchNew))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		Classify(text)
	}
}
