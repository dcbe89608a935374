// Package reference is the program that stands for a model where there is none: a rank of the reference model,
// which speaks the protocol of package protocol. Use it to try cpbench on a machine without GPU or Python, and to
// test the worker. What it computes is described in package triangle; its memory, in package tile.
//
//	cpbench reference [--channels C] [--memory 8MiB] [--fault FAULT]...
//
// It is started by a worker, once for each rank, all on one node, with RANK, WORLD_SIZE, LOCAL_RANK,
// CPBENCH_CONNECT and CPBENCH_TOKEN in the environment. It exits with 0 after stop, 1 after an error or when the
// worker goes away, 2 for wrong arguments or environment, and 130 when its context ends.
//
// Of point.params it reads tokens and repeats atoms and msa in its answer; it ignores other names and refuses data. It
// computes in float32 and refuses any other dtype. Besides the times and peaks it reports, per rank, the metrics
// checksum (the sum over the ranks does not depend on their number, up to rounding), gradient_checksum in training,
// and exchange_seconds, the mean time of a step spent waiting for other ranks. From start on it gives signs of life.
//
// # Faults
//
// For tests of the worker a rank can be made to fail. Every rank gets the same faults; R is the rank that has it.
//
//	oom-rank=R         reports out of memory and exits; its peers wait for ever, as in a collective
//	hang-rank=R        does not answer
//	crash-rank=R       kills itself with SIGKILL
//	error-rank=R       reports an error
//	exit=R:CODE        exits with CODE and says nothing
//	nan[=R]            has NaN in its output
//	garbage[=R]        writes a line that is no message, and goes on
//	grandchild[=R]     starts a process in a session of its own that ignores SIGTERM for five minutes; prints its pid
//	slow=DURATION      lengthens every step
//	ignore-term        ignores SIGTERM, and the end of the worker's connection for half a minute
//	non-monotone=N     reports out of memory at every size up to N ...
//	non-monotone=A:B   ... or from A to B
//
// A fault happens in the first step that is timed or a probe, ignore-term at the start, slow and non-monotone in
// every step. A suffix @build, @prepare, @warmup, @timed or @probe moves it to the work of that name.
package reference
