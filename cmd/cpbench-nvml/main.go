//go:build cgo

// Command cpbench-nvml reads the GPUs of this machine through NVIDIA's management library and answers requests, one
// object of JSON a line, on its standard input and output. The types of the lines are Request and Answer in
// worker/gpu. It is a program of its own because NVML needs cgo and because a fault in a driver's library ends the
// process that calls it: cpbench, static and without cgo, only loses its readings. It needs no privileges.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"golang.org/x/sys/unix"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "cpbench-nvml: error:", err)
		os.Exit(1) //nolint:forbidigo // this is main
	}
}

func run() error {
	path := flag.String("library", "", "use the NVML library at `PATH` instead of the driver's")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	// A scheduler tells every process of a job to stop. The last reading is still to come then; the end of the
	// standard input is the end of this program.
	signal.Ignore(unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGUSR1, unix.SIGUSR2)
	out, err := answers()
	if err != nil {
		return err
	}
	return serve(os.Stdin, out, open(nvml.New(nvml.WithLibraryPath(*path))))
}

// answers keeps the standard output for answers alone: what a library prints there goes to the standard error.
func answers() (*os.File, error) {
	fd, err := unix.Dup(1)
	if err != nil {
		return nil, fmt.Errorf("duplicate the standard output: %w", err)
	}
	unix.CloseOnExec(fd)
	if err := unix.Dup3(2, 1, 0); err != nil {
		return nil, fmt.Errorf("redirect the standard output: %w", err)
	}
	return os.NewFile(uintptr(fd), "answers"), nil
}
