package reference

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"cpbench/worker/model/protocol"
)

const (
	defaultChannels = 4
	maxChannels     = 4096
	defaultMemory   = 8 << 20
	minMemory       = 4 << 10
)

// options are what one rank is started with.
type options struct {
	rank, world int
	token       string
	channels    int
	memory      int64 // bytes
	faults      faults
}

// parse reads arguments and environment. The error is flag.ErrHelp after --help.
func parse(args []string, getenv func(string) string, stderr io.Writer) (options, error) {
	o := options{channels: defaultChannels, memory: defaultMemory}
	set := flag.NewFlagSet("cpbench reference", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.IntVar(&o.channels, "channels", o.channels, "channels of the pair tensor")
	set.Func("memory", "memory for tiles per rank, for example 8MiB (the default)", func(text string) (err error) {
		o.memory, err = parseBytes(text)
		return err
	})
	set.Var(&o.faults, "fault", "make a rank fail; see the package comment (may be repeated)")
	if err := set.Parse(args); err != nil {
		return o, err
	}
	var errs []error
	if set.NArg() > 0 {
		errs = append(errs, fmt.Errorf("argument %q: want flags only", set.Arg(0)))
	}
	if o.channels < 1 || o.channels > maxChannels {
		errs = append(errs, fmt.Errorf("--channels %d: want 1 to %d", o.channels, maxChannels))
	}
	return o, errors.Join(append(errs, o.environment(getenv))...)
}

// slurmNames are what srun calls the variables of a launcher.
var slurmNames = map[string]string{"RANK": "SLURM_PROCID", "WORLD_SIZE": "SLURM_NTASKS", "LOCAL_RANK": "SLURM_LOCALID"}

// environment reads what the launcher sets. The variables of Slurm count in a job step only: a batch step has them too.
func (o *options) environment(env func(string) string) error {
	getenv := env
	if env("RANK") == "" && env("SLURM_STEP_ID") != "" {
		getenv = func(name string) string {
			if other, ok := slurmNames[name]; ok {
				name = other
			}
			return env(name)
		}
	}
	var errs []error
	read := func(name string) int {
		n, err := strconv.Atoi(getenv(name))
		if err != nil {
			errs = append(errs, fmt.Errorf("%s=%q: want a whole number; this program is started by cpbench worker", name, getenv(name)))
		}
		return n
	}
	o.rank, o.world = read("RANK"), read("WORLD_SIZE")
	local := read("LOCAL_RANK")
	if o.token = getenv(protocol.EnvToken); o.token == "" {
		errs = append(errs, fmt.Errorf("%s is not set", protocol.EnvToken))
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	if o.world < 1 || o.rank < 0 || o.rank >= o.world {
		errs = append(errs, fmt.Errorf("RANK=%d is not within WORLD_SIZE=%d", o.rank, o.world))
	}
	if local != o.rank {
		errs = append(errs, fmt.Errorf("RANK=%d but LOCAL_RANK=%d: the reference model runs on one node", o.rank, local))
	}
	return errors.Join(errs...)
}

// parseBytes reads a size such as 8MiB, 512KiB, 1GiB or 65536.
func parseBytes(text string) (int64, error) {
	number, unit := text, int64(1)
	for suffix, size := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30} {
		if before, ok := strings.CutSuffix(text, suffix); ok {
			number, unit = strings.TrimSpace(before), size
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n > math.MaxInt64/2/unit || n*unit < minMemory {
		return 0, fmt.Errorf("memory %q: want at least 4KiB, as bytes or with KiB, MiB or GiB", text)
	}
	return n * unit, nil
}
