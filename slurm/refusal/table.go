package refusal

import (
	"fmt"
	"strings"

	"cpbench/plan"
	"cpbench/slurm/site"
)

// row is one way in which sbatch refuses a job.
type row struct {
	texts   []string // one of them stands in what sbatch said
	meaning string
	keys    []string                                    // of site.Check's findings that explain it
	advice  func(s *site.Site, r site.Request) []string // where Check finds nothing
	general []string                                    // always the last advice
}

// table is searched from the top: texts that say more stand before those that sbatch adds to many refusals. The texts
// are those of Slurm's slurm_errno.c, 21.08 to 25.11.
var table = []row{
	{
		texts:   []string{"invalid partition specified", "Invalid partition name specified"},
		meaning: "the site has no partition of that name", keys: []string{"slurm.partition"}, advice: partitions,
		general: []string{"sinfo -s lists the partitions"},
	},
	{
		texts:   []string{"Invalid account or account/partition combination specified"},
		meaning: "slurm.account is missing, wrong, or not for that partition", keys: []string{"slurm.account"}, advice: accounts,
		general: []string{"sacctmgr show assoc user=$USER format=account,partition,qos lists what you may charge"},
	},
	{
		texts:   []string{"Invalid qos specification", "Invalid QOS specification"},
		meaning: "slurm.qos is not known here, or not for this account", keys: []string{"slurm.qos"}, advice: qos,
		general: []string{"sacctmgr show assoc user=$USER format=account,partition,qos lists what you may use"},
	},
	{
		texts:   []string{"MaxSubmitJob", "GrpSubmitJob"},
		meaning: "these are more tasks than you may have in the queue at once; each task of an array counts, also those of earlier arrays",
		keys:    []string{"pack"}, advice: submitLimit,
		general: []string{"squeue -r -h -u $USER | wc -l counts what you have there"},
	},
	{
		texts:   []string{"MaxWallDurationPerJobLimit"},
		meaning: "resources.time is longer than the account or the QOS allows", keys: []string{"resources.time"}, advice: times,
	},
	{
		texts:   []string{"Job violates accounting/QOS policy"},
		meaning: "the job asks for more than the account or the QOS allows", keys: []string{"resources", "slurm", "pack"}, advice: qos,
		general: []string{"sacctmgr show qos format=name,maxwall,maxtresperjob,maxsubmitjobsperuser has the limits"},
	},
	{
		texts:   []string{"Invalid job array specification"},
		meaning: "the site's arrays are shorter than this one", keys: []string{"site.max_array_size", "matrix"}, advice: arrays,
	},
	{
		texts:   []string{"Memory specification can not be satisfied", "CPU count per node can not be satisfied", "More processors requested than permitted"},
		meaning: "no node has so much", keys: []string{"resources"}, advice: largest,
	},
	{
		texts:   []string{"Requested node configuration is not available"},
		meaning: "no node of the partition has all of that", keys: []string{"resources", "slurm.constraint"}, advice: largest,
		general: []string{"sinfo -o '%P %D %c %m %G %f' lists what the nodes have"},
	},
	{
		texts:   []string{"Node count specification invalid"},
		meaning: "the partition does not give one job so many nodes, or so few", keys: []string{"resources.nodes"}, advice: largest,
	},
	{
		texts:   []string{"Invalid generic resource (gres) specification", "Invalid Trackable RESource (TRES) specification"},
		meaning: "the site has no such generic resource", keys: []string{"resources.gpu"}, advice: gres,
		general: []string{"sinfo -o '%P %G' lists what there is"},
	},
	{
		texts:   []string{"Invalid feature specification"},
		meaning: "slurm.constraint names a feature that no node has", keys: []string{"slurm.constraint"}, advice: constraints,
		general: []string{"sinfo -o '%P %f' lists the features"},
	},
	{
		texts:   []string{"Requested time limit is invalid"},
		meaning: "the site wants a time limit, and a smaller one", keys: []string{"resources.time"}, advice: times,
	},
	{
		texts:   []string{"Requested reservation is invalid", "Access denied to requested reservation"},
		meaning: "slurm.reservation is not known here, or not for you",
		general: []string{"scontrol show reservation lists those there are, with their times and users"},
	},
	{
		texts:   []string{"Invalid node name specified"},
		meaning: "slurm.exclude, or --nodelist in slurm.extra, names a node that the site does not have",
		general: []string{"sinfo -N lists the nodes"},
	},
	{
		texts:   []string{"Invalid license specification"},
		meaning: "slurm.extra asks for a licence that the site does not have", general: []string{"scontrol show licenses lists them"},
	},
	{
		texts:   []string{"Job dependency problem"},
		meaning: "slurm.extra names a dependency on a job that is not there", general: []string{"squeue -u $USER lists your jobs"},
	},
	{
		texts:   []string{"User's group not permitted to use this partition"},
		meaning: "the partition is for other groups", advice: groups, general: []string{"id lists your groups"},
	},
	{
		texts:   []string{"Required partition not available (inactive or drain)"},
		meaning: "the partition takes no jobs now", keys: []string{"slurm.partition"}, advice: partitions, general: []string{"sinfo -s shows the states"},
	},
	{
		texts:   []string{"Requested partition configuration not available now"},
		meaning: "the partition does not take a job of that size or kind", keys: []string{"resources", "slurm.partition"}, advice: largest,
		general: []string{"scontrol show partition has its rules"},
	},
	{
		texts:   []string{"temporarily unable to accept job"},
		meaning: "the site's queue is full: all users together have MaxJobCount jobs", advice: full,
		general: []string{"try again later, with --limit for fewer tasks at once"},
	},
	{
		texts:   []string{"Access/permission denied", "submission is not allowed from this host", "Submission from this host"},
		meaning: "the site, or the partition, takes no jobs from this machine", general: []string{"submit from a login node", "scontrol show partition | grep AllocNodes lists where jobs of a partition may come from"},
	},
	{
		texts:   []string{"Pathname of a file, directory or other parameter too long"},
		meaning: "the script is larger than the site takes; those of cpbench never are", advice: scriptSize,
	},
	{
		texts:   []string{"Batch script is empty", "Batch script contains only whitespace"},
		meaning: "sbatch was given nothing: what stood before the | has failed", general: []string{"read its message above"},
	},
	{
		texts:   []string{"This does not look like a batch script", "DOS line breaks"},
		meaning: "what sbatch was given is not a script as cpbench wrote it", general: []string{"submit RUN/array-0.sbatch as it stands"},
	},
	{
		texts:   []string{"Unable to contact slurm controller", "Connection refused"},
		meaning: "the controller does not answer", general: []string{"scontrol ping says whether it is up; nothing was submitted"},
	},
	{
		texts:   []string{"unrecognized option", "Invalid directive found in batch script"},
		meaning: "this version of sbatch does not know an option of the script", general: []string{"look into slurm.extra"},
	},
}

