package site

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"cpbench/plan"
)

// Finding is one thing in a request that the site does not allow.
type Finding struct {
	Key    string // of the spec that asks for it, such as resources.time
	Text   string // what is wrong, with the limit
	Advice string // what to do
}

// Check returns everything in a request that this site refuses, or accepts and lets wait for ever. What is not known of
// the site is not found.
func (site *Site) Check(r Request) []Finding {
	p := site.Partition(r.Partition)
	if p != nil {
		r.Partition = p.Name
	}
	c := &checker{site: site, r: r}
	c.array()
	c.account()
	c.qos()
	switch {
	case site.Partitions == nil: // not known
	case p == nil && r.Partition == "":
		c.add("slurm.partition", "name one of "+site.partitionNames(""), "the site has no default partition")
	default:
		c.partitions()
	}
	return c.found
}

// partitions compares the request with every partition that it names: sbatch takes several between commas, and the job
// starts in the first that has room. Unless the site wants all of them to do (EnforcePartLimits=ALL), one is enough.
func (c *checker) partitions() {
	var found []Finding
	enough := false
	for name := range strings.SplitSeq(c.r.Partition, ",") {
		p := c.site.Partition(name)
		if p == nil {
			c.add("slurm.partition", "choose from "+c.site.partitionNames(name), "there is no partition %q", name)
			continue
		}
		one := &checker{site: c.site, r: c.r}
		one.r.Partition = p.Name
		one.partition(p)
		one.time(p)
		one.nodes(p)
		found = append(found, one.found...)
		enough = enough || len(one.found) == 0
	}
	if !enough || c.site.Config != nil && c.site.Config.EnforcePartLimits == "ALL" {
		c.found = append(c.found, found...)
	}
}

// checker collects the findings on one request.
type checker struct {
	site  *Site
	r     Request
	found []Finding
}

func (c *checker) add(key, advice, format string, args ...any) {
	c.found = append(c.found, Finding{key, fmt.Sprintf(format, args...), advice})
}

func (c *checker) array() {
	if c.site.Config == nil || c.site.Config.MaxArraySize == nil {
		return
	}
	switch most := *c.site.Config.MaxArraySize; {
	case most == 0:
		c.add("matrix", "cpbench run runs the sweep on one machine", "job arrays are switched off here (MaxArraySize=0)")
	case c.r.LastIndex >= most:
		c.add("site.max_array_size", fmt.Sprintf("write max_array_size: %d, or auto; the sweep then has several arrays", most),
			"the array has indices up to %d, and they end at %d here (MaxArraySize=%d)", c.r.LastIndex, most-1, most)
	}
	if most := c.site.Config.MaxArrayTasks; most > 0 && c.r.Tasks > most {
		c.add("site.max_array_size", fmt.Sprintf("write max_array_size: %d, or auto; the sweep then has several arrays", most),
			"the array has %d tasks, and the site takes %d in one (max_array_tasks)", c.r.Tasks, most)
	}
}

func (c *checker) account() {
	site, r := c.site, c.r
	if site.Associations == nil || !site.Config.Enforces("associations") {
		return
	}
	names := site.Accounts(r.Partition)
	switch {
	case len(names) == 0:
		c.add("slurm.account", "ask the site's support for an account", "user %s may charge no account in partition %q", site.User, r.Partition)
	case r.Account != "" && !slices.Contains(names, r.Account):
		c.add("slurm.account", "choose from "+namesText(r.Account, names), "user %s may not charge account %q in partition %q", site.User, r.Account, r.Partition)
	}
	if a := site.association(r); a != nil {
		c.submitLimit("account "+a.Account, a.MaxSubmitJobs)
		c.wall("account "+a.Account, a.MaxWall)
	}
}

func (c *checker) qos() {
	site, r := c.site, c.r
	if site.QOS == nil || !site.Config.Enforces("qos") && !site.Config.Enforces("limits") {
		return
	}
	names, before := site.QOSNames(r.Account), len(c.found)
	for name := range strings.SplitSeq(r.QOS, ",") { // several since 24.11
		if name != "" && site.Config.Enforces("qos") && !slices.Contains(names, name) {
			c.add("slurm.qos", "choose from "+namesText(name, names), "QOS %q is not allowed for user %s", name, site.User)
		}
	}
	if len(c.found) > before {
		return
	}
	for _, q := range site.qos(r) {
		c.submitLimit("QOS "+q.Name, q.MaxSubmitJobs)
		c.wall("QOS "+q.Name, q.MaxWall)
		if most, ok := gpusOf(q.MaxTRES); ok && r.Nodes*r.GPUsPerNode > most {
			c.add("resources.gpus_per_node", "ask for fewer GPUs, or name another QOS", "a task asks for %d GPUs, and QOS %s allows a job %d", r.Nodes*r.GPUsPerNode, q.Name, most)
		}
	}
}

