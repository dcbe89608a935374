package slurmtest

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"cpbench/slurm/local"
)

// squeue is the fake of that name: --jobs, --states=all, and always --noheader, --array and --Format with suffixes.
func squeue(args []string) int {
	flags := flag.NewFlagSet("squeue", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	var jobs, states, format string
	var noHeader, perTask bool
	for _, name := range []string{"jobs", "j"} {
		flags.StringVar(&jobs, name, "", "")
	}
	for _, name := range []string{"states", "t"} {
		flags.StringVar(&states, name, "", "")
	}
	for _, name := range []string{"Format", "O"} {
		flags.StringVar(&format, name, "", "")
	}
	for _, name := range []string{"noheader", "h"} {
		flags.BoolVar(&noHeader, name, false, "")
	}
	for _, name := range []string{"array", "r"} {
		flags.BoolVar(&perTask, name, false, "")
	}
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 || !noHeader || !perTask || format == "" || states != "all" && states != "" {
		return errorf("squeue: this is a fake, and does not know how to answer %s", strings.Join(args, " "))
	}
	state, err := stateDir()
	if err != nil {
		return errorf("squeue: error: %v", err)
	}
	dirs, err := filepath.Glob(jobDir(state, "*"))
	if err == nil && jobs != "" {
		dirs, err = knownJobs(state, strings.Split(jobs, ","))
	}
	if err != nil {
		return errorf("%v", err)
	}
	for _, dir := range dirs {
		if err := printTasks(dir, states == "all", strings.Split(format, ",")); err != nil {
			return errorf("squeue: error: %v", err)
		}
	}
	return 0
}

// knownJobs returns the folders of those jobs that exist. As with the real one, only a lone id is refused.
func knownJobs(state string, ids []string) ([]string, error) {
	var dirs []string
	for _, id := range ids {
		if _, err := strconv.Atoi(id); err != nil {
			return nil, fmt.Errorf("squeue: error: Invalid job id: %s", id)
		}
		dir := jobDir(state, id)
		if _, err := os.Stat(dir); err == nil {
			dirs = append(dirs, dir)
		} else if len(ids) == 1 {
			return nil, errors.New("slurm_load_jobs error: Invalid job id specified")
		}
	}
	return dirs, nil
}

// printTasks prints one row a task.
func printTasks(dir string, all bool, columns []string) error {
	entries, err := readJournal(dir)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(dir, "header"))
	if err != nil {
		return err
	}
	header, err := local.ParseHeader(text)
	if err != nil {
		return err
	}
	id := filepath.Base(dir)
	for _, e := range entries {
		if e.state.Ended() && !all {
			continue
		}
		values := map[string]string{
			"ArrayJobID": id, "ArrayTaskID": "N/A", "JobID": taskJobID(id, header.Indices, e.index),
			"State": string(e.state), "exit_code": strconv.Itoa(e.status), "NodeList": e.node, "Name": jobName(header),
		}
		if header.Indices != nil {
			values["ArrayTaskID"] = strconv.Itoa(e.index)
		}
		var row strings.Builder
		for _, column := range columns {
			name, suffix, _ := strings.Cut(column, ":")
			value, known := values[name]
			if !known {
				return fmt.Errorf("this is a fake, and does not know the column %s", name)
			}
			row.WriteString(value + suffix)
		}
		printf("%s", row.String())
	}
	return nil
}

// jobName is what Slurm calls a job.
func jobName(header local.Header) string {
	if header.Name == "" {
		return "sbatch"
	}
	return header.Name
}

// scancel is the fake of that name; it takes ids of whole jobs.
func scancel(args []string) int {
	state, err := stateDir()
	if err != nil {
		return errorf("scancel: error: %v", err)
	}
	status := 0
	for _, id := range args {
		if _, err := strconv.Atoi(id); err != nil {
			status = errorf("scancel: error: Invalid job id %s", id)
			continue
		}
		if err := signalKeeper(jobDir(state, id), 0); err != nil {
			status = errorf("scancel: error: %v", err)
		}
	}
	return status
}

// scontrol is the fake of that name: show config, as far as it has a MaxArraySize.
func scontrol(args []string) int {
	if strings.Join(args, " ") != "show config" {
		return errorf("scontrol: this is a fake, and does not know how to answer %s", strings.Join(args, " "))
	}
	printf("MaxArraySize            = %d", maxArraySize())
	return 0
}

// sacct is the fake of that name, on a cluster without accounting.
func sacct([]string) int {
	return errorf("Slurm accounting storage is disabled")
}
