package model

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"cpbench/worker/model/protocol"
)

// actor is a rank that speaks the protocol and computes nothing, but for what its behaviour says.
type actor struct {
	behaviour   string
	rank, world int
	conn        *protocol.Conn
	tokens      float64
	steps       int // so far, of the newest size
	alive       bool
	where       atomic.Value // the newest request
	done        atomic.Int64
}

// act is the program of an actor. Only the rank who behaves in the special way; the others are honest. With "alive-"
// before the behaviour all give signs of life and have short steps.
func act(behaviour, who string) int {
	a := &actor{behaviour: "honest"}
	behaviour, a.alive = strings.CutPrefix(behaviour, "alive-")
	a.rank, _ = strconv.Atoi(os.Getenv("RANK"))
	a.world, _ = strconv.Atoi(os.Getenv("WORLD_SIZE"))
	if who == strconv.Itoa(a.rank) || who == "all" {
		a.behaviour = behaviour
	}
	switch a.behaviour {
	case "exit-0":
		return 0
	case "tell-token": // to the test alone
		if err := os.WriteFile(os.Getenv("TOKEN_FILE"), []byte(os.Getenv(protocol.EnvToken)), 0o600); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	case "env":
		for _, kv := range os.Environ() {
			if !strings.HasPrefix(kv, protocol.EnvToken) {
				fmt.Println(kv)
			}
		}
	}
	conn, err := protocol.Dial(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	a.conn = conn
	if a.behaviour == "wrong-token" { // a stranger, beside the real rank
		if other, err := protocol.Dial(context.Background()); err == nil {
			a.must(other.Send(a.hello("guess")))
			_, err := other.Receive()
			fmt.Println("stranger:", err)
		}
	}
	a.must(conn.Send(a.hello(conn.Token())))
	a.open()
	for {
		m, err := conn.Receive()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		if _, ok := m.(*protocol.Stop); ok {
			return 0
		}
		a.answer(m)
	}
}

func (a *actor) must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (a *actor) hello(token string) protocol.Hello {
	h := protocol.Hello{
		Protocol: protocol.Version, Token: token, Rank: a.rank, World: a.world, Host: "here", PID: os.Getpid(),
		Device:   protocol.Device{Name: "H200"},
		Versions: map[string]string{"torch": "2.9", "host": "not yours to say"},
		Settings: map[string]string{"alloc": "expandable"},
	}
	switch a.behaviour {
	case "wrong-world":
		h.World++
	case "newer":
		h.Protocol++
	case "out-of-range":
		h.Rank, h.World = 7, 8
	case "device":
		h.Device.Name = "H100"
	}
	return h
}

// open behaves right after the hello.
func (a *actor) open() {
	switch a.behaviour {
	case "hello-twice":
		a.must(a.conn.Send(a.hello(a.conn.Token())))
	case "twin":
		other, err := protocol.Dial(context.Background())
		a.must(err)
		a.must(other.Send(a.hello(other.Token())))
	case "last-words": // and gone before anybody can have read them
		a.must(a.conn.Send(protocol.OOM{Text: "CUDA out of memory", Where: "build"}))
		os.Exit(1)
	case "last-words-killed":
		a.must(a.conn.Send(protocol.OOM{Text: "CUDA out of memory", Where: "build"}))
		a.must(syscall.Kill(os.Getpid(), syscall.SIGKILL))
	}
}

func (a *actor) answer(m protocol.Message) {
	switch m := m.(type) {
	case *protocol.Start:
		if a.where.Store("start"); a.alive {
			go a.beat(time.Duration(m.AliveSeconds * float64(time.Second)))
		}
		a.must(a.conn.Send(protocol.Ready{Compiled: a.behaviour == "compiled"}))
	case *protocol.Point:
		a.tokens, _ = m.Params["tokens"].(float64)
		n := int64(a.tokens)
		switch a.behaviour {
		case "sizes":
			n++
		case "real": // the input is a little smaller than asked for
			n--
		}
		a.steps = 0
		padded := (n + 9) / 10 * 10
		a.must(a.conn.Send(protocol.Prepared{Tokens: &n, PaddedTokens: &padded, Seconds: 0.5}))
	case *protocol.Step:
		a.step(m)
	}
}

func (a *actor) step(m *protocol.Step) {
	a.where.Store(m.Phase)
	fmt.Printf("%s %d at %v\n", m.Phase, m.Count, a.tokens)
	if m.Phase == "timed" || m.Phase == "probe" || a.behaviour == "compile" || a.behaviour == "slow-wait" {
		a.suffer(m.Count)
	}
	steps := protocol.Steps{}
	for i := range m.Count {
		a.steps++
		if a.alive || a.slow(m.Phase) {
			steps.Seconds = append(steps.Seconds, map[bool]float64{true: 0.001, false: 30}[a.alive])
			continue
		}
		steps.Seconds = append(steps.Seconds, 0.25+0.25*float64(a.rank)+0.001*float64(i%2))
		steps.DeviceSeconds = append(steps.DeviceSeconds, 0.125)
	}
	switch a.behaviour {
	case "few-steps":
		steps.Seconds = steps.Seconds[1:]
	case "negative":
		steps.Seconds[0] = -1
	}
	cold, reserved, device := int64(1000+a.rank), int64(2000+a.rank), int64(3000+a.rank)
	warm := cold - 500
	if a.behaviour != "no-memory" || m.Phase == "warmup" {
		a.must(a.conn.Send(protocol.Memory{
			Cold: protocol.Peak{Allocated: &cold, Reserved: &reserved, Device: &device}, Warm: protocol.Peak{Allocated: &warm},
		}))
	}
	a.must(a.conn.Send(protocol.Metrics{Metrics: []protocol.Figure{{Name: "loss", Value: float64(a.rank), Unit: "1"}}}))
	a.must(a.conn.Send(steps))
	if a.behaviour == "unasked" {
		a.must(a.conn.Send(steps))
	}
}

// slow reports whether the newest step is to be a slow one.
func (a *actor) slow(phase string) bool {
	if at, ok := strings.CutPrefix(a.behaviour, "slow-above:"); ok {
		n, err := strconv.ParseFloat(at, 64)
		return err == nil && a.tokens > n
	}
	return a.behaviour == "slow-"+phase || (a.behaviour == "slow-first" || a.behaviour == "slow-wait") && a.steps == 1
}

// beat gives signs of life.
func (a *actor) beat(every time.Duration) {
	for {
		done := int(a.done.Load())
		a.must(a.conn.Send(protocol.Alive{Where: fmt.Sprintf("actor.go:%d %s", 100+a.rank, a.where.Load()), Done: &done}))
		time.Sleep(max(every, time.Millisecond))
	}
}

// suffer behaves in the steps that count: with "x-above:N" as x, but only at more than N tokens.
func (a *actor) suffer(count int) {
	behaviour, above, _ := strings.Cut(a.behaviour, "-above:")
	if n, _ := strconv.ParseFloat(above, 64); a.tokens <= n {
		return
	}
	switch behaviour {
	case "oom", "oom-spoilt":
		if behaviour == "oom-spoilt" { // somebody else has come meanwhile
			a.must(os.WriteFile(os.Getenv("SPOILT"), nil, 0o600))
		}
		a.must(a.conn.Send(protocol.OOM{Text: fmt.Sprintf("CUDA out of memory at %v", a.tokens), Where: "step"}))
		os.Exit(1)
	case "oom-free", "oom-garbage": // numbers that contradict the word
		text := map[string]string{
			"oom-free":    "CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 10.00 GiB of which 2.00 GiB is free.",
			"oom-garbage": "CUDA out of memory. Tried to allocate 2097152.00 GiB. GPU 0",
		}[behaviour]
		a.must(a.conn.Send(protocol.OOM{Text: text, Where: "step"}))
		os.Exit(1)
	case "error":
		a.must(a.conn.Send(protocol.Error{Text: fmt.Sprintf("illegal instruction at %v", a.tokens)}))
		os.Exit(1)
	case "unstable":
		if count == confirmSteps {
			a.must(a.conn.Send(protocol.OOM{Text: "CUDA out of memory this time", Where: "step"}))
			os.Exit(1)
		}
	case "term": // what a scheduler does
		fmt.Println("TERM to myself")
		a.must(syscall.Kill(os.Getpid(), syscall.SIGTERM))
		select {}
	case "term-handled":
		fmt.Println("TERM to myself")
		c := make(chan os.Signal, 1)
		signal.Notify(c, syscall.SIGTERM)
		a.must(syscall.Kill(os.Getpid(), syscall.SIGTERM))
		<-c
		os.Exit(143)
	case "suspect", "suspect-once", "suspect-short", "suspect-late":
		if behaviour == "suspect-late" && a.steps < 9 { // not before the second batch of timed steps
			return
		}
		if f, err := os.OpenFile("suspected", os.O_CREATE|os.O_EXCL, 0o600); err == nil {
			a.must(f.Close())
		} else if behaviour == "suspect-once" || behaviour == "suspect-late" {
			return
		}
		a.must(a.conn.Send(protocol.Error{Class: "oom_suspect", Text: "CUBLAS_STATUS_ALLOC_FAILED", MemoryShort: behaviour == "suspect-short"}))
		os.Exit(1)
	case "too-big":
		a.must(a.conn.Send(protocol.Error{Class: "too_big", Text: "out of resource: shared memory"}))
		os.Exit(1)
	case "made-up":
		a.must(a.conn.Send(protocol.Error{Class: "ok", Text: "all is well"}))
		os.Exit(1)
	case "freeze": // as a suspended process does, or one in a debugger
		a.must(syscall.Kill(os.Getpid(), syscall.SIGSTOP))
		time.Sleep(time.Hour) // this thread may be the last to stop
	case "compile": // for longer than the heartbeat, and alive
		if a.steps == 0 {
			time.Sleep(1500 * time.Millisecond)
		}
	case "slow-wait": // after a slow step
		if a.steps > 0 {
			time.Sleep(time.Hour)
		}
	case "wait":
		fmt.Println("waiting")
		time.Sleep(time.Hour)
	}
}
