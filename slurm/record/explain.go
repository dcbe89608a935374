package record

import "strings"

// meaning is what a reason for waiting comes to.
type meaning struct {
	text      string // in words
	wontStart bool   // it does not end by itself
	advice    string // what to do; empty: wait
}

const (
	askAdmin  = "ask the site's support, or use another partition, account or QOS"
	seeLimits = "sacctmgr show assoc user=$USER format=account,partition,qos lists what you may use"
	perJob    = "ask for less in resources and plan the sweep again, or use another QOS"
	share     = "wait, or lower slurm.parallel; where the limit is below what one task asks for, the task never starts"
)

// meanings are the reasons that Slurm documents for a job that waits (the pages squeue(1) and job_reason_codes), and
// those seen on 22.05 that it does not document. A reason that is absent here is told as it is.
var meanings = map[string]meaning{
	"Priority":                 {"jobs of higher priority come first", false, ""},
	"Resources":                {"its resources are in use", false, ""},
	"Dependency":               {"it waits for another job", false, ""},
	"JobArrayTaskLimit":        {"as many tasks of the array run as slurm.parallel allows", false, ""},
	"BeginTime":                {"its time to begin has not come; after a requeue that takes about two minutes", false, ""},
	"Licenses":                 {"it waits for a licence", false, ""},
	"Reservation":              {"its reservation has not begun", false, ""},
	"Cleaning":                 {"its earlier run is being cleaned up", false, ""},
	"Prolog":                   {"the site's prolog runs", false, ""},
	"NodeDown":                 {"a node that it needs is down", false, "sinfo -R says why nodes are down"},
	"FrontEndDown":             {"no front end is up", false, ""},
	"PartitionDown":            {"the partition is down", false, "use another slurm.partition, or wait until it is up again"},
	"PartitionInactive":        {"the partition is inactive", false, "use another slurm.partition, or wait until it is active again"},
	"ReqNodeNotAvail":          {"a node that it needs is down, drained, reserved or in use", false, "sinfo -R says why nodes are down; leave the node out of slurm.constraint, slurm.exclude or slurm.reservation if it does not come back"},
	"Constraints":              {"no node that satisfies its constraints is up", false, "sinfo -R says why nodes are down"},
	"BurstBufferResources":     {"the burst buffer is in use", false, ""},
	"BurstBufferStageIn":       {"its files are copied into the burst buffer", false, ""},
	"BurstBufferOperation":     {"the burst buffer has failed", true, "look into slurm.extra, or ask the site's support"},
	"FedJobLock":               {"the clusters of the federation agree on who starts it", false, ""},
	"SchedDefer":               {"the site starts no job at once", false, ""},
	"None":                     {"the scheduler has not looked at it yet", false, ""},
	"":                         {"the scheduler has not looked at it yet", false, ""},
	"JobHeldUser":              {"it is held", true, "scontrol release JOB lets it go"},
	"JobHeldAdmin":             {"the site's administrator, or too many requeues, holds it", true, "ask the site's support to release it"},
	"JobHoldMaxRequeue":        {"it was requeued too often, and is held", true, "look at its log, then scontrol release JOB, or cancel it and submit what is missing again"},
	"DependencyNeverSatisfied": {"the job that it waits for has failed", true, "scancel JOB, and submit it again without that dependency"},
	"PartitionTimeLimit":       {"it asks for more time than the partition allows", true, "lower resources.time, or use another slurm.partition"},
	"PartitionNodeLimit":       {"it asks for more nodes than the partition has or allows", true, "lower resources.nodes, or use another slurm.partition"},
	"PartitionConfig":          {"it asks for more time or nodes than the partition allows", true, "lower resources.time or resources.nodes, or use another slurm.partition"},
	"BadConstraints":           {"no node can satisfy its constraints", true, "sinfo -o '%P %f %G' lists features and GPUs; change slurm.constraint or resources.gpu_type"},
	"DeadLine":                 {"it cannot end before its deadline", true, "scancel JOB, and submit it again without a deadline"},
	"InvalidAccount":           {"its account is not valid", true, seeLimits},
	"InvalidQOS":               {"its QOS is not valid", true, seeLimits},
	"AccountNotAllowed":        {"its account may not use the partition", true, seeLimits},
	"QOSNotAllowed":            {"its QOS may not use the partition", true, seeLimits},
	"AssociationJobLimit":      {"the account has as many jobs as it may have", false, share},
	"AssociationResourceLimit": {"the account has as many resources as it may have", false, share},
	"AssociationTimeLimit":     {"the account has used its time", false, askAdmin},
	"QOSJobLimit":              {"the QOS has as many jobs as it may have", false, share},
	"QOSResourceLimit":         {"the QOS has as many resources as it may have", false, share},
	"QOSTimeLimit":             {"the QOS has used its time", false, askAdmin},
	"AccountingPolicy":         {"a limit of the account or the QOS holds it back", false, share},
	"QOSUsageThreshold":        {"the account has used too much for this QOS", false, askAdmin},
	"ReservationDeleted":       {"its reservation is gone", true, "change slurm.reservation and plan the sweep again"},
}

// Explain puts a reason for waiting into words: what it means, whether the job will not start by itself, and what to do
// about it, empty where waiting is all. A reason that is not known comes back as it is. JOB in an advice stands for the
// job's id.
func Explain(reason string) (text string, wontStart bool, advice string) {
	// Older versions write blanks where newer ones write underscores, and some add the names of nodes.
	plain := strings.ReplaceAll(strings.Trim(reason, "()"), "_", " ")
	word, _, _ := strings.Cut(plain, ",")
	if m, ok := meanings[strings.TrimSpace(word)]; ok {
		return m.text, m.wontStart, m.advice
	}
	m := family(plain)
	if m.text == "" {
		return reason, false, ""
	}
	return m.text, m.wontStart, m.advice
}

// family explains the reasons that are made of parts: whose limit it is, on what, and over what it is counted.
func family(reason string) meaning {
	lower := strings.ToLower(reason)
	has := func(parts ...string) bool {
		for _, part := range parts {
			if strings.Contains(lower, part) {
				return true
			}
		}
		return false
	}
	owner := "site"
	switch {
	case has("qos"):
		owner = "QOS"
	case has("assoc", "account"):
		owner = "account"
	}
	switch {
	case has("held"): // "job requeued in held state", "launch failed requeued held"
		return meaning{reason, true, "look at its log, then scontrol release JOB, or cancel it and submit what is missing again"}
	case strings.Contains(lower, "not permitted to use this partition"):
		return meaning{"its " + owner + " may not use the partition", true, seeLimits}
	case strings.HasPrefix(lower, "nodes required for job are down"):
		return meaning{"the nodes that it needs are down, drained or kept for jobs of higher priority", false, "sinfo -R says why nodes are down"}
	case !has("qos", "assoc", "max", "grp"):
		return meaning{}
	case has("min") && !has("minutes"):
		return meaning{"it asks for less than the " + owner + " demands of a job (" + reason + ")", true, "ask for more in resources, or use another QOS"}
	case has("perjob", "pernode", "memperlimit"):
		return meaning{"it asks for more than the " + owner + " allows one job (" + reason + ")", true, perJob}
	case has("minutes"):
		return meaning{"the " + owner + " has used up its time, or has too little left for this job (" + reason + ")", false, askAdmin}
	case has("peruser", "peraccount", "grp", "jobslimit", "submitjob"):
		return meaning{"the limit of the " + owner + " is reached (" + reason + ")", false, share}
	}
	return meaning{"a limit of the " + owner + " holds it back (" + reason + ")", false, share}
}
