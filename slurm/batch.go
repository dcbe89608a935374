package slurm

import (
	"context"
	"fmt"
	"strings"
)

// SubmitArgs is the call by which SubmitFile hands a script over.
func SubmitArgs(path string, options ...string) []string {
	return append(append([]string{"sbatch", "--parsable"}, options...), path)
}

// SubmitFile is Submit for a script that lies in a file, which Slurm then names as the job's command. The options beat
// those in the script.
func (s *Slurm) SubmitFile(ctx context.Context, path string, options ...string) (string, error) {
	args := SubmitArgs(path, options...)
	return answer(s.call(ctx, submitLimit, nil, args[0], args[1:]...))
}

// CancelJobs asks scancel, once, to end all of the jobs; those that have ended are no error.
func (s *Slurm) CancelJobs(ctx context.Context, ids ...string) error {
	for _, id := range ids {
		if !decimal(id) {
			return fmt.Errorf("cancel: %q is no job id", id)
		}
	}
	_, err := s.call(ctx, queryLimit, nil, "scancel", ids...)
	if err == nil || says(err, "Invalid job id specified") || says(err, "already completing or completed") {
		return nil // the others were ended; 22.05 is silent about a job that has ended or is not known, other versions complain
	}
	return fmt.Errorf("cancel %s: %w", strings.Join(ids, ", "), err)
}

// ShellLine writes a call as it would be typed.
func ShellLine(argv []string) (string, error) {
	words := make([]string, len(argv))
	for i, arg := range argv {
		word, err := ShellWord(arg)
		if err != nil {
			return "", err
		}
		words[i] = word
	}
	return strings.Join(words, " "), nil
}
