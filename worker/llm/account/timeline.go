package account

// timeline is the raw log of a request, unpacked: when each frame came, and with which read.
type timeline struct {
	at   []int64 // of each frame, ns from t0
	read []int   // of each frame
	done int     // position of [DONE], -1 without
	last int     // position of the last event before or at [DONE], -1 without
	text []int   // positions of the frames with text
}

func (f *Facts) timeline() timeline {
	t := timeline{at: make([]int64, 0, len(f.Kinds)), read: make([]int, 0, len(f.Kinds)), done: -1, last: -1}
	var now int64
	for i, delta := range f.ReadNS {
		now += delta
		if i >= len(f.ReadFrames) {
			break // a record that was changed by hand must not stop whoever reads it
		}
		for range min(f.ReadFrames[i], len(f.Kinds)-len(t.at)) {
			t.at, t.read = append(t.at, now), append(t.read, i)
		}
	}
	for k := range t.at {
		kind := f.Kinds[k]
		if kind == KindComment {
			continue
		}
		t.last = k
		if kind == KindDone {
			t.done = k
			break // what comes later is no part of the answer
		}
		if channels(kind) != 0 {
			t.text = append(t.text, k)
		}
	}
	return t
}

// channels are the bits of a kind: 1 reasoning, 2 content, 4 tool calls.
func channels(kind byte) int {
	if kind >= '1' && kind <= '7' {
		return int(kind - '0')
	}
	return 0
}

// seconds turns nanoseconds into seconds; nil stays nil.
func seconds(ns *int64) *float64 {
	if ns == nil {
		return nil
	}
	s := float64(*ns) / 1e9
	return &s
}

// terminal is when the request ended for its user: [DONE], the last event, or the error, in ns from t0.
func (f *Facts) terminal(t timeline) int64 {
	if t.last >= 0 && (f.Failure == nil || t.done >= 0) {
		return t.at[t.last]
	}
	return f.EndNS
}
