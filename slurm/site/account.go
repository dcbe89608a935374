package site

import (
	"slices"
	"strings"
	"time"
)

// Association is what a user may charge, and where. A nil number sets no limit.
type Association struct {
	Account       string
	Partition     string // empty: in any
	QOS           []string
	DefaultQOS    string
	MaxSubmitJobs *int // that may wait and run at once; each task of an array is one
	MaxJobs       *int // that may run at once
	MaxWall       time.Duration
	GrpTRES       string // what all jobs of the association may hold, in Slurm's form
}

// QOS is a quality of service. A nil number sets no limit.
type QOS struct {
	Name          string
	Flags         []string // DenyOnLimit: a job over a limit is refused and does not wait
	MaxWall       time.Duration
	MaxSubmitJobs *int // of one user; each task of an array is one
	MaxJobs       *int // of one user that run at once
	MaxTRES       string
	MaxTRESUser   string
	GrpTRES       string
}

// The columns that are asked of sacctmgr, all of them old: one that it does not know fails the whole call.
const (
	assocFields = "Account,Partition,QOS,DefaultQOS,MaxSubmitJobs,MaxJobs,MaxWall,GrpTRES"
	qosFields   = "Name,Flags,MaxWall,MaxSubmitJobsPerUser,MaxJobsPerUser,MaxTRESPerJob,MaxTRESPerUser,GrpTRES"
)

func rows(text string) [][]string {
	var all [][]string
	for line := range strings.Lines(text) {
		if f := strings.Split(strings.TrimRight(line, "\n"), "|"); len(f) == 8 && f[0] != "" {
			all = append(all, f)
		}
	}
	return all
}

func parseAssociations(text string) []Association {
	all := []Association{}
	for _, f := range rows(text) {
		all = append(all, Association{f[0], f[1], list(f[2]), f[3], number(f[4]), number(f[5]), timeLimit(f[6]), f[7]})
	}
	return all
}

func parseQOS(text string) []QOS {
	all := []QOS{}
	for _, f := range rows(text) {
		all = append(all, QOS{f[0], list(f[1]), timeLimit(f[2]), number(f[3]), number(f[4]), f[5], f[6], f[7]})
	}
	return all
}

// Accounts are the accounts that the user may charge in a partition, or in one of several between commas, sorted, each
// once.
func (site *Site) Accounts(partition string) []string {
	var all []string
	for _, a := range site.Associations {
		if a.Partition == "" || partition == "" || slices.Contains(strings.Split(partition, ","), a.Partition) {
			all = append(all, a.Account)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// QOSNames are the QOS that the user may ask for with an account, or with any for an empty one; all of the site where the
// user has no association.
func (site *Site) QOSNames(account string) []string {
	var all []string
	for _, a := range site.Associations {
		if account == "" || a.Account == account {
			all = append(all, a.QOS...)
		}
	}
	if len(all) == 0 {
		for _, q := range site.QOS {
			all = append(all, q.Name)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// association is the one that a request is charged to; nil if there is none, or if several accounts are possible: only
// the accounting knows which of them is the default. Slurm takes that of the partition before the general one.
func (site *Site) association(r Request) *Association {
	var found *Association
	for i := range site.Associations {
		a := &site.Associations[i]
		if r.Account != "" && a.Account != r.Account || a.Partition != "" && a.Partition != r.Partition {
			continue
		}
		if found != nil && found.Account != a.Account {
			return nil
		}
		if found == nil || a.Partition != "" {
			found = a
		}
	}
	return found
}

// qos are the QOS whose limits bind a request: its own or the association's default, and that of the partition.
func (site *Site) qos(r Request) []QOS {
	var names []string
	switch a := site.association(r); {
	case r.QOS != "":
		names = append(names, r.QOS)
	case a != nil && a.DefaultQOS != "":
		names = append(names, a.DefaultQOS)
	}
	if p := site.Partition(r.Partition); p != nil && p.QOS != "" {
		names = append(names, p.QOS)
	}
	var all []QOS
	for _, q := range site.QOS {
		if slices.Contains(names, q.Name) {
			all = append(all, q)
		}
	}
	return all
}
