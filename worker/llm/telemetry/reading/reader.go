package reading

import (
	"context"
	"time"

	"cpbench/worker/llm/telemetry/link"
)

// Reader reads one host, one time after the other.
type Reader struct {
	host Host
	link *link.Link
	gpus choice // resolved from prefixes; zero: not yet
	past history
}

// New makes a reader of a host by a link to it, which stays the caller's.
func New(h Host, l *link.Link) *Reader { return &Reader{host: h, link: l} }

// Read takes a reading, nil if there is none, and says what could not be read, each in a sentence. It returns soon after
// ctx ends. It asks for the UUIDs of GPUs that are named by prefixes until all have been found, and from then on for these
// GPUs alone.
func (r *Reader) Read(ctx context.Context) (got *Reading, errs []string) {
	if r.gpus.all = len(r.host.GPUPrefixes) == 0; !r.gpus.all && r.gpus.uuids == nil {
		text, err := r.link.Run(ctx, listScript())
		if err != nil {
			return nil, []string{err.Error()}
		}
		uuids, err := listed(text)
		if err != nil {
			errs = append(errs, err.Error())
		} else {
			r.gpus.uuids, errs = match(r.host.GPUPrefixes, uuids)
		}
	}
	program, err := script(r.host, r.gpus)
	if err != nil {
		return nil, append(errs, err.Error())
	}
	text, err := r.link.Run(ctx, program)
	if err != nil {
		return nil, append(errs, err.Error())
	}
	a := parse(text, r.host, r.gpus)
	errs = append(errs, a.errors...)
	if a.Memory == nil && a.GPUs == nil {
		return nil, errs
	}
	r.past.compare(&a.Reading, time.Now())
	return &a.Reading, errs
}
