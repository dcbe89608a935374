package plan

import "time"

// Spec is what the user wrote: the whole sweep, decoded and checked. Texts that are expressions are kept as the
// user wrote them and evaluated for each point by expr-lang/expr.
//
// The comments of these fields are the source of docs/spec.md and of the JSON Schema.
type Spec struct {
	// Version of the spec format; always 1.
	Version int `yaml:"version" json:"version" jsonschema:"required,enum=1"`
	// Name of the sweep: letters, digits, dot, dash and underscore. It names the run folder and the jobs.
	Name string `yaml:"name" json:"name" jsonschema:"required,pattern=^[A-Za-z0-9][A-Za-z0-9._-]*$"`
	// Matrix lists the axes: every combination of their values is a point.
	Matrix AxisMap `yaml:"matrix" json:"matrix,omitempty"`
	// Zip lists groups of axes of equal length that move together; each group acts as one axis of the matrix.
	Zip []AxisMap `yaml:"zip" json:"zip,omitempty"`
	// Include adds single points. Each names a value for every axis.
	Include []ParamMap `yaml:"include" json:"include,omitempty"`
	// Exclude removes the points for which an expression is true. Included points are never removed.
	Exclude []Exclude `yaml:"exclude" json:"exclude,omitempty"`
	// Derive names values computed from the axes and from the names above them.
	Derive ExprMap `yaml:"derive" json:"derive,omitempty"`
	// Repeats is the number of independent executions of every point. From 6 on, a row has an interval over repeats.
	Repeats int `yaml:"repeats" json:"repeats" jsonschema:"minimum=1,maximum=1000,default=1"`
	// Order of the executions: `blocks` shuffles all points within each repeat, `repeat-first` runs all repeats of
	// a point in a row, `as-written` keeps the order of the spec, one repeat after the other.
	Order string `yaml:"order" json:"order" jsonschema:"enum=blocks,enum=repeat-first,enum=as-written,default=blocks"`
	// Seed of the shuffle.
	Seed int `yaml:"seed" json:"seed" jsonschema:"default=1"`
	// Workload is what is measured.
	Workload Workload `yaml:"workload" json:"workload" jsonschema:"required"`
	// Resources are what one task asks for.
	Resources Resources `yaml:"resources" json:"resources"`
	// Slurm holds the options of the queue; they do not change what is measured.
	Slurm Slurm `yaml:"slurm" json:"slurm"`
	// Site describes the cluster.
	Site Site `yaml:"site" json:"site"`
	// Pack names axes: points that differ only in them share one task. Absent: one point and repeat a task.
	Pack []string `yaml:"pack" json:"pack,omitempty"`
	// Setup are shell lines run before the worker, such as `module load cuda`. A line that fails ends the task,
	// which leaves an `error` result.
	Setup []string `yaml:"setup" json:"setup,omitempty"`
	// Env sets environment variables of the program; `{name}` stands for a value of the point. They stand in the run
	// folder: leave secrets to the environment in which the sweep is started, which the programs inherit.
	Env map[string]string `yaml:"env" json:"env,omitempty"`
	// Container in which the program runs; the worker itself stays outside.
	Container Container `yaml:"container" json:"container"`
	// Retry says which endings are tried again.
	Retry Retry `yaml:"retry" json:"retry,omitzero"`
	// Columns adds columns to the table.
	Columns []Column `yaml:"columns" json:"columns,omitempty"`

	file string // its name, and the places of its values, for messages after decoding
	pos  map[string]Pos
}

// Exclude is one rule that removes points.
type Exclude struct {
	// Where is an expression over the axes and the derived names; true removes the point.
	Where string `yaml:"where" json:"where" jsonschema:"required"`
}

