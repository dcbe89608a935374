package pace_test

import (
	"strings"
	"testing"
	"time"

	"cpbench/worker/llm/account"
	"cpbench/worker/llm/health/pace"
	"cpbench/worker/llm/llmtest"
	"cpbench/worker/llm/stream"
)

func TestSchedule(t *testing.T) {
	t.Parallel()
	for _, s := range []*pace.Schedule{{Frames: 7}, {Frames: 7, First: 5 * time.Millisecond, Every: time.Millisecond, Streams: 3}} {
		live, err := llmtest.Listen(s)
		if err != nil {
			t.Fatal(err)
		}
		defer live.Close()
		c, err := stream.New(live.URL, stream.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		clock := pace.NewClock()
		for range 2 {
			x := c.Do(t.Context(), stream.Request{Path: "/v1/chat/completions", Body: []byte("{}")})
			f, texts := account.Observe(x, c.Epoch(), account.Rules{NeedDone: true})
			n := account.Judge(f)
			if n.Outcome != account.Success || n.Frames != 7 || *n.CompletionTokens != 7 {
				t.Fatalf("%+v", n)
			}
			stamps := pace.Stamps(x.Raw)
			again := pace.Texts(texts.Content)
			if len(stamps) != 7 || len(again) != 7 {
				t.Fatalf("%d and %d stamps", len(stamps), len(again))
			}
			before := clock.Of(x.Start)
			for i, one := range stamps {
				if one != again[i] || one.Arrived < clock.Of(x.Start) || one.Written < before || one.Written > clock.Of(x.End) || one.Late < 0 {
					t.Errorf("frame %d: %+v behind %d", i, one, before)
				}
				if before = one.Written; s.First > 0 && one.Written-one.Arrived < int64(s.First+time.Duration(i)*s.Every)+one.Late {
					t.Errorf("frame %d is early: %+v", i, one)
				}
			}
		}
	}
}

func TestStampsOfOtherAnswers(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "data: {}", strings.Repeat("x", 400), `data: {"id":"chatcmpl-` + strings.Repeat("x", 400)} {
		if got := pace.Stamps([]byte(text)); got != nil {
			t.Errorf("%q: %v", text, got)
		}
		if got := pace.Texts(text); got != nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}
