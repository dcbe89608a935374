//go:build cgo

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"cpbench/worker/gpu"
)

// instrument is what answers requests. An error is text for Answer.Error.
type instrument interface {
	identify() ([]gpu.Device, error)
	read(kind gpu.Kind) (gpu.Reading, error)
	processes() ([]gpu.Process, error)
}

// queue is how many requests may wait; a caller that keeps to its time limits never has so many.
const queue = 64

// serve answers requests until in ends. It returns then at once, although a call into the driver may hang: the end of
// the process ends that.
func serve(in io.Reader, out io.Writer, ins instrument) error {
	requests := make(chan gpu.Request, queue)
	lines := &writer{enc: json.NewEncoder(out)}
	ended := make(chan error, 2)
	go func() { ended <- listen(in, requests, lines) }()
	go func() { ended <- work(requests, lines, ins) }()
	return <-ended
}

// writer lets two goroutines write lines.
type writer struct {
	mu  sync.Mutex
	enc *json.Encoder
}

func (w *writer) write(a gpu.Answer) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.enc.Encode(a)
}

// listen passes requests on until in ends.
func listen(in io.Reader, requests chan<- gpu.Request, lines *writer) error {
	scanner := bufio.NewScanner(in)
	for scanner.Scan() {
		var r gpu.Request
		if err := json.Unmarshal(scanner.Bytes(), &r); err != nil {
			if err := lines.write(gpu.Answer{Error: "request: " + err.Error()}); err != nil {
				return err
			}
			continue
		}
		select {
		case requests <- r:
		default:
			if err := lines.write(gpu.Answer{ID: r.ID, Error: "busy: an earlier request hangs"}); err != nil {
				return err
			}
		}
	}
	return scanner.Err()
}

// work answers one request after the other, with samples between them.
func work(requests <-chan gpu.Request, lines *writer, ins instrument) error {
	var b background
	for {
		var a gpu.Answer
		select {
		case r := <-requests:
			a = answer(r, ins, &b)
		case <-b.tick():
			reading, err := ins.read(b.kind)
			if err != nil {
				continue // the next request will say it
			}
			a = gpu.Answer{ID: b.id, Sample: true, Reading: &reading}
		}
		if err := lines.write(a); err != nil {
			return err
		}
	}
}

// background is the sampling that goes on between requests.
type background struct {
	ticker *time.Ticker
	kind   gpu.Kind
	id     int
}

func (b *background) tick() <-chan time.Time {
	if b.ticker == nil {
		return nil
	}
	return b.ticker.C
}

func (b *background) begin(r gpu.Request) error {
	if !(r.HZ > 0) || r.HZ > gpu.MaxHZ {
		return fmt.Errorf("hz %v is not above 0 and at most %d", r.HZ, gpu.MaxHZ)
	}
	if r.Kind == "" {
		r.Kind = gpu.Sample
	}
	b.end()
	b.ticker, b.kind, b.id = time.NewTicker(max(1, time.Duration(float64(time.Second)/r.HZ))), r.Kind, r.ID
	return nil
}

func (b *background) end() {
	if b.ticker != nil {
		b.ticker.Stop()
		b.ticker = nil
	}
}

// answer carries out one request.
func answer(r gpu.Request, ins instrument, b *background) gpu.Answer {
	a := gpu.Answer{ID: r.ID}
	var err error
	switch r.Cmd {
	case gpu.CmdIdentify:
		a.Devices, err = ins.identify()
	case gpu.CmdRead:
		var reading gpu.Reading
		if reading, err = ins.read(gpu.Edge); err == nil {
			a.Reading = &reading
		}
	case gpu.CmdProcesses:
		a.Processes, err = ins.processes()
	case gpu.CmdSample:
		err = b.begin(r)
	case gpu.CmdStop:
		b.end()
	default:
		err = fmt.Errorf("unknown command %q; known are identify, read, processes, sample, stop", r.Cmd)
	}
	if err != nil {
		a.Error = err.Error()
	}
	return a
}
