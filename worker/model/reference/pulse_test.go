package reference_test

import (
	"testing"
	"time"

	"cpbench/worker/model/protocol"
)

// Ranks that hang still give signs of life, as often as they were asked to, and say where they stand.
func TestSignsOfLife(t *testing.T) {
	t.Parallel()
	children := launch(t, 2, "--fault", "hang-rank=1@timed")
	for _, m := range []protocol.Message{
		protocol.Start{Mode: "inference", Topology: "1d", AliveSeconds: 0.01},
		point(16),
		protocol.Step{Phase: "warmup", Count: 1},
		protocol.Step{Phase: "timed", Count: 3},
	} {
		send(t, children, m)
	}
	for rank, where := range []string{"exchange with other ranks", "step"} {
		if err := children[rank].conn.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		for there := 0; there < 3; {
			m, err := children[rank].conn.Receive()
			if err != nil {
				t.Fatalf("rank %d, which was there %d times: %v", rank, there, err)
			}
			if sign, ok := m.(*protocol.Alive); ok && sign.Where == where && sign.Done != nil && *sign.Done == 0 {
				there++
			}
		}
	}
}
