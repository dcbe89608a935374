package record

import (
	"slices"
	"strings"
	"testing"

	"cpbench/slurm"
)

func TestExplain(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		reason    string
		text      string
		wontStart bool
		advice    string // a part of it; empty: none
	}{
		{"Priority", "jobs of higher priority come first", false, ""},
		{"JobArrayTaskLimit", "as many tasks of the array run as slurm.parallel allows", false, ""},
		{"BeginTime", "its time to begin has not come; after a requeue that takes about two minutes", false, ""},
		{"PartitionTimeLimit", "it asks for more time than the partition allows", true, "resources.time"},
		{"PartitionNodeLimit", "it asks for more nodes than the partition has or allows", true, "resources.nodes"},
		{"DependencyNeverSatisfied", "the job that it waits for has failed", true, "scancel JOB"},
		{"JobHeldUser", "it is held", true, "scontrol release JOB"},
		{"ReqNodeNotAvail, UnavailableNodes:n2", "a node that it needs is down, drained, reserved or in use", false, "sinfo -R"},
		{
			"Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
			"the nodes that it needs are down, drained or kept for jobs of higher priority", false, "sinfo -R",
		},
		{
			"Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_partitions",
			"the nodes that it needs are down, drained or kept for jobs of higher priority", false, "sinfo -R",
		},
		{"QOSMaxWallDurationPerJobLimit", "it asks for more than the QOS allows one job (QOSMaxWallDurationPerJobLimit)", true, "resources"},
		{"QOSMaxGRESPerUser", "the limit of the QOS is reached (QOSMaxGRESPerUser)", false, "slurm.parallel"},
		{"AssocGrpGRES", "the limit of the account is reached (AssocGrpGRES)", false, "slurm.parallel"},
		{"AssocGrpCPUMinutesLimit", "the account has used up its time, or has too little left for this job (AssocGrpCPUMinutesLimit)", false, "support"},
		{"QOSMinGRES", "it asks for less than the QOS demands of a job (QOSMinGRES)", true, "more"},
		{"MaxGRESPerAccount", "the limit of the account is reached (MaxGRESPerAccount)", false, "slurm.parallel"},
		{"JobHoldMaxRequeue", "it was requeued too often, and is held", true, "scontrol release JOB"},
		{"Job's account not permitted to use this partition (gpu allows a not b)", "its account may not use the partition", true, "sacctmgr"},
		{"Job's_QOS_not_permitted_to_use_this_partition_(gpu_denies_a_including_b)", "its QOS may not use the partition", true, "sacctmgr"},
		{"job requeued in held state", "job requeued in held state", true, "scontrol release JOB"},
		{"SomethingNew", "SomethingNew", false, ""},
		{"", "the scheduler has not looked at it yet", false, ""},
	} {
		text, wontStart, advice := Explain(tt.reason)
		if text != tt.text || wontStart != tt.wontStart || (advice == "") != (tt.advice == "") || !strings.Contains(advice, tt.advice) {
			t.Errorf("%s: %q, will not start %v, advice %q", tt.reason, text, wontStart, advice)
		}
	}
}

// TestStates: a state that Slurm may leave again is no end, or it would be kept as one; neither is one that a later Slurm
// may have.
func TestStates(t *testing.T) {
	t.Parallel()
	for _, line := range append(fixture(t, "25.11/states"), "CANCELLED by 1000=yes", "SOMETHING_NEW=no") {
		state, ended, _ := strings.Cut(line, "=")
		if got := slurm.State(state).Ended(); got != (ended == "yes") {
			t.Errorf("%s: ended %v", state, got)
		}
		if task := (Task{State: slurm.State(state)}); task.Waits() && task.Ended() {
			t.Errorf("%s waits and has ended", state)
		}
	}
}

// TestExplainKnowsAll goes through every reason that Slurm has, and holds those about one job's size against the rest:
// more of it does not come by waiting.
func TestExplainKnowsAll(t *testing.T) {
	t.Parallel()
	for _, reason := range slices.Concat(fixture(t, "22.05/reasons"), fixture(t, "25.11/reasons")) {
		text, wontStart, advice := Explain(reason)
		if text == reason || text == "" {
			t.Errorf("%s is not explained", reason)
		}
		if wontStart && advice == "" {
			t.Errorf("%s will not start, and nothing is advised", reason)
		}
		perJob := strings.Contains(reason, "PerJob") || strings.Contains(reason, "PerNode") || strings.HasPrefix(reason, "QOSMin")
		shared := strings.Contains(reason, "Grp") || strings.Contains(reason, "PerUser") || strings.Contains(reason, "PerAccount")
		if perJob && !wontStart || shared && wontStart {
			t.Errorf("%s: will not start %v", reason, wontStart)
		}
	}
}
