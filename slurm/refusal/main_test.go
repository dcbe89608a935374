package refusal

import (
	"os"
	"testing"

	"cpbench/slurm/slurmtest"
)

func TestMain(m *testing.M) { os.Exit(slurmtest.Main(m)) }
