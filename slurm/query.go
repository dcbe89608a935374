package slurm

import "context"

// Query runs one of Slurm's commands that only ask, such as squeue, and returns its stdout. Times come out in UTC, as a
// local one means two instants when the clocks are set back, and lists of array indices are not cut at 64 bytes. The
// error carries the command's own words. A command that gives no answer is ended after a minute.
func (s *Slurm) Query(ctx context.Context, name string, args ...string) ([]byte, error) {
	return command{
		bin: s.Bin, dir: s.Dir, env: s.Env, set: []string{"TZ=UTC", "SLURM_BITSTR_LEN=0"},
		limit: queryLimit, name: name, args: args,
	}.run(ctx)
}