// Workload is what a task does.
type Workload struct {
	// Kind of workload: `model` is ranks that speak the protocol of docs/protocol.md; `command` is any program, run
	// once for each iteration; `llm` is requests to an LLM server, and has the keys of a table of its own.
	Kind string `yaml:"kind" json:"kind" jsonschema:"required,enum=model,enum=command,enum=llm"`
	// Mode is `inference` (forward) or `training` (forward, backward and optimizer step). A model has to say which.
	Mode string `yaml:"mode" json:"mode,omitempty" jsonschema:"enum=inference,enum=training"`
	// Command of one rank, or of the program: a list of arguments. `{name}` stands for a value of the point, `{cpbench}` for the
	// cpbench binary of the run and `{run}` for the run folder; `{{` and `}}` are literal braces. Required of a model and
	// of a command.
	Command []string `yaml:"command" json:"command" jsonschema:"minItems=1"`
	// Files are copied into the run, put on PYTHONPATH, and hashed into every result. Relative to the spec. An argument
	// of the command that names one of them becomes the copy.
	Files []string `yaml:"files" json:"files,omitempty"`
	// Workdir is the folder in which the program runs. Default: the spec's folder for a model and for a server, and a
	// fresh folder for each run of a command.
	Workdir string `yaml:"workdir" json:"workdir,omitempty"`
	// Launcher starts the ranks: `fork` is the worker itself, all on one node; `torchrun` is one torchrun on each node;
	// `srun` is one task of a job step for each rank; `none` runs the command once, which starts the ranks by itself.
	Launcher string `yaml:"launcher" json:"launcher" jsonschema:"enum=fork,enum=torchrun,enum=srun,enum=none,default=fork"`
	// Ranks is an expression: the number of ranks, which is the CP size.
	Ranks string `yaml:"ranks" json:"ranks" jsonschema:"default=1"`
	// Topology is `1d` or `2d`, or `{name}` for a value of the point that is one of them. A 2d mesh needs a square
	// number of ranks.
	Topology string `yaml:"topology" json:"topology,omitempty"`
	// Point gives the program its sizes and data: `tokens`, `atoms`, `msa`, `data` and names of your own, each an
	// expression. `tokens`, `atoms` and `msa` are the columns of the table.
	Point ExprMap `yaml:"point" json:"point,omitempty"`
	// DType is told to the program and printed, for example `bf16`.
	DType string `yaml:"dtype" json:"dtype,omitempty"`
	// Warmup is the least number of steps that are run and discarded; it goes on until the times are steady, at most 20.
	// A model needs at least 1. Of a command it is the number of runs, 1 unless given. Of `kind: llm` it is how many times
	// as many short requests as the largest group has are sent to each server before its first group, 2 unless given; 0
	// sends none.
	Warmup int `yaml:"warmup" json:"warmup" jsonschema:"minimum=0,maximum=20,default=3"`
	// Iterations is the number of timed steps, at least 5 of a model. An interval within the process needs 6. Of a
	// command it is the number of timed runs, 5 unless given.
	Iterations int `yaml:"iterations" json:"iterations" jsonschema:"minimum=1,maximum=200,default=10"`
	// Declare tells facts that the program does not tell by itself, as any command and an image of docker, for the table
	// to be publishable: a text by name. `torch`, `cuda`, `nccl`, `python`, `container`, `model`, `weights`, `seed` and
	// others are names of docs/metrics.md; any other is a version of that name. `torch: none` says that the program does
	// not use PyTorch. They are printed as declarations; what a program tells itself goes before.
	Declare map[string]string `yaml:"declare" json:"declare,omitempty"`
	// Timeout of one execution, and the most for one trial of a search.
	Timeout Duration `yaml:"timeout" json:"timeout" jsonschema:"default=20m"`
	// Heartbeat is the longest silence of a rank that has given signs of life: after it the rank hangs. In timed steps all
	// ranks hang if they are alive but no step ends for that long, and for 20 times the slowest step before. `0s` is never:
	// then only the timeout ends a rank that hangs. Of a model only.
	Heartbeat Duration `yaml:"heartbeat" json:"heartbeat,omitempty" jsonschema:"default=2m"`
	// SlowAfter is the wall budget of one step, or of one run of a command: a size that takes longer is `slow`, does not
	// fit, and ends a search upwards. The first step may take longer, because it may compile. Absent: no limit.
	SlowAfter Duration `yaml:"slow_after" json:"slow_after,omitempty"`
	// Metrics are figures that a command writes: `kind: command` only.
	Metrics []Figure `yaml:"metrics" json:"metrics,omitempty"`
	// Artifact is a file that has to exist, and not to be empty, after a run of a command: `kind: command` only.
	// `{name}` stands for a value of the point, `*` for any part of a name. Relative to the folder of that run.
	Artifact string `yaml:"artifact" json:"artifact,omitempty"`
	// OOMPatterns are further texts, regular expressions, that mean that a command ran out of device memory:
	// `kind: command` only.
	OOMPatterns []string `yaml:"oom_patterns" json:"oom_patterns,omitempty"`
	// MaxFit searches for the largest value of an axis that fits.
	MaxFit *MaxFit `yaml:"max_fit" json:"max_fit,omitempty"`

	LLM // the keys of `kind: llm`, which stand beside the others
}

