package doctor

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"cpbench/slurm"

	"golang.org/x/sys/unix"
)

// workerExits are the codes with which the script of a task can end: those of cpbench, of signals in the set-up, and of
// a shell that cannot run anything.
var workerExits = []int{1, 2, 3, 126, 127, 130, 128 + int(unix.SIGUSR2), 128 + int(unix.SIGTERM)}

// lookAtSlurm tells what the site has said about itself.
func (d *Doctor) lookAtSlurm() {
	s := d.site
	if s.Version == "" {
		d.add("slurm", Warn, "cpbench run runs sweeps on this machine; for jobs, use a login node", "no Slurm: %s", s.Unknown[0].Why)
		return
	}
	if s.Config == nil {
		d.add("slurm", Bad, "scontrol ping says whether it is up", "%s is installed, but %s does not answer: %s", s.Version, s.Unknown[0].What, s.Unknown[0].Why)
		return
	}
	d.add("slurm", Good, "", "%s, controller %s of cluster %s", s.Version, s.Config.Version, s.Config.Cluster)
	for _, u := range s.Unknown {
		d.add("slurm", Warn, "", "%s cannot be asked for: %s", u.What, u.Why)
	}
	if _, minor, ok := strings.Cut(s.Version, " "); ok && minor != s.Config.Version {
		d.add("slurm", Warn, "ask the site whether an upgrade is under way", "sbatch and the controller have different versions")
	}
	d.lookAtAccounting()
	d.lookAtArrays()
	d.lookAtPartitions()
	d.lookAtEndings()
	d.lookAtOverrides()
}

func (d *Doctor) lookAtAccounting() {
	c := d.site.Config
	if !c.Accounting {
		d.add("accounting", Warn, "collect soon after the end: what became of a job that left no result is known for that long only", "none: the controller remembers an ended job for %v", c.MinJobAge)
		return
	}
	text := "a database of jobs, and nothing is enforced"
	if len(c.Enforce) > 0 {
		text = "a database of jobs; enforced: " + strings.Join(c.Enforce, ", ")
	}
	d.add("accounting", Good, "", "%s", text)
	if c.Enforces("associations") && d.site.Associations != nil && len(d.site.Associations) == 0 {
		d.add("accounting", Bad, "ask the site's support for an account", "user %s may charge no account, so no job is accepted", d.site.User)
	}
	for _, a := range d.site.Associations {
		text := "user " + d.site.User + " may charge account " + a.Account
		if a.Partition != "" {
			text += " in partition " + a.Partition
		}
		if len(a.QOS) > 0 {
			text += ", QOS " + strings.Join(a.QOS, ", ")
		}
		d.add("account", Good, "", "%s%s", text, limits(a.MaxSubmitJobs, a.MaxJobs, a.MaxWall))
	}
	for _, q := range d.site.QOS {
		if text := limits(q.MaxSubmitJobs, q.MaxJobs, q.MaxWall); text != "" && slices.Contains(d.site.QOSNames(""), q.Name) {
			d.add("qos", Good, "", "QOS %s%s", q.Name, text)
		}
	}
}

// limits says how many jobs of one user may wait and run, and how long.
func limits(submit, run *int, wall time.Duration) string {
	text := ""
	if submit != nil {
		text += fmt.Sprintf("; at most %d tasks in the queue", *submit)
	}
	if run != nil {
		text += fmt.Sprintf("; at most %d at once", *run)
	}
	if wall > 0 {
		text += fmt.Sprintf("; at most %v each", wall)
	}
	return text
}

func (d *Doctor) lookAtArrays() {
	switch most := d.site.Config.MaxArraySize; {
	case most == nil:
		d.add("arrays", Warn, "write the site's limit to site.max_array_size", "the controller names no MaxArraySize")
	case *most == 0:
		d.add("arrays", Bad, "ask the site to set MaxArraySize; cpbench run works without", "job arrays are switched off")
	default:
		text := ""
		if n := d.site.Config.MaxJobCount; n != nil {
			text = fmt.Sprintf("; all users together may have %d jobs (MaxJobCount), each task being one", *n)
		}
		if tasks := d.site.Config.MaxArrayTasks; tasks > 0 && tasks < *most {
			text = fmt.Sprintf(", the site takes %d of them (max_array_tasks)", tasks) + text
		}
		d.add("arrays", Good, "", "at most %d tasks in one array (MaxArraySize)%s", *most, text)
	}
}

func (d *Doctor) lookAtPartitions() {
	for i := range d.site.Partitions {
		p := &d.site.Partitions[i]
		name := p.Name
		if p.Default {
			name += " (default)"
		}
		if p.Hidden {
			name += " (hidden)"
		}
		text := fmt.Sprintf("%s: %s", name, count(p.TotalNodes, "node"))
		for _, kind := range p.Kinds() {
			text += "; " + kind
		}
		text += "; at most " + timeText(p.MaxTime)
		if p.MaxNodes > 0 {
			text += fmt.Sprintf(" and %s a job", count(p.MaxNodes, "node"))
		}
		if p.State != "UP" {
			d.add("partition", Warn, "use another one, or wait", "%s; it is %s", text, p.State)
			continue
		}
		d.add("partition", Good, "", "%s", text)
	}
	if d.site.Config.EnforcePartLimits == "NO" {
		d.add("partition", Good, "cpbench validate SPEC --slurm compares before that", "a job over a limit of its partition is accepted here and waits for ever (EnforcePartLimits=NO)")
	}
}

func timeText(t time.Duration) string {
	if t == 0 {
		return "any time"
	}
	return t.String()
}

// lookAtEndings compares what the site does when a job ends with what a worker relies on.
func (d *Doctor) lookAtEndings() {
	c := d.site.Config
	var again []int
	for _, code := range append(slices.Clone(c.RequeueExit), c.RequeueExitHold...) {
		if slices.Contains(workerExits, code) {
			again = append(again, code)
		}
	}
	if len(again) > 0 {
		d.add("requeue", Warn, "ask the site whether that is meant; results are kept, and only pairs without one are run again", "a task that ends with exit code %v is put into the queue again by the site (RequeueExit, RequeueExitHold)", again)
	} else {
		d.add("requeue", Good, "", "no exit code of cpbench puts a task into the queue again; after a node failure the script's own --requeue or --no-requeue decides")
	}
	if c.InactiveLimit > 0 {
		d.add("inactive", Warn, "if tasks end after that time, use launcher: srun, or ask the site", "a job that has started no job step may be ended after %v (InactiveLimit), and launchers fork and none start none", c.InactiveLimit)
	}
	if c.KillWait > 0 && c.KillWait < 5*time.Second {
		d.add("killwait", Warn, "keep slurm.signal_before at 60s or more", "a task has only %v from TERM to KILL (KillWait)", c.KillWait)
	}
}

func (d *Doctor) lookAtOverrides() {
	found := slurm.Overrides(os.Environ())
	for _, kv := range found {
		name, _, _ := strings.Cut(kv, "=")
		d.add("environment", Warn, "unset "+name+", unless you mean it", "%s beats the directives of every script that is piped into sbatch", kv)
	}
	if len(found) == 0 {
		d.add("environment", Good, "", "no SBATCH_* variable beats a script's directives")
	}
}
