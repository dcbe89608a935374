package plan_test

// fullSpec uses every key of the format that this version acts on.
const fullSpec = `version: 1
name: full
matrix: {cp: [1, 4, 16], tokens: [1024, 2048, 4096]}
zip: [{dataset: [a, b], msa: [1024, 4096]}]
include: [{cp: 4, tokens: 8192, dataset: a, msa: 1024}]
exclude: [{where: "cp == 1 && tokens > 2048"}]
derive: {gpus: cp, nodes: "ceil(gpus / 16)"}
repeats: 2
order: blocks
seed: 7
workload:
  kind: model
  mode: inference
  command: [python3, -m, model, "--data={dataset}", "{cpbench}", "{{x}}"]
  files: [hooks.py]
  workdir: .
  launcher: fork
  ranks: cp
  topology: 2d
  point: {tokens: tokens, atoms: tokens * 8, msa: msa, data: "'inputs/' + dataset + '.npz'"}
  dtype: bf16
  warmup: 3
  iterations: 10
  timeout: 20m
  max_fit: {axis: tokens, from: 512, to: 65536, step: 64, tolerance: 1%, confirm: 1, time: 20m}
resources: {nodes: nodes, gpus_per_node: "min(gpus, 8)", gpu_type: h200, cpus_per_task: 64, mem: 0, time: 30m, exclusive: true}
slurm: {partition: gpu, account: proj, qos: , constraint: , reservation: , exclude: , parallel: 4, requeue: false,
        signal_before: 60s, multi_shape: max, extra: ["--switches=1"]}
site: {gpus_per_node: 8, max_array_size: auto}
pack: [dataset, msa]
setup: ["module purge", "module load cuda/12.8"]
env: {NCCL_DEBUG: WARN}
container: {runtime: none}
columns: [{name: tokens/s, value: "tokens / step_seconds"}]
`
