package site

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Partition is a queue of the site. A limit of 0, or a nil list of who may use it, sets none.
type Partition struct {
	Name          string
	Default       bool
	Hidden        bool   // the site does not want it to be offered
	State         string // UP, or why no job starts: DOWN, DRAIN, INACTIVE
	MaxTime       time.Duration
	DefaultTime   time.Duration
	MinNodes      int
	MaxNodes      int // of one job
	TotalNodes    int
	MaxMemPerNode int64 // MiB
	MaxCPUs       int   // on one node
	AllowAccounts []string
	AllowGroups   []string
	AllowQOS      []string
	QOS           string // limits that bind every job of the partition
	Nodes         []Nodes
}

// Nodes are nodes of one kind in one state.
type Nodes struct {
	Partition string
	State     string
	Count     int
	CPUs      int
	MiB       int64
	GRES      []GRES
	Features  []string
}

// GRES is a generic resource of a node, most often its GPUs.
type GRES struct {
	Name  string
	Type  string // empty where the site names none
	Count int
}

// field finds NAME=VALUE in a line of scontrol; values hold no blanks.
var field = regexp.MustCompile(`(?:^|\s)([A-Za-z_]+)=(\S*)`)

// parsePartitions reads scontrol show partition -o: one line each.
func parsePartitions(text string) []Partition {
	var all []Partition
	for line := range strings.Lines(text) {
		v := map[string]string{}
		for _, m := range field.FindAllStringSubmatch(line, -1) {
			v[m[1]] = m[2]
		}
		if v["PartitionName"] == "" {
			continue
		}
		all = append(all, Partition{
			Name: v["PartitionName"], Default: v["Default"] == "YES", Hidden: v["Hidden"] == "YES", State: v["State"],
			MaxTime: timeLimit(v["MaxTime"]), DefaultTime: timeLimit(v["DefaultTime"]),
			MinNodes: count(v["MinNodes"]), MaxNodes: count(v["MaxNodes"]), TotalNodes: count(v["TotalNodes"]),
			MaxMemPerNode: int64(count(v["MaxMemPerNode"])), MaxCPUs: count(v["MaxCPUsPerNode"]),
			AllowAccounts: list(v["AllowAccounts"]), AllowGroups: list(v["AllowGroups"]), AllowQOS: list(v["AllowQos"]),
			QOS: strings.Join(list(v["QoS"]), ","),
		})
	}
	return all
}

// nodeFields are the columns that parseNodes reads: partition, state, nodes, CPUs, memory, GRES, features.
const nodeFields = "%R|%T|%D|%c|%m|%G|%f"

// parseNodes reads sinfo's rows of nodeFields, one for each kind of node in a partition.
func parseNodes(text string) []Nodes {
	var all []Nodes
	for line := range strings.Lines(text) {
		f := strings.Split(strings.TrimSpace(line), "|")
		if len(f) != 7 {
			continue // features and the names of GRES hold no bar, but a site's banner may stand before the rows
		}
		all = append(all, Nodes{
			Partition: f[0], State: f[1], Count: count(f[2]), CPUs: count(strings.TrimSuffix(f[3], "+")),
			MiB: int64(count(strings.TrimSuffix(f[4], "+"))), GRES: parseGRES(f[5]), Features: list(f[6]),
		})
	}
	return all
}

// sockets is what follows a GRES that is bound to some: gpu:a100:4(S:0-1).
var sockets = regexp.MustCompile(`\([^)]*\)`)

// parseGRES reads gpu:4, gpu:h100:8(S:0-1) or several with commas between. A count may end in K or M.
func parseGRES(text string) []GRES {
	if text == "(null)" {
		return nil
	}
	var all []GRES
	for _, word := range list(sockets.ReplaceAllString(text, "")) {
		f := strings.Split(word, ":")
		g := GRES{Name: f[0], Count: 1}
		if n, err := strconv.Atoi(strings.TrimRight(f[len(f)-1], "KMG")); err == nil && len(f) > 1 {
			g.Count = n
			f = f[:len(f)-1]
		}
		if len(f) > 1 {
			g.Type = strings.Join(f[1:], ":")
		}
		all = append(all, g)
	}
	return all
}

// gpus counts a node's GPUs of a type, or of any for an empty one.
func (n Nodes) gpus(kind string) int {
	total := 0
	for _, g := range n.GRES {
		if g.Name == "gpu" && (kind == "" || g.Type == kind) {
			total += g.Count
		}
	}
	return total
}

// GPUTypes are the types of GPUs in a partition, sorted, each once.
func (p *Partition) GPUTypes() []string {
	var all []string
	for _, n := range p.Nodes {
		for _, g := range n.GRES {
			if g.Name == "gpu" && g.Type != "" {
				all = append(all, g.Type)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Features are the features of a partition's nodes, sorted, each once.
func (p *Partition) Features() []string {
	var all []string
	for _, n := range p.Nodes {
		all = append(all, n.Features...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// best is the largest of something that a node of the partition has.
func (p *Partition) best(of func(Nodes) int64) int64 {
	var most int64
	for _, n := range p.Nodes {
		most = max(most, of(n))
	}
	return most
}

// Kinds says what the nodes of a partition are, whatever their state and features, and how many of each kind could take
// a job now. The most common ones come first.
func (p *Partition) Kinds() []string {
	var order []string
	all, free := map[string]int{}, map[string]int{}
	for _, n := range p.Nodes {
		kind := fmt.Sprintf("%d CPUs, %d MiB", n.CPUs, n.MiB)
		for _, g := range n.GRES {
			kind += fmt.Sprintf(", %d %s", g.Count, g)
		}
		if all[kind] == 0 {
			order = append(order, kind)
		}
		all[kind] += n.Count
		if n.State == "idle" || n.State == "mixed" {
			free[kind] += n.Count
		}
	}
	slices.SortStableFunc(order, func(a, b string) int { return cmp.Compare(all[b], all[a]) })
	for i, kind := range order {
		order[i] = fmt.Sprintf("%d with %s, %d of them idle or partly so", all[kind], kind, free[kind])
	}
	return order
}

// String is the name under which sbatch is asked for it, such as gpu:h100.
func (g GRES) String() string { return strings.TrimSuffix(g.Name+":"+g.Type, ":") }
