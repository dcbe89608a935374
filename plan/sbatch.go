package plan

import (
	"slices"
	"strings"
	"time"
)

// sbatchOptions are the long options of sbatch, 21.08 to 25.11, that `slurm.extra` may hold: an option that is
// merely a unique beginning of one of them would be accepted by sbatch, so a misspelt one has to be found here.
// Source: the manual page sbatch(1).
var sbatchOptions = strings.Fields(`
	acctg-freq batch bb bbf begin chdir cluster-constraint comment-file consolidate-segments container
	container-id container-image container-mounts container-env container-name container-workdir
	container-writable container-mount-home container-remap-root container-entrypoint contiguous core-spec
	cores-per-socket cpu-freq cpus-per-gpu deadline delay-boot dependency distribution export-file extra
	extra-node-info get-user-env gid gpu-bind gpu-freq gres-flags hint hold immediate
	kill-on-invalid-dep licenses mail-type mail-user mcs-label mem-bind mincpus network nice no-kill
	nodefile nodelist oom-kill-step oversubscribe overcommit power prefer priority profile propagate
	reboot resv-ports segment sockets-per-node spread-job spread-segments switches thread-spec
	threads-per-core tmp tres-bind tres-per-task uid use-min-nodes verbose wait-all-nodes wckey x11 exclusive-topo`)

// ownedOptions are emitted from the spec's own keys, and what to write instead.
var ownedOptions = map[string]string{
	"job-name": "name", "array": "the sweep", "output": "the run folder", "error": "the run folder", "open-mode": "the run folder",
	"nodes": "resources.nodes", "ntasks": "resources", "ntasks-per-node": "resources", "cpus-per-task": "resources.cpus_per_task",
	"gres": "resources.gpus_per_node", "gpus": "resources.gpus_per_node", "gpus-per-node": "resources.gpus_per_node",
	"gpus-per-task": "resources.gpus_per_node", "gpus-per-socket": "resources.gpus_per_node", "mem": "resources.mem",
	"mem-per-cpu": "resources.mem", "mem-per-gpu": "resources.mem", "exclusive": "resources.exclusive", "time": "resources.time",
	"time-min": "resources.time", "signal": "slurm.signal_before", "requeue": "slurm.requeue", "no-requeue": "slurm.requeue",
	"partition": "slurm.partition", "account": "slurm.account", "qos": "slurm.qos", "constraint": "slurm.constraint",
	"reservation": "slurm.reservation", "exclude": "slurm.exclude", "comment": "the run folder", "export": "env",
	"wrap": "workload.command", "parsable": "nothing", "test-only": "`cpbench validate`", "wait": "nothing", "input": "workload.command",
	"container-image": "container", "container-mounts": "container", "container-env": "container", "container-workdir": "container",
	"container-mount-home": "container", "hetjob": "one array for each shape", "clusters": "the cluster that sbatch talks to by default",
}

// checkSlurm finds what is wrong with the options of the queue.
func (s *Spec) checkSlurm(ps *problems) {
	for path, text := range map[string]string{
		"slurm.partition": s.Slurm.Partition, "slurm.account": s.Slurm.Account, "slurm.qos": s.Slurm.QOS,
		"slurm.constraint": s.Slurm.Constraint, "slurm.reservation": s.Slurm.Reservation, "slurm.exclude": s.Slurm.Exclude,
	} {
		checkText(ps, path, text)
	}
	if d := time.Duration(s.Slurm.SignalBefore); d > 65535*time.Second {
		ps.at("slurm.signal_before", "at most 65535s", "slurm.signal_before: %v is more than Slurm takes", d)
	}
	if n := s.Site.MaxQueued; n > 0 && n < 3 {
		ps.at("site.max_queued", "", "site.max_queued: %d is too few: a task, the job that collects and its successor need 3", n)
	}
	seen := map[string]bool{}
	for i, opt := range s.Slurm.Extra {
		path := indexed("slurm.extra", i)
		checkText(ps, path, opt)
		name, _, _ := strings.Cut(strings.TrimPrefix(opt, "--"), "=")
		switch instead, owned := ownedOptions[name]; {
		case !strings.HasPrefix(opt, "--") || name == "":
			ps.at(path, "write it as --option or --option=value", "slurm.extra: %q is not a long option", opt)
		case owned:
			ps.at(path, "it follows from "+instead, "slurm.extra: --%s is written by cpbench", name)
		case !slices.Contains(sbatchOptions, name):
			ps.at(path, didYouMeanOnly(name, sbatchOptions), "slurm.extra: sbatch has no option --%s", name)
		case seen[name]:
			ps.at(path, "", "slurm.extra: --%s stands twice", name)
		}
		seen[name] = true
	}
}

// didYouMeanOnly is didYouMean for a list too long to print.
func didYouMeanOnly(word string, choices []string) string {
	if n := nearest(word, choices); n != "" {
		return "did you mean --" + n + "?"
	}
	return "see the manual page sbatch(1)"
}
