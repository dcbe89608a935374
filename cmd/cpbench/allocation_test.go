package main

import (
	"testing"
	"time"
)

// A Slurm that does not tell when the job will end gives it the time that was asked for, in whole minutes, from the
// start of the script on, which this process was before.
func TestAllocationEnd(t *testing.T) {
	t.Parallel()
	env := map[string]string{"SLURM_JOB_ID": "7"}
	end := allocation(func(name string) string { return env[name] }, 90*time.Second).End
	began := scriptStart()
	if got := end.Sub(began).Round(time.Second); got != 2*time.Minute {
		t.Errorf("the job ends %v after its start, want 2m0s", got)
	}
	if age := time.Since(began); age <= 0 || age > time.Hour {
		t.Errorf("this process is %v old", age)
	}
	env["SLURM_JOB_END_TIME"] = "1900000000"
	if got := allocation(func(name string) string { return env[name] }, time.Minute).End; got.Unix() != 1900000000 {
		t.Errorf("the end is %v, not what Slurm says", got)
	}
}
