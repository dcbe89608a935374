package model

import (
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"cpbench/plan/catalogue"
	"cpbench/worker/evidence"
)

// searchedBytes is how much of the end of a log is searched for what explains a failure.
const searchedBytes = 64 << 10

// explain looks in the logs of the ranks for what a failure that no rank has explained was: a rank that is killed, or
// whose program knows nothing of the protocol's words, still leaves the text of its last exception. What nothing
// explains stays an error, and never means that a size does not fit.
func (e *execution) explain(end ending) ending {
	if end.outcome != catalogue.Error || end.final {
		return end
	}
	if found, rank, ok := e.findText(end); ok {
		end.outcome, end.evidence = found.Outcome, found.Fragment
		if found.Note != "" {
			end.evidence += "\n" + found.Note
		}
		end.reason = strings.TrimSpace(fmt.Sprintf("%s; the log of rank %d tells why", end.reason, rank))
		if found.Outcome != catalogue.OOMHost {
			return end
		}
	}
	if n, ok, where := e.kills(); ok && n > 0 && (end.signal == syscall.SIGKILL || end.outcome == catalogue.OOMHost || end.echo) {
		end.outcome = catalogue.OOMHost
		end.reason += ": the kernel killed for lack of host memory"
		end.evidence = strings.TrimSpace(fmt.Sprintf("oom_kill +%d in %s\n%s", n, where, end.evidence))
		return end
	}
	if end.signal == syscall.SIGKILL && end.outcome == catalogue.Error {
		end.reason += "; nothing shows that memory was the reason"
	}
	return end
}

// findText looks in the words of the rank that failed, then in the log of every rank: a text about memory counts
// whoever wrote it, because the others only see their peer go away.
func (e *execution) findText(end ending) (evidence.Finding, int, bool) {
	best, at, ok := evidence.Finding{}, 0, false
	take := func(text string, rank int) {
		found, hit := evidence.Classify(text)
		if hit && (!ok || found.Outcome.OutOfMemory() && !best.Outcome.OutOfMemory()) {
			best, at, ok = found, rank, true
		}
	}
	take(end.evidence, end.rank)
	seen := map[*proc]bool{}
	for i, r := range e.ranks {
		if r.proc != nil && !seen[r.proc] {
			seen[r.proc] = true
			take(r.proc.tail(searchedBytes), i)
		}
	}
	return best, at, ok
}

// tail is the end of what the process has written during this execution, at most limit bytes.
func (p *proc) tail(limit int64) string {
	f, err := os.Open(p.log)
	if err != nil {
		return ""
	}
	defer f.Close() // read only
	from := p.from
	if info, err := f.Stat(); err == nil && info.Size()-from > limit {
		from = info.Size() - limit
	}
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return ""
	}
	text, err := io.ReadAll(io.LimitReader(f, limit))
	if err != nil {
		return ""
	}
	return strings.ToValidUTF8(strings.TrimSpace(string(text)), "?")
}
