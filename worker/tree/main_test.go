package tree

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The test binary plays every process of a tree. A test starts a worker, which adopts, starts programs, kills and
// prints what it saw; so that each test has a tree of its own. Two pipes run through all of them: a program writes
// its id to the first when its signal handlers stand; the second only tells, by its end, that nobody is left.
const (
	roleVar  = "CPBENCH_TREE_ROLE"
	depthVar = "CPBENCH_TREE_DEPTH"
	readyFD  = 3
	leftFD   = 4
)

// lifetime bounds every program, so that a test which goes wrong leaves nothing behind.
const lifetime = 60 * time.Second

func TestMain(m *testing.M) {
	role := os.Getenv(roleVar)
	if role == "" {
		os.Exit(m.Run())
	}
	pipes = []*os.File{os.NewFile(readyFD, "ready"), os.NewFile(leftFD, "left")}
	// Not before the lifetime is up: the pipe at leftFD must stay open as long as the program lives.
	time.AfterFunc(lifetime, func() { os.Exit(99) })
	if run, ok := workers[role]; ok {
		os.Exit(work(run))
	}
	run, ok := programs[role]
	if !ok {
		fmt.Fprintf(os.Stderr, "no role %q\n", role)
		os.Exit(98)
	}
	run()
}

// pipes are kept here, because a file that nothing refers to is closed.
var pipes []*os.File

// program makes the command of a role; it inherits the pipes.
func program(role string) *exec.Cmd {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), roleVar+"="+role)
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = pipes
	return cmd
}

// ready tells the worker that this program is in place.
func ready() {
	// One write of a short line is atomic on a pipe.
	if _, err := fmt.Fprintf(pipes[0], "%d\n", os.Getpid()); err != nil {
		os.Exit(97)
	}
}

// launch starts a role from inside a program.
func launch(role string, session bool) *exec.Cmd {
	cmd := program(role)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: session}
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(96)
	}
	return cmd
}

// ended waits until a child has ended, and leaves its status where it is.
func ended(pid int) error { return unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) }

// programs are the processes that get killed.
var programs = map[string]func(){
	"plain":  func() { ready(); select {} },
	"ignore": func() { signal.Ignore(syscall.SIGTERM); ready(); select {} },
	"exit 3": func() { ready(); os.Exit(3) },
	"exit 7 on TERM": func() {
		c := make(chan os.Signal, 1)
		signal.Notify(c, syscall.SIGTERM)
		ready()
		<-c
		os.Exit(7)
	},
	// A launcher as torchrun is: it leaves when its workers have left, and gives each a session.
	"agent": func() {
		signal.Ignore(syscall.SIGTERM)
		for range 4 {
			launch("ignore", true)
		}
		ready()
		select {}
	},
	// Its grandchild ignores TERM in a session of its own, and the process between them is gone.
	"double fork": func() { check(launch("middle", true).Wait()); ready(); select {} },
	"middle":      func() { launch("ignore", true); os.Exit(0) },
	// Answers TERM with two more of its kind, three generations deep.
	"refork": func() {
		c := make(chan os.Signal, 1)
		signal.Notify(c, syscall.SIGTERM)
		ready()
		depth, _ := strconv.Atoi(os.Getenv(depthVar))
		for range c {
			if depth < 3 {
				check(os.Setenv(depthVar, strconv.Itoa(depth+1)))
				launch("refork", true)
				launch("refork", false)
			}
		}
	},
	// Gives its children up as zombies, and never waits.
	"careless": func() {
		for range 3 {
			check(ended(launch("exit 3", false).Process.Pid))
		}
		ready()
		select {}
	},
	"echo": func() {
		ready()
		_, err := io.Copy(os.Stdout, os.Stdin)
		check(err)
	},
}

// seen is what a worker tells its test.
type seen struct {
	Report   Report
	Err      string
	Ready    int           // programs that were in place before Kill
	Before   int           // descendants before Kill
	After    int           // ... after it, spared ones included
	Zombies  int           // unreaped children of the worker after Kill
	Exits    []string      // how the direct children ended, in the order of their start
	Echo     string        // what a spared program answered after Kill
	WaitTook time.Duration // from the end of Kill until the direct children had been waited for
}

// stage is a worker's set of programs.
type stage struct {
	ready    *bufio.Reader
	seen     seen
	children []*Child
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// start starts a role and waits until n programs have said that they are in place.
func (s *stage) start(cmd *exec.Cmd, n int) {
	c, err := Start(cmd)
	check(err)
	s.children = append(s.children, c)
	s.await(n)
}

func (s *stage) await(n int) {
	for range n {
		_, err := s.ready.ReadString('\n')
		check(err)
		s.seen.Ready++
	}
}

// kill counts, kills, waits and counts again.
func (s *stage) kill(ctx context.Context, grace time.Duration) {
	before, err := Descendants()
	check(err)
	s.seen.Before = len(before)
	report, err := Kill(ctx, grace)
	s.seen.Report = report
	if err != nil {
		s.seen.Err = err.Error()
	}
	began := time.Now()
	for _, c := range s.children {
		text := "exit status 0"
		if err := c.Wait(); err != nil {
			text = err.Error()
		}
		s.seen.Exits = append(s.seen.Exits, text)
	}
	s.seen.WaitTook = time.Since(began)
	left, err := scan(os.Getpid(), nil)
	check(err)
	for _, p := range left {
		if p.dead() {
			s.seen.Zombies++
		} else {
			s.seen.After++
		}
	}
}

// work is the main function of a worker.
func work(run func(*stage)) int {
	check(Adopt())
	r, w, err := os.Pipe()
	check(err)
	// The programs find the pipe where the test put a placeholder.
	check(syscall.Dup3(int(w.Fd()), readyFD, 0))
	check(w.Close())
	s := &stage{ready: bufio.NewReader(r)}
	run(s)
	check(json.NewEncoder(os.Stdout).Encode(s.seen))
	return 0
}

// perform runs a worker in its own process and returns what it saw. It fails if any program of the tree is left.
func perform(t testing.TB, role string) seen {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The command name of the processes then holds what breaks a careless reader of /proc.
	link := filepath.Join(t.TempDir(), `it's (a) R 1 "rank`)
	if err := os.Symlink(exe, link); err != nil {
		t.Fatal(err)
	}
	left, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, left)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, null)
	cmd := exec.CommandContext(t.Context(), link)
	// The race detector otherwise makes every exit wait for a second.
	cmd.Env = append(os.Environ(), roleVar+"="+role, "GORACE=atexit_sleep_ms=0")
	cmd.ExtraFiles = []*os.File{null, w}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatalf("worker %q: %v\n%s", role, err, stderr.String())
	}
	if err := left.SetReadDeadline(time.Now().Add(lifetime / 2)); err != nil {
		t.Fatal(err)
	}
	if _, err := left.Read(make([]byte, 1)); err != io.EOF {
		t.Fatalf("worker %q left programs behind: %v", role, err)
	}
	var s seen
	if err := json.Unmarshal(out, &s); err != nil {
		t.Fatalf("worker %q said %q: %v", role, out, err)
	}
	return s
}

func closeAfter(t testing.TB, f *os.File) {
	t.Helper()
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
}
