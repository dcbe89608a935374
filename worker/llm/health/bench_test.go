package health_test

import (
	"fmt"
	"testing"

	"cpbench/worker/llm/health"
)

// BenchmarkFloor tells the error of TTFT and gaps at a number of streams.
func BenchmarkFloor(b *testing.B) {
	for _, streams := range []int{1, 64, 256} {
		b.Run(fmt.Sprintf("streams=%d", streams), func(b *testing.B) {
			for range b.N {
				f, err := health.Selftest(b.Context(), streams)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(*f.TTFTError.P50*1e6, "ttft-p50-us")
				b.ReportMetric(*f.TTFTError.Max*1e6, "ttft-max-us")
				if f.TTFTError.P99 != nil {
					b.ReportMetric(*f.TTFTError.P99*1e6, "ttft-p99-us")
				}
				b.ReportMetric(*f.Send.P50*1e6, "send-p50-us")
				b.ReportMetric(*f.Send.Max*1e6, "send-max-us")
				b.ReportMetric(*f.GapError.P50*1e6, "gap-p50-us")
				b.ReportMetric(*f.GapError.P95*1e6, "gap-p95-us")
			}
		})
	}
}
