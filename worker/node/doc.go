// Package node is what a task does on each of its nodes, besides the work itself: it reads the GPUs, asks the kernel how
// many processes it has ended for lack of memory, and ends what an execution has left behind. Use a Fleet wherever that
// may concern more nodes than this one: it asks all of them the same at once. This node does it by itself; on the others
// one job step starts agents (Serve), which connect back and live as long as the session.
//
// An agent that cannot be started, dies or does not answer is no error of a run: the reply of its node says why it is
// missing. Requests and answers are one JSON object a line over TCP.
package node
