package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"cpbench/worker/gpu"
)

// smi is the source SMI: nvidia-smi, started for every reading. It costs 10 to 20 ms of a core each time and has no
// counters of energy and throttling that every driver knows.
type smi struct {
	opts Options
	path string

	mu      sync.Mutex
	unknown []string // fields that this nvidia-smi does not know
}

func findSMI(opts Options) (backend, error) {
	path := opts.SMI
	if path == "" {
		var err error
		if path, err = exec.LookPath("nvidia-smi"); err != nil {
			return nil, errors.New("it is not on PATH")
		}
	}
	return &smi{opts: opts, path: path}, nil
}

func (s *smi) source() gpu.Source { return gpu.SMI }

func (s *smi) close() {}

// run runs nvidia-smi and returns its output. Its message of error is in the output too.
func (s *smi) run(ctx context.Context, args ...string) (string, error) {
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	var out bytes.Buffer
	var errs tail
	cmd := exec.CommandContext(ctx, s.path, args...)
	cmd.Env = childEnv(os.Environ())
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = farewell
	wait, err := s.opts.Start(cmd)
	if err != nil {
		return "", err
	}
	done := make(chan error, 1)
	go func() { done <- wait() }()
	select {
	case err = <-done:
	case <-ctx.Done():
		// It has been killed now, but in the hands of a driver that hangs it may not end.
		timer := time.NewTimer(2 * farewell)
		defer timer.Stop()
		select {
		case err = <-done:
		case <-timer.C:
		}
		return "", errors.Join(context.Cause(ctx), err)
	}
	text := out.String()
	if err != nil {
		var said tail
		said.Write(out.Bytes()) //nolint:errcheck // it has no error
		return text, errors.New(strings.TrimSpace(fmt.Sprintf("%v: %s %s", err, said.String(), errs.String())))
	}
	return text, nil
}

// invalidField is the answer to a field that an nvidia-smi does not know.
var invalidField = regexp.MustCompile(`Field "([^"]+)" is not a valid field`)

// query asks for fields of every GPU. It leaves out those that this nvidia-smi does not know.
func (s *smi) query(ctx context.Context, fields []string) ([]row, error) {
	for {
		s.mu.Lock()
		asked := slices.DeleteFunc(slices.Clone(fields), func(f string) bool { return slices.Contains(s.unknown, f) })
		s.mu.Unlock()
		text, err := s.run(ctx, "--query-gpu="+strings.Join(asked, ","), "--format=csv,noheader,nounits")
		if err == nil {
			return parseRows(text, asked)
		}
		m := invalidField.FindStringSubmatch(text)
		if m == nil || !slices.Contains(asked, m[1]) || m[1] == fieldUUID {
			return nil, err
		}
		s.mu.Lock()
		s.unknown = append(s.unknown, m[1])
		s.mu.Unlock()
	}
}

func (s *smi) identify(ctx context.Context) ([]gpu.Device, error) {
	rows, err := s.query(ctx, identityFields)
	if err != nil {
		return nil, err
	}
	var devices []gpu.Device
	for _, r := range rows {
		devices = append(devices, r.device())
	}
	return devices, nil
}

func (s *smi) read(ctx context.Context) (gpu.Reading, error) {
	return s.reading(ctx, gpu.Edge, edgeFields)
}

func (s *smi) reading(ctx context.Context, kind gpu.Kind, fields []string) (gpu.Reading, error) {
	began := time.Now()
	rows, err := s.query(ctx, fields)
	if err != nil {
		return gpu.Reading{}, err
	}
	took := time.Since(began)
	r := gpu.Reading{Time: began.Add(took / 2), Source: gpu.SMI, Kind: kind, Seconds: took.Seconds()}
	for _, row := range rows {
		if g := row.state(kind); g.UUID != "" {
			r.GPUs = append(r.GPUs, g)
		}
	}
	return r, nil
}

func (s *smi) processes(ctx context.Context) ([]gpu.Process, error) {
	text, err := s.run(ctx, "--query-compute-apps=gpu_uuid,pid,used_memory,process_name", "--format=csv,noheader,nounits")
	if err != nil {
		return nil, err
	}
	return parseProcesses(text)
}

func (s *smi) watch(_ context.Context, pace gpu.Pace, take func(gpu.Reading)) (func(context.Context) error, error) {
	kind, every := smiPace(pace)
	fields := sampleFields
	if kind == gpu.Memory {
		fields = memoryFields
	}
	ctx, cancel := context.WithCancel(context.Background())
	failed := make(chan error, 1)
	go func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				failed <- nil
				return
			case <-ticker.C:
			}
			within, end := limited(ctx, s.opts.Limit)
			r, err := s.reading(within, kind, fields)
			end()
			if err != nil && ctx.Err() == nil {
				failed <- err
				return
			}
			if err == nil {
				take(r)
			}
		}
	}()
	return func(context.Context) error {
		cancel()
		return <-failed
	}, nil
}
