package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v2"
)

// built is set by the linker to the output of git describe.
var built string

// build says which cpbench this is; it is written into every result.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func version() build {
	b := build{Version: built, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			b.Revision = s.Value
		}
	}
	if b.Version == "" {
		b.Version = info.Main.Version
	}
	if b.Version == "" || b.Version == "(devel)" {
		b.Version = "devel"
	}
	return b
}

func versionCommand(s *streams) *cli.Command {
	var asJSON bool
	return &cli.Command{
		Name:         "version",
		Usage:        "print the version",
		UsageText:    "cpbench version [--json]",
		Flags:        []cli.Flag{&cli.BoolFlag{Name: "json", DisableDefaultText: true, Usage: "print JSON", Destination: &asJSON}},
		OnUsageError: usageFault,
		Action: func(*cli.Context) error {
			b := version()
			if asJSON {
				return json.NewEncoder(s.out).Encode(b)
			}
			_, err := fmt.Fprintf(s.out, "cpbench %s (%s, %s)\n", b.Version, b.Go, b.Platform)
			return err
		},
	}
}
