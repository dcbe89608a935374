package slurmtest

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"cpbench/slurm/local"
)

// squeue is the fake of that name: --jobs, --name, --states=all, and always --noheader, --array and --Format with
// suffixes. All jobs are of the one user, whatever --user says.
func squeue(args []string) int {
	flags := flag.NewFlagSet("squeue", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	var jobs, states, format, name string
	var noHeader, perTask, all bool
	flags.StringVar(&name, "name", "", "")
	flags.String("user", "", "")
	flags.BoolVar(&all, "all", false, "")
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
		if err := printTasks(dir, states == "all", strings.Split(name, ","), strings.Split(format, ",")); err != nil {
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

// printTasks prints one row a task of a job, if it has one of the names or there are none.
func printTasks(dir string, all bool, names, columns []string) error {
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
	if names[0] != "" && !slices.Contains(names, jobName(header)) {
		return nil
	}
	submitted, err := submitTime(dir)
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
			"tres-alloc": "cpu=1,mem=1G,node=1,billing=1", "RestartCnt": "0", "SubmitTime": clock(submitted), "StartTime": clock(e.start), "EndTime": clock(e.end()), "TimeLimit": "1:00:00", "Partition": "fake", "MinMemory": "1G", "Reason": "None",
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

// submitTime is when sbatch took a job.
func submitTime(dir string) (int64, error) {
	info, err := os.Stat(filepath.Join(dir, "header"))
	if err != nil {
		return 0, err
	}
	return info.ModTime().Unix(), nil
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

// sacct is the fake of that name. The cluster has no accounting unless the environment's CPBENCH_FAKE_ACCOUNTING is set;
// then its rows are those of the tasks that have ended, in the columns of --format.
func sacct(args []string) int {
	if os.Getenv("CPBENCH_FAKE_ACCOUNTING") == "" {
		return errorf("Slurm accounting storage is disabled")
	}
	flags := flag.NewFlagSet("sacct", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	format, name := flags.String("format", "", ""), flags.String("name", "", "")
	flags.String("starttime", "", "")
	for _, option := range []string{"noheader", "allocations", "parsable2", "allusers"} {
		flags.Bool(option, false, "")
	}
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 || *format == "" || *name == "" {
		return errorf("sacct: this is a fake, and does not know how to answer %s", strings.Join(args, " "))
	}
	state, err := stateDir()
	if err != nil {
		return errorf("sacct: error: %v", err)
	}
	dirs, err := filepath.Glob(jobDir(state, "*"))
	if err != nil {
		return errorf("sacct: error: %v", err)
	}
	for _, dir := range dirs {
		if err := printBooked(dir, strings.Split(*name, ","), strings.Split(*format, ",")); err != nil {
			return errorf("sacct: error: %v", err)
		}
	}
	return 0
}

// printBooked prints a row for each task of a job that has ended, if the job has one of the names.
func printBooked(dir string, names, columns []string) error {
	entries, err := readJournal(dir)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(dir, "header"))
	if err != nil {
		return err
	}
	header, err := local.ParseHeader(text)
	if err != nil || !slices.Contains(names, jobName(header)) {
		return err
	}
	submitted, err := submitTime(dir)
	if err != nil {
		return err
	}
	id := filepath.Base(dir)
	for _, e := range entries {
		if !e.state.Ended() {
			continue
		}
		raw := taskJobID(id, header.Indices, e.index)
		values := map[string]string{
			"AllocTRES": "billing=1,cpu=1,mem=1G,node=1", "JobID": id, "JobIDRaw": raw, "State": string(e.state), "ExitCode": bookedExit(e.status), "Submit": clock(submitted),
			"Start": clock(e.start), "End": clock(e.end()), "Timelimit": "01:00:00", "NodeList": e.node, "Partition": "fake", "ReqMem": "1G",
			"Reason": "None", "JobName": jobName(header),
		}
		if header.Indices != nil {
			values["JobID"] = id + "_" + strconv.Itoa(e.index)
		}
		row := make([]string, len(columns))
		for i, column := range columns {
			value, known := values[column]
			if !known {
				return fmt.Errorf("this is a fake, and does not know the column %s", column)
			}
			row[i] = value
		}
		printf("%s", strings.Join(row, "|"))
	}
	return nil
}

// bookedExit is an exit code as accounting shows it: cut to seven bits.
func bookedExit(status int) string {
	if signal := status & 0x7f; signal != 0 {
		return "0:" + strconv.Itoa(signal)
	}
	return strconv.Itoa(status>>8&0x7f) + ":0"
}