func partitions(s *site.Site, r site.Request) []string {
	var names []string
	for _, p := range s.Partitions {
		if !p.Hidden {
			names = append(names, p.Name)
		}
	}
	return there("partitions there are", names, r.Partition)
}

func accounts(s *site.Site, r site.Request) []string {
	return there("accounts of user "+s.User, s.Accounts(r.Partition), r.Account)
}

func qos(s *site.Site, r site.Request) []string {
	return there("QOS of user "+s.User, s.QOSNames(r.Account), r.QOS)
}

func constraints(s *site.Site, r site.Request) []string {
	if p := s.Partition(r.Partition); p != nil {
		return there("features of partition "+p.Name, p.Features(), r.Constraint)
	}
	return nil
}

// there lists the names that exist, nearest first.
func there(what string, names []string, like string) []string {
	if len(names) == 0 {
		return nil
	}
	return []string{what + ": " + strings.Join(plan.ByLikeness(like, names), ", ")}
}

func submitLimit(_ *site.Site, r site.Request) []string {
	return []string{fmt.Sprintf("this submission has %d tasks: fewer at once with --limit, the rest with --run RUN --only-missing when some have ended; or let points share a task with pack", r.Tasks)}
}

func times(s *site.Site, r site.Request) []string {
	if p := s.Partition(r.Partition); p != nil && p.MaxTime > 0 {
		return []string{fmt.Sprintf("resources.time: partition %s allows %v", p.Name, p.MaxTime)}
	}
	return []string{"set resources.time"}
}

func arrays(s *site.Site, r site.Request) []string {
	if s.Config == nil || s.Config.MaxArraySize == nil {
		return []string{"scontrol show config | grep MaxArraySize has the limit; write it to site.max_array_size"}
	}
	return []string{fmt.Sprintf("MaxArraySize is %d, and this array has %d tasks, the last with index %d; the site may cap the count as well (max_array_tasks): write a smaller site.max_array_size", *s.Config.MaxArraySize, r.Tasks, r.LastIndex)}
}

// largest says what the partition's nodes have.
func largest(s *site.Site, r site.Request) []string {
	p := s.Partition(r.Partition)
	if p == nil || len(p.Nodes) == 0 {
		return nil
	}
	return []string{"nodes of partition " + p.Name + ": " + strings.Join(p.Kinds(), "; ")}
}

func gres(s *site.Site, r site.Request) []string {
	seen, names := map[string]bool{}, []string(nil)
	for _, p := range s.Partitions {
		for _, n := range p.Nodes {
			for _, g := range n.GRES {
				if name := g.String(); !seen[name] {
					seen[name] = true
					names = append(names, name)
				}
			}
		}
	}
	return there("generic resources there are", names, "gpu:"+r.GPUType)
}

func groups(s *site.Site, r site.Request) []string {
	if p := s.Partition(r.Partition); p != nil && p.AllowGroups != nil {
		return []string{"partition " + p.Name + " is for " + strings.Join(p.AllowGroups, ", ")}
	}
	return nil
}

func full(s *site.Site, _ site.Request) []string {
	if s.Config != nil && s.Config.MaxJobCount != nil {
		return []string{fmt.Sprintf("MaxJobCount is %d", *s.Config.MaxJobCount)}
	}
	return nil
}

func scriptSize(s *site.Site, _ site.Request) []string {
	if s.Config != nil {
		return []string{fmt.Sprintf("the site takes scripts of %d bytes (max_script_size): look at what was submitted", s.Config.MaxScriptSize)}
	}
	return []string{"look at what was submitted"}
}