// Figure is a number that a command writes, into its output or into a JSON file.
type Figure struct {
	// Name of the figure: one of the catalogue, or of your own.
	Name string `yaml:"name" json:"name" jsonschema:"required"`
	// JSON is where the number stands in a file: `FILE:PATH`, with a path such as `timings.total` or `runs.0.ms`.
	JSON string `yaml:"json" json:"json,omitempty"`
	// Regex finds the number in the output: its first group, in the last line that matches.
	Regex string `yaml:"regex" json:"regex,omitempty"`
	// Unit of the number, for figures of your own.
	Unit string `yaml:"unit" json:"unit,omitempty"`
}

// MaxFit adds one case point for each combination of the other axes: the search for the largest size that fits.
// It runs first in the task of the points that differ only in its axis; those above its bracket become `skipped`.
type MaxFit struct {
	// Axis whose largest value is searched. It may but need not stand in the matrix.
	Axis string `yaml:"axis" json:"axis" jsonschema:"required"`
	// From is the first size tried.
	From int64 `yaml:"from" json:"from" jsonschema:"minimum=1,default=512"`
	// To is the ceiling of the search.
	To int64 `yaml:"to" json:"to" jsonschema:"minimum=1,default=65536"`
	// Step is the grid: only multiples of it are tried.
	Step int64 `yaml:"step" json:"step" jsonschema:"minimum=1,default=64"`
	// Tolerance ends the search when the bracket is this narrow, as a share of the size; never below `step`.
	Tolerance Percent `yaml:"tolerance" json:"tolerance" jsonschema:"default=1%"`
	// Confirm is the number of fresh processes in which the answer has to fit again.
	Confirm int `yaml:"confirm" json:"confirm" jsonschema:"minimum=0,maximum=10,default=1"`
	// Verify is the number of sizes below the answer that are tried after it, one step each: a program may need more
	// memory at a smaller size, where it takes another way.
	Verify int `yaml:"verify" json:"verify,omitempty" jsonschema:"minimum=0,maximum=10,default=2"`
	// Hint is an expression: the size to look at first, for example `9000 * sqrt(cp)`. It may use every name but the
	// searched axis and what depends on it. A good hint saves trials, and a bad one costs a few; the answer never
	// rests on it.
	Hint string `yaml:"hint" json:"hint,omitempty"`
	// Time bounds the whole search.
	Time Duration `yaml:"time" json:"time" jsonschema:"default=2h"`
}

// Resources are what one task asks for. Tasks that ask for the same share an array.
type Resources struct {
	// Nodes is an expression: the number of nodes.
	Nodes string `yaml:"nodes" json:"nodes" jsonschema:"default=1"`
	// GPUsPerNode is an expression: the GPUs on each node; 0 asks for none.
	GPUsPerNode string `yaml:"gpus_per_node" json:"gpus_per_node" jsonschema:"default=0"`
	// GPUType is the type in `--gres=gpu:TYPE:N`; `{name}` stands for a value of the point.
	GPUType string `yaml:"gpu_type" json:"gpu_type,omitempty"`
	// CPUsPerTask is an expression: CPUs for the task on each node.
	CPUsPerTask string `yaml:"cpus_per_task" json:"cpus_per_task" jsonschema:"default=1"`
	// Mem is the memory per node as Slurm writes it (`64G`; a plain number is MiB; `0` is all of the node).
	// `{name}` stands for a value of the point. Absent: the site's default.
	Mem string `yaml:"mem" json:"mem,omitempty"`
	// Time bounds a task: a duration such as `30m`, or an expression that gives such a text or a number of seconds,
	// for example `"tokens > 4096 ? '2h' : '30m'"`.
	Time string `yaml:"time" json:"time" jsonschema:"default=30m"`
	// Exclusive asks for whole nodes; a shape is then `site.gpus_per_node` GPUs on each of them.
	Exclusive bool `yaml:"exclusive" json:"exclusive,omitempty"`
}

// Slurm holds the options of the queue.
type Slurm struct {
	// Partition, Account, QOS, Constraint, Reservation and Exclude are passed on as they are; empty ones are not.
	Partition string `yaml:"partition" json:"partition,omitempty"`
	// Account to charge.
	Account string `yaml:"account" json:"account,omitempty"`
	// QOS of the jobs.
	QOS string `yaml:"qos" json:"qos,omitempty"`
	// Constraint on node features.
	Constraint string `yaml:"constraint" json:"constraint,omitempty"`
	// Reservation to use.
	Reservation string `yaml:"reservation" json:"reservation,omitempty"`
	// Exclude names nodes not to use.
	Exclude string `yaml:"exclude" json:"exclude,omitempty"`
	// Parallel is the largest number of tasks of an array that run at once; 0 sets no limit.
	Parallel int `yaml:"parallel" json:"parallel,omitempty" jsonschema:"minimum=0"`
	// Requeue lets Slurm run a task again after a node failure or a preemption, as often as the site allows. `retry`
	// does so as well, with a bound.
	Requeue bool `yaml:"requeue" json:"requeue,omitempty"`
	// SignalBefore is how long before the time limit the worker is told to finish.
	SignalBefore Duration `yaml:"signal_before" json:"signal_before" jsonschema:"default=60s"`
	// MultiShape says what to do with points of different resource shapes: `max` puts all of them into the largest
	// shape while at most 35 % is wasted, `error` never does.
	MultiShape string `yaml:"multi_shape" json:"multi_shape" jsonschema:"enum=max,enum=error,default=max"`
	// Extra are further sbatch options, each one argument such as `--switches=1`.
	Extra []string `yaml:"extra" json:"extra,omitempty"`
}

