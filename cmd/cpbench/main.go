// Command cpbench plans benchmark sweeps as Slurm job arrays, runs their tasks, and collects the results into a
// table. See README.md.
package main

import (
	"os"
)

func main() {
	os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
