package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
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
	switch kind {
	case "broken":
		fmt.Println("no such device")
		os.Exit(7)
	case "family": // its child leaves the process group
		child := exec.Command("setsid", "sleep", "1000")
		if err := child.Start(); err != nil {
			os.Exit(3)
		}
	case "mortal":
		http.HandleFunc("/die", func(http.ResponseWriter, *http.Request) {
			fmt.Println("out of something")
			os.Exit(9)
		})
	}
	http.HandleFunc("/health", func(w http.ResponseWriter, _ *http.Request) {
		if kind == "unready" {
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
	Left      int
	Dead      string
}

func play(scene string) {
	var s seen
	dir := os.Getenv("SERVER_TEST_DIR")
	if err := tree.Adopt(); err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	o := server.Options{Dir: dir, Log: filepath.Join(dir, "server.log"), Limit: time.Minute, On: func(port int) server.Program {
		env := append(os.Environ(), envServer+"="+scene, "PORT="+strconv.Itoa(port))
		return server.Program{Command: []string{os.Args[0]}, Env: env, Ready: fmt.Sprintf("http://127.0.0.1:%d/health", port)}
	}}
	switch scene {
	case "unready":
		o.Limit = 2 * time.Second
	case "told to stop":
		cancel(errors.New("enough"))
	}
	it, err := server.Start(ctx, o)
	var dead *server.Dead
	if errors.As(err, &dead) {
		s.Tail = dead.Tail
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
		report, err := it.Stop(10 * time.Second)
		if err != nil {
			panic(err)
		}
		s.Told = report.Told
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
	for scene, want := range map[string]seen{
		"plain":        {Told: 1},
		"family":       {Told: 2},
		"mortal":       {Dead: "the server ended: exit status 9", Tail: "server mortal at true\nout of something\n"},
		"broken":       {Err: "the server ended: exit status 7", Tail: "server broken at true\nno such device\n"},
		"unready":      {Err: "the server was not ready after 2s: it answers 503 Service Unavailable", Tail: "server unready at true\n"},
		"told to stop": {Err: "enough"},
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
