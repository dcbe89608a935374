//go:build !cgo

// Command cpbench-nvml reads the GPUs of this machine through NVIDIA's management library. This build has no cgo,
// which the library needs, so it only says so.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "cpbench-nvml: error: built without cgo, which NVML needs; build it with CGO_ENABLED=1 and a C compiler")
	os.Exit(1) //nolint:forbidigo // this is main
}
