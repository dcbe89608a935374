package group

import "testing"

// What is set aside ahead for the answers of a group is bounded, however many there are and however long they may be.
func TestRoom(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ tokens, streams, least, most int }{
		{1500, 64, 1500 * 280, 1 << 20},
		{200_000, 1, 50 << 20, 64 << 20},
		{32_000, 512, 1 << 20, 1 << 20},
	} {
		if room := (&Request{MaxTokens: c.tokens}).request(nil, c.streams).Room; room < c.least || room > c.most {
			t.Errorf("%d streams of %d tokens: %d bytes each", c.streams, c.tokens, room)
		}
	}
}
