package site

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"cpbench/slurm"
)

// Config are the settings of a controller that matter to a sweep. A nil number was not named.
type Config struct {
	Version           string        // of the controller
	Cluster           string        // its name
	MaxArraySize      *int          // indices of an array end below it; 0: arrays are off
	MaxArrayTasks     int           // in one array; 0: only MaxArraySize bounds them
	MaxJobCount       *int          // jobs of all users together; each task of an array is one
	EnforcePartLimits string        // NO: a job over a partition's limit is accepted and waits for ever
	JobRequeue        bool          // jobs are run again after a node failure unless they say otherwise
	RequeueExit       []int         // exit codes with which a job is put into the queue again
	RequeueExitHold   []int         // ... and held there
	InactiveLimit     time.Duration // a job without a step is ended after this; 0: never
	KillWait          time.Duration // from TERM to KILL
	MinJobAge         time.Duration // how long the controller remembers an ended job
	Accounting        bool          // a database of jobs and accounts
	Enforce           []string      // AccountingStorageEnforce: associations, limits, qos, ...
	MaxScriptSize     int           // of a batch script, bytes
}

// defaultScriptSize is slurmctld's max_script_size unless SchedulerParameters say otherwise.
const defaultScriptSize = 4 << 20

// parseConfig reads the text of scontrol show config: NAME = VALUE on each line.
func parseConfig(text string) *Config {
	values := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(line, "="); ok {
			values[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
	}
	c := &Config{
		Version: values["SLURM_VERSION"], Cluster: values["ClusterName"],
		MaxArraySize: number(values["MaxArraySize"]), MaxJobCount: number(values["MaxJobCount"]),
		EnforcePartLimits: values["EnforcePartLimits"], JobRequeue: values["JobRequeue"] == "1",
		RequeueExit: codes(values["RequeueExit"]), RequeueExitHold: codes(values["RequeueExitHold"]),
		InactiveLimit: seconds(values["InactiveLimit"]), KillWait: seconds(values["KillWait"]), MinJobAge: seconds(values["MinJobAge"]),
		Accounting: strings.HasSuffix(values["AccountingStorageType"], "/slurmdbd"),
		Enforce:    list(values["AccountingStorageEnforce"]), MaxScriptSize: defaultScriptSize,
		MaxArrayTasks: slurm.MaxArrayTasks(values["SchedulerParameters"]),
	}
	for _, p := range list(values["SchedulerParameters"]) {
		if size, ok := strings.CutPrefix(p, "max_script_size="); ok {
			if n := number(size); n != nil {
				c.MaxScriptSize = *n
			}
		}
	}
	return c
}

// Enforces reports whether the site checks that of a job: associations, limits or qos.
func (c *Config) Enforces(what string) bool {
	return c != nil && (slices.Contains(c.Enforce, what) || slices.Contains(c.Enforce, "all"))
}

// number reads a whole number, or nil.
func number(text string) *int {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		return nil
	}
	return &n
}

// count is number with 0 for everything that is none, such as UNLIMITED.
func count(text string) int {
	if n := number(text); n != nil {
		return *n
	}
	return 0
}

// seconds reads "300 sec".
func seconds(text string) time.Duration {
	word, _, _ := strings.Cut(text, " ")
	return time.Duration(count(word)) * time.Second
}

// list reads words between commas; Slurm's words for nothing, and for everything, are nil.
func list(text string) []string {
	switch text {
	case "", "(null)", "N/A", "none", "ALL", "(none)":
		return nil
	}
	return strings.Split(text, ",")
}

// codes reads exit codes such as 1-3,99.
func codes(text string) []int {
	var all []int
	for _, word := range list(text) {
		first, last, ranged := strings.Cut(word, "-")
		from, to := number(first), number(last)
		if !ranged {
			to = from
		}
		if from == nil || to == nil || *to > 255 {
			continue
		}
		for code := *from; code <= *to; code++ {
			all = append(all, code)
		}
	}
	return all
}

// timeLimit reads HH:MM:SS, D-HH:MM:SS or MM:SS; 0 is Slurm's word for no limit.
func timeLimit(text string) time.Duration {
	days, clock, ok := strings.Cut(text, "-")
	if !ok {
		days, clock = "0", text
	}
	total, parts := 0, strings.Split(clock, ":")
	if len(parts) < 2 || len(parts) > 3 {
		return 0
	}
	for _, part := range parts {
		n := number(part)
		if n == nil {
			return 0
		}
		total = total*60 + *n
	}
	return time.Duration(count(days))*24*time.Hour + time.Duration(total)*time.Second
}