// gpusOf finds the GPUs in limits such as cpu=16,gres/gpu=8.
func gpusOf(tres string) (int, bool) {
	for _, word := range list(tres) {
		if text, ok := strings.CutPrefix(word, "gres/gpu="); ok {
			n, err := strconv.Atoi(text)
			return n, err == nil
		}
	}
	return 0, false
}

func (c *checker) submitLimit(whose string, most *int) {
	if most != nil && c.r.Tasks > *most {
		ways := fmt.Sprintf("plan with --limit %d and the rest later with --run RUN --only-missing, or let points share a task with pack", *most)
		if *most >= 3 { // a task, the job that collects and its successor
			ways += fmt.Sprintf("; cpbench submit --keep-queued %d goes on by itself", *most)
		}
		c.add("pack", ways,
			"%d tasks are more jobs than %s lets a user queue at once (%d)", c.r.Tasks, whose, *most)
	}
}

func (c *checker) wall(whose string, most time.Duration) {
	if most > 0 && c.r.Time > most {
		c.add("resources.time", "ask for at most "+clock(most), "a task asks for %s, and %s allows %s", clock(c.r.Time), whose, clock(most))
	}
}

func (c *checker) partition(p *Partition) {
	if p.State != "" && p.State != "UP" {
		c.add("slurm.partition", "choose from "+c.site.partitionNames(p.Name)+", or wait", "partition %s is %s: no job starts there", p.Name, p.State)
	}
	if r := c.r; r.Account != "" && p.AllowAccounts != nil && !slices.Contains(p.AllowAccounts, r.Account) {
		c.add("slurm.account", "it takes "+namesText(r.Account, p.AllowAccounts), "partition %s does not take account %q", p.Name, r.Account)
	}
	allowed := func(qos string) bool { return slices.Contains(p.AllowQOS, qos) }
	if r := c.r; r.QOS != "" && p.AllowQOS != nil && !slices.ContainsFunc(strings.Split(r.QOS, ","), allowed) {
		c.add("slurm.qos", "it takes "+namesText(r.QOS, p.AllowQOS), "partition %s does not take QOS %q", p.Name, r.QOS)
	}
}

// fate says what becomes of a job over a limit of its partition.
func (c *checker) fate() string {
	if c.site.Config != nil && c.site.Config.EnforcePartLimits == "NO" {
		return "sbatch would take it, and it would wait for ever"
	}
	return "sbatch refuses it"
}

func (c *checker) time(p *Partition) {
	if p.MaxTime == 0 || c.r.Time <= p.MaxTime {
		return
	}
	advice := "ask for at most " + clock(p.MaxTime)
	if longer := c.site.longer(c.r.Time); longer != "" {
		advice += ", or use partition " + longer
	}
	c.add("resources.time", advice, "a task asks for %s, and partition %s allows %s: %s", clock(c.r.Time), p.Name, clock(p.MaxTime), c.fate())
}

// longer names the partitions that allow a time.
func (site *Site) longer(t time.Duration) string {
	var names []string
	for _, p := range site.Partitions {
		if !p.Hidden && (p.MaxTime == 0 || p.MaxTime >= t) {
			names = append(names, p.Name)
		}
	}
	return strings.Join(names, " or ")
}

func (site *Site) partitionNames(like string) string {
	var names []string
	for _, p := range site.Partitions {
		if !p.Hidden {
			names = append(names, p.Name)
		}
	}
	return namesText(like, names)
}

// mostNames bounds a list of names in a message: the nearest ones stand first.
const mostNames = 12

// namesText lists names, those first that are most like a word.
func namesText(like string, names []string) string {
	names = plan.ByLikeness(like, names)
	if more := len(names) - mostNames; more > 0 {
		names = append(names[:mostNames:mostNames], fmt.Sprintf("... (%d more)", more))
	}
	if len(names) == 0 {
		return "(none)"
	}
	return strings.Join(names, ", ")
}

// clock writes a duration as Slurm does.
func clock(d time.Duration) string {
	s := int64(d / time.Second)
	text := fmt.Sprintf("%02d:%02d:%02d", s/3600%24, s/60%60, s%60)
	if s >= 24*3600 {
		return fmt.Sprintf("%d-%s", s/(24*3600), text)
	}
	return text
}
