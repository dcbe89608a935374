package local

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ErrArraySpec marks an --array that sbatch refuses as "Invalid job array specification".
var ErrArraySpec = errors.New("invalid job array specification")

// maxIndices is the largest MaxArraySize that Slurm itself can be configured for.
const maxIndices = 4_000_001

// parseArraySpec reads lists, ranges, steps and the throttle: 0-9%2, 1,3,7, 0-9:3. Like Slurm it takes brackets around
// it and empty items in it, counts an index once however often it is named, and sees no limit in %0 and %x. An empty
// spec means no array.
func parseArraySpec(spec string) (indices []int, throttle int, err error) {
	list, limit, _ := strings.Cut(strings.TrimSpace(spec), "%")
	list = strings.TrimSuffix(strings.TrimPrefix(list, "["), "]")
	throttle, err = strconv.Atoi(strings.TrimSuffix(limit, "]"))
	if err != nil || throttle < 0 {
		throttle = 0
	}
	for item := range strings.SplitSeq(list, ",") {
		if item == "" {
			continue
		}
		from, to, step, err := parseRange(item)
		if err != nil {
			return nil, 0, fmt.Errorf("--array=%s: %w: %w", spec, ErrArraySpec, err)
		}
		for i := from; i <= to; i += step {
			indices = append(indices, i)
		}
		if len(indices) > maxIndices {
			return nil, 0, fmt.Errorf("--array=%s: %w: more than %d indices", spec, ErrArraySpec, maxIndices)
		}
	}
	slices.Sort(indices)
	return slices.Compact(indices), throttle, nil
}

// parseRange reads N, N-M or N-M:STEP.
func parseRange(item string) (from, to, step int, err error) {
	bounds, stepText, stepped := strings.Cut(item, ":")
	first, last, ranged := strings.Cut(bounds, "-")
	if stepped && !ranged {
		return 0, 0, 0, fmt.Errorf("%q has a step and no range", item)
	}
	if !ranged {
		last = first
	}
	if !stepped {
		stepText = "1"
	}
	values := [3]int{}
	for i, text := range []string{first, last, stepText} {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil || n >= maxIndices {
			return 0, 0, 0, fmt.Errorf("%q in %q is no index below %d", text, item, maxIndices)
		}
		values[i] = int(n)
	}
	from, to, step = values[0], values[1], values[2]
	if to < from || step == 0 {
		return 0, 0, 0, fmt.Errorf("%q is reversed or has no step", item)
	}
	return from, to, step, nil
}
