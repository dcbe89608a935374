package account

import (
	"fmt"
	"math"
)

// A rate over the time from the first to the last text is only as good as its two ends.
const (
	// shortest is the least such time in ns. The client may be late by half a millisecond at either end, which is a tenth
	// of it.
	shortest = 10e6
	// lump is the largest error that may come from text that was held back and came together.
	lump = 0.1
)

// coarse says why decode_tps and tpot_s are far off although they could be computed; empty if they are not.
//
// TPOT takes the first text for one token. If more came with it, they were made before the time that is measured, and
// the rate of the others is overstated by (first - 1) / (all - first). How many came with it is told by continuous usage;
// otherwise it is taken to be their share of the frames.
func (f *Facts) coarse(t timeline, completion int64) string {
	first, last := t.text[0], t.text[len(t.text)-1]
	together, reads := 0, 0
	for i, k := range t.text {
		if t.read[k] == t.read[first] {
			together = i + 1
		}
		if i == 0 || t.read[k] != t.read[t.text[i-1]] {
			reads++
		}
	}
	if apart := t.at[last] - t.at[first]; apart < shortest {
		return fmt.Sprintf("first and last text came %.3g ms apart, in %d reads, and the client may be late by 0.5 ms at either end: decode and TPOT may be far off",
			float64(apart)/1e6, reads)
	}
	about := ""
	came, ok := f.usageAt(t.text[together-1])
	if !ok {
		about = "about "
		came = int64(math.Round(float64(completion) * float64(together) / float64(len(t.text))))
	}
	rest := completion - came
	if off := float64(came-1) / float64(rest); rest <= 0 || off > lump {
		return fmt.Sprintf("%s%d of %d tokens came with the first text, in %d reads: the time from it to the last text is not that of all tokens, and decode and TPOT may be far off",
			about, came, completion, reads)
	}
	return ""
}
