package node

import (
	"os"
	"os/exec"
	"path/filepath"

	"cpbench/worker"
	"cpbench/worker/tree"
)

// ForJob returns the nodes of a worker's task. What they start is spared when an execution's processes are ended.
func ForJob(job worker.Job) *Fleet {
	start := func(cmd *exec.Cmd) (func() error, error) {
		child, err := tree.StartSpared(cmd)
		if err != nil {
			return nil, err
		}
		return child.Wait, nil
	}
	agent := []string{job.Run.Binary(), "node", "--logs", job.LogDir}
	self := Options{Log: filepath.Join(job.LogDir, "telemetry.jsonl"), Start: start}
	if helper := job.Run.GPUHelper(); exists(helper) {
		self.Helper = helper
		agent = append(agent, "--helper", helper)
	}
	return Open(Config{
		Hosts: job.Hosts, Self: self, Launch: Srun, Agent: agent, Output: filepath.Join(job.LogDir, "nodes.log"), Log: job.Log,
	})
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