// Site describes the cluster.
type Site struct {
	// GPUsPerNode of a whole node; needed with `exclusive`.
	GPUsPerNode int `yaml:"gpus_per_node" json:"gpus_per_node,omitempty" jsonschema:"minimum=0"`
	// MaxArraySize is the site's limit on tasks in one array, or `auto`: scontrol is asked.
	MaxArraySize AutoInt `yaml:"max_array_size" json:"max_array_size" jsonschema:"default=auto"`
	// ClocksLocked declares whether the GPU clocks are locked, which no driver tells: `yes` or `no`. It is printed as a
	// declaration, and doubted where the clocks that were seen vary.
	ClocksLocked string `yaml:"clocks_locked" json:"clocks_locked,omitempty" jsonschema:"enum=yes,enum=no"`
	// NodeShared declares whether others may compute on the node meanwhile: `yes` or `no`. A job that asks for whole
	// nodes need not say it.
	NodeShared string `yaml:"node_shared" json:"node_shared,omitempty" jsonschema:"enum=yes,enum=no"`
	// MaxQueued is how many tasks `submit` keeps in your queue, those of other runs counted, or `auto`: no limit of
	// cpbench's own. At least 3, as the job that collects counts as well.
	MaxQueued AutoInt `yaml:"max_queued" json:"max_queued,omitempty" jsonschema:"default=auto"`
}

// Container in which the program runs.
type Container struct {
	// Runtime is `none`; `apptainer`, which the worker starts around the program on each node; or `pyxis`, by which
	// Slurm's srun does. pyxis needs `launcher: srun`, `torchrun` or `none`, as each of its containers is a job step. Of
	// `kind: llm` the program is a server with a command.
	Runtime string `yaml:"runtime" json:"runtime" jsonschema:"enum=none,enum=pyxis,enum=apptainer,default=none"`
	// Image is a file, `.sif` or `.sqsh`, relative to the spec, or a name in a registry, which each task then pulls:
	// `docker://...` for apptainer, `nvcr.io#nvidia/pytorch:25.01-py3` for pyxis.
	Image string `yaml:"image" json:"image,omitempty"`
	// Mounts are further folders or files to be seen inside: `SOURCE`, `SOURCE:TARGET` or `SOURCE:TARGET:ro`, the source
	// relative to the spec. The run folder, the spec's folder and `workdir` are there under the same paths.
	Mounts []string `yaml:"mounts" json:"mounts,omitempty"`
	// EnvPassthrough names variables of the job, as set-up lines leave them, whose values win over those of the image.
	// Those of `env` and cpbench's own always do.
	EnvPassthrough []string `yaml:"env_passthrough" json:"env_passthrough,omitempty"`
}

// Column is a column of the user's in the table.
type Column struct {
	// Name is the column's title.
	Name string `yaml:"name" json:"name" jsonschema:"required"`
	// Value is an expression over the axes, the derived names and the metrics of the catalogue.
	Value string `yaml:"value" json:"value" jsonschema:"required"`
}

// Duration is a length of time in the spec: `90s`, `20m`, `1h30m`, `2d`, or Slurm's `HH:MM:SS` and `D-HH:MM:SS`.
type Duration time.Duration

// Percent is a share written as `1%` or as a number such as `0.01`.
type Percent float64

// AutoInt is a number or the word `auto`, which is 0.
type AutoInt int

// AxisMap is an ordered mapping from axis names to their lists of values.
type AxisMap []AxisValues

// AxisValues is one axis as it stands in the spec.
type AxisValues struct {
	Name   string   `json:"name"`
	Values []string `json:"values"`
}

// ParamMap is an ordered mapping from axis names to one value each.
type ParamMap []Param

// ExprMap is an ordered mapping from names to expressions.
type ExprMap []NamedExpr

// NamedExpr is an expression under a name.
type NamedExpr struct {
	Name string `json:"name"`
	Expr string `json:"expr"`
}
