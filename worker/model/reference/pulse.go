package reference

import (
	"context"
	"sync/atomic"
	"time"

	"cpbench/worker/model/protocol"
)

// aliveEvery is the time between two signs of life where the worker asks for no more.
const aliveEvery = 5 * time.Second

// pulse gives signs of life beside the work, from start on, and says where the work stands.
type pulse struct {
	conn  *protocol.Conn
	where atomic.Pointer[string]
	done  atomic.Int64 // steps of the current request; negative: none is asked for
}

// at notes where the work stands.
func (p *pulse) at(where string) { p.where.Store(&where) }

// beat gives a sign at once and then every so often, until ctx or the connection ends.
func (p *pulse) beat(ctx context.Context, every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		sign := protocol.Alive{Where: *p.where.Load()}
		if n := int(p.done.Load()); n >= 0 {
			sign.Done = &n
		}
		if p.conn.Send(sign) != nil {
			return // the work meets the same error
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
