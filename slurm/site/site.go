// Package site is what a Slurm cluster allows: its limits, partitions, GPUs, accounts and QOS, in Slurm's own words.
// Ask reads them once, and Check compares a request with them before anybody waits for a job that cannot start. Use it
// for messages to people; nothing that is measured depends on it.
package site

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"cpbench/slurm"
)

// Site is what a cluster said about itself. Of what nobody could answer for, the fields are empty and Unknown has the
// reason.
type Site struct {
	Version      string // of sbatch, as it prints it; empty where there is no Slurm
	Config       *Config
	Partitions   []Partition
	User         string        // whose associations these are
	Associations []Association // what the user may charge; nil without accounting
	QOS          []QOS         // all of the site; nil without accounting
	Unknown      []Unknown
}

// Unknown is a part of a Site that could not be asked for.
type Unknown struct{ What, Why string }

// Ask reads a site by at most six calls, each with a time limit. It cannot fail: a laptop has no Slurm, many a site no
// accounting, and what is missing is in Unknown.
func Ask(ctx context.Context, s *slurm.Slurm) *Site {
	site := &Site{User: userName()}
	version, err := query(ctx, s, "sbatch", "--version")
	if err != nil {
		site.unknown("Slurm", err)
		return site
	}
	site.Version = strings.TrimSpace(string(version))
	out, err := query(ctx, s, "scontrol", "show", "config")
	if err != nil { // a controller that does not answer would cost the time limit of each further call
		site.unknown("the controller", err)
		return site
	}
	site.Config = parseConfig(string(out))
	site.askPartitions(ctx, s)
	if site.Config.Accounting { // without, any account and QOS is accepted
		site.askAccounting(ctx, s)
	}
	return site
}

func (site *Site) askPartitions(ctx context.Context, s *slurm.Slurm) {
	// A partition may be hidden and yet take jobs.
	out, err := query(ctx, s, "scontrol", "show", "partition", "-o", "--all")
	if err != nil {
		site.unknown("partitions", err)
		return
	}
	site.Partitions = parsePartitions(string(out))
	out, err = query(ctx, s, "sinfo", "--noheader", "--exact", "--all", "--format="+nodeFields)
	if err != nil {
		site.unknown("nodes", err)
		return
	}
	for _, g := range parseNodes(string(out)) {
		if p := site.Partition(g.Partition); p != nil {
			p.Nodes = append(p.Nodes, g)
		}
	}
}

func (site *Site) askAccounting(ctx context.Context, s *slurm.Slurm) {
	out, err := query(ctx, s, "sacctmgr", "-nP", "show", "assoc", "user="+site.User, "format="+assocFields)
	if err != nil {
		site.unknown("accounts", err)
	} else {
		site.Associations = parseAssociations(string(out))
	}
	out, err = query(ctx, s, "sacctmgr", "-nP", "show", "qos", "format="+qosFields)
	if err != nil {
		site.unknown("QOS", err)
	} else {
		site.QOS = parseQOS(string(out))
	}
}

// patience bounds the wait for each answer: a dead controller is not to hold up a person at a terminal.
const patience = 10 * time.Second

func query(ctx context.Context, s *slurm.Slurm, name string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer within %v", patience))
	defer cancel()
	return s.Query(ctx, name, args...)
}

// unknown records why a part could not be asked for, in Slurm's words where it has some.
func (site *Site) unknown(what string, err error) {
	why := err.Error()
	var notFound *exec.Error
	var gone *fs.PathError
	if errors.As(err, &notFound) {
		why = fmt.Sprintf("%s is not installed here, or not on PATH", notFound.Name)
	} else if errors.As(err, &gone) && errors.Is(err, fs.ErrNotExist) { // of a folder that Bin names
		why = fmt.Sprintf("%s is not installed here: %v", filepath.Base(gone.Path), gone.Err)
	} else if words := slurm.Words(err); words != "" {
		why, _, _ = strings.Cut(words, "; ") // scontrol says the same in four ways
	}
	site.Unknown = append(site.Unknown, Unknown{what, why})
}

// Partition returns the partition of that name, or the default one for an empty name; nil if there is none.
func (site *Site) Partition(name string) *Partition {
	for i := range site.Partitions {
		if p := &site.Partitions[i]; p.Name == name || name == "" && p.Default {
			return p
		}
	}
	return nil
}

// userName is the login of this process's user.
func userName() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return os.Getenv("USER") // a static program cannot ask a directory service
}
