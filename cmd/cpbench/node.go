package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"

	"cpbench/worker/node"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"
)

// nodeOptions are what a worker gives the agent on another node.
type nodeOptions struct {
	logs, helper string
}

func nodeCommand() *cli.Command {
	o := &nodeOptions{}
	return &cli.Command{
		Name:   "node",
		Usage:  "the agent on another node of a task; workers start it",
		Hidden: true,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "logs", Usage: "folder for the readings of this node", Required: true, Destination: &o.logs},
			&cli.StringFlag{Name: "helper", Usage: "path of cpbench-nvml", Destination: &o.helper},
		},
		OnUsageError: usageFault,
		Action:       func(c *cli.Context) error { return runNode(c.Context, o) },
	}
}

// runNode is the agent until its worker has gone. What Slurm sends to all processes of a job it only takes note of: its
// worker gets the same, and may need it to clean up.
func runNode(ctx context.Context, o *nodeOptions) error {
	ignored := make(chan os.Signal, 1)
	signal.Notify(ignored, unix.SIGTERM, unix.SIGINT, unix.SIGUSR2) // not Ignore, which its children would inherit
	defer signal.Stop(ignored)
	name, err := node.Name()
	if err != nil {
		return err
	}
	return node.Serve(ctx, node.Options{Helper: o.helper, Log: filepath.Join(o.logs, "telemetry."+name+".jsonl")})
}
