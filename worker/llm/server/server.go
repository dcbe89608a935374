// Package server is the life of an LLM server that a task starts by itself: its command with a free port, the wait
// until it answers, its log, its end with everything that it has started. Use Start and Stop; one server at a time
// lives in a task, because Stop ends all descendants of this process but the instruments that were spared.
package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"cpbench/worker/tree"
)

// Program is a server before its start, on a port that has been chosen for it.
type Program struct {
	Command []string
	Env     []string // NAME=value
	Ready   string   // address that answers 2xx when the server is ready
}

// Options say how a server is started.
type Options struct {
	On    func(port int) Program // the server with a free port of the loopback interface
	Dir   string
	Log   string        // file for its output; made anew
	Limit time.Duration // from the start until it is ready; 0 is DefaultLimit
}

// DefaultLimit is how long a server may take until it is ready: the weights of a large model are read from a disk, and
// its graphs are compiled.
const DefaultLimit = 20 * time.Minute

// poll is the time between two looks at a server that is not ready yet.
const poll = 100 * time.Millisecond

// Server is a server that has answered.
type Server struct {
	Port  int
	Took  time.Duration // from its start until it was ready
	log   string
	gone  chan struct{} // closed when its first process has ended
	state *exec.Cmd
}

// Dead is the error of a server that ended by itself, or that was never ready. Its log's tail says most.
type Dead struct {
	What string // what happened
	Tail string // the last lines of its log

	taken bool // because something else had its port
}

func (d *Dead) Error() string { return d.What }

// Start starts a server on a free port of the loopback interface and returns when it is ready. On an error, which is a
// *Dead if the server is to blame, nothing of it is left. The end of ctx ends the wait with its cause. A server that
// ended because something else had taken its port meanwhile gets one more.
func Start(ctx context.Context, o Options) (*Server, error) {
	log, err := os.Create(o.Log)
	if err != nil {
		return nil, fmt.Errorf("the log of the server: %w", err)
	}
	defer log.Close() // the server has its own descriptor
	s, err := start(ctx, o, log)
	if dead := new(Dead); errors.As(err, &dead) && dead.taken {
		fmt.Fprintln(log, "cpbench: its port was taken meanwhile: once more, on another one")
		return start(ctx, o, log)
	}
	return s, err
}

// start is one try.
func start(ctx context.Context, o Options, log *os.File) (*Server, error) {
	port, err := freePort()
	if err != nil {
		return nil, fmt.Errorf("a port for the server: %w", err)
	}
	program := o.On(port)
	cmd := exec.Command(program.Command[0], program.Command[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = o.Dir, program.Env, log, log
	began := time.Now()
	child, err := tree.Start(cmd)
	if err != nil {
		return nil, &Dead{What: fmt.Sprintf("the server could not be started: %v", err)}
	}
	s := &Server{Port: port, log: o.Log, gone: make(chan struct{}), state: cmd}
	go func() {
		_ = child.Wait() // the state says it all
		close(s.gone)
	}()
	limit := o.Limit
	if limit == 0 {
		limit = DefaultLimit
	}
	if err := s.ready(ctx, program.Ready, limit); err != nil {
		_, stopErr := s.Stop(tree.DefaultGrace)
		if dead := new(Dead); errors.As(err, &dead) && stopErr == nil {
			dead.taken = taken(dead.Tail, port)
		}
		return nil, errors.Join(err, stopErr)
	}
	s.Took = time.Since(began)
	return s, nil
}

// taken reports whether a server ended because of its port: it says so, in the system's words or in a translation of
// them, and somebody does listen there.
func taken(tail string, port int) bool {
	if strings.Contains(strings.ToLower(tail), "address already in use") {
		return true
	}
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err == nil {
		_ = l.Close() // nobody has connected
	}
	return errors.Is(err, syscall.EADDRINUSE)
}

// freePort is a port that nobody listens on at this moment. Another process may take it before the server does.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	return port, l.Close()
}

// ready asks until the server answers.
func (s *Server) ready(ctx context.Context, address string, limit time.Duration) error {
	ctx, stop := context.WithTimeoutCause(ctx, limit, errLate)
	defer stop()
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{Proxy: nil, DisableKeepAlives: true}}
	tick := time.NewTicker(poll)
	defer tick.Stop()
	last := errors.New("it did not answer")
	for {
		select {
		case <-s.gone:
			return s.early()
		case <-ctx.Done():
			if !errors.Is(context.Cause(ctx), errLate) {
				return context.Cause(ctx)
			}
			return &Dead{What: fmt.Sprintf("the server was not ready after %v: %v", limit, last), Tail: s.tail()}
		case <-tick.C:
		}
		if err := ask(ctx, client, address); err == nil {
			return s.early() // what answers may be what a server that has ended left behind
		} else if ctx.Err() == nil {
			last = err
		}
	}
}

// early is the death of a server that was not ready yet; nil if it lives.
func (s *Server) early() error {
	dead := new(Dead)
	if !errors.As(s.Dead(), &dead) {
		return nil
	}
	if s.state.ProcessState.Success() {
		dead.What += " before it was ready; it has to stay in the foreground"
	}
	return dead
}

var errLate = errors.New("the server was not ready in time")

func ask(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return fmt.Errorf("it answers %s", resp.Status)
	}
	return nil
}

// Gone is closed when the server's first process has ended, by whatever cause.
func (s *Server) Gone() <-chan struct{} { return s.gone }

// Dead is a *Dead if the server has ended, else nil.
func (s *Server) Dead() error {
	select {
	case <-s.gone:
		return &Dead{What: "the server ended: " + s.state.ProcessState.String(), Tail: s.tail()}
	default:
		return nil
	}
}

// Stop ends the server and everything that it has started: TERM, and KILL after the grace. The report says how many
// had to be killed; the error is tree.ErrSurvivors if something is left.
func (s *Server) Stop(grace time.Duration) (tree.Report, error) {
	report, err := tree.Kill(context.Background(), grace)
	if err == nil {
		<-s.gone // the tree is empty, so this is at once
	}
	return report, err
}

// tailBytes is how much of the end of a log is evidence.
const tailBytes = 2 << 10

// tail is the end of the log, from the begin of a line if there is one. Servers write logs of any size.
func (s *Server) tail() string {
	f, err := os.Open(s.log)
	if err != nil {
		return ""
	}
	defer f.Close() // read only
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	from := max(info.Size()-tailBytes, 0)
	data, err := io.ReadAll(io.NewSectionReader(f, from, tailBytes))
	if err != nil {
		return ""
	}
	if from > 0 {
		if _, rest, ok := strings.Cut(string(data), "\n"); ok {
			return rest
		}
	}
	return string(data)
}
