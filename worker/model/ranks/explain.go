package ranks

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"cpbench/plan/catalogue"
	"cpbench/worker/evidence"
	"cpbench/worker/node"
)

// searchedBytes is how much of the end of a log is searched for what explains a failure.
const searchedBytes = 64 << 10

// explain looks in the logs of the ranks for what a failure that no rank has explained was: a rank that is killed, or
// whose program knows nothing of the protocol's words, still leaves the text of its last exception. What nothing
// explains stays an error, and never means that a size does not fit. Of ranks that were waited for in vain only a raised
// out-of-memory counts: who has met it leaves its peers waiting, while other lines may be warnings.
func (s *Set) explain(end Ending) Ending {
	if end.Outcome == catalogue.Hang || end.Outcome == catalogue.Timeout {
		if found, rank, ok := s.findText(Ending{}); ok && found.Raised && found.Outcome.OutOfMemory() {
			end.Outcome, end.Evidence = found.Outcome, found.Fragment+"\n"+end.Evidence
			end.Reason = fmt.Sprintf("%s; the log of rank %d tells why", end.Reason, rank)
		} else if end.Outcome == catalogue.Hang {
			end = lost(end, s.nodes.Kills(context.Background(), s.Nodes()))
		}
		return end
	}
	if end.Outcome != catalogue.Error || end.final {
		return end
	}
	// The numbers of a rank's own word may have said it already.
	if found, rank, ok := s.findText(end); ok && (found.Outcome != catalogue.Error || !strings.HasSuffix(end.Reason, found.Note)) {
		end.Outcome, end.Evidence = found.Outcome, found.Fragment
		if found.Note != "" {
			end.Evidence += "\n" + found.Note
		}
		end.Reason = strings.TrimSpace(fmt.Sprintf("%s; the log of rank %d tells why", end.Reason, rank))
		if found.Outcome != catalogue.OOMHost {
			return end
		}
	}
	_, told := evidence.Killed(end.Evidence) // by a launcher, whose own end is another one
	k := s.nodes.Kills(context.Background(), s.Nodes())
	if k.N > 0 && (end.signal == syscall.SIGKILL || told || end.Outcome == catalogue.OOMHost || end.echo) {
		end.Outcome = catalogue.OOMHost
		end.Reason += ": the kernel killed for lack of host memory"
		end.Evidence = strings.TrimSpace(fmt.Sprintf("oom_kill +%d in %s\n%s", k.N, k.Where, end.Evidence))
		return end
	}
	if end = lost(end, k); end.signal == syscall.SIGKILL && end.Outcome == catalogue.Error {
		end.Reason += "; nothing shows that memory was the reason"
	}
	return end
}

// lost is an ending that nothing else explains, on nodes of which one no longer answers: the machine has failed, and not
// the program.
func lost(end Ending, k node.Killed) Ending {
	if k.Lost == "" || end.Outcome != catalogue.Error && end.Outcome != catalogue.Hang {
		return end
	}
	end.Outcome = catalogue.Infra
	end.Reason += "; " + k.Lost
	return end
}

// findText looks in the words of the rank that failed, then in the log of every rank: a text about memory counts
// whoever wrote it, because the others only see their peer go away.
func (s *Set) findText(end Ending) (evidence.Finding, int, bool) {
	best, at, ok := evidence.Finding{}, 0, false
	take := func(text string, rank int) {
		found, hit := evidence.Classify(text)
		if hit && (!ok || found.Outcome.OutOfMemory() && !best.Outcome.OutOfMemory()) {
			best, at, ok = found, rank, true
		}
	}
	take(end.Evidence, end.rank)
	seen := map[*proc]bool{}
	for i, r := range s.Ranks {
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
