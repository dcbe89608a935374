package account

// Frame is one frame of an answer as it came.
type Frame struct {
	At   int64 // ns from t0
	Read int   // position of the read that completed it
	Kind byte  // see Facts.Kinds
}

// Channels are the channels on which the frame brings text: 1 reasoning, 2 content, 4 tool calls, or a sum of them.
func (f Frame) Channels() int { return channels(f.Kind) }

// Choice reports whether the frame has a choice, with text or without.
func (f Frame) Choice() bool { return f.Kind >= '0' && f.Kind <= '7' }

// Frames are all frames of the answer in their order, those behind [DONE] included.
func (f *Facts) Frames() []Frame {
	t := f.timeline()
	frames := make([]Frame, len(t.at))
	for i := range frames {
		frames[i] = Frame{At: t.at[i], Read: t.read[i], Kind: f.Kinds[i]}
	}
	return frames
}
