package slurm

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// configLimit bounds the wait for scontrol: plan asks it on a login node and must not hang with a dead controller.
const configLimit = 5 * time.Second

// MaxArraySize asks the controller for its MaxArraySize: an array's indices, and with them an array's tasks, end below
// it. 0 means that the site has arrays switched off. The error says what is missing where scontrol is not installed,
// does not answer within 5 seconds, or names no limit; the caller may then go on without one.
func MaxArraySize(ctx context.Context) (int, error) {
	out, err := command{limit: configLimit, name: "scontrol", args: []string{"show", "config"}}.run(ctx)
	if err != nil {
		return 0, fmt.Errorf("ask for MaxArraySize: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		name, value, _ := strings.Cut(line, "=")
		if strings.TrimSpace(name) != "MaxArraySize" {
			continue
		}
		n, err := strconv.Atoi(strings.TrimSpace(value))
		if err != nil || n < 0 {
			return 0, fmt.Errorf("ask for MaxArraySize: scontrol show config: %q is no array size", strings.TrimSpace(value))
		}
		return n, nil
	}
	return 0, fmt.Errorf("ask for MaxArraySize: scontrol show config names no MaxArraySize")
}

// Hostnames writes out a node list that stands in Slurm's compact form, such as n[1-2,7], by Slurm's own scontrol.
func Hostnames(ctx context.Context, nodes string) ([]string, error) {
	out, err := command{limit: configLimit, name: "scontrol", args: []string{"show", "hostnames", nodes}}.run(ctx)
	if err != nil {
		return nil, fmt.Errorf("names of the nodes %s: %w", nodes, err)
	}
	return strings.Fields(string(out)), nil
}
