package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cpbench/worker/llm/server"
	"cpbench/worker/tree"
)

// Stop ends every descendant of the process that calls it, so each scene plays in a process of its own. The servers are
// this program too.
const (
	envScene  = "SERVER_TEST_SCENE"
	envServer = "SERVER_TEST_SERVER"
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(envServer) != "":
		serve(os.Getenv(envServer), os.Getenv("PORT"))
	case os.Getenv(envScene) != "":
		play(os.Getenv(envScene))
	default:
		os.Exit(m.Run())
	}
}

// serve is the server of a scene.
func serve(kind, port string) {
	fmt.Println("server", kind, "at", len(port) > 0)
	asked := 0 // by one client, which waits for each answer
	switch kind {
	case "broken":
		fmt.Println("no such device")
		os.Exit(7)
	case "family": // its child leaves the process group
		child := exec.Command("setsid", "sleep", "1000")
		if err := child.Start(); err != nil {
			os.Exit(3)
		}
	case "brief":
		os.Exit(0)
	case "daemon":
		child := exec.Command("sleep", "1000")
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := child.Start(); err != nil {
			os.Exit(3)
		}
		os.Exit(0)
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
	case "mortal":
		http.HandleFunc("/die", func(http.ResponseWriter, *http.Request) {
			fmt.Println("out of something")
			os.Exit(9)
		})
	}
	http.HandleFunc("/health", func(w http.ResponseWriter, _ *http.Request) {
		asked++
		if kind == "unready" || kind == "late" && asked < 4 {
			http.Error(w, "loading", http.StatusServiceUnavailable)
		}
	})
	fmt.Println(http.ListenAndServe("127.0.0.1:"+port, nil)) //nolint:gosec // a test
	os.Exit(4)
}

// seen is what a scene saw.
type seen struct {
	Err, Tail string
	Told      int
	Killed    int
	Left      int
	Ports     int // that were chosen
	Dead      string
}

func play(scene string) {
	var s seen
	dir := os.Getenv("SERVER_TEST_DIR")
	if err := tree.Adopt(); err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	grace := 10 * time.Second
	o := server.Options{Dir: dir, Log: filepath.Join(dir, "server.log"), Limit: time.Minute, On: func(port int) server.Program {
		s.Ports++
		if scene == "robbed twice" || scene == "robbed" && s.Ports == 1 {
			if _, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port)); err != nil {
				panic(err)
			}
		}
		env := append(os.Environ(), envServer+"="+scene, "PORT="+strconv.Itoa(port))
		return server.Program{Command: []string{os.Args[0]}, Env: env, Ready: fmt.Sprintf("http://127.0.0.1:%d/health", port)}
	}}
	switch scene {
	case "unready":
		o.Limit = 2 * time.Second
	case "told to stop":
		cancel(errors.New("enough"))
	case "told to stop, while it starts":
		kind := o.On
		o.On = func(port int) server.Program {
			p := kind(port)
			p.Env = append(p.Env, envServer+"=unready")
			time.AfterFunc(500*time.Millisecond, func() { cancel(errors.New("enough")) })
			return p
		}
	case "stubborn":
		grace = 500 * time.Millisecond
	}
	it, err := server.Start(ctx, o)
	var dead *server.Dead
	if errors.As(err, &dead) {
		s.Tail = regexp.MustCompile(`:\d+`).ReplaceAllString(dead.Tail, ":PORT")
	}
	if err != nil {
		s.Err = strings.ReplaceAll(err.Error(), dir, "DIR")
	} else {
		if scene == "mortal" {
			if resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/die", it.Port)); err == nil {
				resp.Body.Close()
			}
			<-it.Gone()
			errors.As(it.Dead(), &dead)
			s.Dead, s.Tail = dead.What, dead.Tail
		} else if it.Dead() != nil {
			panic(it.Dead())
		}
		report, err := it.Stop(grace)
		if err != nil {
			panic(err)
		}
		s.Told, s.Killed = report.Told, report.Killed
	}
	out, _ := exec.Command("pgrep", "-P", strconv.Itoa(os.Getpid())).Output()
	s.Left = len(strings.Fields(string(out)))
	if err := json.NewEncoder(os.Stderr).Encode(s); err != nil {
		panic(err)
	}
	os.Exit(0)
}

func TestServer(t *testing.T) {
	t.Parallel()
	const robbed = "server robbed%s at true\nlisten tcp 127.0.0.1:PORT: bind: address already in use\n"
	for scene, want := range map[string]seen{
		"plain":        {Ports: 1, Told: 1},
		"late":         {Ports: 1, Told: 1},
		"family":       {Ports: 1, Told: 2},
		"stubborn":     {Ports: 1, Told: 1, Killed: 1},
		"mortal":       {Ports: 1, Dead: "the server ended: exit status 9", Tail: "server mortal at true\nout of something\n"},
		"broken":       {Ports: 1, Err: "the server ended: exit status 7", Tail: "server broken at true\nno such device\n"},
		"brief":        {Ports: 1, Err: "the server ended: exit status 0 before it was ready; it has to stay in the foreground", Tail: "server brief at true\n"},
		"daemon":       {Ports: 1, Err: "the server ended: exit status 0 before it was ready; it has to stay in the foreground", Tail: "server daemon at true\n"},
		"unready":      {Ports: 1, Err: "the server was not ready after 2s: it answers 503 Service Unavailable", Tail: "server unready at true\n"},
		"told to stop": {Ports: 1, Err: "enough"},
		"robbed":       {Ports: 2, Told: 1},
		"robbed twice": {Ports: 2, Err: "the server ended: exit status 4", Tail: fmt.Sprintf(robbed, " twice") + "cpbench: its port was taken meanwhile: once more, on another one\n" + fmt.Sprintf(robbed, " twice")},

		"told to stop, while it starts": {Ports: 1, Err: "enough"},
	} {
		t.Run(scene, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			dir := filepath.Join(t.TempDir(), "it's a folder")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			cmd.Env = append(os.Environ(), envScene+"="+scene, "SERVER_TEST_DIR="+dir)
			var errs strings.Builder
			cmd.Stderr = &errs
			if err := cmd.Run(); err != nil {
				t.Fatalf("%v\n%s", err, errs.String())
			}
			var got seen
			if err := json.Unmarshal([]byte(errs.String()), &got); err != nil {
				t.Fatal(err, errs.String())
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
		})
	}
}
