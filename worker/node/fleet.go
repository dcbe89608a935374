package node

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
)

// Config says which nodes a task has and how those beside this one are reached.
type Config struct {
	Hosts []string // names of the nodes, this one first; less than two: only this one
	Self  Options  // of this node
	// Launch gives the command that starts agents on hosts; agent is the command of one. Srun is one.
	Launch func(hosts, agent []string) ([]string, error)
	Agent  []string // the command of one agent; its standard input and output are not used
	Output string   // file for what the command of Launch and the agents say
	Log    *slog.Logger
}

// Fleet is the nodes of a task. Its methods but Close may be called from several goroutines.
type Fleet struct {
	cfg    Config
	self   string
	local  *Local
	others []*member
	called sync.Once // the agents
	crew   *crew     // nil: not begun, or could not be

	mu        sync.Mutex // guards what follows
	witnesses []string   // nodes that have heard of the execution's begin
}

// Open returns the nodes of a task. It starts nothing: agents are started when another node is asked for the first
// time, because most tasks have one node. Close has to be called.
func Open(cfg Config) *Fleet {
	f := &Fleet{cfg: cfg, local: NewLocal(cfg.Self), self: "this node"}
	if len(cfg.Hosts) > 0 {
		f.self = cfg.Hosts[0]
		for _, name := range cfg.Hosts[1:] {
			f.others = append(f.others, newMember(name))
		}
	}
	return f
}

// Names are the names of the first n nodes, as the scheduler calls them.
func (f *Fleet) Names(n int) []string {
	names := []string{f.self}
	for _, m := range f.others {
		names = append(names, m.name)
	}
	return names[:min(n, len(names))]
}

// Reply is what one node says.
type Reply struct {
	Node string // its name
	Answer
	Err error // why there is no answer; its text does not name the node
}

// Ask asks the first n nodes the same, all at once, and returns their replies in order. Nothing that another node does
// or does not do lasts longer than its verb's limit, the first time also the 30 s within which its agent has to connect,
// and a node that failed to answer is not waited for again.
func (f *Fleet) Ask(ctx context.Context, n int, r Request) []Reply {
	replies := make([]Reply, 1, max(n, 1))
	replies[0] = Reply{Node: f.self}
	if n > 1 {
		f.called.Do(f.call)
	}
	var others sync.WaitGroup
	for i := 1; i < n; i++ {
		replies = append(replies, Reply{})
		reply := &replies[i] // the slice has room for all, so it stays
		if i > len(f.others) {
			*reply = Reply{Node: fmt.Sprintf("node %d", i+1), Err: fmt.Errorf("the task has only %d nodes", 1+len(f.others))}
			continue
		}
		m := f.others[i-1]
		reply.Node = m.name
		others.Go(func() { reply.Answer, reply.Err = m.do(ctx, r) })
	}
	replies[0].Answer = f.local.Do(ctx, r)
	if text := replies[0].Error; text != "" {
		replies[0].Err = fmt.Errorf("%s", text)
	}
	others.Wait()
	return replies
}

// call starts the agents. Whoever asks them waits until they have connected.
func (f *Fleet) call() {
	if len(f.others) == 0 {
		return
	}
	var err error
	if f.crew, err = f.start(); err == nil {
		return
	}
	f.cfg.Log.Warn("no agents on the other nodes", "error", err.Error())
	for _, m := range f.others {
		m.fail(fmt.Errorf("its agent could not be started: %w", err))
	}
}

// Close ends the agents, which end what executions have left on their nodes, and the readings.
func (f *Fleet) Close() {
	for _, m := range f.others {
		m.fail(errClosed)
	}
	if f.crew != nil {
		f.crew.close()
	}
	f.local.Close()
}

// Begin tells the first n nodes that an execution begins, whose processes carry a mark: from now on the kernels' kills are
// its own. A node that cannot be told is no witness, and only logged.
func (f *Fleet) Begin(ctx context.Context, n int, mark string) {
	var told []string
	for _, r := range f.Ask(ctx, n, Request{Do: Begin, Mark: mark}) {
		if r.Err != nil {
			f.cfg.Log.Warn("no witness", "node", r.Node, "why", r.Err.Error())
			continue
		}
		told = append(told, r.Node)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.witnesses = told
}

// Killed is what the nodes of an execution have witnessed since Begin.
type Killed struct {
	N     int64  // processes that the kernels have ended for lack of memory
	Where string // the counters that have moved, with their nodes
	Lost  string // nodes that no longer answer although they did at the start, and why; empty: none
}

// Kills asks the first n nodes what has happened since Begin.
func (f *Fleet) Kills(ctx context.Context, n int) Killed {
	f.mu.Lock()
	witnesses := f.witnesses
	f.mu.Unlock()
	var k Killed
	var where, lost []string
	for _, r := range f.Ask(ctx, n, Request{Do: Kills}) {
		if r.Err != nil && ctx.Err() == nil && slices.Contains(witnesses, r.Node) {
			lost = append(lost, fmt.Sprintf("%s no longer answers: %v", r.Node, r.Err))
		}
		if r.Err != nil || r.Witness == nil || !r.Witness.Counted || r.Witness.Kills == 0 {
			continue
		}
		k.N += r.Witness.Kills
		text := r.Witness.Where
		if n > 1 {
			text += " on " + r.Node
		}
		where = append(where, text)
	}
	k.Where, k.Lost = strings.Join(where, ", "), strings.Join(lost, "; ")
	return k
}

// CleanUp ends every process of the first n nodes that carries a mark. It logs and returns a line for each node where
// there was something to be ended or that could not be asked.
func (f *Fleet) CleanUp(ctx context.Context, n int, mark string) (told, killed int, lines []string) {
	defer func() {
		if len(lines) > 0 {
			f.cfg.Log.Warn("cleaned up", "told", told, "killed", killed, "nodes", lines)
		}
	}()
	for _, r := range f.Ask(ctx, n, Request{Do: Clean, Mark: mark}) {
		switch c := r.Cleaned; {
		case r.Err != nil:
			lines = append(lines, fmt.Sprintf("%s: %v", r.Node, r.Err))
		case c == nil:
			lines = append(lines, r.Node+": no answer")
		default:
			told, killed = told+c.Told, killed+c.Killed
			if c.Told > 0 || c.Error != "" {
				lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s: %d processes ended, %d of them by KILL %s", r.Node, c.Told, c.Killed, c.Error)))
			}
		}
	}
	return told, killed, lines
}
